//! What a page may ask for while it is rendered. A browser is as polite as the crawler that drives it, so each of its
//! requests is held until this has decided:
//!
//! - the page itself was fetched before; the browser is given that and does not ask the host again;
//! - every other document, of the page or of a frame in it, is a page like others and has its turn like others. Where
//!   scripts lead on to is told, as a link;
//! - what a document is made of, such as scripts and data, is fetched where the robots.txt of its host allows it, of each
//!   host one after the other: of the page's own at most [`OWN_MAX`], of at most [`HOSTS_MAX`] others together at most
//!   [`OTHERS_MAX`];
//! - pictures, films, fonts, and what only tells others about the visit, are not needed.
//!
//! It knows neither the browser nor how it is spoken to, nor how a robots.txt is had.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use divvy_frontier::address::Address;
use divvy_frontier::frontier::Permission;
use url::{Position, Url};

use super::Document;

/// Requests to the page's own host, redirects among them.
pub(super) const OWN_MAX: u32 = 32;
/// Requests to all other hosts.
pub(super) const OTHERS_MAX: u32 = 32;
/// Other origins, each of which is looked at for what it permits.
pub(super) const HOSTS_MAX: usize = 8;
/// Places that are told of those that scripts lead on to.
const LED_ON_MAX: usize = 16;
/// What documents are made of.
const NEEDED: [&str; 4] = ["Script", "Stylesheet", "XHR", "Fetch"];

/// What is decided of the requests of one page.
pub(super) struct Gate<'a> {
    document: Document<'a>,
    /// The frame of the page; nothing until the page was asked for.
    frame: Option<String>,
    own: u32,
    others: u32,
    /// What other origins permit, as far as it is known; nothing of those that may not be asked.
    permissions: BTreeMap<String, Option<Arc<dyn Permission>>>,
    /// By host.
    lines: BTreeMap<String, Line>,
    led_on: Vec<Address>,
}

/// The requests to one host.
#[derive(Default)]
struct Line {
    /// The one that is under way, by what the network calls it.
    under_way: Option<String>,
    waiting: VecDeque<Held>,
}

/// A request that the browser holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// What the one who decides calls it, and what the network does, which is the same for all redirects of a request.
    pub(super) id: String,
    pub(super) network_id: String,
    /// `Document`, `Script` and so on.
    pub(super) kind: String,
    pub(super) frame: String,
    pub(super) method: String,
    pub(super) url: String,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is answered with the document.
    Give,
    /// It goes out.
    Pass,
    /// It is held until another has ended.
    Wait,
    /// It fails.
    Refuse,
    /// It fails, and the page stays as it is.
    Stay,
}

impl<'a> Gate<'a> {
    pub(super) fn new(document: Document<'a>) -> Self {
        Self {
            document,
            frame: None,
            own: 0,
            others: 0,
            permissions: BTreeMap::new(),
            lines: BTreeMap::new(),
            led_on: Vec::new(),
        }
    }

    /// The address of another host that has to say first what it permits, before the request can be decided.
    pub(super) fn asks_of(&self, held: &Held) -> Option<Address> {
        let address: Address = held.url.parse().ok().filter(|_| is_part(held))?;
        let is_new = !self.is_own(address.url())
            && !self.permissions.contains_key(address.origin())
            && self.permissions.len() < HOSTS_MAX;
        is_new.then_some(address)
    }

    /// What another origin permits; nothing if it may not be asked.
    pub(super) fn know(&mut self, origin: &str, permission: Option<Arc<dyn Permission>>) {
        self.permissions.insert(origin.to_owned(), permission);
    }

    /// Decides a request. Others may go out afterwards: see [`Gate::next`].
    pub(super) fn decide(&mut self, held: Held) -> Verdict {
        if held.kind == "Document" {
            return self.decide_document(&held);
        }
        let url = Url::parse(&held.url).ok().filter(|_| is_part(&held));
        let Some(url) = url.filter(|url| self.is_allowed(url)) else { return Verdict::Refuse };
        let host = url.host_str().unwrap_or_default();
        // A redirect is a further request of one that was under way, here or at another host.
        let id = Some(held.network_id.as_str());
        let before = self.lines.iter_mut().find(|(_, line)| line.under_way.as_deref() == id);
        match before {
            Some((before, _)) if before == host => return Verdict::Pass,
            Some((_, line)) => line.under_way = None,
            None => {}
        }
        let line = self.lines.entry(host.to_owned()).or_default();
        if line.under_way.is_some() {
            line.waiting.push_back(held);
            return Verdict::Wait;
        }
        line.under_way = Some(held.network_id);
        Verdict::Pass
    }

