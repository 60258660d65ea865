//! One pass over a page.
//!
//! A single selector names all elements that matter, so that the parser looks at the attributes of those only, and what
//! it finds is borrowed from the text of the page: nothing is copied but what the page is asked for.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use divvy_frontier::address::Address;
use lol_html::html_content::Element;
use lol_html::{ElementContentHandlers, HtmlRewriter, MemorySettings, Selector, Settings};

use super::entities::{Place, decode};
use super::rules::{Values, collected};
use super::simhash::Shingles;
use super::text::{name_of, until_end_tag, visible};
use super::{Directives, Link, Options, Page, Signs, Source};

/// Links of one page that are kept.
const LINKS_MAX: usize = 10_000;
/// Bytes of a title, a description or a language.
const FIELD_BYTES_MAX: usize = 4096;
/// Memory that the parser may use for one page, for tags that nest without end.
const MEMORY_MAX: usize = 16 << 20;
/// Words below which a page is looked at for signs of scripts that make it.
const WORDS_FEW: usize = 100;
/// The elements that matter.
const WATCHED: &str = "a,area,base,frame,html,iframe,link,meta,title";
/// The same with what browsers load by themselves.
const WATCHED_WITH_RESOURCES: &str = "a,area,base,frame,html,iframe,img,link,meta,script,title";
/// What `link` elements may be for, to count as links.
const FOLLOWED: [&str; 3] = ["canonical", "next", "alternate"];

/// Takes pages apart. Made once, used for every page, by any thread.
#[derive(Debug)]
pub struct Extractor {
    options: Options,
    watched: Selector,
}

impl Extractor {
    /// Prepares the rules.
    ///
    /// # Panics
    ///
    /// Never: the selector of the watched elements is a constant.
    pub fn new(options: Options) -> Self {
        let watched = if options.with_resources { WATCHED_WITH_RESOURCES } else { WATCHED };
        Self { options, watched: watched.parse().expect("the watched elements are a selector") }
    }

    /// What is in a page. Text that is no HTML has nothing in it, which is not an error.
    pub fn extract(&self, source: Source<'_>) -> Page {
        let found = RefCell::new(Found::new(source.html));
        let values: Vec<Rc<RefCell<Values>>> =
            self.options.rules.iter().map(|_| Rc::default()).collect();
        self.parse(source.html, &found, &values);
        let mut page =
            Page { extracted: collected(&self.options.rules, &values), ..Page::default() };
        let found = found.into_inner();
        self.add_links(&mut page, &found, source.address);
        page.title = found.title.map(|title| field(title, Place::Text));
        page.description = found.description.map(|text| field(text, Place::Attribute));
        page.language = found.language.map(|text| field(text, Place::Attribute));
        for (name, content) in &found.metas {
            page.directives.add_meta(name, &decode(content, Place::Attribute), &self.options.robot);
        }
        add_headers(&mut page.directives, source.robots_tags, &self.options.robot);
        add_text(&mut page, source.html);
        page
    }

    fn parse<'a>(&self, html: &'a str, found: &RefCell<Found<'a>>, values: &[Rc<RefCell<Values>>]) {
        let watcher = ElementContentHandlers::default().element(|element: &mut Element<'_, '_>| {
            found.borrow_mut().see(element);
            Ok(())
        });
        let memory = MemorySettings::new()
            .with_preallocated_parsing_buffer_size(0)
            .with_max_allowed_memory_usage(MEMORY_MAX);
        let mut settings = Settings::new()
            .with_memory_settings(memory)
            .with_strict(false)
            .append_element_content_handler((Cow::Borrowed(&self.watched), watcher));
        for (rule, values) in self.options.rules.iter().zip(values) {
            let handlers = rule.handlers(values);
            settings =
                settings.append_element_content_handler((Cow::Borrowed(rule.selector()), handlers));
        }
        let mut parser = HtmlRewriter::new(settings, |_: &[u8]| {});
        // What was found before a page became too deep is kept.
        if parser.write(html.as_bytes()).is_ok() {
            let _ = parser.end();
        }
    }

    fn add_links(&self, page: &mut Page, found: &Found<'_>, address: &Address) {
        let rules = &self.options.addresses;
        let resolve = |base: &Address, text: &str| {
            Address::resolve(base, &decode(text, Place::Attribute), rules)
        };
        let base = found.base.and_then(|base| resolve(address, base).ok());
        let base = base.as_ref().unwrap_or(address);
        page.canonical = found.canonical.and_then(|text| resolve(base, text).ok());
        page.links_cut = found.is_cut;
        let mut places = HashMap::with_capacity(found.links.len());
        for (text, rel) in &found.links {
            let Ok(url) = resolve(base, text) else {
                page.links_refused += 1;
                continue;
            };
            let link = Link { rel: words_of(rel), url };
            match places.entry(link.url.fingerprint()) {
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(page.links.len());
                    page.links.push(link);
                }
                // A page that names an address twice, once to be followed, wants it to be followed.
                std::collections::hash_map::Entry::Occupied(place) => {
                    let known = &mut page.links[*place.get()];
                    if known.is_nofollow() && !link.is_nofollow() {
                        known.rel = link.rel;
                    }
                }
            }
        }
    }
}

