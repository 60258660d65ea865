//! One page: fetched, read, and made ready to be written. Everything that does not need the state of the shard.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use divvy_frontier::address::Address;
use divvy_frontier::frontier::{self, Permission};
use divvy_frontier::rules::retry::Failure;
use http::{HeaderMap, HeaderName};
use tokio::sync::mpsc;
use url::Url;
use xxhash_rust::xxh3::xxh3_64;

use super::gear::Gear;
use super::parts::{Lent, Parts, Question};
use super::robots::{self, Reply};
use crate::fetch::{FetchError, Fetched, Order, Purpose, Session, Trouble, Validators};
use crate::output::{Exchange, Format, Prepared, Record, digest};
use crate::page::sitemap;
use crate::page::{Link, Page, Source};
use crate::render::{Document, Rendered};
use divvy_frontier::robots::Standing;

/// Bodies above this are read on another thread, so that other hosts do not wait.
const READ_HERE_BYTES_MAX: usize = 256 << 10;
const ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

/// What was to be fetched.
pub(crate) struct PageVisit {
    pub(crate) order: frontier::Order,
    /// What the store knows of an earlier fetch.
    pub(crate) known: Option<Known>,
    pub(crate) session: Session,
    /// What its host lets be fetched, for what a browser asks for besides.
    pub(crate) permission: Option<Arc<dyn Permission>>,
    /// Who is asked for other hosts.
    pub(crate) lender: mpsc::Sender<Question>,
}

/// What is known of an earlier fetch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) validators: Validators,
    pub(crate) digest: u64,
    pub(crate) changes: u32,
    pub(crate) interval_ms: Option<u64>,
}

/// What came of a visit.
pub(crate) enum Done {
    /// A page, or none.
    Page(Box<PageDone>),
    /// A robots.txt, or none.
    Robots(Box<RobotsDone>),
    /// What is on the way to one.
    Errand(Box<ErrandDone>),
}

/// What came of a robots.txt.
pub(crate) struct RobotsDone {
    pub(crate) order: frontier::RobotsOrder,
    /// What was known of it before.
    pub(crate) standing: Standing,
    pub(crate) session: Session,
    pub(crate) reply: Reply,
    pub(crate) ended_ms: u64,
}

/// What came of a request on the way to a robots.txt.
pub(crate) struct ErrandDone {
    pub(crate) errand: frontier::Errand,
    pub(crate) session: Session,
    pub(crate) reply: Reply,
    pub(crate) ended_ms: u64,
}

/// What came of a page.
pub(crate) struct PageDone {
    pub(crate) order: frontier::Order,
    pub(crate) known: Option<Known>,
    pub(crate) session: Session,
    pub(crate) began_ms: u64,
    pub(crate) ended_ms: u64,
    pub(crate) outcome: Result<Product, (Failure, String)>,
    /// What goes to the outputs.
    pub(crate) prepared: Option<Prepared>,
}

/// What was made of an answer.
#[derive(Default)]
pub(crate) struct Product {
    pub(crate) status: u16,
    pub(crate) wire_bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) validators: Validators,
    pub(crate) digest: u64,
    pub(crate) title: Option<String>,
    /// Of a page that has a text.
    pub(crate) simhash: Option<u64>,
    pub(crate) links: Vec<Link>,
    /// Links of a page that asks not to be followed.
    pub(crate) is_nofollow: bool,
    pub(crate) redirect: Option<Address>,
    pub(crate) listed: sitemap::Sitemap,
    pub(crate) render_ms: u64,
    /// Other hosts that were lent to it.
    pub(crate) lent: Vec<Lent>,
    /// When the last request of the visit ended: the host's turn lasts until then.
    pub(crate) ended_ms: u64,
}

/// Fetches and reads a page.
pub(crate) async fn page(gear: Arc<Gear>, visit: PageVisit) -> Done {
    let PageVisit { order, known, mut session, permission, lender } = visit;
    let began_ms = gear.clock.now_ms();
    let fetched = fetch(&gear, &order, known.as_ref(), &mut session).await;
    let mut ended_ms = gear.clock.end_ms();
    let (outcome, prepared) = match fetched {
        Ok(fetched) => {
            let (product, prepared) = read(
                &gear,
                &order,
                fetched,
                permission.as_deref(),
                &lender,
                Times { began_ms, ended_ms },
            )
            .await;
            ended_ms = product.ended_ms;
            (Ok(product), prepared)
        }
        Err(error) => {
            let text = error.to_string();
            let record = Record {
                url: &order.url,
                final_url: &order.url,
                error: Some(&text),
                fetched_at: ended_ms,
                depth: order.depth.into(),
                ..Record::default()
            };
            let prepared = Prepared::new(&gear.formats, &record, None).ok();
            (Err((failure(&error), text)), prepared)
        }
    };
    Done::Page(Box::new(PageDone { order, known, session, began_ms, ended_ms, outcome, prepared }))
}

