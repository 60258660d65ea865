//! One page: fetched, read, and made ready to be written. Everything that does not need the state of the shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use divvy_frontier::address::Address;
use divvy_frontier::frontier;
use divvy_frontier::rules::retry::Failure;
use http::HeaderName;
use url::Url;
use xxhash_rust::xxh3::xxh3_64;

use super::gear::Gear;
use super::robots::{self, Asked};
use crate::fetch::{FetchError, Fetched, Order, Purpose, Session, Trouble, Validators};
use crate::output::{Exchange, Format, Prepared, Record, digest};
use crate::page::sitemap;
use crate::page::{Link, Page, Source};
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
}

/// What came of a robots.txt.
pub(crate) struct RobotsDone {
    pub(crate) order: frontier::RobotsOrder,
    pub(crate) session: Session,
    pub(crate) asked: Asked,
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
    pub(crate) bucket: Option<u16>,
    pub(crate) links: Vec<Link>,
    /// Links of a page that asks not to be followed.
    pub(crate) is_nofollow: bool,
    pub(crate) redirect: Option<Address>,
    pub(crate) listed: sitemap::Sitemap,
    pub(crate) render_ms: u64,
}

/// Fetches and reads a page.
pub(crate) async fn page(gear: Arc<Gear>, visit: PageVisit) -> Done {
    let PageVisit { order, known, mut session } = visit;
    let began_ms = gear.clock.now_ms();
    let fetched = fetch(&gear, &order, known.as_ref(), &mut session).await;
    let ended_ms = gear.clock.end_ms();
    let (outcome, prepared) = match fetched {
        Ok(fetched) => {
            let (product, prepared) = read(&gear, &order, fetched, ended_ms).await;
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

/// Asks for a robots.txt.
pub(crate) async fn robots(
    gear: Arc<Gear>,
    order: frontier::RobotsOrder,
    standing: Standing,
    mut session: Session,
) -> Done {
    let asked = robots::ask(&gear, &order.origin, standing, &mut session).await;
    Done::Robots(Box::new(RobotsDone { order, session, asked }))
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
    ended_ms: u64,
) -> (Product, Option<Prepared>) {
    let mut product = Product {
        status: fetched.status,
        wire_bytes: fetched.wire_bytes,
        body_bytes: fetched.body.len() as u64,
        retry_after_ms: fetched.retry_after_ms(ended_ms),
        validators: fetched.validators(),
        digest: xxh3_64(&fetched.body),
        ..Product::default()
    };
    let Ok(address) = order.url.parse::<Address>() else { return (product, None) };
    if let Some(url) = &fetched.redirect {
        product.redirect = Address::read(url.as_str(), &gear.addresses).ok();
    }
    let is_good = (200..300).contains(&fetched.status);
    if order.is_sitemap {
        if is_good {
            let listed = sitemap::read(&fetched.body, &address, order.hops, &gear.addresses);
            product.listed = listed.unwrap_or_default();
        }
        return (product, None);
    }
    let (mut page, mut shown) = (Page::default(), None);
    if is_good && fetched.is_html() {
        page = extract(gear, &address, &fetched).await;
        if let Some((html, text)) = render(gear, &address, &page, &mut product.render_ms).await {
            (page, shown) = (html, Some(text));
        }
    }
    let prepared = prepare(gear, order, &fetched, &page, &product, shown.as_deref(), ended_ms);
    product.title = page.title.take();
    product.bucket = (page.words > 0).then_some((page.simhash >> 48) as u16);
    product.is_nofollow = page.directives.nofollow;
    product.links = page.links;
    (product, prepared)
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

/// The page after its scripts, where the crawl wants that and the page gains by it.
async fn render(
    gear: &Gear,
    address: &Address,
    before: &Page,
    spent_ms: &mut u64,
) -> Option<(Page, String)> {
    let mut browser = gear.browser.as_ref()?.lock().await;
    if !browser.hosts.decide(gear.mode, address.host_key(), before) {
        return None;
    }
    match browser.renderer.render(address).await {
        Ok(rendered) => {
            *spent_ms += u64::try_from(rendered.took.as_millis()).unwrap_or(u64::MAX);
            let source =
                Source { address: &rendered.address, html: &rendered.html, robots_tags: &[] };
            let mut after = gear.extractor.extract(source);
            after.directives.nofollow |= before.directives.nofollow;
            after.directives.noindex |= before.directives.noindex;
            browser.hosts.learn(address.host_key(), before, &after);
            Some((after, rendered.address.as_str().to_owned()))
        }
        Err(error) => {
            tracing::debug!(%error, url = address.as_str(), "a page was not rendered");
            None
        }
    }
}

fn prepare(
    gear: &Gear,
    order: &frontier::Order,
    fetched: &Fetched,
    page: &Page,
    product: &Product,
    shown: Option<&str>,
    ended_ms: u64,
) -> Option<Prepared> {
    let digest = digest(&fetched.body);
    let empty = BTreeMap::new();
    let extracted = if page.extracted.is_empty() { &empty } else { &page.extracted };
    let record = Record {
        url: &order.url,
        final_url: shown.unwrap_or(&order.url),
        status: Some(fetched.status),
        fetched_at: ended_ms,
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
    let agent = gear.agent.to_string();
    let headers: Vec<(&str, &[u8])> =
        fetched.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let exchange = Exchange {
        at_ms: ended_ms,
        ip: Some(fetched.address.ip()),
        method: "GET",
        target: &order.url[order.path_at..],
        request: &[("user-agent", agent.as_bytes())],
        status: fetched.status,
        response: &headers,
        body: &fetched.body,
        truncated: fetched.truncated.is_some(),
    };
    let prepared = Prepared::new(&gear.formats, &record, Some(&exchange));
    // What cannot be archived is told in the other outputs all the same.
    prepared.or_else(|_| Prepared::new(&gear.formats, &record, None)).ok()
}
