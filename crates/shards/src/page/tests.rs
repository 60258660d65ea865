//! Facts about pages, written by hand.

use divvy_frontier::rules::brake;

use super::*;

fn extract_with(options: Options, html: &str, robots_tags: &[&str]) -> Page {
    let address = "http://a.example/dir/page?x=1".parse().unwrap();
    Extractor::new(options).extract(Source { address: &address, html, robots_tags })
}

fn extract(html: &str) -> Page {
    extract_with(Options { robot: "divvybot".to_owned(), ..Options::default() }, html, &[])
}

fn links(page: &Page) -> Vec<(&str, &str)> {
    page.links.iter().map(|link| (link.url.as_str(), link.rel.as_str())).collect()
}

const WHOLE: &str = r##"<!DOCTYPE html>
<html LANG="de-CH"><head>
  <meta charset="utf-8">
  <title>
    Fish &amp; Chips &mdash; caf&eacute;
  </title>
  <title>Second</title>
  <META NAME="Description" content="All about &quot;fish&quot; &#38; chips">
  <meta name="robots" content="noarchive, NoFollow">
  <meta name="otherbot" content="noindex">
  <link rel="Canonical" href="/fish?a=1&amp;b=2">
  <link rel="next" href="page2"><link rel=stylesheet href="/style.css">
  <link rel="alternate stylesheet" href="/other.css">
  <link rel="alternate" hreflang="en" href="//en.a.example/fish">
  <script>document.write('<a href="/not/a/link">');</script>
  <style>a[href="/neither"] {}</style>
</head><body>
  <!-- <a href="/comment">no</a> -->
  <a href="one.html">One</a> <A HREF='/two?x=1&amp;y=2#top' REL="NoFollow  ugc">Two</A>
  <a href=three>Three</a> <a href="?x=2&copy=3">Four</a> <a href=" /five&#x20;space ">Five</a>
  <a href="#top">no</a><a href="">no</a><a name="x">no</a>
  <a href="mailto:a@b.example">no</a><a href="javascript:void(0)">no</a><a href="http://[">no</a>
  <map><area href="/area"></map><iframe src="/frame"></iframe>
  <img src="/picture.png"><script src="/code.js"></script>
  <a href="/caf%c3%a9/&eacute;">Six</a> <a href="/SIX" rel="nofollow">6</a><a href="/SIX">6</a>
  <textarea><a href="/typed"></textarea><svg><title>Drawing</title><a href="/drawn"/></svg>
  <a href="one.html#again">One</a>
</body></html>"##;

#[test]
fn a_page_says_what_it_is() {
    let page = extract(WHOLE);
    assert_eq!(page.title.as_deref(), Some("Fish & Chips — café"));
    assert_eq!(page.description.as_deref(), Some("All about \"fish\" & chips"));
    assert_eq!(page.canonical.as_ref().map(Address::as_str), Some("http://a.example/fish?a=1&b=2"));
    assert_eq!(page.language.as_deref(), Some("de-CH"));
    assert_eq!(page.directives, Directives { noindex: false, nofollow: true });
}

#[test]
fn a_page_leads_where_its_elements_point() {
    let page = extract(WHOLE);
    let expected = [
        ("http://a.example/fish?a=1&b=2", "canonical"),
        ("http://a.example/dir/page2", "next"),
        ("http://en.a.example/fish", "alternate"),
        ("http://a.example/dir/one.html", ""),
        ("http://a.example/two?x=1&y=2", "nofollow ugc"),
        ("http://a.example/dir/three", ""),
        ("http://a.example/dir/page?x=2&copy=3", ""),
        ("http://a.example/five%20space", ""),
        ("http://a.example/area", ""),
        ("http://a.example/frame", ""),
        ("http://a.example/caf%C3%A9/%C3%A9", ""),
        ("http://a.example/SIX", ""),
        ("http://a.example/drawn", ""),
    ];
    assert_eq!(links(&page), expected);
    assert_eq!((page.links_refused, page.links_cut), (3, false));
    assert!(page.links[4].is_nofollow() && !page.links[11].is_nofollow());
}

#[test]
fn resources_are_links_when_asked_for() {
    let page = extract_with(Options { with_resources: true, ..Options::default() }, WHOLE, &[]);
    let urls: Vec<&str> = page.links.iter().map(|link| link.url.as_str()).collect();
    assert!(
        urls.contains(&"http://a.example/picture.png")
            && urls.contains(&"http://a.example/code.js")
    );
}

#[test]
fn the_base_moves_all_links() {
    let page = extract(
        "<a href=x>1</a><base href='/b/'><base href='/c/'><a href=y>2</a><link rel=canonical href=z>",
    );
    let found: Vec<&str> = page.links.iter().map(|link| link.url.as_str()).collect();
    assert_eq!(found, ["http://a.example/b/x", "http://a.example/b/y", "http://a.example/b/z"]);
    let odd = extract("<base href='mailto:x'><a href=y>2</a>");
    assert_eq!(links(&odd), [("http://a.example/dir/y", "")]);
}

#[test]
fn headers_and_elements_speak_to_our_robot_only() {
    let html = "<meta name=divvybot content=noindex>";
    let options = || Options { robot: "divvybot".to_owned(), ..Options::default() };
    let page = extract_with(options(), html, &["otherbot: none", "divvybot: nofollow"]);
    assert_eq!(page.directives, Directives { noindex: true, nofollow: true });
    let page = extract_with(options(), "", &["none"]);
    assert_eq!(page.directives, Directives { noindex: true, nofollow: true });
    let page = extract_with(options(), "<p>", &["otherbot: noindex"]);
    assert_eq!(page.directives, Directives::default());
}

