//! Whole turns of a shard in this process, without a server, in `errands` of several; in `robots` and `rendering` single
//! visits of hosts on this machine.

mod errands;
mod rendering;
mod robots;

use divvy_frontier::frontier::Changes;
use divvy_workload::files::show_json;

use super::task::on_this_thread;
use super::*;
use crate::folder::inbox;
use crate::folder::status::ShardStatus;
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

/// A crawl of one shard.
fn crawl(seed: &str, control: &Control, rules: Rules) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::new(temporary.path());
    let rules = Rules { shards: 1, ..rules };
    let new = NewCrawl { seeds: vec![seed.into()], rules, ..NewCrawl::default() };
    let (spec, _) = new.check("crawl".into(), 1).unwrap();
    std::fs::create_dir_all(folder.inbox(0)).unwrap();
    show_json(&folder.spec(), &spec).unwrap();
    show_json(&folder.control(), control).unwrap();
    let file = folder.shard_file(0);
    (temporary, file)
}

/// A crawl that is paused, so that each turn ends at once.
fn paused_crawl(rules: Rules) -> (tempfile::TempDir, PathBuf) {
    crawl("http://localhost/", &Control { paused: true, ..Control::default() }, rules)
}

fn turn_of(folder: &Path, epoch: u64, site: Site) -> TurnEnd {
    let place = Place { folder: folder.to_owned(), shard: 0, round: 1, epoch, site };
    on_this_thread(place, CancellationToken::new(), Box::new(|_, _| ())).unwrap()
}

fn turn(folder: &Path, epoch: u64) {
    let ended = turn_of(folder, epoch, Site::default());
    assert!(matches!(ended, TurnEnd::Later(..)), "{ended:?}");
}

fn shown(folder: &Path) -> ShardStatus {
    read_json(&Folder::new(folder).status(0)).unwrap().expect("a turn shows where it is")
}

/// A host on this machine that answers everything with a page.
fn web() -> String {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> =
                lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let is_robots = head.first().is_some_and(|line| line.contains("/robots.txt"));
            let answer = if is_robots { "404 Not Found" } else { "200 OK" };
            let answer =
                format!("HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            // A visitor who hangs up is nobody's fault.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}/")
}

#[test]
fn a_host_that_may_not_be_asked_ends_the_crawl_with_the_reason_and_a_retry_asks_it() {
    let seed = web();
    let control = Control { round: 1, sent: [(0, 1)].into(), ..Control::default() };
    let rules =
        Rules { allow_private: vec!["127.0.0.0/8".into()], delay_ms: 1, ..Rules::default() };
    let (folder, _) = crawl(&seed, &control, rules);
    let place = Folder::new(folder.path());
    let link = Travelling::seed(&seed);
    inbox::send(&place.inbox(0), inbox::SERVER, 1, &[link]).unwrap();
    // The crawl asks for private addresses, and the worker does not allow them.
    let ended = turn_of(folder.path(), 1, Site::default());
    assert!(matches!(ended, TurnEnd::Done(_)), "{ended:?}");
    let status = shown(folder.path());
    assert_eq!((status.waiting.hosts_parked, status.waiting.queued()), (1, 1));
    let why = status.kept_away[0].why.as_deref().unwrap();
    assert!(why.contains("loopback") && why.contains("--allow-private of its worker"), "{why}");
    assert_eq!((status.hosts[0].why.as_deref(), status.totals.pages), (Some(why), 0));
    let sent = |status: &ShardStatus| status.totals.slack.iter().sum::<u64>();
    assert_eq!(sent(&status), 0, "nothing was sent, so nothing was late");

    let control = Control { version: 1, retries: 1, ..control };
    show_json(&place.control(), &control).unwrap();
    turn_of(folder.path(), 2, Site { allow_private: true, ..Site::default() });
    let status = shown(folder.path());
    assert_eq!((status.totals.pages, status.totals.by_status.get("2xx")), (1, Some(&1)));
    assert_eq!((status.waiting.hosts_parked, status.kept_away.len()), (0, 0));
    assert_eq!((sent(&status), status.totals.impolite), (2, 0), "robots.txt and the page");
}

#[test]
fn pages_that_a_filter_has_lost_are_still_counted_by_the_next_owner() {
    let (folder, path) = paused_crawl(Rules { seen: SeenBy::Bloom, ..Rules::default() });
    let opening = Opening { epoch: 1, seen: seen::Mode::Bloom };
    let mut file = ShardFile::open(&path, opening).unwrap();
    let notes = vec![("lost".to_owned(), b"12.5".to_vec())];
    file.commit(&Batch { notes, ..Batch::default() }).unwrap();
    file.close().unwrap();
    turn(folder.path(), 2);
    assert_eq!(shown(folder.path()).seen.lost, 12.5);
    // The second owner of this process has what the first one kept.
    turn(folder.path(), 3);
    assert_eq!(shown(folder.path()).seen.lost, 12.5);
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
    let (folder, path) = paused_crawl(Rules::default());
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
