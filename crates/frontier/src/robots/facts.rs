//! What robots.txt files mean, as a table of facts: the assertions of Google's public suite (`robots_test.cc` of
//! google/robotstxt) restated, and then what that suite leaves open.

use super::lines::{Field, Lines};
use super::pattern::{encoded, matches, matches_with, upper};
use super::{BYTES_MAX, Robots, product_token};

/// The crawler of most facts.
const FOO: &str = "FooBot";

/// A file, and for crawlers what it allows and what it does not.
struct File {
    text: &'static str,
    facts: &'static [(&'static str, &'static [&'static str], &'static [&'static str])],
}

const GROUPS: &str = "allow: /foo/bar/\n\nuser-agent: FooBot\ndisallow: /\nallow: /x/\nuser-agent: BarBot\ndisallow: /\n\
    allow: /y/\n\n\nallow: /w/\nuser-agent: BazBot\n\nuser-agent: FooBot\nallow: /z/\ndisallow: /\n";

const SUITE: &[File] = &[
    // Nothing is forbidden by nothing, nor to nobody; an empty URL is the root.
    File { text: "", facts: &[(FOO, &["", "/x/y"], &[]), ("", &[""], &[])] },
    File {
        text: "user-agent: FooBot\ndisallow: /\n",
        facts: &[(FOO, &[], &["", "/x/y"]), ("", &[""], &[])],
    },
    // Lines have a field, a colon and a value; the colon may be forgotten.
    File { text: "foo: FooBot\nbar: /\n", facts: &[(FOO, &["/x/y"], &[])] },
    File { text: "user-agent FooBot\ndisallow /\n", facts: &[(FOO, &[], &["/x/y"])] },
    // Groups of the same crawler are one; what stands before any group is nobody's.
    File {
        text: GROUPS,
        facts: &[
            (FOO, &["/x/b", "/z/d"], &["/y/c", "/foo/bar/"]),
            ("BarBot", &["/y/c", "/w/a"], &["/z/d", "/foo/bar/"]),
            ("BazBot", &["/z/d"], &["/foo/bar/"]),
        ],
    },
    // Lines of other sorts end no group.
    File {
        text: "User-agent: BarBot\nSitemap: https://foo.bar/sitemap\nUser-agent: *\nDisallow: /\n",
        facts: &[(FOO, &[], &["/"]), ("BarBot", &[], &["/"])],
    },
    File {
        text: "User-agent: FooBot\nInvalid-Unknown-Line: unknown\nUser-agent: *\nDisallow: /\n",
        facts: &[(FOO, &[], &["/"]), ("BarBot", &[], &["/"])],
    },
    // Fields may be written in any case.
    File {
        text: "USER-AGENT: FooBot\nALLOW: /x/\nDISALLOW: /\n",
        facts: &[(FOO, &["/x/y"], &["/a/b"])],
    },
    File {
        text: "user-agent: FooBot\nallow: /x/\ndisallow: /\n",
        facts: &[(FOO, &["/x/y"], &["/a/b"])],
    },
    File {
        text: "uSeR-aGeNt: FooBot\nAlLoW: /x/\ndIsAlLoW: /\n",
        facts: &[(FOO, &["/x/y"], &["/a/b"])],
    },
    // Crawlers too; of their names only what stands before the first space.
    File {
        text: "User-Agent: FOO BAR\nAllow: /x/\nDisallow: /\n",
        facts: &[("Foo", &["/x/y"], &["/a/b"]), ("foo", &["/x/y"], &["/a/b"])],
    },
    File {
        text: "User-Agent: foo bar\nAllow: /x/\nDisallow: /\n",
        facts: &[("Foo", &["/x/y"], &["/a/b"]), ("foo", &["/x/y"], &["/a/b"])],
    },
    File {
        text: "User-Agent: FoO bAr\nAllow: /x/\nDisallow: /\n",
        facts: &[("Foo", &["/x/y"], &["/a/b"]), ("foo", &["/x/y"], &["/a/b"])],
    },
    File {
        text: "User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n",
        facts: &[("Foo", &["/x/y"], &[]), ("Foo Bar", &[], &["/x/y"])],
    },
    // The group of all is for those who have none.
    File {
        text: "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n",
        facts: &[(FOO, &[], &["/x/y"]), ("BarBot", &["/x/y"], &[])],
    },
    File {
        text: "user-agent: FooBot\nallow: /\nuser-agent: BarBot\ndisallow: /\nuser-agent: BazBot\ndisallow: /\n",
        facts: &[("QuxBot", &["/x/y"], &[])],
    },
    // Paths are as they are written.
    File { text: "user-agent: FooBot\ndisallow: /x/\n", facts: &[(FOO, &[], &["/x/y"])] },
    File { text: "user-agent: FooBot\ndisallow: /X/\n", facts: &[(FOO, &["/x/y"], &[])] },
    // The longest rule decides; of two equal ones the one that allows.
    File {
        text: "user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/\n",
        facts: &[(FOO, &[], &["/x/page.html"])],
    },
    File {
        text: "user-agent: FooBot\nallow: /x/page.html\ndisallow: /x/\n",
        facts: &[(FOO, &["/x/page.html"], &["/x/"])],
    },
    File {
        text: "user-agent: FooBot\ndisallow: \nallow: \n",
        facts: &[(FOO, &["/x/page.html"], &[])],
    },
    File {
        text: "user-agent: FooBot\ndisallow: /\nallow: /\n",
        facts: &[(FOO, &["/x/page.html"], &[])],
    },
    File {
        text: "user-agent: FooBot\ndisallow: /x\nallow: /x/\n",
        facts: &[(FOO, &["/x/"], &["/x"])],
    },
    File {
        text: "user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/page.html\n",
        facts: &[(FOO, &["/x/page.html"], &[])],
    },
    File {
        text: "user-agent: FooBot\nallow: /page\ndisallow: /*.html\n",
        facts: &[(FOO, &["/page"], &["/page.html"])],
    },
    File {
        text: "user-agent: FooBot\nallow: /x/page.\ndisallow: /*.html\n",
        facts: &[(FOO, &["/x/page.html"], &["/x/y.html"])],
    },
    File {
        text: "User-agent: *\nDisallow: /x/\nUser-agent: FooBot\nDisallow: /y/\n",
        facts: &[(FOO, &["/x/page"], &["/y/page"])],
    },
    // What is not ASCII is percent-encoded in rules; URLs come encoded.
    File {
        text: "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par\n",
        facts: &[(FOO, &["/foo/bar?qux=taz&baz=http://foo.bar?tar&par"], &[])],
    },
    File {
        text: "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/ツ\n",
        facts: &[(FOO, &["/foo/bar/%E3%83%84"], &["/foo/bar/ツ"])],
    },
    File {
        text: "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%E3%83%84\n",
        facts: &[(FOO, &["/foo/bar/%E3%83%84"], &["/foo/bar/ツ"])],
    },
    File {
        text: "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%62%61%7A\n",
        facts: &[(FOO, &["/foo/bar/%62%61%7A"], &["/foo/bar/baz"])],
    },
    // Stars, ends and comments.
    File {
        text: "User-agent: FooBot\nDisallow: /foo/bar/quz\nAllow: /foo/*/qux\n",
        facts: &[(FOO, &["/foo/quz", "/foo//quz", "/foo/bax/quz"], &["/foo/bar/quz"])],
    },
    File {
        text: "User-agent: FooBot\nDisallow: /foo/bar$\nAllow: /foo/bar/qux\n",
        facts: &[(FOO, &["/foo/bar/qux", "/foo/bar/", "/foo/bar/baz"], &["/foo/bar"])],
    },
    File {
        text: "User-agent: FooBot\n# Disallow: /\nDisallow: /foo/quz#qux\nAllow: /\n",
        facts: &[(FOO, &["/foo/bar"], &["/foo/quz"])],
    },
    // Who allows an index page allows its folder.
    File {
        text: "User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n",
        facts: &[(
            "foobot",
            &["/allowed-slash/", "/allowed-slash/index.html"],
            &["/allowed-slash/index.htm", "/anyother-url"],
        )],
    },
    // The examples of Google's documentation.
    File {
        text: "user-agent: FooBot\ndisallow: /\nallow: /fish\n",
        facts: &[(
            FOO,
            &[
                "/fish",
                "/fish.html",
                "/fish/salmon.html",
                "/fishheads",
                "/fishheads/yummy.html",
                "/fish.html?id=anything",
            ],
            &["/bar", "/Fish.asp", "/catfish", "/?id=fish"],
        )],
    },
    File {
        text: "user-agent: FooBot\ndisallow: /\nallow: /fish*\n",
        facts: &[(
            FOO,
            &[
                "/fish",
                "/fish.html",
                "/fish/salmon.html",
                "/fishheads",
                "/fishheads/yummy.html",
                "/fish.html?id=anything",
            ],
            &["/bar", "/Fish.bar", "/catfish", "/?id=fish"],
        )],
    },
    File {
        text: "user-agent: FooBot\ndisallow: /\nallow: /fish/\n",
        facts: &[(
            FOO,
            &["/fish/", "/fish/salmon", "/fish/?salmon", "/fish/salmon.html", "/fish/?id=anything"],
            &["/bar", "/fish", "/fish.html", "/Fish/Salmon.html"],
        )],
    },
    File {
        text: "user-agent: FooBot\ndisallow: /\nallow: /*.php\n",
        facts: &[(
            FOO,
            &[
                "/filename.php",
                "/folder/filename.php",
                "/folder/filename.php?parameters",
                "//folder/any.php.file.html",
                "/filename.php/",
                "/index?f=filename.php/",
            ],
            &["/bar", "/php/", "/index?php", "/windows.PHP"],
        )],
    },
    File {
        text: "user-agent: FooBot\ndisallow: /\nallow: /*.php$\n",
        facts: &[(
            FOO,
            &["/filename.php", "/folder/filename.php"],
            &[
                "/bar",
                "/filename.php?parameters",
                "/filename.php/",
                "/filename.php5",
                "/php/",
                "/filename?php",
                "/aaaphpaaa",
                "//windows.PHP",
            ],
        )],
    },
    File {
        text: "user-agent: FooBot\ndisallow: /\nallow: /fish*.php\n",
        facts: &[(
            FOO,
            &["/fish.php", "/fishheads/catfish.php?parameters"],
            &["/bar", "/Fish.PHP"],
        )],
    },
    File { text: "user-agent: FooBot\nallow: /p\ndisallow: /\n", facts: &[(FOO, &["/page"], &[])] },
    File {
        text: "user-agent: FooBot\nallow: /folder\ndisallow: /folder\n",
        facts: &[(FOO, &["/folder/page"], &[])],
    },
    File {
        text: "user-agent: FooBot\nallow: /page\ndisallow: /*.htm\n",
        facts: &[(FOO, &[], &["/page.htm"])],
    },
    File {
        text: "user-agent: FooBot\nallow: /$\ndisallow: /\n",
        facts: &[(FOO, &["/"], &["/page.html"])],
    },
];

