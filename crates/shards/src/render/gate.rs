//! What a page may ask for while it is rendered. A browser is as polite as the crawler that drives it, so each of its
//! requests is held until this has decided:
//!
//! - the page itself was fetched before; the browser is given that and does not ask the host again;
//! - every other document, of the page or of a frame in it, is a page like others and has its turn like others. Where
//!   scripts lead on to is told, as a link;
//! - what a document is made of, such as scripts and data, is fetched: of the page's own host what its robots.txt allows, one
//!   after the other and at most [`OWN_MAX`]; of all other hosts together at most [`OTHERS_MAX`];
//! - pictures, films, fonts, and what only tells others about the visit, are not needed.
//!
//! It knows neither the browser nor how it is spoken to.

use std::collections::VecDeque;

use divvy_frontier::address::Address;
use url::{Position, Url};

use super::Document;

/// Requests to the page's own host, redirects among them.
pub(super) const OWN_MAX: u32 = 32;
/// Requests to all other hosts.
pub(super) const OTHERS_MAX: u32 = 32;
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
    /// The request to the own host that is under way, by what the network calls it.
    under_way: Option<String>,
    waiting: VecDeque<Held>,
    led_on: Vec<Address>,
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
            under_way: None,
            waiting: VecDeque::new(),
            led_on: Vec::new(),
        }
    }

    /// Decides a request.
    pub(super) fn decide(&mut self, held: Held) -> Verdict {
        if held.kind == "Document" {
            return self.decide_document(&held);
        }
        let is_redirected = self.under_way.as_deref() == Some(&held.network_id);
        // Of what the network does not name, nobody would tell the end.
        let is_needed = NEEDED.contains(&held.kind.as_str()) && !held.network_id.is_empty();
        let verdict = match Url::parse(&held.url) {
            Ok(url) if is_needed => self.decide_part(&url),
            _ => Verdict::Refuse,
        };
        let is_own = verdict == Verdict::Wait;
        if is_own && (is_redirected || self.under_way.is_none()) {
            self.under_way = Some(held.network_id);
            return Verdict::Pass;
        }
        if is_own {
            self.waiting.push_back(held);
        }
        verdict
    }

    /// A request has ended, well or not. The next one that may go out, if any.
    pub(super) fn ended(&mut self, network_id: &str) -> Option<Held> {
        self.waiting.retain(|held| held.network_id != network_id);
        if self.under_way.as_deref() != Some(network_id) {
            return None;
        }
        let next = self.waiting.pop_front();
        self.under_way = next.as_ref().map(|held| held.network_id.clone());
        next
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

    /// Decides about a part of a document; one of the own host waits for its turn.
    fn decide_part(&mut self, url: &Url) -> Verdict {
        // With the other scheme and on another port it is the same host, and mostly has the same rules.
        let is_own = url.host_str() == self.document.address.url().host_str();
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let (count, most, verdict) = match is_own {
            true if !self.document.permission.allows(path) => return Verdict::Refuse,
            true => (&mut self.own, OWN_MAX, Verdict::Wait),
            false => (&mut self.others, OTHERS_MAX, Verdict::Pass),
        };
        if *count == most {
            return Verdict::Refuse;
        }
        *count += 1;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use divvy_frontier::frontier::Permission;
    use http::HeaderMap;

    use super::*;

    #[derive(Debug)]
    struct NotPrivate;

    impl Permission for NotPrivate {
        fn allows(&self, path_and_query: &str) -> bool {
            !path_and_query.starts_with("/private")
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
        });
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
            assert_eq!(gate.decide(script("5", "http://b.example/private/5.js")), Verdict::Pass);
            // A redirect is a further request of the one that is under way.
            assert_eq!(gate.decide(script("1", "http://a.example/new/1.js")), Verdict::Pass);
            assert_eq!(gate.decide(script("1", "http://a.example/private/1.js")), Verdict::Refuse);
            assert_eq!(gate.ended("2"), None, "who waits may give up");
            assert_eq!(gate.ended("1").unwrap().id, "held-3");
            assert_eq!(gate.decide(script("6", "http://a.example/6.js")), Verdict::Wait);
            assert_eq!(gate.ended("5"), None);
            assert_eq!(gate.ended("3").unwrap().id, "held-6");
            assert_eq!(gate.ended("6"), None);
            assert_eq!(gate.decide(script("7", "http://a.example/7.js")), Verdict::Pass);
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
