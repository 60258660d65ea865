//! Sitemaps and sitemap indexes (sitemaps.org), packed by gzip or not, as XML or as lines of addresses.
//!
//! A file is read up to its limits and no further; what was read until then counts. Entities that a file declares are
//! never expanded: only the five of XML and numbers mean something. An address of another host than that of the file
//! counts like a link to it; whether that is followed is not decided here.

use std::io::Read as _;

use divvy_frontier::address::{Address, Rules};
use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use quick_xml::Reader;
use quick_xml::events::Event;
use thiserror::Error;

/// Bytes of a sitemap, unpacked.
pub const BYTES_MAX: u64 = 50 << 20;
/// Addresses of a sitemap, and sitemaps of an index.
pub const ENTRIES_MAX: usize = 50_000;
/// How many indexes may stand above a sitemap.
pub const INDEX_DEPTH_MAX: u8 = 2;

/// The first bytes of what gzip packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes of one text, such as an address.
const TEXT_BYTES_MAX: usize = 4096;

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sitemap {
    /// Pages.
    pub pages: Vec<Entry>,
    /// Further sitemaps; none if the file is already below as many indexes as are followed.
    pub sitemaps: Vec<Entry>,
    /// Whether there was more than the limits allow, or the file broke off.
    pub is_cut: bool,
}

/// One line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it leads.
    pub url: Address,
    /// When it changed, in milliseconds since 1970, if that was said in a way that can be read.
    pub changed_ms: Option<u64>,
}

/// Why a file is no sitemap.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// It is something else.
    #[error("this is no sitemap: its first element is `{0}`, not `urlset` or `sitemapindex`")]
    Root(String),
    /// It is packed, and cannot be unpacked.
    #[error("the sitemap cannot be unpacked: {0}")]
    Packed(std::io::Error),
}

/// Reads a sitemap at `address`, packed by gzip or not, below so many indexes.
///
/// # Errors
///
/// Says why it is no sitemap. One that breaks off or is too large is not an error.
pub fn read(
    bytes: &[u8],
    address: &Address,
    depth: u8,
    rules: &Rules,
) -> Result<Sitemap, Unreadable> {
    read_within(BYTES_MAX, bytes, address, depth, rules)
}

fn read_within(
    bytes_max: u64,
    bytes: &[u8],
    address: &Address,
    depth: u8,
    rules: &Rules,
) -> Result<Sitemap, Unreadable> {
    let mut unpacked = Vec::new();
    let mut is_cut = false;
    let bytes = if bytes.starts_with(&GZIP) {
        let reading = MultiGzDecoder::new(bytes).take(bytes_max + 1).read_to_end(&mut unpacked);
        match reading {
            Err(error) if unpacked.is_empty() => return Err(Unreadable::Packed(error)),
            Err(_) => is_cut = true,
            Ok(_) => {}
        }
        &unpacked
    } else {
        bytes
    };
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    is_cut |= bytes.len() > limit;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(limit)]);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut list =
        List { sitemap: Sitemap { is_cut, ..Sitemap::default() }, address, depth, rules };
    if text.starts_with('<') {
        list.read_elements(text)?;
    } else {
        list.read_lines(text);
    }
    Ok(list.sitemap)
}

/// A sitemap that is being read.
struct List<'a> {
    sitemap: Sitemap,
    address: &'a Address,
    depth: u8,
    rules: &'a Rules,
}