const BEYOND: &[File] = &[
    // Typos, as Google's parser takes them.
    File {
        text: "user agent: FooBot\ndisalow: /a\ndissallow: /b\ndissalow: /c\ndiasllow: /d\ndisallaw: /e\n",
        facts: &[(FOO, &["/f"], &["/a", "/b", "/c", "/d", "/e"])],
    },
    File { text: "useragent: *\ndisallow: /\n", facts: &[(FOO, &[], &["/"])] },
    File { text: "user-agent: * # all\ndisallow: /\n", facts: &[(FOO, &[], &["/"])] },
    File { text: "user-agent: *bot\ndisallow: /\n", facts: &[(FOO, &["/"], &[])] },
    File { text: "user-agent: FooBot/2.1\ndisallow: /\n", facts: &[(FOO, &[], &["/"])] },
    File { text: "user-agent: Foo\ndisallow: /\n", facts: &[(FOO, &["/"], &[])] },
    File {
        text: "user-agent: FooBot\ndisallow now: /\nallow all / of it\n",
        facts: &[(FOO, &[], &["/"])],
    },
    // Either spelling of a letter is forbidden; only the one that is written is allowed.
    File {
        text: "user-agent: *\ndisallow: /%7Ejoe/\n",
        facts: &[(FOO, &["/joe"], &["/~joe/", "/%7ejoe/", "/%7Ejoe/"])],
    },
    File {
        text: "user-agent: *\ndisallow: /~joe/\n",
        facts: &[(FOO, &[], &["/~joe/", "/%7Ejoe/", "/%7ejoe/"])],
    },
    File {
        text: "user-agent: *\ndisallow: /a%2fb\n",
        facts: &[(FOO, &["/a/b"], &["/a%2Fb", "/a%2fb"])],
    },
    // A dollar is an end only at the end; stars may be many.
    File {
        text: "user-agent: *\ndisallow: /a$b\ndisallow: /**c*$\n",
        facts: &[(FOO, &["/a"], &["/a$b", "/xcx"])],
    },
    File {
        text: "user-agent: *\ndisallow: *.pdf$\n",
        facts: &[(FOO, &["/a.pdf?x"], &["/a.pdf", "/.pdf.pdf"])],
    },
    File { text: "user-agent: *\ndisallow: private\n", facts: &[(FOO, &["/private"], &[])] },
];

