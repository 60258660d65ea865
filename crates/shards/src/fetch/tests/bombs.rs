//! Encodings: what is undone, and what a body that would become a gigabyte costs.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;
use crate::fetch::Truncation;
use crate::fetch::decode::{self, Coding, Plan, Room};
use crate::net::testing::{Server, page};

const TEXT: &[u8] = b"hello, hello, hello, crawler\n";
/// The text as brotli.
const TEXT_BROTLI: &[u8] = b"\x0b\x0e\x80hello, hello, hello, crawler\n\x03";
/// The text as brotli with a window of a gigabyte, which RFC 7932 does not know.
const TEXT_LARGE_WINDOW: &[u8] =
    b"\x11\x5e\x70\x00\x00\x10\xa7\x9c\x27\xd4\x3c\x95\xd6\xb2\x53\xf2\x1c\x44\x17\x69\x2a\xc1\xc3\xe9\x11\x25\xf3\x5f\x07";
const GIGABYTE_BROTLI: &[u8] = include_bytes!("gigabyte_of_zeros.br");
const MIB: usize = 1024 * 1024;
/// What a bomb may cost.
const COST_MAX: usize = 32 * MIB;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A zstd frame of one raw block.
fn zstd(bytes: &[u8], window: u8) -> Vec<u8> {
    let block = (1 | (u32::try_from(bytes.len()).unwrap() << 3)).to_le_bytes();
    [b"\x28\xB5\x2F\xFD\x00", [window].as_slice(), &block[..3], bytes].concat()
}

/// A zstd frame that repeats one byte a gigabyte long.
fn gigabyte_zstd() -> Vec<u8> {
    let mut frame = b"\x28\xB5\x2F\xFD\x00\x68".to_vec();
    for block in (0..8_192_u32).rev() {
        let header = (u32::from(block == 0) | (1 << 1) | ((128 * 1024) << 3)).to_le_bytes();
        frame.extend_from_slice(&header[..3]);
        frame.push(0);
    }
    frame
}

async fn encoded(encoding: &str, body: Vec<u8>) -> Fetched {
    let headers = format!("content-encoding: {encoding}\r\n");
    let server = Server::start(move |_| page("200 OK", &headers, &body)).await;
    get(&server.url("a.test", "/")).await.unwrap()
}

#[tokio::test]
async fn every_encoding_that_is_asked_for_is_undone() {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(TEXT).unwrap();
    let mut bare = DeflateEncoder::new(Vec::new(), Compression::fast());
    bare.write_all(TEXT).unwrap();
    let (head, tail) = TEXT.split_at(9);
    let facts = [
        ("gzip", gzip(TEXT)),
        ("X-GZIP", [gzip(head), gzip(tail)].concat()),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", bare.finish().unwrap()),
        ("br", TEXT_BROTLI.to_vec()),
        ("zstd", zstd(TEXT, 0x68)),
        ("zstd", [zstd(head, 0), zstd(tail, 0)].concat()),
        ("br, gzip", gzip(TEXT_BROTLI)),
        ("identity", TEXT.to_vec()),
    ];
    for (encoding, body) in facts {
        let wire_bytes = body.len() as u64;
        let fetched = encoded(encoding, body).await;
        assert_eq!((&fetched.body[..], fetched.truncated), (TEXT, None), "{encoding}");
        assert_eq!(fetched.wire_bytes, wire_bytes, "{encoding}");
    }
    let empty = encoded("gzip", Vec::new()).await;
    assert_eq!((empty.body.len(), empty.truncated), (0, None));
}

#[tokio::test]
async fn what_cannot_be_undone_is_cut_and_flagged() {
    let three = gzip(&gzip(&gzip(TEXT)));
    let mut half = gzip(&vec![b'x'; 100_000]);
    half.truncate(half.len() - 30);
    let facts = [
        ("gzip, gzip, gzip", three, Truncation::Encoding),
        ("compress", TEXT.to_vec(), Truncation::Encoding),
        ("gzip", TEXT.to_vec(), Truncation::Broken),
        ("gzip", half, Truncation::Broken),
        ("br", TEXT_LARGE_WINDOW.to_vec(), Truncation::Broken),
        ("br", b"\xff\xff\xff".to_vec(), Truncation::Broken),
        ("zstd", zstd(TEXT, 0xA0), Truncation::Broken),
        ("deflate", b"x".to_vec(), Truncation::Broken),
    ];
    for (encoding, body, expected) in facts {
        let fetched = encoded(encoding, body).await;
        assert_eq!(fetched.truncated, Some(expected), "{encoding}");
    }
}

