//! What the demo web answers: a pure function of a host's name and a path. Every host has a tree of pages; hosts link to
//! each other in a tree too, so that all of it can be reached from the first one, and from every page in a few steps.
//!
//! With traps, hosts also have what crawlers stumble over: rules in robots.txt, redirects and a loop of them, errors,
//! a calendar without an end, paths that grow, session numbers in links, and pages that are all alike.

use std::fmt::Write as _;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

/// Names of hosts end so: nobody can own them (RFC 6761).
pub const ENDING: &str = ".test";
/// The first host, where a crawl begins.
const PORTAL: &str = "portal.test";
/// One page in so many is slow.
const SLOW_EVERY: u32 = 8;

/// A page that its script makes. It also goes to places that robots.txt forbids, in all ways that a script has.
const APP: &str = "<!doctype html>\n<title>An empty page</title>\n<div id=\"root\"></div>\n\
    <script src=\"/app.js\"></script>\n";
const APP_SCRIPT: &str = r#"
const root = document.getElementById('root');
const asked = ['/page/1', '/page/2', '/page/3', '/private/data'].map((path) => fetch(path).catch(() => null));
Promise.all(asked).then(() => {
  document.title = 'Made by a script';
  root.innerHTML = '<a href="/page/4">Page 4</a>';
});
const added = (tag, more) => document.body.append(Object.assign(document.createElement(tag), more));
added('iframe', { src: '/private/frame' });
added('link', { rel: 'prefetch', href: '/private/prefetched' });
added('link', { rel: 'prerender', href: '/private/prerendered' });
added('script', {
  type: 'speculationrules',
  text: '{"prefetch": [{"urls": ["/private/guessed"], "eagerness": "immediate"}], "prerender": [{"urls": ["/private/made"], "eagerness": "immediate"}]}',
});
added('img', { src: '/private/picture' });
const tries = [
  () => new WebSocket(`ws://${location.host}/private/socket`),
  () => new EventSource('/private/events'),
  () => new Worker('/private/worker.js'),
  () => new Worker(URL.createObjectURL(new Blob([`fetch('${location.origin}/private/by-worker')`]))),
  () => new SharedWorker('/private/shared.js'),
  () => navigator.serviceWorker.register('/private/service.js'),
  () => navigator.sendBeacon('/private/beacon'),
  () => window.open('/private/window'),
  () => { location.href = '/private/away'; },
];
for (const attempt of tries) try { attempt(); } catch { /* The next one. */ }
"#;

/// How large the web is.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Hosts, the portal among them.
    pub hosts: u32,
    /// Pages that a host has.
    pub pages: u32,
    /// About how many bytes a page has.
    pub page_bytes: usize,
    /// Whether there is anything to stumble over.
    pub traps: bool,
    /// How long one page in eight takes.
    pub slow: Duration,
    /// The port in links.
    pub port: u16,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    /// One header more.
    pub(super) header: Option<(&'static str, String)>,
    pub(super) body: String,
    /// How long it takes.
    pub(super) after: Duration,
}

impl Answer {
    fn new(status: u16, content_type: &'static str, body: String) -> Self {
        Self { status, content_type, header: None, body, after: Duration::ZERO }
    }

    fn html(body: String) -> Self {
        Self::new(200, "text/html; charset=utf-8", body)
    }

    fn plain(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text.to_owned())
    }

    fn redirect(to: String) -> Self {
        let mut answer = Self::plain(301, "moved\n");
        answer.header = Some(("location", to));
        answer
    }
}

impl Site {
    /// The name of host number `at`.
    pub fn host(at: u32) -> String {
        match at {
            0 => PORTAL.to_owned(),
            at => format!("site{at:04}{ENDING}"),
        }
    }

    /// Where a crawl begins.
    pub fn start(&self) -> String {
        format!("http://{PORTAL}:{}/", self.port)
    }

    /// The number of a host, if there is such a one.
    fn number(&self, host: &str) -> Option<u32> {
        if host == PORTAL {
            return Some(0);
        }
        let number = host.strip_suffix(ENDING)?.strip_prefix("site")?.parse().ok()?;
        (1..self.hosts).contains(&number).then_some(number)
    }

    /// What a host says about a path, with its query.
    pub(super) fn answer(&self, host: &str, path: &str) -> Answer {
        let Some(number) = self.number(host) else {
            return Answer::plain(404, "no such host\n");
        };
        if path == "/robots.txt" {
            return self.robots(number);
        }
        if let Some(page) = page_number(path) {
            return if page < self.pages {
                let is_slow = (number + page).is_multiple_of(SLOW_EVERY);
                let after = if is_slow { self.slow } else { Duration::ZERO };
                Answer { after, ..Answer::html(self.page(number, page)) }
            } else {
                Answer::plain(404, "no such page\n")
            };
        }
        if !self.traps {
            return Answer::plain(404, "no such page\n");
        }
        self.trap(number, path)
    }