#[test]
fn files_mean_what_the_public_suite_says() {
    let facts: usize = SUITE.iter().map(hold).sum();
    // Five more are about lines that are too long, which are made below.
    assert_eq!(facts, 140);
}

#[test]
fn files_mean_what_the_suite_leaves_open() {
    assert!(BEYOND.iter().map(hold).sum::<usize>() > 25);
}

/// Checks the facts of a file and counts them.
fn hold(file: &File) -> usize {
    let mut count = 0;
    for (product, allowed, disallowed) in file.facts {
        let robots = Robots::parse(file.text.as_bytes(), product);
        for (paths, is_allowed) in [(allowed, true), (disallowed, false)] {
            for path in *paths {
                let text = file.text;
                assert_eq!(
                    robots.allows(path),
                    is_allowed,
                    "{product} {path} in\n{text}{robots:?}"
                );
                count += 1;
            }
        }
    }
    count
}

#[test]
fn a_line_is_read_up_to_its_limit() {
    let line_bytes = 8 * 2_083;
    let long =
        |field: &str, letter: &str| format!("/x/{}", letter.repeat(line_bytes - 5 - field.len()));
    let disallow = long("disallow: ", "a");
    let robots =
        Robots::parse(format!("user-agent: FooBot\ndisallow: {disallow}/qux\n").as_bytes(), FOO);
    assert!(robots.allows("/fux"));
    assert!(!robots.allows(&format!("{disallow}/fux")));
    let (a, b) = (long("allow: ", "a"), long("allow: ", "b"));
    let text = format!("user-agent: FooBot\ndisallow: /\nallow: {a}/qux\nallow: {b}/qux\n");
    let robots = Robots::parse(text.as_bytes(), FOO);
    assert!(!robots.allows("/"));
    assert!(robots.allows(&format!("{a}/qux")));
    assert!(robots.allows(&format!("{b}/fux")));
}

