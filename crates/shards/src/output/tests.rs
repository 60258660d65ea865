//! Outputs are read back by a strict reader of their own, which believes nothing that it has not checked.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use flate2::bufread::GzDecoder;
use http::Version;
use serde_json::Value;
use sha1::{Digest as _, Sha1};
use tempfile::TempDir;

use super::*;
use crate::page::{Directives, Link};

const REQUEST: [(&str, &[u8]); 2] = [("Host", b"a.example"), ("User-Agent", b"divvybot")];

fn options(folder: &Path, formats: &[Format]) -> Options {
    Options {
        folder: folder.to_owned(),
        formats: formats.to_vec(),
        agent: "divvybot (+http://a.example/bot)".to_owned(),
        warc_bytes_max: WARC_BYTES_MAX,
    }
}

fn record(url: &str) -> Record<'_> {
    Record {
        url,
        final_url: url,
        status: Some(200),
        fetched_at: 1_714_972_089_123,
        ..Record::default()
    }
}

fn exchange<'a>(response: &'a [(&'a str, &'a [u8])], body: &'a [u8]) -> Exchange<'a> {
    Exchange {
        at_ms: 1_714_972_089_123,
        ip: Some("127.0.0.9".parse().unwrap()),
        method: "GET",
        target: "/x?y=1",
        request: &REQUEST,
        version: Version::HTTP_2,
        status: 200,
        response,
        body,
        truncated: false,
    }
}

/// A record as a reader finds it.
#[derive(Debug)]
struct Found {
    offset: u64,
    length: u64,
    head: BTreeMap<String, String>,
    block: Vec<u8>,
}

/// All records of an archive: each a gzip member by itself, with a header, a block of the length and digest that the
/// header says, two empty lines, and nothing else.
fn read_archive(path: &Path) -> Vec<Found> {
    let bytes = fs::read(path).unwrap();
    let mut found = Vec::new();
    let mut offset = 0;
    while offset < bytes.len() {
        let mut member = GzDecoder::new(&bytes[offset..]);
        let mut record = Vec::new();
        member.read_to_end(&mut record).unwrap();
        let length = bytes.len() - offset - member.into_inner().len();
        let end = record.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&record[..end]).unwrap();
        let mut lines = head.split("\r\n");
        assert_eq!(lines.next(), Some("WARC/1.1"));
        let mut fields = BTreeMap::new();
        for line in lines {
            assert!(!line.contains(['\r', '\n']), "{line}");
            let (name, value) = line.split_once(": ").unwrap();
            assert!(fields.insert(name.to_owned(), value.to_owned()).is_none(), "{name} twice");
        }
        let block = record[end + 4..].strip_suffix(b"\r\n\r\n").unwrap().to_vec();
        assert_eq!(fields["Content-Length"], block.len().to_string());
        assert_eq!(fields["WARC-Block-Digest"], sha1_base32(&block));
        for name in ["WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Type"] {
            assert!(fields.contains_key(name), "{name} is missing");
        }
        found.push(Found { offset: offset as u64, length: length as u64, head: fields, block });
        offset += length;
    }
    found
}

/// Bit by bit, unlike what is tested.
fn sha1_base32(bytes: &[u8]) -> String {
    let bits: Vec<u8> = Sha1::digest(bytes)
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let letter = |five: &[u8]| {
        let number = five.iter().fold(0, |number, bit| number * 2 + usize::from(*bit));
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[number])
    };
    format!("sha1:{}", bits.chunks(5).map(letter).collect::<String>())
}