    fn robots(&self, number: u32) -> Answer {
        let mut text = "User-agent: *\nDisallow: /private/\n".to_owned();
        if self.traps {
            match number % 16 {
                // Not every host has one, and not every host can say what it has.
                3 => return Answer::plain(404, "none\n"),
                5 if number > 160 => return Answer::plain(503, "later\n"),
                7 => text.push_str("Crawl-delay: 1\n"),
                9 => {
                    let _ = writeln!(
                        text,
                        "Sitemap: http://{}:{}/sitemap.xml",
                        Self::host(number),
                        self.port
                    );
                }
                _ => {}
            }
        }
        Answer::plain(200, &text)
    }

    /// What crawlers stumble over.
    fn trap(&self, number: u32, path: &str) -> Answer {
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let first = bare.trim_start_matches('/').split('/').next().unwrap_or_default();
        match first {
            "old" => Answer::redirect(bare.replacen("/old/", "/page/", 1)),
            "loop" if bare.ends_with("/a") => Answer::redirect("/loop/b".to_owned()),
            "loop" => Answer::redirect("/loop/a".to_owned()),
            "away" => {
                let next = Self::host((number + 1) % self.hosts);
                Answer::redirect(format!("http://{next}:{}/", self.port))
            }
            "gone" => Answer::plain(410, "gone\n"),
            "broken" => Answer::plain(500, "broken\n"),
            "slow" => {
                let text = text(number, "A slow page", "<p>It took a while.</p>");
                Answer { after: Duration::from_millis(700), ..Answer::html(text) }
            }
            "private" => Answer::html(text(number, "Nobody should see this", "")),
            "calendar" => {
                let month: u64 =
                    query.strip_prefix("month=").and_then(|m| m.parse().ok()).unwrap_or(0);
                let next = month + 1;
                let links = format!("<a href=\"/calendar?month={next}\">next month</a>");
                Answer::html(text(number, "Calendar", &links))
            }
            "deeper" => {
                let links = format!("<a href=\"{bare}/deeper\">deeper</a>");
                Answer::html(text(number, "A path that grows", &links))
            }
            "app" => Answer::html(APP.to_owned()),
            "app.js" => Answer::new(200, "text/javascript", APP_SCRIPT.to_owned()),
            "sitemap.xml" => Answer::new(200, "application/xml", self.sitemap(number)),
            _ => Answer::plain(404, "no such page\n"),
        }
    }

    fn sitemap(&self, number: u32) -> String {
        let mut text =
            "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">"
                .to_owned();
        for page in 0..self.pages.min(50) {
            let _ = write!(
                text,
                "<url><loc>http://{}:{}{}</loc></url>",
                Self::host(number),
                self.port,
                path_of(page)
            );
        }
        text.push_str("</urlset>");
        text
    }

    /// A page: links down the tree of its host, to the hosts below its own, and here and there.
    fn page(&self, number: u32, page: u32) -> String {
        let mut links = String::new();
        for below in [2 * page + 1, 2 * page + 2].into_iter().filter(|below| *below < self.pages) {
            let _ = writeln!(links, "<li><a href=\"{}\">Page {below}</a></li>", path_of(below));
        }
        if page == 0 {
            for below in [2 * number + 1, 2 * number + 2] {
                if below < self.hosts {
                    self.link_host(&mut links, below, 0);
                }
            }
            if self.traps {
                self.temptations(&mut links, number);
            }
        }
        let mut chance = xxh3_64(format!("{number}/{page}").as_bytes());
        for _ in 0..12 {
            chance = chance.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
            let other = (chance >> 40) as u32 % self.pages.max(1);
            if chance.is_multiple_of(4) {
                self.link_host(&mut links, (chance >> 20) as u32 % self.hosts.max(1), other);
            } else {
                let _ = writeln!(links, "<li><a href=\"{}\">Page {other}</a></li>", path_of(other));
            }
        }
        let fill = self.fill(number, page);
        let title = format!("Page {page} of {}", Self::host(number));
        text(number, &title, &format!("<ul>\n{links}</ul>\n<p>{fill}</p>"))
    }

    fn link_host(&self, links: &mut String, host: u32, page: u32) {
        let (name, port) = (Self::host(host), self.port);
        let _ = writeln!(
            links,
            "<li><a href=\"http://{name}:{port}{}\">{name}</a></li>",
            path_of(page)
        );
    }