/// What a pass finds, as it is written in the page.
#[derive(Debug)]
struct Found<'a> {
    html: &'a str,
    title: Option<&'a str>,
    description: Option<&'a str>,
    canonical: Option<&'a str>,
    language: Option<&'a str>,
    base: Option<&'a str>,
    /// Names and contents of `meta` elements that may be for robots.
    metas: Vec<(&'a str, &'a str)>,
    /// Addresses with their `rel`.
    links: Vec<(&'a str, &'a str)>,
    is_cut: bool,
}

impl<'a> Found<'a> {
    fn new(html: &'a str) -> Self {
        Self {
            html,
            title: None,
            description: None,
            canonical: None,
            language: None,
            base: None,
            metas: Vec::new(),
            links: Vec::with_capacity(32),
            is_cut: false,
        }
    }

    fn see(&mut self, element: &Element<'_, '_>) {
        let place = element.source_location().bytes();
        let name = name_of(self.slice(place.start + 1..place.end));
        // Sorted by how often pages have them.
        if name.eq_ignore_ascii_case("a") || name.eq_ignore_ascii_case("area") {
            self.see_link(element, "href");
        } else if name.eq_ignore_ascii_case("link") {
            self.see_relation(element);
        } else if name.eq_ignore_ascii_case("meta") {
            self.see_meta(element);
        } else if name.eq_ignore_ascii_case("title") {
            // Drawings have titles too.
            if self.title.is_none() && element.namespace_uri() == "http://www.w3.org/1999/xhtml" {
                self.title = self.html.get(place.end..).map(|rest| until_end_tag(rest, "title"));
            }
        } else if name.eq_ignore_ascii_case("base") {
            self.base = self.base.or_else(|| self.attribute(element, "href"));
        } else if name.eq_ignore_ascii_case("html") {
            self.language = self.language.or_else(|| self.attribute(element, "lang"));
        } else {
            self.see_link(element, "src");
        }
    }

    fn see_link(&mut self, element: &Element<'_, '_>, name: &str) {
        if let Some(link) = self.attribute(element, name) {
            let rel = self.attribute(element, "rel").unwrap_or_default();
            self.add_link(link, rel);
        }
    }

    fn see_relation(&mut self, element: &Element<'_, '_>) {
        let (Some(rel), Some(link)) =
            (self.attribute(element, "rel"), self.attribute(element, "href"))
        else {
            return;
        };
        let is = |wanted: &str| {
            rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case(wanted))
        };
        if is("canonical") && self.canonical.is_none() {
            self.canonical = Some(link);
        }
        // `alternate stylesheet` is a style sheet.
        if FOLLOWED.iter().any(|wanted| is(wanted)) && !is("stylesheet") {
            self.add_link(link, rel);
        }
    }

    fn see_meta(&mut self, element: &Element<'_, '_>) {
        let (Some(name), Some(content)) =
            (self.attribute(element, "name"), self.attribute(element, "content"))
        else {
            return;
        };
        if name.eq_ignore_ascii_case("description") {
            self.description = self.description.or(Some(content));
        } else if self.metas.len() < LINKS_MAX {
            self.metas.push((name, content));
        }
    }

    fn add_link(&mut self, link: &'a str, rel: &'a str) {
        let link = link.trim_ascii();
        // A place within the same page.
        if link.is_empty() || link.starts_with('#') {
            return;
        }
        if self.links.len() == LINKS_MAX {
            self.is_cut = true;
            return;
        }
        self.links.push((link, rel));
    }

    /// The first attribute of this name, as it is written.
    fn attribute(&self, element: &Element<'_, '_>, name: &str) -> Option<&'a str> {
        let is_wanted = |at: Range<usize>| self.slice(at).eq_ignore_ascii_case(name);
        let attribute = element.attributes().iter().find(|attribute| {
            attribute.name_source_location().is_some_and(|place| is_wanted(place.bytes()))
        })?;
        Some(attribute.value_source_location().map_or("", |place| self.slice(place.bytes())))
    }

    fn slice(&self, at: Range<usize>) -> &'a str {
        self.html.get(at).unwrap_or_default()
    }
}

fn add_headers(directives: &mut Directives, tags: &[&str], robot: &str) {
    for tag in tags {
        directives.add_header(tag, robot);
    }
}

fn add_text(page: &mut Page, html: &str) {
    let mut shingles = Shingles::default();
    visible(html, |piece| shingles.add(piece));
    page.words = shingles.words();
    page.simhash = shingles.finish();
    if page.words < WORDS_FEW {
        page.signs = Signs::of(html);
    }
}

/// The words of `rel` in lower case, separated by one blank.
fn words_of(rel: &str) -> String {
    let mut words = String::new();
    for word in rel.split_ascii_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.extend(word.chars().map(|letter| letter.to_ascii_lowercase()));
    }
    words.truncate(words.floor_char_boundary(FIELD_BYTES_MAX));
    words
}

fn field(text: &str, place: Place) -> String {
    let text = &text[..text.floor_char_boundary(FIELD_BYTES_MAX)];
    folded(&decode(text, place))
}

/// The text with every run of blanks as one, and none at its ends.
pub(super) fn folded(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    short
}