impl List<'_> {
    fn read_lines(&mut self, text: &str) {
        for line in text.lines() {
            if !self.add(line, None, false) {
                return;
            }
        }
    }

    fn read_elements(&mut self, text: &str) -> Result<(), Unreadable> {
        let mut reader = Reader::from_str(text);
        reader.config_mut().allow_dangling_amp = true;
        let mut is_index = None;
        // What the element that is open says: its text, and the two texts of the entry around it.
        let (mut heard, mut place, mut changed) = (String::new(), String::new(), String::new());
        loop {
            match reader.read_event() {
                Ok(Event::Start(tag)) => {
                    heard.clear();
                    if is_index.is_none() {
                        is_index = Some(kind_of_root(tag.local_name().as_ref())?);
                    }
                }
                Ok(Event::Text(text)) => push(&mut heard, &text),
                Ok(Event::CData(text)) => push(&mut heard, &text),
                Ok(Event::GeneralRef(reference)) => {
                    let meaning = match reference.resolve_char_ref() {
                        Ok(Some(character)) => Some(character),
                        _ => meaning(&reference),
                    };
                    push(&mut heard, meaning.unwrap_or('\u{fffd}').encode_utf8(&mut [0; 4]));
                }
                Ok(Event::End(tag)) => {
                    match tag.name().as_ref().rsplit(':').next().unwrap_or_default() {
                        // Pictures and films of a page have places too, in a name space of their own.
                        "loc" if !tag.name().as_ref().contains(':') => {
                            place = std::mem::take(&mut heard)
                        }
                        "lastmod" => changed = std::mem::take(&mut heard),
                        "url" | "sitemap" => {
                            let is_kept =
                                self.add(&place, moment(&changed), is_index == Some(true));
                            place.clear();
                            changed.clear();
                            if !is_kept {
                                return Ok(());
                            }
                        }
                        _ => heard.clear(),
                    }
                }
                Ok(Event::Eof) => return Ok(()),
                Ok(_) => {}
                Err(_) => {
                    self.sitemap.is_cut = true;
                    return Ok(());
                }
            }
        }
    }

    /// Whether there is room for more.
    fn add(&mut self, place: &str, changed_ms: Option<u64>, is_index: bool) -> bool {
        let place = place.trim();
        if place.is_empty() || (is_index && self.depth >= INDEX_DEPTH_MAX) {
            return true;
        }
        let entries = if is_index { &mut self.sitemap.sitemaps } else { &mut self.sitemap.pages };
        if entries.len() == ENTRIES_MAX {
            self.sitemap.is_cut = true;
            return false;
        }
        if let Ok(url) = Address::resolve(self.address, place, self.rules) {
            entries.push(Entry { url, changed_ms });
        }
        true
    }
}

/// Whether the first element is an index.
fn kind_of_root(name: &str) -> Result<bool, Unreadable> {
    match name {
        "urlset" => Ok(false),
        "sitemapindex" => Ok(true),
        _ => Err(Unreadable::Root(name.chars().take(40).collect())),
    }
}

