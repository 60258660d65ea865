//! Hosts whose robots.txt is at another host, crawled by whole shards. The web server judges: it notes when each request of a
//! host came and when its answer was ready.

use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Mutex;
use std::time::Instant;

use super::*;
use crate::folder::status::HostRow;

const DELAY: Duration = Duration::from_millis(150);
/// For so long the web thinks about a request, so that two at once are seen.
const SLOW: Duration = Duration::from_millis(40);
const ASKERS: usize = 6;
/// How long a shard may take to end, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest sleep between two turns. A turn that waits for another shard ends at once and asks for ten seconds.
const NAP: Duration = Duration::from_millis(50);

/// A request, as the web saw it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    host: String,
    pub(super) path: String,
    pub(super) came: Instant,
    pub(super) ready: Instant,
}

/// A web of names on one address, which keeps a log.
pub(super) struct Web {
    pub(super) port: u16,
    log: Arc<Mutex<Vec<Seen>>>,
}

impl Web {
    /// `answer` gives the status with further headers, and the body.
    pub(super) fn start(answer: fn(&str, &str, u16) -> (String, String)) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::<Mutex<Vec<Seen>>>::default();
        let noted = Arc::clone(&log);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let noted = Arc::clone(&noted);
                std::thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let head: Vec<String> =
                        lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                    let came = Instant::now();
                    let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else {
                        return;
                    };
                    let host = head.iter().find_map(|line| line.strip_prefix("host: ")).unwrap();
                    let host = host.split(".test").next().unwrap().to_owned();
                    std::thread::sleep(SLOW);
                    let (status, body) = answer(&host, path, port);
                    let path = path.to_owned();
                    noted.lock().unwrap().push(Seen { host, path, came, ready: Instant::now() });
                    let length = body.len();
                    let answer = format!(
                        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                    );
                    // A visitor who hangs up is nobody's fault.
                    let _ = stream.write_all(answer.as_bytes());
                });
            }
        });
        Self { port, log }
    }

    fn seed(&self, name: &str) -> String {
        format!("http://{name}.test:{}/", self.port)
    }

    pub(super) fn of(&self, host: &str) -> Vec<Seen> {
        let mut seen: Vec<Seen> =
            self.log.lock().unwrap().iter().filter(|seen| seen.host == host).cloned().collect();
        seen.sort_by_key(|seen| seen.came);
        seen
    }

    pub(super) fn paths(&self, host: &str) -> Vec<String> {
        self.of(host).into_iter().map(|seen| seen.path).collect()
    }

    /// No two requests of one host at once, and always a whole delay between them.
    fn was_met_politely(&self) {
        let hosts: HashSet<String> =
            self.log.lock().unwrap().iter().map(|seen| seen.host.clone()).collect();
        for host in hosts {
            for pair in self.of(&host).windows(2) {
                let gap = pair[1].came.checked_duration_since(pair[0].ready);
                assert!(gap.is_some_and(|gap| gap >= DELAY), "{gap:?} between {pair:#?}");
            }
        }
    }
}

/// A crawl of so many shards, and which shard each name is at.
pub(super) fn crawl_of(
    shards: u32,
    web: &Web,
    names: &[&str],
    rules: Rules,
) -> (tempfile::TempDir, Places) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::new(temporary.path());
    let rules = Rules {
        shards,
        allow_private: vec!["127.0.0.0/8".into()],
        resolve: vec!["*.test=127.0.0.1".into()],
        scope: divvy_frontier::address::Reach::Any,
        ..rules
    };
    let seeds = names.iter().map(|name| web.seed(name)).collect();
    let new = NewCrawl { seeds, rules, ..NewCrawl::default() };
    let (spec, _) = new.check("crawl".into(), 1).unwrap();
    show_json(&folder.spec(), &spec).unwrap();
    let places = Places::new(shards);
    let mut control = Control { round: 1, ..Control::default() };
    for shard in 0..shards {
        std::fs::create_dir_all(folder.inbox(shard)).unwrap();
        let of_shard = |name: &&&str| places.of(&web.seed(name).parse().unwrap()) == shard;
        let links: Vec<Travelling> =
            names.iter().filter(of_shard).map(|name| Travelling::seed(&web.seed(name))).collect();
        inbox::send(&folder.inbox(shard), inbox::SERVER, 1, &links).unwrap();
        control.sent.insert(shard, 1);
    }
    show_json(&folder.control(), &control).unwrap();
    (temporary, places)
}

/// Turns of a shard until it has ended; whether it has.
pub(super) fn turns_of(folder: &Path, shard: u32) -> bool {
    let until = Instant::now() + PATIENCE;
    for epoch in 1.. {
        match turn_of_shard(folder, shard, epoch) {
            TurnEnd::Done(_) => return true,
            TurnEnd::Later(..) if Instant::now() > until => break,
            TurnEnd::Later(span, _) => std::thread::sleep(span.min(NAP)),
        }
    }
    false
}

fn rules() -> Rules {
    Rules { delay_ms: DELAY.as_millis() as u64, ..Rules::default() }
}

fn turn_of_shard(folder: &Path, shard: u32, epoch: u64) -> TurnEnd {
    let chromium = crate::render::find();
    let site = Site { allow_private: true, chromium, ..Site::default() };
    let place = Place { folder: folder.to_owned(), shard, round: 1, epoch, site };
    on_this_thread(place, CancellationToken::new(), Box::new(|_, _| ())).unwrap()
}