#[test]
fn rules_take_out_what_they_name() {
    let html = "<div class='price'>12 <b>&euro;</b><span class=price> inner &amp; more</span> tail</div>
        <ul><li>a</li><li>b <script>no()</script></li></ul><meta itemprop=sku content='A&amp;B'><p class=price> </p>
        <img class=price src=x.png>";
    let rules = [
        "price=.price",
        "item=ul > li",
        "sku=meta[itemprop=sku]@content",
        "none=#missing",
        "sku=img@SRC",
    ];
    let rules = rules.map(|rule| rule.parse().unwrap()).into();
    let page = extract_with(Options { rules, ..Options::default() }, html, &[]);
    let expected = [
        ("item", vec!["a", "b"]),
        ("none", vec![]),
        ("price", vec!["12 € inner & more tail", "inner & more"]),
        ("sku", vec!["A&B", "x.png"]),
    ];
    let found: Vec<(&str, Vec<&str>)> = page
        .extracted
        .iter()
        .map(|(name, values)| (name.as_str(), values.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_rule_that_cannot_be_used_says_why() {
    let facts = [
        ("price", "name=css"),
        ("=a", "name=css"),
        ("a b=c", "name=css"),
        ("a= ", "name=css"),
        ("a=li + li", "`li + li`"),
        ("a=li:last-child", "cannot be used"),
        ("a=div:has(p)", "cannot be used"),
        ("a=[", "cannot be used"),
        ("a=p::before", "cannot be used"),
    ];
    for (text, expected) in facts {
        let error = text.parse::<Rule>().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(text), "{text}: {error}");
    }
    for text in ["a=div:not(.x) > p:first-child", "a=a[href^='http'],b@title", "a=[data-x='y@z.w']"]
    {
        assert_eq!(text.parse::<Rule>().unwrap().as_str(), text);
    }
}

#[test]
fn odd_pages_are_read_as_far_as_they_go() {
    for html in [
        "",
        "plain text",
        "<",
        "<a",
        "<a href",
        "<a href='x",
        "<title>open",
        "\u{0}<a href=x>",
        "<!--",
    ] {
        let page = extract(html);
        assert!(page.links.len() <= 1, "{html}");
    }
    assert_eq!(extract("<title>open").title.as_deref(), Some("open"));
    let many: String = (0..10_001).map(|number| format!("<a href=/{number}>")).collect();
    let page = extract(&many);
    assert_eq!((page.links.len(), page.links_cut), (10_000, true));
    let deep = "<div>".repeat(200_000) + "<a href=x>";
    assert!(extract(&deep).links.len() <= 1);
    let long = format!("<title>{}</title>", "ü".repeat(9000));
    assert!(extract(&long).title.is_some_and(|title| title.len() <= 4096));
}

#[test]
fn words_and_signs_are_those_of_the_text() {
    let page = extract(
        "<div id=\"root\"></div><noscript>You need to enable JavaScript.</noscript><script src=x></script>",
    );
    assert_eq!((page.words, page.simhash), (0, 0));
    assert_eq!(page.signs, Signs { scripts: 1, has_root: true, has_notice: true });
    let page = extract("<p>one two</p><p>three four</p>");
    assert_eq!((page.words, page.simhash), (4, simhash("one two three four")));
    assert_eq!(page.signs, Signs::default());
}

proptest::proptest! {
    #[test]
    fn nothing_that_is_read_panics(html in "([<>/a-z \"'=&;#é!-]|<a href=|<title>|</|<!--|-->){0,60}") {
        let rules = vec!["x=a".parse().unwrap()];
        extract_with(Options { rules, ..Options::default() }, &html, &[&html]);
    }
}

/// A month of a calendar without an end, as programs make them: every month has the same frame and the same few words.
fn month(number: u32) -> String {
    const NAMES: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let (name, year) = (NAMES[number as usize % 12], 2_000 + number / 12);
    let days: String = (1..=28 + number % 4)
        .map(|day| format!("<td><a href=\"/day/{year}/{number}/{day}\">{day}</a> no events</td>"))
        .collect();
    template(&format!(
        "<h1>{name} {year}</h1><table>{days}</table><a href=\"/{}\">next month</a>",
        number + 1
    ))
}

/// An article of a newspaper: the same frame, and a text of its own of so many words.
fn article(number: u32, words: u32) -> String {
    let mut chance = fastrand::Rng::with_seed(number.into());
    let text: Vec<String> = (0..words).map(|_| format!("word{}", chance.u16(..3_000))).collect();
    template(&format!("<h1>Article {number}</h1><p>{}</p>", text.join(" ")))
}

fn template(inner: &str) -> String {
    let menu: String =
        (0..40).map(|at| format!("<li><a href=\"/{at}\">Section {at}</a></li>")).collect();
    format!(
        "<title>A site</title><nav><ul>{menu}</ul></nav>{inner}<footer>All rights reserved, contact, imprint, privacy</footer>"
    )
}

/// Whether a host with such pages is braked.
fn is_braked(page: impl Fn(u32) -> String) -> bool {
    let (extractor, address) =
        (Extractor::new(Options::default()), "http://a.example/".parse().unwrap());
    let (mut brake, rules) = (brake::Brake::default(), brake::Rules::default());
    let mut verdicts = (0..u32::from(rules.window)).filter_map(|number| {
        let html = page(number);
        let page = extractor.extract(Source { address: &address, html: &html, robots_tags: &[] });
        brake.page(page.simhash, &rules)
    });
    verdicts.next().expect("a window is full")
}

#[test]
fn an_endless_calendar_is_braked_and_pages_of_one_template_are_not() {
    assert!(is_braked(month));
    for words in [30, 60, 200] {
        assert!(!is_braked(|number| article(number, words)), "{words} words");
    }
}