/// Asks a host for its robots.txt.
pub(crate) async fn robots(
    gear: Arc<Gear>,
    order: frontier::RobotsOrder,
    standing: Standing,
    mut session: Session,
) -> Done {
    let reply = robots::request(&gear, &robots::place_of(&order.origin), &mut session).await;
    let ended_ms = gear.clock.end_ms();
    Done::Robots(Box::new(RobotsDone { order, standing, session, reply, ended_ms }))
}

/// Asks where the robots.txt of other hosts leads to.
pub(crate) async fn errand(
    gear: Arc<Gear>,
    errand: frontier::Errand,
    mut session: Session,
) -> Done {
    let reply = robots::request(&gear, &errand.url, &mut session).await;
    let ended_ms = gear.clock.end_ms();
    Done::Errand(Box::new(ErrandDone { errand, session, reply, ended_ms }))
}

/// When a page was asked for, and when the last byte of it had come.
#[derive(Clone, Copy)]
struct Times {
    began_ms: u64,
    ended_ms: u64,
}

async fn fetch(
    gear: &Gear,
    order: &frontier::Order,
    known: Option<&Known>,
    session: &mut Session,
) -> Result<Fetched, FetchError> {
    let url = Url::parse(&order.url).map_err(|error| FetchError::Malformed {
        target: order.url.clone(),
        problem: error.to_string(),
    })?;
    let purpose = if order.is_sitemap { Purpose::Sitemap } else { Purpose::Page };
    let validators = known.map(|known| &known.validators);
    gear.fetcher.fetch(Order { url: &url, validators, purpose }, session).await
}

/// What the frontier makes of an error.
pub(super) fn failure(error: &FetchError) -> Failure {
    match error.trouble() {
        Trouble::Refused => Failure::Refused,
        Trouble::Headers => Failure::Forbidden,
        Trouble::NameUnknown => Failure::NoSuchName,
        Trouble::Tls | Trouble::Malformed => Failure::Tls,
        Trouble::Timeout | Trouble::TooSlow => Failure::TimedOut,
        Trouble::NameFailed | Trouble::Connect | Trouble::Broken => Failure::Connection,
    }
}

async fn read(
    gear: &Arc<Gear>,
    order: &frontier::Order,
    fetched: Fetched,
    permission: Option<&dyn Permission>,
    lender: &mpsc::Sender<Question>,
    times: Times,
) -> (Product, Option<Prepared>) {
    let mut product = Product {
        status: fetched.status,
        wire_bytes: fetched.wire_bytes,
        body_bytes: fetched.body.len() as u64,
        retry_after_ms: fetched.retry_after_ms(times.ended_ms),
        validators: fetched.validators(),
        digest: xxh3_64(&fetched.body),
        ended_ms: times.ended_ms,
        ..Product::default()
    };
    let Ok(address) = order.url.parse::<Address>() else { return (product, None) };
    if let Some(url) = &fetched.redirect {
        product.redirect = Address::read(url.as_str(), &gear.addresses).ok();
    }
    let is_good = (200..300).contains(&fetched.status);
    if order.is_sitemap {
        if is_good {
            product.listed = read_sitemap(gear, address, fetched, order.hops).await;
        }
        return (product, None);
    }
    let (mut page, mut shown) = (Page::default(), None);
    if is_good && fetched.is_html() {
        page = extract(gear, &address, &fetched).await;
        if let Some(permission) = permission {
            let parts = Parts::new(gear, lender);
            let document = Document {
                address: &address,
                status: fetched.status,
                headers: &fetched.headers,
                body: &fetched.body,
                permission,
                others: &parts,
            };
            if let Some((after, place)) = render(gear, document, &page, &mut product).await {
                (page, shown) = (after, Some(place));
            }
            product.lent = parts.lent();
        }
    }
    let prepared = prepare(gear, order, &fetched, &page, &product, shown.as_deref(), times);
    product.title = page.title.take();
    product.simhash = (page.words > 0).then_some(page.simhash);
    product.is_nofollow = page.directives.nofollow;
    product.links = page.links;
    (product, prepared)
}

/// What a sitemap lists; nothing if it is none. Read on another thread, since it may be large.
async fn read_sitemap(
    gear: &Arc<Gear>,
    address: Address,
    fetched: Fetched,
    hops: u8,
) -> sitemap::Sitemap {
    let gear = Arc::clone(gear);
    let reading = tokio::task::spawn_blocking(move || {
        let room = gear.fetcher.limits().decoded_room(Purpose::Sitemap, fetched.body.len());
        sitemap::read(&fetched.body, room, &address, hops, &gear.addresses).unwrap_or_default()
    });
    reading.await.unwrap_or_default()
}