/// `asker…` have their rules at `hub`, which has pages; `self` has its own at another place.
fn askers_and_a_hub(host: &str, path: &str, port: u16) -> (String, String) {
    let ok = || "200 OK\r\ncontent-type: text/html".to_owned();
    let to = |place: String| (format!("301 Moved\r\nlocation: {place}"), String::new());
    match (host, path) {
        ("hub", "/robots.txt") => to(format!("http://hub.test:{port}/rules")),
        ("self", "/robots.txt") => to("/rules".to_owned()),
        (_, "/rules") => (ok(), "User-agent: *\nDisallow: /private\n".to_owned()),
        (_, "/robots.txt") => to(format!("http://hub.test:{port}/robots.txt")),
        ("hub", "/") => {
            let links = (0..8).map(|page| format!("<a href=/{page}>page</a>"));
            (ok(), links.collect())
        }
        _ => (ok(), "<a href=/private>not this</a><a href=/open>this</a>".to_owned()),
    }
}

#[test]
fn who_is_asked_for_the_robots_txt_of_others_keeps_its_turn_in_whichever_shard() {
    let web = Web::start(askers_and_a_hub);
    let askers: Vec<String> = (0..ASKERS).map(|n| format!("asker{n}")).collect();
    let mut names: Vec<&str> = askers.iter().map(String::as_str).collect();
    names.extend(["hub", "self"]);
    let (folder, places) = crawl_of(2, &web, &names, rules());
    let at = |name: &str| places.of(&web.seed(name).parse().unwrap());
    let others = askers.iter().filter(|asker| at(asker) != at("hub")).count();
    assert!((1..ASKERS).contains(&others), "{others} of {ASKERS} are in the other shard");

    std::thread::scope(|scope| {
        let folder = folder.path();
        for shard in [0, 1] {
            scope.spawn(move || assert!(turns_of(folder, shard), "{shard} does not end"));
        }
    });

    web.was_met_politely();
    for name in &names {
        let paths = web.paths(name);
        assert!(paths.contains(&"/open".to_owned()), "{name}: {paths:?}");
        assert!(!paths.contains(&"/private".to_owned()), "{name}: {paths:?}");
        let robots = paths.iter().filter(|path| *path == "/robots.txt").count();
        assert!(*name == "hub" || robots == 1, "{name} is asked where it is once: {paths:?}");
    }
    for shard in 0..2 {
        let path = Folder::new(folder.path()).status(shard);
        let status: ShardStatus = read_json(&path).unwrap().unwrap();
        assert_eq!((status.totals.impolite, status.totals.robots_failed), (0, 0));
    }
}

/// The hub wants to be left alone as soon as a page of it is asked for.
fn a_hub_that_rests(host: &str, path: &str, port: u16) -> (String, String) {
    match (host, path) {
        ("hub", "/robots.txt") => ("404 Not Found".to_owned(), String::new()),
        ("hub", _) => ("503 Busy\r\nretry-after: 3600".to_owned(), String::new()),
        _ => askers_and_a_hub(host, path, port),
    }
}

#[test]
fn a_robots_txt_that_is_at_a_host_which_rests_is_waited_for_and_not_looked_for_again() {
    let web = Web::start(a_hub_that_rests);
    let (folder, _) = crawl_of(1, &web, &["hub"], rules());
    let rests = |epoch| {
        let ended = turn_of_shard(folder.path(), 0, epoch);
        assert!(matches!(ended, TurnEnd::Later(..)), "{ended:?}");
    };
    rests(1);
    assert_eq!(web.paths("hub"), ["/robots.txt", "/"]);
    let place = Folder::new(folder.path());
    let links = [Travelling::seed(&web.seed("asker0"))];
    inbox::send(&place.inbox(0), inbox::SERVER, 2, &links).unwrap();
    rests(2);
    // Later turns know nothing but what is in the file.
    for epoch in 3..6 {
        rests(epoch);
        assert_eq!(web.paths("asker0"), ["/robots.txt"], "turn {epoch}");
        assert_eq!(web.paths("hub").len(), 2, "turn {epoch}");
    }
    let row = row_of(folder.path(), "asker0");
    assert_eq!((row.queued, row.state.as_str()), (1, "waiting"));
}

#[test]
fn a_robots_txt_that_is_at_a_blocked_host_cannot_be_had_and_the_reason_says_so() {
    let web = Web::start(askers_and_a_hub);
    let (folder, _) = crawl_of(1, &web, &["asker0"], rules());
    let place = Folder::new(folder.path());
    let mut control: Control = read_json(&place.control()).unwrap().unwrap();
    control.blocked.insert(format!("hub.test:{}", web.port));
    show_json(&place.control(), &control).unwrap();
    let ended = turn_of_shard(folder.path(), 0, 1);
    assert!(matches!(ended, TurnEnd::Later(..)), "{ended:?}");
    assert_eq!((web.paths("asker0").len(), web.paths("hub").len()), (1, 0));
    let why = row_of(folder.path(), "asker0").why.unwrap();
    assert!(why.contains("hub.test") && why.contains("blocked in this crawl"), "{why}");
}

fn row_of(folder: &Path, name: &str) -> HostRow {
    let rows = shown(folder).hosts;
    rows.into_iter().find(|row| row.host.contains(name)).expect("it has something queued")
}
