//! A report on a terminal, as JSON, as drawings and as a page.

use divvy_lab::Report;
use divvy_lab::chart::{Axis, Bars, Chart, Heat, Lines, Mark, Timeline, sheet};
use divvy_lab::report::{Table, html, text};

const NASTY: &str = "a <b> & \"c\" 'd' of some length, with \u{7}";

fn charts() -> Vec<Chart> {
    let bars = Bars::new(Axis::new("p99", "ms"), ["random", NASTY, "least in flight"])
        .series("one balancer", [Some(31.2), Some(4.9), None])
        .series("twenty balancers", [Some(31.2), Some(f64::NAN), Some(0.0)])
        .missing("unstable")
        .mark(Mark::new(10.0, "goal"));
    let lines = Lines::new(Axis::new("query", "").precision(0), Axis::new("timeout", "s"))
        .line("given", (0..15).map(|query| (f64::from(query), 0.5 + f64::from(query % 4) * 0.1)))
        .steps(NASTY, [(0.0, 0.5), (5.0, 0.9), (14.0, f64::INFINITY)])
        .moment(5.0, "it learns")
        .mark(Mark::new(0.5, "default"));
    let states = ["closed", "open", "half-open"];
    let timeline = Timeline::new(Axis::new("time", "s"), states)
        .row("breaker", [(0.0, 3.0, 0, "closed".into()), (3.0, 5.0, 1, "open".into())])
        .row(NASTY, [(5.0, 5.1, 2, String::new())]);
    let heat = Heat::new(Axis::new("p99", "ms").log(), ["equal", "half slower"])
        .row("random", [Some(31.0), None])
        .row(NASTY, [Some(4.9), Some(7.9)]);
    vec![
        Chart::new("Bars", bars).note("A note & more."),
        Chart::new("Lines", lines),
        Chart::new("Timeline", timeline),
        Chart::new(NASTY, heat).note("word ".repeat(60)),
        Chart::new("Nothing", Bars::new(Axis::new("", ""), Vec::<String>::new())),
        Chart::new("No lines", Lines::new(Axis::new("x", ""), Axis::new("y", "").log())),
    ]
}

fn report() -> Report {
    let mut report = Report::new("sample", "A sample", "It shows <nothing> at all. ".repeat(12));
    report.parameter("seed", 7u64);
    report.parameter("load", 0.85);
    let mut wide = Table::new("A table that is far too wide for a usual terminal to show at once")
        .text("policy")
        .number("response time of one balancer", "ms", 1)
        .number("response time of twenty balancers", "ms", 1)
        .text("what a person would say about it")
        .number("requests", "", 0)
        .number("errors", "%", 2)
        .number("overloaded targets", "", 0)
        .number("shed", "", 0);
    for name in ["round robin", NASTY] {
        let words = "rather long words about nothing in particular that have to be broken";
        wide.row([
            name.into(),
            31.25.into(),
            f64::NAN.into(),
            words.into(),
            1_234_567u64.into(),
            0.5.into(),
            None::<u64>.into(),
            "unstable".into(),
        ]);
    }
    report.tables.push(wide);
    report.charts = charts();
    report.finding("The one is 3 times the other & <more>.");
    report.lesson("Measure.");
    report.verdict("speed", "> 200 K/s", "3 M/s", true);
    report.verdict("p99", "< 0.5 ms", "1.3 ms", false);
    report
}

#[test]
fn no_line_is_wider_than_the_terminal_and_nothing_is_lost() {
    for width in [40, 60, 80, 120] {
        let text = text::render(&report(), width, false);
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        for words in ["1,234,567", "unstable", "MISSED", "met", "Targets met: 1 of 2", "31.2"] {
            assert!(text.contains(words), "{width} lost {words}:\n{text}");
        }
    }
    assert!(!text::render(&report(), 80, false).contains('\x1b'));
    assert!(text::render(&report(), 80, true).contains("\x1b[31mMISSED\x1b[0m"));
}

#[test]
fn the_summary_counts_targets() {
    let mut good = report();
    good.verdicts.truncate(1);
    let text = text::summary(&[report(), good.clone()]);
    assert!(text.contains("1 of 2") && text.ends_with("1 target missed\n"), "{text}");
    assert!(text::summary(&[good]).ends_with("every target was met\n"));
}

#[test]
fn json_holds_all_data_and_no_impossible_numbers() {
    let json = serde_json::to_value(report()).unwrap();
    assert_eq!(json["tables"][0]["rows"][0][1], 31.25);
    assert!(json["tables"][0]["rows"][0][2].is_null());
    assert_eq!(json["charts"][0]["kind"], "bars");
    assert!(json["charts"][0]["series"][1][1][1].is_null());
    assert_eq!(json["charts"][1]["lines"][1]["points"].as_array().unwrap().len(), 2);
    assert_eq!(json["verdicts"][1]["met"], false);
    assert_eq!(json["parameters"][1]["value"], 0.85);
}

#[test]
fn a_sheet_of_charts_is_sound_xml_that_needs_nothing_else() {
    let charts = charts();
    let svg = sheet(&charts);
    let elements = check_xml(&svg);
    assert_eq!(elements.iter().filter(|name| *name == "svg").count(), 1 + 2 * charts.len());
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "a coordinate is no number");
    assert!(!svg.replace("http://www.w3.org/2000/svg", "").contains("http"));
    assert!(svg.contains("prefers-color-scheme: dark"));
}

#[test]
fn a_page_is_sound_accessible_and_alone() {
    let mut second = report();
    second.name = "second".into();
    let page = html::page(&[report(), second]);
    let body = &page[page.find("<body>").unwrap()..page.find("</html>").unwrap()];
    let elements = check_xml(body);
    let count = |wanted: &str| elements.iter().filter(|name| *name == wanted).count();
    assert_eq!(count("table"), count("caption"));
    assert_eq!(count("svg"), count("desc"));
    assert_eq!(count("figure"), count("figcaption"));
    assert_eq!(count("script") + count("img") + count("link"), 0);
    assert!(page.contains("href=\"#second\"") && page.contains("id=\"second\""));
    assert!(!page.contains("http"), "the page asks for something outside");
    let mut ids: Vec<&str> =
        page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is used twice");
    for name in page
        .split("aria-labelledby=\"")
        .skip(1)
        .flat_map(|rest| rest.split('"').next().unwrap().split(' ').collect::<Vec<_>>())
    {
        assert!(ids.binary_search(&name).is_ok(), "{name} is nowhere");
    }
    assert!(!html::page(&[report()]).contains("<nav"));
}

/// Walks through the tags: each is closed in turn, and text holds no bare special characters. Names of all elements.
fn check_xml(text: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "near {}", &rest[..end.min(200)]);
        } else {
            let name = tag.split([' ', '/']).next().unwrap();
            names.push(name.to_owned());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
    for (index, _) in text.match_indices('&') {
        let entity = &text[index..(index + 6).min(text.len())];
        assert!(
            ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"]
                .iter()
                .any(|known| entity.starts_with(known)),
            "{entity}"
        );
    }
    assert!(!text.contains('\u{7}'));
    names
}