    /// A request has ended, well or not.
    pub(super) fn ended(&mut self, network_id: &str) {
        for line in self.lines.values_mut() {
            line.waiting.retain(|held| held.network_id != network_id);
            if line.under_way.as_deref() == Some(network_id) {
                line.under_way = None;
            }
        }
    }

    /// A request that waited and may go out now.
    pub(super) fn next(&mut self) -> Option<Held> {
        let mut free = self.lines.values_mut().filter(|line| line.under_way.is_none());
        free.find_map(|line| {
            let held = line.waiting.pop_front()?;
            line.under_way = Some(held.network_id.clone());
            Some(held)
        })
    }

    /// Where scripts wanted to go from the page.
    pub(super) fn led_on(self) -> Vec<Address> {
        self.led_on
    }

    fn decide_document(&mut self, held: &Held) -> Verdict {
        let Some(frame) = &self.frame else {
            self.frame = Some(held.frame.clone());
            return Verdict::Give;
        };
        let is_link = *frame == held.frame && held.method == "GET";
        if is_link
            && self.led_on.len() < LED_ON_MAX
            && let Ok(address) = held.url.parse::<Address>()
            && !self.led_on.contains(&address)
        {
            self.led_on.push(address);
        }
        Verdict::Stay
    }

    /// With the other scheme and on another port it is the same host, and mostly has the same rules.
    fn is_own(&self, url: &Url) -> bool {
        url.host_str() == self.document.address.url().host_str()
    }

    /// Whether a part of a document may be asked for, which is counted then.
    fn is_allowed(&mut self, url: &Url) -> bool {
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let is_own = self.is_own(url);
        let origin = url.origin().ascii_serialization();
        let other = self.permissions.get(&origin).and_then(Option::as_deref);
        let permission = if is_own { Some(self.document.permission) } else { other };
        let (count, most) = match is_own {
            true => (&mut self.own, OWN_MAX),
            false => (&mut self.others, OTHERS_MAX),
        };
        let is_allowed =
            *count < most && permission.is_some_and(|permission| permission.allows(path));
        *count += u32::from(is_allowed);
        is_allowed
    }
}