#[test]
fn only_names_without_digits_and_signs_can_be_addressed() {
    for name in ["Foobot", "Foobot-Bar", "Foo_Bar"] {
        assert_eq!(product_token(name), Some(name));
    }
    for name in ["", "ツ", "Foobot*", " Foobot ", "Foobot/2.1", "Foobot Bar"] {
        assert_ne!(product_token(name), Some(name), "{name}");
    }
    assert_eq!(product_token("Foobot/2.1 (+https://foo.bar)"), Some("Foobot"));
    assert_eq!(product_token("Foobot2 (+https://foo.bar)"), None);
}

#[test]
fn lines_end_in_every_usual_way() {
    let parts = ["User-Agent: foo", "Allow: /some/path", "User-Agent: bar", "", "", "Disallow: /"];
    let mixed =
        "User-Agent: foo\nAllow: /some/path\r\nUser-Agent: bar\n\r\n\nDisallow: /".to_owned();
    let files = [
        parts.join("\n") + "\n",
        parts.join("\r\n") + "\r\n",
        parts.join("\r") + "\r",
        parts.join("\n"),
        mixed,
    ];
    for file in files {
        let lines: Vec<_> =
            Lines::new(file.as_bytes()).map(|line| (line.field, line.number)).collect();
        assert_eq!(lines.len(), 4, "{file:?}");
        assert_eq!(lines[3], (Field::Disallow, 6), "{file:?}");
    }
}

#[test]
fn a_byte_order_mark_is_skipped_only_where_it_belongs() {
    let facts: [(&[u8], usize, usize); 5] = [
        (b"\xEF\xBB\xBFUser-Agent: foo\nAllow: /AnyValue\n", 2, 0),
        (b"\xEF\xBBUser-Agent: foo\nAllow: /AnyValue\n", 2, 0),
        (b"\xEFUser-Agent: foo\nAllow: /AnyValue\n", 2, 0),
        (b"\xEF\x11\xBFUser-Agent: foo\nAllow: /AnyValue\n", 1, 1),
        (b"User-Agent: foo\n\xEF\xBB\xBFAllow: /AnyValue\n", 1, 1),
    ];
    for (text, known, unknown) in facts {
        let fields: Vec<_> = Lines::new(text).map(|line| line.field).collect();
        let others = fields.iter().filter(|field| **field == Field::Other).count();
        assert_eq!((fields.len() - others, others), (known, unknown), "{text:?}");
    }
}

