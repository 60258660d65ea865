//! Facts about addresses, written by hand, and what holds for all of them.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Address {
    Address::read(text, &Rules::default()).unwrap()
}

#[test]
fn spellings_of_one_page_are_one_address() {
    let facts = [
        ("http://Example.ORG", "http://example.org/"),
        ("http://example.org./", "http://example.org/"),
        ("https://EXAMPLE.org:443/a#part", "https://example.org/a"),
        ("http://example.org:80/a/./b/../c", "http://example.org/a/c"),
        ("http://user:secret@example.org/", "http://example.org/"),
        ("http://user@example.org.:8080/", "http://example.org:8080/"),
        ("http://example.org/%c3%a9?q=%e2%82%ac", "http://example.org/%C3%A9?q=%E2%82%AC"),
        ("http://example.org/100%", "http://example.org/100%"),
        ("http://example.org/%zz%a", "http://example.org/%zz%a"),
        ("http://example.org/a?", "http://example.org/a"),
        ("http://example.org/?b=2&a=1", "http://example.org/?b=2&a=1"),
        ("http://example.org/?PHPSESSID=1&a=1", "http://example.org/?a=1"),
        ("http://example.org/?a=1&utm_source=x&UTM_medium=y&b", "http://example.org/?a=1&b"),
        ("http://example.org/?sid=1", "http://example.org/"),
        ("http://example.org/?sidecar=1&reside", "http://example.org/?sidecar=1&reside"),
        ("http://example.org/a;jsessionid=1A2B/b;v=1?c", "http://example.org/a/b;v=1?c"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    ];
    for (text, expected) in facts {
        assert_eq!(read(text).as_str(), expected, "{text}");
    }
}

#[test]
fn links_are_resolved_as_browsers_do() {
    let page = read("http://example.org/a/b?c=1");
    let facts = [
        ("d", "http://example.org/a/d"),
        ("/d", "http://example.org/d"),
        ("?e", "http://example.org/a/b?e"),
        ("#f", "http://example.org/a/b?c=1"),
        ("//other.example/g", "http://other.example/g"),
        ("\\h", "http://example.org/h"),
        (" \n../i\t", "http://example.org/i"),
        ("j k", "http://example.org/a/j%20k"),
    ];
    for (link, expected) in facts {
        let found = Address::resolve(&page, link, &Rules::default()).unwrap();
        assert_eq!(found.as_str(), expected, "{link}");
    }
}

#[test]
fn what_is_no_page_is_refused_with_its_reason() {
    let page = read("http://example.org/");
    for link in ["mailto:a@b.example", "javascript:go()", "data:,x", "tel:1", "blob:x", "ftp://a/"]
    {
        let refusal = Address::resolve(&page, link, &Rules::default()).unwrap_err();
        assert!(matches!(refusal, Refusal::Scheme(_)), "{link}: {refusal}");
    }
    for text in ["http://", "http://a:99999/", "page.html", "", "http://a b/"] {
        assert!(Address::read(text, &Rules::default()).is_err(), "{text}");
    }
    for text in ["http://./", "http://a../"] {
        let refusal = Address::read(text, &Rules::default()).unwrap_err();
        assert!(matches!(refusal, Refusal::Host | Refusal::Unreadable(_)), "{text}: {refusal}");
    }
    let long = format!("http://example.org/{}", "a".repeat(2048));
    assert!(matches!(Address::read(&long, &Rules::default()), Err(Refusal::Long { .. })));
}

#[test]
fn an_address_is_told_apart_by_host_origin_and_domain() {
    let address = read("https://a.b.example.co.uk:8443/x/y?z=1");
    assert_eq!(address.host(), "a.b.example.co.uk");
    assert_eq!(address.host_key(), "a.b.example.co.uk:8443");
    assert_eq!(address.origin(), "https://a.b.example.co.uk:8443");
    assert_eq!(address.path_and_query(), "/x/y?z=1");
    assert_eq!((address.registrable(), address.port()), ("example.co.uk", 8443));
    assert_eq!(read("http://example.org/").host_key(), read("https://example.org/").host_key());
    for (text, expected) in [
        ("http://127.0.0.1:8080/", "127.0.0.1"),
        ("http://[::1]/", "[::1]"),
        ("http://localhost/", "localhost"),
        ("http://co.uk/", "co.uk"),
        ("http://me.github.io/", "me.github.io"),
    ] {
        assert_eq!(read(text).registrable(), expected, "{text}");
    }
}

#[test]
fn addresses_without_end_are_traps() {
    let rules = Rules::default();
    let long = format!("http://a.example/{}", "x".repeat(2048 - 17));
    let facts = [
        (long.as_str(), 0, None),
        ("http://a.example/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16", 0, None),
        ("http://a.example/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", 0, Some(Trap::Segments)),
        ("http://a.example/x/y/x/y/x/y", 0, None),
        ("http://a.example/x/y/x/y/x/y/x", 0, Some(Trap::Repeats)),
        ("http://a.example/?1&2&3&4&5&6&7&8", 0, None),
        ("http://a.example/?1&2&3&4&5&6&7&8&9", 0, Some(Trap::Parameters)),
        ("http://a.example/", 32, None),
        ("http://a.example/", 33, Some(Trap::Depth)),
    ];
    for (text, depth, expected) in facts {
        assert_eq!(rules.trap(&read(text), depth), expected, "{text} at {depth}");
    }
    let longer: Address = format!("{long}x").parse().unwrap();
    assert_eq!(rules.trap(&longer, 0), Some(Trap::Bytes));
}

#[test]
fn rules_are_data() {
    let rules: Rules =
        serde_json::from_str(r#"{"depth_max": 2, "session_parameters": ["token"]}"#).unwrap();
    assert_eq!(rules.trap(&read("http://a.example/"), 3), Some(Trap::Depth));
    let address = Address::read("http://a.example/?token=1&sid=2", &rules).unwrap();
    assert_eq!(address.as_str(), "http://a.example/?sid=2");
    assert!(serde_json::from_str::<Rules>(r#"{"depth": 2}"#).is_err());
}

#[test]
fn a_scope_ends_where_it_says() {
    let seed = read("http://www.example.org/docs/index.html");
    let facts = [
        ("http://www.example.org/docs/a", [true, true, true, true]),
        ("https://www.example.org/docs/", [true, true, true, true]),
        ("http://www.example.org/docs", [true, true, true, true]),
        ("http://www.example.org/docs2", [true, true, false, true]),
        ("http://www.example.org/", [true, true, false, true]),
        ("http://www.example.org:8080/docs/", [true, false, false, true]),
        ("http://other.example.org/docs/", [true, false, false, true]),
        ("http://example.com/docs/", [false, false, false, true]),
    ];
    for (at, (_, reach)) in Reach::NAMES.into_iter().enumerate() {
        let scope = Scope::new(reach, [&seed]);
        for (text, expected) in facts {
            assert_eq!(scope.contains(&read(text)), expected[at], "{text} in {}", reach.name());
        }
    }
    assert!(
        Scope::new(Reach::Prefix, [&read("http://a.example/docs")])
            .contains(&read("http://a.example/docs/x"))
    );
    assert!(
        Scope::new(Reach::Prefix, [&read("http://a.example/")])
            .contains(&read("http://a.example/x/y"))
    );
    assert!("hosts".parse::<Reach>().unwrap_err().contains("prefix"));
}

#[test]
fn an_address_is_kept_as_text() {
    let address = read("http://example.org/?a=1");
    let text = serde_json::to_string(&address).unwrap();
    assert_eq!(text, r#""http://example.org/?a=1""#);
    assert_eq!(serde_json::from_str::<Address>(&text).unwrap(), address);
    assert!(serde_json::from_str::<Address>(r#""ftp://example.org/""#).is_err());
}

proptest! {
    #[test]
    fn the_canonical_spelling_is_its_own(text in "https?://[a-z.@:%]{1,8}[a-zA-Z0-9./;?&=%#\\\\é -]{0,40}") {
        if let Ok(address) = Address::read(&text, &Rules::default()) {
            let again = Address::read(address.as_str(), &Rules::default()).unwrap();
            prop_assert_eq!(&again, &address);
            prop_assert_eq!(again.fingerprint(), address.fingerprint());
            prop_assert!(!address.as_str().contains('#') && !address.host().ends_with('.'));
            prop_assert_eq!(address.as_str().parse::<Address>().unwrap(), address);
        }
    }

    #[test]
    fn nothing_that_is_read_panics(text in ".{0,60}", link in ".{0,60}") {
        let rules = Rules::default();
        let _ = Address::read(&text, &rules);
        let base = read("http://example.org/a/b");
        if let Ok(address) = Address::resolve(&base, &link, &rules) {
            let _ = rules.trap(&address, 0);
            let _ = Scope::new(Reach::Prefix, [&address]).contains(&address);
        }
    }
}