#[tokio::test]
async fn a_robots_txt_that_cannot_be_decoded_is_none_that_allows_all() {
    let server =
        Server::start(|_| page("200 OK", "content-encoding: gzip\r\n", b"user-agent: *")).await;
    let url = server.url("a.test", "/robots.txt");
    let order = Order { url: &url, validators: None, purpose: crate::fetch::Purpose::Robots };
    let error = fetcher(|_| ()).fetch(order, &mut Session::default()).await.unwrap_err();
    assert_eq!(error.trouble(), Trouble::Malformed);
}

#[test]
fn a_body_is_cut_at_its_room() {
    let plan = Plan::undoing([Coding::Gzip]);
    let cut = |bytes, bytes_max| {
        let body = Bytes::from(gzip(&vec![0; 100_000]));
        let (body, truncated) = decode::decoded(body, &plan, Room { bytes, bytes_max });
        (body.len(), truncated)
    };
    assert_eq!(cut(100_000, 100_000), (100_000, None));
    assert_eq!(cut(99_999, 99_999), (99_999, Some(Truncation::Decoded)));
    assert_eq!(cut(10, 99_999), (10, Some(Truncation::Ratio)));
}

#[test]
fn what_little_travelled_may_not_become_much() {
    let limits = Limits::default();
    let room = |wire| limits.decoded_room(crate::fetch::Purpose::Page, wire);
    assert_eq!(room(0), MIB, "the first megabyte is free");
    assert_eq!(room(10 * 1024), MIB);
    assert_eq!(room(20 * 1024), 2_000 * 1024, "a hundred times");
    assert_eq!(room(4 * MIB), 10 * MIB);
}

/// Bytes of this process, by a name in its status.
fn memory(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn a_bomb_of_a_gigabyte_costs_little() {
    // A megabyte a thousand times over: on the wire it is a megabyte as well.
    let gigabyte_gzip = gzip(&vec![0; MIB]).repeat(1_024);
    let twice = gzip(GIGABYTE_BROTLI);
    let bombs = [
        ("gzip", gigabyte_gzip, 10 * MIB, Truncation::Decoded),
        ("br", GIGABYTE_BROTLI.to_vec(), MIB, Truncation::Ratio),
        ("br, gzip", twice, MIB, Truncation::Ratio),
        ("zstd", gigabyte_zstd(), gigabyte_zstd().len() * 100, Truncation::Ratio),
    ];
    // What is paid once, such as the certificates of the system, is not what a bomb costs.
    encoded("gzip", gzip(TEXT)).await;
    for (encoding, bomb, size, truncation) in bombs {
        let before = memory("VmRSS:");
        let fetched = encoded(encoding, bomb).await;
        let cost = memory("VmHWM:").saturating_sub(before);
        assert_eq!((fetched.body.len(), fetched.truncated), (size, Some(truncation)), "{encoding}");
        assert!(cost < COST_MAX, "{encoding}: {} MiB", cost / MIB);
        println!("{encoding}: {} KiB", cost / 1024);
    }
    unpack_sitemaps();
}

/// The same within a sitemap, whatever it would unpack to.
fn unpack_sitemaps() {
    let address = "http://a.test/sitemap.xml.gz".parse().unwrap();
    let begin = b"<urlset><url><loc>/a</loc></url>";
    for inner in [b"\0".as_slice(), b"\xff", b"<a>", b"<!-- < > "] {
        let piece = inner.repeat(MIB / inner.len());
        let bomb = [gzip(begin), gzip(&piece).repeat(1_024)].concat();
        let room = Limits::default().decoded_room(crate::fetch::Purpose::Sitemap, bomb.len());
        // The peak is counted anew.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = memory("VmRSS:");
        let rules = divvy_frontier::address::Rules::default();
        let map = crate::page::sitemap::read(&bomb, room, &address, 0, &rules).unwrap();
        let cost = memory("VmHWM:").saturating_sub(before);
        assert_eq!((map.pages.len(), map.is_cut), (1, true), "{inner:?}");
        assert!(cost < COST_MAX / 4, "{inner:?}: {} MiB", cost / MIB);
    }
}
