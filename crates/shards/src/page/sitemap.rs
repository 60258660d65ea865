//! Sitemaps and sitemap indexes (sitemaps.org), packed by gzip or not, as XML or as lines of addresses.
//!
//! A file is read piece by piece, up to its limits and no further; what was read until then counts. So it costs a few pieces
//! whatever it would unpack to. Entities that a file declares are never expanded: only the five of XML and numbers mean
//! something. An address of another host than that of the file counts like a link to it; whether that is followed is not
//! decided here. When a page changed is not read: hosts say it for all pages alike, or not truly.

use std::io::{self, BufRead as _, BufReader, Read};

use divvy_frontier::address::{Address, Rules};
use flate2::read::MultiGzDecoder;
use quick_xml::Reader;
use quick_xml::events::Event;
use thiserror::Error;

/// Addresses of a sitemap, and sitemaps of an index.
pub const ENTRIES_MAX: usize = 50_000;
/// How many indexes may stand above a sitemap.
pub const INDEX_DEPTH_MAX: u8 = 2;

/// The first bytes of what gzip packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The first bytes of some texts in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes of one text, such as an address.
const TEXT_BYTES_MAX: usize = 4096;
/// Bytes between two tags, or of one, or of a line.
const PART_BYTES_MAX: usize = 256 << 10;
/// Elements within each other; a sitemap has three, and its extensions a few more.
const ELEMENTS_MAX: u32 = 32;
/// Bytes that are read at a time.
const PIECE_BYTES: usize = 16 << 10;

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sitemap {
    /// Pages.
    pub pages: Vec<Address>,
    /// Further sitemaps; none if the file is already below as many indexes as are followed.
    pub sitemaps: Vec<Address>,
    /// Whether there was more than the limits allow, or the file broke off.
    pub is_cut: bool,
}

/// Why a file is no sitemap.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// It is something else.
    #[error("this is no sitemap: its first element is `{0}`, not `urlset` or `sitemapindex`")]
    Root(String),
    /// It is packed, and cannot be unpacked.
    #[error("the sitemap cannot be unpacked: {0}")]
    Packed(io::Error),
}

/// Reads a sitemap at `address`, packed by gzip or not, below so many indexes. It is read as far as it has `room` when it is
/// unpacked.
///
/// # Errors
///
/// Says why it is no sitemap. One that breaks off or is too large is not an error.
pub fn read(
    bytes: &[u8],
    room: usize,
    address: &Address,
    depth: u8,
    rules: &Rules,
) -> Result<Sitemap, Unreadable> {
    let raw: Box<dyn Read + '_> = if bytes.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(bytes))
    } else {
        Box::new(bytes)
    };
    let mut text = BufReader::with_capacity(PIECE_BYTES, Text::new(raw, room));
    let is_xml = begins_with_tag(&mut text).map_err(Unreadable::Packed)?;
    let mut list = List { sitemap: Sitemap::default(), address, depth, rules };
    if is_xml {
        list.read_elements(text)?
    } else {
        list.read_lines(text)
    }
    Ok(list.sitemap)
}

/// Passes over what stands before the first letter; whether that opens a tag.
fn begins_with_tag(text: &mut BufReader<Text<'_>>) -> io::Result<bool> {
    loop {
        let piece = text.fill_buf()?;
        let blanks = piece.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if blanks < piece.len() || piece.is_empty() {
            let is_tag = piece.get(blanks) == Some(&b'<');
            text.consume(blanks);
            return Ok(is_tag);
        }
        text.consume(blanks);
        // Blanks belong to no part.
        text.get_mut().begin_part();
    }
}

/// The text of a file in ASCII: all other bytes are written as in addresses, `%C3%A9`, whether or not they are UTF-8, because
/// only addresses are taken from it. Ends where there is no more room, and fails where a part is too long.
struct Text<'a> {
    raw: Box<dyn Read + 'a>,
    piece: Vec<u8>,
    room: usize,
    part: usize,
    is_first: bool,
    is_cut: bool,
}

impl<'a> Text<'a> {
    fn new(raw: Box<dyn Read + 'a>, room: usize) -> Self {
        let piece = vec![0; PIECE_BYTES];
        Self { raw, piece, room, part: PART_BYTES_MAX, is_first: true, is_cut: false }
    }

    /// What comes is counted anew.
    fn begin_part(&mut self) {
        self.part = PART_BYTES_MAX;
    }
}

impl Read for Text<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.part == 0 {
            return Err(io::Error::other("a part of it is too long"));
        }
        if self.room == 0 {
            self.is_cut |= self.raw.read(&mut [0])? > 0;
            return Ok(0);
        }
        // A byte may become three.
        let most = (out.len() / 3).min(PIECE_BYTES).min(self.room).min(self.part);
        let count = self.raw.read(&mut self.piece[..most])?;
        (self.room, self.part) = (self.room - count, self.part - count);
        let mut piece = &self.piece[..count];
        if std::mem::take(&mut self.is_first) {
            piece = piece.strip_prefix(BYTE_ORDER_MARK).unwrap_or(piece);
        }
        let mut length = 0;
        for byte in piece {
            if byte.is_ascii() {
                out[length] = *byte;
                length += 1;
            } else {
                let digit = |half: u8| b"0123456789ABCDEF"[usize::from(half)];
                out[length..length + 3].copy_from_slice(&[
                    b'%',
                    digit(byte >> 4),
                    digit(byte & 15),
                ]);
                length += 3;
            }
        }
        Ok(length)
    }
}