    fn temptations(&self, links: &mut String, number: u32) {
        let page = number % self.pages.max(1);
        for path in [
            format!("/old/{page}"),
            "/loop/a".to_owned(),
            "/away".to_owned(),
            "/gone".to_owned(),
            "/private/secret".to_owned(),
            format!("/page/{page}?sid=4711&amp;utm_source=demo"),
            "mailto:nobody@portal.test".to_owned(),
            "javascript:void(0)".to_owned(),
        ] {
            let _ = writeln!(links, "<li><a href=\"{path}\">{path}</a></li>");
        }
        let rare = match number % 8 {
            1 => "/calendar?month=0",
            2 => "/deeper",
            4 => "/slow",
            6 if number % 16 == 6 => "/broken",
            _ => return,
        };
        let _ = writeln!(links, "<li><a href=\"{rare}\">{rare}</a></li>");
    }

    /// Words that differ from page to page, up to the size of a page.
    fn fill(&self, number: u32, page: u32) -> String {
        const WORDS: [&str; 16] = [
            "river", "stone", "lamp", "garden", "winter", "paper", "signal", "copper", "harbour",
            "orchard", "thread", "window", "ladder", "meadow", "engine", "letter",
        ];
        let mut text = String::with_capacity(self.page_bytes);
        let mut chance = xxh3_64(format!("{page}/{number}").as_bytes()) | 1;
        while text.len() + 1_200 < self.page_bytes {
            chance = chance.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) | 1;
            for at in 0..12 {
                text.push_str(WORDS[(chance >> (at * 5)) as usize % WORDS.len()]);
                text.push(if at == 11 { '\n' } else { ' ' });
            }
        }
        text
    }
}

fn text(number: u32, title: &str, inner: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"description\" content=\"{title}, in the demo web &amp; nowhere else\"></head>\n\
         <body>\n<h1>{title}</h1>\n<p>Host number {number}.</p>\n{inner}\n</body>\n</html>\n"
    )
}

/// The path of a page.
fn path_of(page: u32) -> String {
    if page == 0 { "/".to_owned() } else { format!("/page/{page}") }
}

/// The number of the page that a path names.
fn page_number(path: &str) -> Option<u32> {
    let bare = path.split('?').next().unwrap_or_default();
    if bare == "/" { Some(0) } else { bare.strip_prefix("/page/")?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn site(traps: bool) -> Site {
        let (hosts, slow) = (if traps { 200 } else { 40 }, Duration::from_secs(1));
        Site { hosts, pages: 12, page_bytes: 2_000, traps, slow, port: 80 }
    }

    fn links(site: Site, host: &str, path: &str) -> Vec<(String, String)> {
        let body = site.answer(host, path).body;
        let targets = body.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        targets
            .filter_map(|target| match target.strip_prefix("http://") {
                Some(rest) => {
                    let (host, path) = rest.split_once('/')?;
                    Some((host.trim_end_matches(":80").to_owned(), format!("/{path}")))
                }
                None => target.starts_with('/').then(|| (host.to_owned(), target.to_owned())),
            })
            .collect()
    }

    #[test]
    fn every_page_of_every_host_can_be_reached_from_the_portal() {
        let site = site(false);
        let mut open = vec![(PORTAL.to_owned(), "/".to_owned())];
        let mut seen: BTreeSet<(String, String)> = open.iter().cloned().collect();
        while let Some((host, path)) = open.pop() {
            assert_eq!(site.answer(&host, &path).status, 200, "{host}{path}");
            for found in links(site, &host, &path) {
                if seen.insert(found.clone()) {
                    open.push(found);
                }
            }
        }
        assert_eq!(seen.len(), 40 * 12);
    }

    #[test]
    fn one_page_in_eight_is_slow() {
        let site = site(false);
        let is_slow = |page: &u32| !site.answer("site0001.test", &path_of(*page)).after.is_zero();
        assert_eq!((0..12).filter(is_slow).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn there_is_something_to_stumble_over() {
        let site = site(true);
        let status = |path: &str| site.answer("site0001.test", path).status;
        assert_eq!((status("/old/3"), status("/loop/a"), status("/gone")), (301, 301, 410));
        assert_eq!((status("/broken"), status("/nothing"), status("/page/99")), (500, 404, 404));
        assert!(site.answer("site0001.test", "/calendar?month=7").body.contains("month=8"));
        assert_eq!(site.answer("site0003.test", "/robots.txt").status, 404);
        assert_eq!(site.answer("site0165.test", "/robots.txt").status, 503);
        assert_eq!(site.answer("elsewhere.test", "/").status, 404);
    }
}
