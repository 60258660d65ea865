//! Whole turns of a shard in this process, without a server and without anything to fetch; in `robots` and `rendering`
//! single visits of hosts on this machine.

mod rendering;
mod robots;

use divvy_frontier::frontier::Changes;
use divvy_workload::files::show_json;

use super::task::on_this_thread;
use super::*;
use crate::settings::{NewCrawl, Rules};

/// Fingerprints: one that no file has, and those that other processes found.
const MARK: u64 = 0x0123_4567_89ab_cdef;
const FOUND: [u64; 2] = [0x1111_2222_3333_4444, 0x5555_6666_7777_8888];

/// What the visits of a shard share, for hosts of this machine whose names end with `.test`.
async fn gear(rules: Rules) -> Arc<Gear> {
    let resolve = [rules.resolve.as_slice(), &["*.test=127.77.0.0/26".to_owned()]].concat();
    let rules = Rules { resolve, allow_private: vec!["127.0.0.0/8".into()], delay_ms: 1, ..rules };
    let new = NewCrawl { seeds: vec!["http://a.test/".into()], rules, ..NewCrawl::default() };
    let (spec, _) = new.check("crawl".into(), 1).unwrap();
    let site = Site { allow_private: true, chromium: crate::render::find(), ..Site::default() };
    Gear::new(&spec, &site, Clock::start()).await.unwrap()
}

/// A crawl that is paused, so that each turn ends at once.
fn paused_crawl() -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::new(temporary.path());
    let new = NewCrawl { seeds: vec!["http://a.test/".into()], ..NewCrawl::default() };
    let (spec, _) = new.check("crawl".into(), 1).unwrap();
    std::fs::create_dir_all(folder.inbox(0)).unwrap();
    show_json(&folder.spec(), &spec).unwrap();
    show_json(&folder.control(), &Control { paused: true, ..Control::default() }).unwrap();
    let file = folder.shard_file(0);
    (temporary, file)
}

fn turn(folder: &Path, epoch: u64) {
    let place =
        Place { folder: folder.to_owned(), shard: 0, round: 1, epoch, site: Site::default() };
    let ended = on_this_thread(place, CancellationToken::new(), Box::new(|_, _| ())).unwrap();
    assert!(matches!(ended, TurnEnd::Later(..)), "{ended:?}");
}

/// Another process has the shard and finds an address.
fn other_owner(path: &Path, epoch: u64, found: u64) -> ShardFile {
    let opening = Opening { epoch, seen: seen::Mode::Exact };
    let mut file = ShardFile::open(path, opening).unwrap();
    let changes = Changes { fingerprints: vec![found], ..Changes::default() };
    file.commit(&Batch { changes, ..Batch::default() }).unwrap();
    file
}

/// Looks at what the owner with this epoch has left, and makes it known again by the mark.
fn left_by(path: &Path, epoch: u64) -> Seen {
    let seen = kept::take(path, Some(epoch)).expect("a turn leaves what was seen");
    let mut marked = seen.clone();
    marked.remember(MARK);
    kept::keep(path, epoch, marked);
    seen
}

#[test]
fn a_shard_that_wakes_believes_what_it_kept_unless_another_had_it() {
    let (folder, path) = paused_crawl();
    turn(folder.path(), 1);
    assert!(!left_by(&path, 1).may_contain(MARK));
    turn(folder.path(), 2);
    assert!(left_by(&path, 2).may_contain(MARK), "it was made again from the file");

    other_owner(&path, 3, FOUND[0]).close().unwrap();
    turn(folder.path(), 4);
    let seen = left_by(&path, 4);
    assert!(seen.may_contain(FOUND[0]) && !seen.may_contain(MARK), "another had the shard");

    drop(other_owner(&path, 5, FOUND[1]));
    turn(folder.path(), 6);
    let seen = left_by(&path, 6);
    assert!(FOUND.iter().all(|found| seen.may_contain(*found)), "another was killed");
    assert!(!seen.may_contain(MARK));
}