#[test]
fn sitemaps_are_everybodys_wherever_they_stand() {
    let group = "User-Agent: foo\nAllow: /some/path\nUser-Agent: bar\n\n\n";
    let sitemap = "Sitemap: http://foo.bar/sitemap.xml\n";
    for text in [format!("{group}{sitemap}"), format!("{sitemap}{group}")] {
        assert_eq!(
            Robots::parse(text.as_bytes(), "other").sitemaps(),
            ["http://foo.bar/sitemap.xml".into()]
        );
    }
    let many = "Sitemap: http://foo.bar/s.xml\n".repeat(2_000);
    assert_eq!(Robots::parse(many.as_bytes(), FOO).sitemaps().len(), super::SITEMAPS_MAX);
}

#[test]
fn rules_are_encoded_and_digits_are_upper_case() {
    let written = |text: &str| upper(&encoded(text.as_bytes())).into_owned();
    assert_eq!(written("http://www.example.com"), "http://www.example.com");
    assert_eq!(written("/a/b/c"), "/a/b/c");
    assert_eq!(written("á"), "%C3%A1");
    assert_eq!(written("%aa"), "%AA");
    assert_eq!(upper(&encoded(b"/caf\xE9%e")), "/caf%E9%e");
}

#[test]
fn delays_are_those_of_the_crawlers_own_group() {
    let text = "user-agent: *\ncrawl-delay: 7\n\nuser-agent: FooBot\nCrawl-Delay: 1.5\ndisallow: /x\nuser-agent: slow\n\
        crawl-delay: 1e30\nallow: /\nuser-agent: odd\ncrawl-delay: often\nallow: /\n";
    let delay = |product| Robots::parse(text.as_bytes(), product).delay_ms();
    assert_eq!(delay("FooBot"), Some(1_500));
    assert_eq!(delay("slow"), Some(86_400_000));
    assert_eq!(delay("odd"), None);
    assert_eq!(delay("other"), Some(7_000));
    assert_eq!(Robots::parse(b"user-agent: *\ncrawl-delay: -1\n", FOO).delay_ms(), None);
}

#[test]
fn a_file_is_read_up_to_its_limit_and_no_half_line() {
    let head = "user-agent: *\ndisallow: /a\n#";
    let filler = "x".repeat(BYTES_MAX - head.len() - "\nallow: /\n".len() - "disallow: /x".len());
    let whole = format!("{head}{filler}\nallow: /\ndisallow: /x/private\ndisallow: /b\n");
    let robots = Robots::parse(whole.as_bytes(), FOO);
    assert_eq!(robots.rules().len(), 2, "{:?}", robots.rules());
    assert!(robots.allows("/x/private") && robots.allows("/b") && !robots.allows("/a"));
}

#[test]
fn the_rule_that_decides_is_named_by_its_line() {
    let robots = Robots::parse(b"user-agent: *\ndisallow: /a\nallow: /a/b\n", FOO);
    let named = |path| robots.deciding(path).map(|rule| (rule.line, &*rule.pattern));
    assert_eq!(named("/a/c"), Some((2, "/a")));
    assert_eq!(named("/a/b"), Some((3, "/a/b")));
    assert_eq!(named("/b"), None);
}

/// Searches of single pieces are linear; here it is shown that no two of them look at the same part of the path.
#[test]
fn hostile_stars_cost_no_more_than_their_length() {
    let stars = "/".to_owned() + &"*a".repeat(200) + "*b";
    let path = "/".to_owned() + &"a".repeat(2_000);
    let halves = format!("/*{}b", "a".repeat(1_000));
    for pattern in [stars, halves] {
        let mut looked_at = 0;
        let is_match = matches_with(&pattern, &path, |text, piece| {
            let place = text.find(piece);
            looked_at += place.map_or(text.len(), |place| place + piece.len());
            place
        });
        assert!(!is_match && looked_at <= path.len(), "{looked_at} bytes of {}", path.len());
        assert!(!matches(&pattern, &path));
        assert!(!matches(&format!("{pattern}$"), &path));
        assert!(matches(&pattern, &format!("{path}b")));
    }
    let text =
        format!("user-agent: *\n{}", format!("disallow: /{}b\n", "*a".repeat(200)).repeat(1_000));
    assert!(Robots::parse(text.as_bytes(), FOO).allows(&path));
}