fn texts(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_page_is_a_line_of_json() {
    let folder = TempDir::new().unwrap();
    let links = [
        Link { url: "http://b.example/".parse().unwrap(), rel: "nofollow".to_owned() },
        Link { url: "http://a.example/?q=%22".parse().unwrap(), rel: String::new() },
    ];
    let extracted = BTreeMap::from([("price".to_owned(), vec!["1\n\"2\"".to_owned()])]);
    let digest = digest(b"body");
    let page = Record {
        title: Some("a \"title\"\n{\"url\":\"forged\"}"),
        description: Some("d"),
        canonical: Some("http://a.example/c"),
        lang: Some("en"),
        robots: Directives { noindex: true, nofollow: false },
        links: &links,
        digest: &digest,
        simhash: u64::MAX - 1,
        depth: 3,
        extracted: Some(&extracted),
        ..record("http://a.example/")
    };
    let mut writer =
        Writer::open(options(folder.path(), &[Format::Jsonl, Format::Graph]), &Lengths::new())
            .unwrap();
    writer.write(&page, None).unwrap();
    writer.commit().unwrap().sync().unwrap();
    let text = texts(folder.path(), "pages.jsonl");
    assert_eq!(text.lines().count(), 1);
    let value: Value = serde_json::from_str(&text).unwrap();
    let expected = serde_json::json!({
        "url": "http://a.example/", "final_url": "http://a.example/", "status": 200,
        "fetched_at": "2024-05-06T05:08:09.123Z", "bytes": 0,
        "title": "a \"title\"\n{\"url\":\"forged\"}", "description": "d", "canonical": "http://a.example/c",
        "lang": "en", "robots": {"noindex": true, "nofollow": false},
        "links": [{"url": "http://b.example/", "rel": "nofollow"}, {"url": "http://a.example/?q=%22"}],
        "digest": digest, "simhash": "fffffffffffffffe", "depth": 3,
        "extracted": {"price": ["1\n\"2\""]},
    });
    assert_eq!(value, expected);
    let edges =
        "http://a.example/\thttp://b.example/\nhttp://a.example/\thttp://a.example/?q=%22\n";
    assert_eq!(texts(folder.path(), "links.tsv"), edges);
}

#[test]
fn an_archive_holds_what_went_over_the_wire() {
    let folder = TempDir::new().unwrap();
    let mut writer =
        Writer::open(options(folder.path(), &[Format::Warc]), &Lengths::new()).unwrap();
    let headers: [(&str, &[u8]); 4] = [
        ("Content-Type", b"text/html; charset=utf-8"),
        ("Content-Encoding", b"gzip"),
        ("content-length", b"99"),
        ("X-Odd", b"caf\xe9"),
    ];
    let page = Record {
        content_type: Some("text/html; charset=utf-8"),
        ..record("http://a.example/x?y=1")
    };
    for body in [b"<p>one</p>".as_slice(), b""] {
        let cut = Exchange { truncated: body.is_empty(), ..exchange(&headers, body) };
        writer.write(&page, Some(&cut)).unwrap();
    }
    writer.write(&record("http://a.example/failed"), None).unwrap();
    writer.commit().unwrap().sync().unwrap();

    let records = read_archive(&folder.path().join("pages-00000.warc.gz"));
    let kinds: Vec<&str> = records.iter().map(|record| record.head["WARC-Type"].as_str()).collect();
    assert_eq!(kinds, ["warcinfo", "response", "request", "response", "request"]);
    assert!(
        String::from_utf8_lossy(&records[0].block)
            .contains("http-header-user-agent: divvybot (+http")
    );
    let response = &records[1];
    let expected = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nX-Crawler-Content-Encoding: gzip\r\nX-Crawler-content-length: 99\r\nX-Odd: caf\xe9\r\nContent-Length: 10\r\n\r\n<p>one</p>";
    assert_eq!(response.block, expected);
    assert_eq!(response.head["WARC-Target-URI"], "http://a.example/x?y=1");
    assert_eq!(response.head["WARC-IP-Address"], "127.0.0.9");
    assert_eq!(response.head["WARC-Date"], "2024-05-06T05:08:09.123Z");
    assert_eq!(response.head["WARC-Payload-Digest"], sha1_base32(b"<p>one</p>"));
    assert!(!response.head.contains_key("WARC-Truncated"));
    assert_eq!(records[3].head["WARC-Truncated"], "length");
    assert_eq!(records[2].head["WARC-Concurrent-To"], response.head["WARC-Record-ID"]);
    assert_eq!(
        records[2].block,
        b"GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nUser-Agent: divvybot\r\n\r\n"
    );

    let index = texts(folder.path(), "pages-00000.cdx");
    let mut lines = index.lines();
    assert_eq!(lines.next(), Some(" CDX N b a m s k r M S V g"));
    let responses = records.iter().filter(|record| record.head["WARC-Type"] == "response");
    for (line, response) in lines.by_ref().zip(responses) {
        let columns: Vec<&str> = line.split(' ').collect();
        let digest = response.head["WARC-Payload-Digest"].strip_prefix("sha1:").unwrap();
        let (length, offset) = (response.length.to_string(), response.offset.to_string());
        let expected = [
            "example,a)/x?y=1",
            "20240506050809",
            "http://a.example/x?y=1",
            "text/html",
            "200",
            digest,
            "-",
            "-",
            &length,
            &offset,
            "pages-00000.warc.gz",
        ];
        assert_eq!(columns, expected);
    }
    assert_eq!((lines.next(), index.lines().count()), (None, 3));
}

#[test]
fn a_header_with_a_line_break_is_not_archived() {
    let good: [(&str, &[u8]); 1] = [("X", b"y")];
    let page = record("http://a.example/");
    let prepare = |page: &Record<'_>, exchange: &Exchange<'_>| {
        Prepared::new(&[Format::Warc], page, Some(exchange))
    };
    prepare(&page, &exchange(&good, b"")).unwrap();
    let bad: [[(&str, &[u8]); 1]; 4] =
        [[("X", b"y\r\nforged: 1")], [("X", b"y\n")], [("X\r\nforged", b"y")], [("X", b"\0")]];
    for headers in &bad {
        let error = prepare(&page, &exchange(headers, b"")).unwrap_err().to_string();
        assert!(error.contains("line break") && !error.contains('\n'), "{error}");
        let asked = Exchange { request: headers, ..exchange(&good, b"") };
        prepare(&page, &asked).unwrap_err();
    }
    prepare(&page, &Exchange { target: "/ HTTP/1.1\r\nx: y", ..exchange(&good, b"") }).unwrap_err();
    prepare(&record("http://a.example/\r\nWARC-Type: forged"), &exchange(&good, b"")).unwrap_err();
}

#[test]
fn archives_follow_each_other_and_are_gone_on_with() {
    let folder = TempDir::new().unwrap();
    let small = || Options { warc_bytes_max: 1500, ..options(folder.path(), &[Format::Warc]) };
    let headers: [(&str, &[u8]); 0] = [];
    let page = record("http://a.example/");
    let mut lengths = Lengths::new();
    for _ in 0..6 {
        let mut writer = Writer::open(small(), &lengths).unwrap();
        writer.write(&page, Some(&exchange(&headers, b"body"))).unwrap();
        lengths = writer.commit().unwrap().sync().unwrap();
    }
    let archives: Vec<&String> = lengths.keys().filter(|name| name.ends_with(".gz")).collect();
    assert!(archives.len() > 1 && archives.len() < 6, "{archives:?}");
    let mut responses = 0;
    for name in archives {
        let records = read_archive(&folder.path().join(name));
        assert_eq!(records[0].head["WARC-Filename"], **name);
        responses += (records.len() - 1) / 2;
    }
    assert_eq!(responses, 6);
}

#[test]
fn what_was_not_committed_is_cut() {
    let folder = TempDir::new().unwrap();
    let all = [Format::Jsonl, Format::Warc, Format::Graph];
    let open = |lengths: &Lengths| {
        Writer::open(Options { warc_bytes_max: 1500, ..options(folder.path(), &all) }, lengths)
    };
    let links = [Link { url: "http://b.example/".parse().unwrap(), rel: String::new() }];
    let page = Record { links: &links, ..record("http://a.example/") };
    let headers: [(&str, &[u8]); 0] = [];
    let files = || -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
            })
            .collect()
    };

    let mut writer = open(&Lengths::new()).unwrap();
    writer.write(&page, Some(&exchange(&headers, b"kept"))).unwrap();
    let committed = writer.commit().unwrap().sync().unwrap();
    let before = files();
    assert_eq!(
        before.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect::<Lengths>(),
        committed
    );
    for _ in 0..5 {
        writer.write(&page, Some(&exchange(&headers, b"lost"))).unwrap();
    }
    writer.commit().unwrap().sync().unwrap();
    drop(writer);
    fs::write(folder.path().join("notes.txt"), "of somebody else").unwrap();
    assert!(files().len() > before.len() + 1, "another archive was begun");

    let mut writer = open(&committed).unwrap();
    assert_eq!(writer.commit().unwrap().sync().unwrap(), committed);
    let mut after = files();
    assert!(after.remove("notes.txt").is_some());
    assert_eq!(after, before);

    writer.write(&page, Some(&exchange(&headers, b"more"))).unwrap();
    let lengths = writer.commit().unwrap().sync().unwrap();
    assert!(lengths.values().sum::<u64>() > committed.values().sum());
    assert_eq!(texts(folder.path(), "pages.jsonl").lines().count(), 2);
    assert_eq!(read_archive(&folder.path().join("pages-00000.warc.gz")).len(), 5);
    assert_eq!(open(&lengths).unwrap().commit().unwrap().sync().unwrap(), lengths);

    fs::write(folder.path().join("links.tsv"), "").unwrap();
    let error = open(&lengths).unwrap_err().to_string();
    assert!(error.contains("links.tsv has 0 bytes"), "{error}");
}

#[test]
fn formats_have_names() {
    assert_eq!("warc".parse(), Ok(Format::Warc));
    assert!("parquet".parse::<Format>().unwrap_err().contains("crawl export --format parquet"));
    assert!("csv".parse::<Format>().unwrap_err().contains("jsonl, warc, graph"));
}

#[test]
fn nothing_counts_before_the_disk_has_it() {
    let folder = TempDir::new().unwrap();
    let both = options(folder.path(), &[Format::Jsonl, Format::Warc]);
    let mut writer = Writer::open(both, &Lengths::new()).unwrap();
    let mut write = || {
        let page = record("http://a.example/");
        writer.write(&page, Some(&exchange(&[], b"body"))).unwrap();
        let unsynced = writer.commit().unwrap();
        let files = unsynced.files();
        (files, unsynced.sync().unwrap())
    };
    let ((first, lengths), (second, longer)) = (write(), write());
    assert_eq!((first, second), (4, 3), "pages, archive, index, and once the folder");
    assert!(lengths.iter().all(|(name, length)| longer[name] > *length));
    assert_eq!(writer.commit().unwrap().files(), 0, "nothing is new");
}