fn meaning(reference: &str) -> Option<char> {
    match reference {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

fn push(heard: &mut String, text: &str) {
    let room = TEXT_BYTES_MAX.saturating_sub(heard.len());
    heard.push_str(&text[..text.floor_char_boundary(room)]);
}

/// A time as sitemaps write it: a moment with its zone, or a day, whose beginning is meant.
fn moment(text: &str) -> Option<u64> {
    let text = text.trim();
    let timestamp = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| Some(text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp()))?;
    u64::try_from(timestamp.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn read_at(depth: u8, bytes: &[u8]) -> Result<Sitemap, Unreadable> {
        let address = "http://a.example/maps/map.xml".parse().unwrap();
        read(bytes, &address, depth, &Rules::default())
    }

    fn addresses(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.url.as_str()).collect()
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    const MAP: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
        <!-- <url><loc>http://a.example/comment</loc></url> -->
        <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://i.example/">
          <url><loc>http://a.example/?x=1&amp;y=&#50;</loc><lastmod>2024-05-06</lastmod></url>
          <url><image:image><image:loc>http://a.example/i.png</image:loc></image:image>
            <loc> <![CDATA[http://a.example/b]]> </loc><lastmod>2024-05-06T07:08:09+02:00</lastmod></url>
          <url><loc>mailto:x@a.example</loc></url>
          <url><loc>/relative</loc><lastmod>yesterday</lastmod></url>
          <url></url>
        </urlset>"#;

    #[test]
    fn a_sitemap_names_pages_and_when_they_changed() {
        for bytes in [MAP.as_bytes().to_vec(), packed(MAP.as_bytes())] {
            let map = read_at(0, &bytes).unwrap();
            let expected =
                ["http://a.example/?x=1&y=2", "http://a.example/b", "http://a.example/relative"];
            assert_eq!(addresses(&map.pages), expected);
            let times: Vec<Option<u64>> = map.pages.iter().map(|page| page.changed_ms).collect();
            assert_eq!(times, [Some(1_714_953_600_000), Some(1_714_972_089_000), None]);
            assert_eq!((map.sitemaps.len(), map.is_cut), (0, false));
        }
    }

    #[test]
    fn an_index_names_sitemaps_until_they_are_too_deep() {
        let index = "<sitemapindex><sitemap><loc>/one.xml.gz</loc></sitemap><sitemap><loc>/two.xml</loc></sitemap></sitemapindex>";
        for depth in [0, 1] {
            let map = read_at(depth, index.as_bytes()).unwrap();
            assert_eq!(
                addresses(&map.sitemaps),
                ["http://a.example/one.xml.gz", "http://a.example/two.xml"]
            );
            assert!(map.pages.is_empty());
        }
        assert_eq!(read_at(2, index.as_bytes()).unwrap(), Sitemap::default());
    }

    #[test]
    fn lines_of_addresses_are_a_sitemap() {
        let map =
            read_at(0, "\u{feff}http://a.example/1\r\n\nhttp://a.example/2".as_bytes()).unwrap();
        assert_eq!(addresses(&map.pages), ["http://a.example/1", "http://a.example/2"]);
    }

    #[test]
    fn declared_entities_are_not_expanded() {
        let bomb = r#"<!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;"><!ENTITY x SYSTEM "file:///etc/passwd">]>
            <urlset><url><loc>http://a.example/&b;&x;</loc></url></urlset>"#;
        let map = read_at(0, bomb.as_bytes()).unwrap();
        assert_eq!(addresses(&map.pages), ["http://a.example/%EF%BF%BD%EF%BF%BD"]);
    }

    #[test]
    fn what_is_too_large_is_cut() {
        let url = "<url><loc>/x</loc></url>";
        let many = format!("<urlset>{}</urlset>", url.repeat(ENTRIES_MAX + 1));
        let map = read_at(0, many.as_bytes()).unwrap();
        assert_eq!((map.pages.len(), map.is_cut), (ENTRIES_MAX, true));
    }

    #[test]
    fn a_bomb_is_unpacked_up_to_the_limit_only() {
        let blanks = vec![b' '; 100_000];
        let bomb = [
            b"<urlset><url><loc>/a</loc></url>",
            blanks.as_slice(),
            b"<url><loc>/b</loc></url></urlset>",
        ];
        let bomb = bomb.concat();
        let address = "http://a.example/map.xml".parse().unwrap();
        for bytes in [packed(&bomb), bomb] {
            let read = |limit| read_within(limit, &bytes, &address, 0, &Rules::default()).unwrap();
            let (map, whole) = (read(100_000), read(BYTES_MAX));
            assert_eq!((addresses(&map.pages), map.is_cut), (vec!["http://a.example/a"], true));
            assert_eq!((whole.pages.len(), whole.is_cut), (2, false));
        }
    }

    #[test]
    fn what_breaks_off_keeps_what_came_before() {
        let whole = packed(MAP.as_bytes());
        let map = read_at(0, &whole[..whole.len() - 12]).unwrap();
        assert!(map.is_cut);
        let map = read_at(0, b"<urlset><url><loc>/a</loc></url><url></loc>").unwrap();
        assert_eq!((addresses(&map.pages), map.is_cut), (vec!["http://a.example/a"], true));
        assert!(
            read_at(0, b"<html><body>not found</body></html>")
                .unwrap_err()
                .to_string()
                .contains("`html`")
        );
        assert!(matches!(read_at(0, &[0x1f, 0x8b, 0, 0]), Err(Unreadable::Packed(_))));
    }
}