async fn extract(gear: &Arc<Gear>, address: &Address, fetched: &Fetched) -> Page {
    let tags: Vec<String> = fetched
        .headers
        .get_all(ROBOTS_TAG)
        .iter()
        .filter_map(|tag| tag.to_str().ok().map(str::to_owned))
        .collect();
    if fetched.body.len() <= READ_HERE_BYTES_MAX {
        return extract_here(gear, address, fetched, &tags);
    }
    let (gear, address, fetched) = (Arc::clone(gear), address.clone(), fetched.clone());
    let reading =
        tokio::task::spawn_blocking(move || extract_here(&gear, &address, &fetched, &tags));
    reading.await.unwrap_or_default()
}

fn extract_here(gear: &Gear, address: &Address, fetched: &Fetched, tags: &[String]) -> Page {
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let html = fetched.charset().text(&fetched.body);
    gear.extractor.extract(Source { address, html: &html, robots_tags: &tags })
}

/// The page after its scripts and what they call its address, where the crawl wants that and the page gains by it.
async fn render(
    gear: &Gear,
    document: Document<'_>,
    before: &Page,
    product: &mut Product,
) -> Option<(Page, String)> {
    let browser = gear.browser.as_ref()?;
    let hosts = || browser.hosts.lock().unwrap_or_else(PoisonError::into_inner);
    let host = document.address.host_key();
    if !hosts().decide(gear.mode, host, before) {
        return None;
    }
    let mut renderer = browser.renderer.lock().await;
    let began = Instant::now();
    let rendered = renderer.render(document).await;
    // Whatever came of it, the browser may have asked the host until now.
    product.ended_ms = gear.clock.end_ms();
    product.render_ms += u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    match rendered {
        Ok(rendered) => {
            let after = read_rendered(gear, &rendered, before);
            hosts().learn(host, before, &after);
            Some((after, rendered.address.as_str().to_owned()))
        }
        Err(error) => {
            tracing::debug!(%error, url = document.address.as_str(), "a page was not rendered");
            None
        }
    }
}

/// What is in a page after its scripts; where they wanted to lead on to is a link like others.
fn read_rendered(gear: &Gear, rendered: &Rendered, before: &Page) -> Page {
    let Rendered { address, html, led_on, .. } = rendered;
    let mut after = gear.extractor.extract(Source { address, html, robots_tags: &[] });
    after.directives.nofollow |= before.directives.nofollow;
    after.directives.noindex |= before.directives.noindex;
    for place in led_on {
        if let Ok(url) = Address::read(place.as_str(), &gear.addresses) {
            after.links.push(Link { url, rel: String::new() });
        }
    }
    after
}

fn prepare(
    gear: &Gear,
    order: &frontier::Order,
    fetched: &Fetched,
    page: &Page,
    product: &Product,
    shown: Option<&str>,
    times: Times,
) -> Option<Prepared> {
    let digest = digest(&fetched.body);
    let empty = BTreeMap::new();
    let extracted = if page.extracted.is_empty() { &empty } else { &page.extracted };
    let record = Record {
        url: &order.url,
        final_url: shown.unwrap_or(&order.url),
        status: Some(fetched.status),
        fetched_at: times.ended_ms,
        redirect: product.redirect.as_ref().map(Address::as_str),
        content_type: Some(fetched.media_type()).filter(|kind| !kind.is_empty()),
        bytes: fetched.body.len() as u64,
        truncated: fetched.truncated.is_some(),
        rendered: shown.is_some(),
        title: page.title.as_deref(),
        description: page.description.as_deref(),
        canonical: page.canonical.as_ref().map(Address::as_str),
        lang: page.language.as_deref(),
        robots: page.directives,
        links: &page.links,
        digest: &digest,
        simhash: page.simhash,
        depth: order.depth.into(),
        extracted: Some(extracted).filter(|extracted| !extracted.is_empty()),
        ..Record::default()
    };
    if !gear.formats.contains(&Format::Warc) {
        return Prepared::new(&gear.formats, &record, None).ok();
    }
    let (request, response) = (listed(&fetched.request), listed(&fetched.headers));
    let exchange = Exchange {
        at_ms: times.began_ms,
        ip: Some(fetched.address.ip()),
        method: "GET",
        target: &order.url[order.path_at..],
        request: &request,
        version: fetched.version,
        status: fetched.status,
        response: &response,
        body: &fetched.body,
        truncated: fetched.truncated.is_some(),
    };
    let prepared = Prepared::new(&gear.formats, &record, Some(&exchange));
    // What cannot be archived is told in the other outputs all the same.
    prepared.or_else(|_| Prepared::new(&gear.formats, &record, None)).ok()
}

fn listed(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}