/// A sitemap that is being read.
struct List<'a> {
    sitemap: Sitemap,
    address: &'a Address,
    depth: u8,
    rules: &'a Rules,
}

impl List<'_> {
    fn read_lines(&mut self, mut text: BufReader<Text<'_>>) {
        let mut line = Vec::new();
        loop {
            line.clear();
            text.get_mut().begin_part();
            match text.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) if self.add(&String::from_utf8_lossy(&line), false) => {}
                Ok(_) => break,
                Err(_) => {
                    self.sitemap.is_cut = true;
                    break;
                }
            }
        }
        self.sitemap.is_cut |= text.get_ref().is_cut;
    }

    fn read_elements(&mut self, text: BufReader<Text<'_>>) -> Result<(), Unreadable> {
        let mut reader = Reader::from_reader(text);
        reader.config_mut().allow_dangling_amp = true;
        let (mut is_index, mut elements, mut part) = (None, 0, Vec::new());
        // What the element that is open says, and the address of the entry around it.
        let (mut heard, mut place) = (String::new(), String::new());
        loop {
            part.clear();
            reader.get_mut().get_mut().begin_part();
            match reader.read_event_into(&mut part) {
                Ok(Event::Start(tag)) if elements < ELEMENTS_MAX => {
                    elements += 1;
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
                    elements = elements.saturating_sub(1);
                    match tag.name().as_ref() {
                        // Pictures and films of a page have places too, in a name space of their own.
                        "loc" => place = std::mem::take(&mut heard),
                        name if matches!(name.rsplit(':').next(), Some("url" | "sitemap")) => {
                            if !self.add(&std::mem::take(&mut place), is_index == Some(true)) {
                                break;
                            }
                        }
                        _ => heard.clear(),
                    }
                }
                Ok(Event::Eof) => break,
                Ok(Event::Start(_)) | Err(_) => {
                    self.sitemap.is_cut = true;
                    break;
                }
                Ok(_) => {}
            }
        }
        self.sitemap.is_cut |= reader.get_ref().get_ref().is_cut;
        Ok(())
    }

    /// Whether there is room for more.
    fn add(&mut self, place: &str, is_index: bool) -> bool {
        let place = place.trim();
        if place.is_empty() || (is_index && self.depth >= INDEX_DEPTH_MAX) {
            return true;
        }
        let entries = if is_index { &mut self.sitemap.sitemaps } else { &mut self.sitemap.pages };
        if entries.len() == ENTRIES_MAX {
            self.sitemap.is_cut = true;
            return false;
        }
        entries.extend(Address::resolve(self.address, place, self.rules));
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// As much as a sitemap may be.
    const ROOM: usize = 50 << 20;

    fn read_at(depth: u8, bytes: &[u8]) -> Result<Sitemap, Unreadable> {
        let address = "http://a.example/maps/map.xml".parse().unwrap();
        read(bytes, ROOM, &address, depth, &Rules::default())
    }

    fn addresses(entries: &[Address]) -> Vec<&str> {
        entries.iter().map(Address::as_str).collect()
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
    fn a_sitemap_names_pages() {
        for bytes in [MAP.as_bytes().to_vec(), packed(MAP.as_bytes())] {
            let map = read_at(0, &bytes).unwrap();
            let expected =
                ["http://a.example/?x=1&y=2", "http://a.example/b", "http://a.example/relative"];
            assert_eq!(addresses(&map.pages), expected);
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
    fn letters_of_other_languages_mean_what_they_mean_in_links() {
        let utf8 = "<urlset><url><loc>http://bücher.example/ü?q=é</loc></url></urlset>";
        let latin = b"<urlset><url><loc>/\xe9</loc></url><url><loc>/b</loc></url></urlset>";
        let link: Address = "http://bücher.example/ü?q=é".parse().unwrap();
        assert_eq!(read_at(0, utf8.as_bytes()).unwrap().pages, [link]);
        let map = read_at(0, latin).unwrap();
        assert_eq!(addresses(&map.pages), ["http://a.example/%E9", "http://a.example/b"]);
    }

    #[test]
    fn what_is_too_long_or_too_deep_ends_the_file() {
        let url = "<url><loc>/a</loc></url>";
        let long = "x".repeat(PART_BYTES_MAX + PIECE_BYTES);
        let deep = "<a>".repeat(ELEMENTS_MAX as usize);
        for more in [format!("<!--{long}-->"), format!("<{long}/>"), format!("<b>{long}</b>"), deep]
        {
            let map = read_at(0, format!("<urlset>{url}{more}{url}</urlset>").as_bytes()).unwrap();
            assert_eq!((map.pages.len(), map.is_cut), (1, true), "{}", &more[..8]);
        }
        let map = read_at(0, format!("/a\n{long}\n/b").as_bytes()).unwrap();
        assert_eq!((map.pages.len(), map.is_cut), (1, true));
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
            let read = |room| read(&bytes, room, &address, 0, &Rules::default()).unwrap();
            let (map, whole) = (read(100_000), read(ROOM));
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