/// Whether a document is made of it. Of what the network does not name, nobody would tell the end.
fn is_part(held: &Held) -> bool {
    NEEDED.contains(&held.kind.as_str()) && !held.network_id.is_empty()
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use http::HeaderMap;

    use super::*;

    #[derive(Debug)]
    struct NotPrivate;

    impl Permission for NotPrivate {
        fn allows(&self, path_and_query: &str) -> bool {
            !path_and_query.starts_with("/private")
        }
    }

    /// They are asked elsewhere.
    #[derive(Debug)]
    struct Nobody;

    impl crate::render::Others for Nobody {
        fn permission<'a>(&'a self, _: &'a Address) -> BoxFuture<'a, Option<Arc<dyn Permission>>> {
            Box::pin(std::future::ready(None))
        }
    }

    fn with_gate<T>(test: impl FnOnce(Gate<'_>) -> T) -> T {
        let (address, headers) = ("http://a.example/".parse().unwrap(), HeaderMap::new());
        let mut gate = Gate::new(Document {
            address: &address,
            status: 200,
            headers: &headers,
            body: b"",
            permission: &NotPrivate,
            others: &Nobody,
        });
        gate.know("http://b.example", Some(Arc::new(NotPrivate)));
        gate.know("http://shut.example", None);
        assert_eq!(gate.decide(held("page", "Document", "http://a.example/")), Verdict::Give);
        test(gate)
    }

    fn held(id: &str, kind: &str, url: &str) -> Held {
        Held {
            id: format!("held-{id}"),
            network_id: id.to_owned(),
            kind: kind.to_owned(),
            frame: "main".to_owned(),
            method: "GET".to_owned(),
            url: url.to_owned(),
        }
    }

    fn script(id: &str, url: &str) -> Held {
        held(id, "Script", url)
    }

    #[test]
    fn one_document_is_given_and_others_are_links() {
        with_gate(|mut gate| {
            let next = || held("next", "Document", "http://a.example/next");
            for _ in 0..2 {
                assert_eq!(gate.decide(next()), Verdict::Stay);
            }
            let framed = Held { frame: "frame".to_owned(), ..next() };
            assert_eq!(
                gate.decide(Held { url: "http://b.example/".into(), ..framed }),
                Verdict::Stay
            );
            let form =
                Held { method: "POST".to_owned(), url: "http://a.example/form".into(), ..next() };
            assert_eq!(gate.decide(form), Verdict::Stay);
            let led_on = gate.led_on();
            assert_eq!(
                led_on.iter().map(Address::as_str).collect::<Vec<_>>(),
                ["http://a.example/next"]
            );
        });
    }

    #[test]
    fn the_own_host_is_asked_for_what_it_allows_one_after_the_other() {
        with_gate(|mut gate| {
            assert_eq!(gate.decide(script("1", "http://a.example/1.js")), Verdict::Pass);
            assert_eq!(gate.decide(script("2", "http://a.example/2.js")), Verdict::Wait);
            assert_eq!(gate.decide(script("3", "https://a.example/3.js")), Verdict::Wait);
            assert_eq!(gate.decide(script("4", "http://a.example/private/4.js")), Verdict::Refuse);
            // A redirect is a further request of the one that is under way.
            assert_eq!(gate.decide(script("1", "http://a.example/new/1.js")), Verdict::Pass);
            assert_eq!(gate.decide(script("1", "http://a.example/private/1.js")), Verdict::Refuse);
            let after = |gate: &mut Gate<'_>, id: &str| {
                gate.ended(id);
                gate.next().map(|held| held.id)
            };
            assert_eq!(after(&mut gate, "2"), None, "who waits may give up");
            assert_eq!(after(&mut gate, "1").unwrap(), "held-3");
            assert_eq!(gate.decide(script("6", "http://a.example/6.js")), Verdict::Wait);
            assert_eq!(after(&mut gate, "5"), None);
            assert_eq!(after(&mut gate, "3").unwrap(), "held-6");
            assert_eq!(after(&mut gate, "6"), None);
            assert_eq!(gate.decide(script("7", "http://a.example/7.js")), Verdict::Pass);
        });
    }

    #[test]
    fn another_host_is_asked_for_what_it_allows_once_it_has_said_so_one_after_the_other() {
        with_gate(|mut gate| {
            let (open, shut) = ("http://b.example/1.js", "http://shut.example/1.js");
            assert_eq!(gate.decide(script("1", shut)), Verdict::Refuse);
            assert_eq!(gate.decide(script("2", "http://b.example/private/2.js")), Verdict::Refuse);
            let new = script("3", "http://new.example/3.js");
            assert_eq!(gate.asks_of(&new).unwrap().origin(), "http://new.example");
            for known in [open, shut, "http://a.example/1.js", "no address"] {
                assert_eq!(gate.asks_of(&script("4", known)), None, "{known}");
            }
            assert_eq!(gate.asks_of(&held("5", "Image", "http://new.example/")), None);
            assert_eq!(gate.decide(new), Verdict::Refuse, "it has not said");

            assert_eq!(gate.decide(script("6", open)), Verdict::Pass);
            assert_eq!(gate.decide(script("7", open)), Verdict::Wait);
            // It leads to the page's own host, and the next one may go out.
            assert_eq!(gate.decide(script("6", "http://a.example/6.js")), Verdict::Pass);
            assert_eq!(gate.next().unwrap().id, "held-7");
            assert_eq!(gate.decide(script("8", "http://a.example/8.js")), Verdict::Wait);
            for n in 2..HOSTS_MAX {
                let origin = format!("http://{n}.example");
                let address = gate.asks_of(&script("9", &format!("{origin}/"))).unwrap();
                gate.know(address.origin(), None);
            }
            assert_eq!(
                gate.asks_of(&script("9", "http://more.example/")),
                None,
                "there are enough"
            );
        });
    }

    #[test]
    fn a_page_has_so_many_requests_and_no_more() {
        for (host, most) in [("a.example", OWN_MAX), ("b.example", OTHERS_MAX)] {
            with_gate(|mut gate| {
                let mut ask =
                    |n: u32| gate.decide(script(&n.to_string(), &format!("http://{host}/{n}")));
                assert!((0..most).all(|n| ask(n) != Verdict::Refuse));
                assert_eq!(ask(most), Verdict::Refuse, "{host}");
            });
        }
    }

    #[test]
    fn what_a_text_does_without_is_not_asked_for() {
        with_gate(|mut gate| {
            for kind in ["Image", "Font", "Media", "Ping", "Prefetch", "EventSource", "Other"] {
                let verdict = gate.decide(held("1", kind, "http://b.example/"));
                assert_eq!(verdict, Verdict::Refuse, "{kind}");
            }
        });
    }
}
