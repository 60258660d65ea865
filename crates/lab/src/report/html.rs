//! Decides how reports look on a page: one HTML file that needs nothing else, no scripts, no fonts, no network.
//!
//! The page follows the reader's light or dark theme. Tables have captions, charts a title and a description, verdicts
//! a word and not only a colour, so it can be read by ear too.

use std::fmt::Write as _;

use divvy_types::experiment::{Table, Verdict};

use super::{Report, cell_in_words, value_in_words};
use crate::chart::{Escaped, STYLE};

const PAGE_STYLE: &str = include_str!("page.css");

/// One page with all these reports and a list of contents.
pub fn page(reports: &[Report]) -> String {
    let lead = "Experiments on the parts of divvy: how work is placed, guarded and shared out, and what that does to \
                the time people wait.";
    page_of("divvy lab", lead, reports)
}

/// The same under another heading, with what it is in a sentence.
pub fn page_of(heading: &str, lead: &str, reports: &[Report]) -> String {
    let mut page = String::new();
    let mut out = Out(&mut page);
    let title = match reports {
        [only] => format!("{} – {heading}", only.title),
        _ => heading.into(),
    };
    out.add(format_args!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#content\">To the content</a>\n",
        Escaped(&title)
    ));
    out.add(format_args!(
        "<header>\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n</header>\n",
        Escaped(heading),
        Escaped(lead)
    ));
    if reports.len() > 1 {
        contents(&mut out, reports);
    }
    out.add(format_args!("<main id=\"content\">\n"));
    for report in reports {
        section(&mut out, report);
    }
    out.add(format_args!("</main>\n</body>\n</html>\n"));
    page
}

fn contents(out: &mut Out<'_>, reports: &[Report]) {
    out.add(format_args!(
        "<nav aria-label=\"Contents\">\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n\
         <caption>Contents</caption>\n<thead><tr><th scope=\"col\">Experiment</th>\
         <th scope=\"col\">What it looks at</th><th scope=\"col\">Targets met</th></tr></thead>\n<tbody>\n"
    ));
    for report in reports {
        let (met, all) = report.met();
        let (class, verdict) = match all {
            0 => ("soft", "–".to_owned()),
            _ if met == all => ("met", format!("{met} of {all}")),
            _ => ("missed", format!("{met} of {all}")),
        };
        let (name, title) = (Escaped(&report.name), Escaped(&report.title));
        out.add(format_args!(
            "<tr><th scope=\"row\"><a href=\"#{name}\">{name}</a></th><td>{title}</td>\
             <td class=\"{class}\">{verdict}</td></tr>\n"
        ));
    }
    out.add(format_args!("</tbody>\n</table>\n</div>\n</nav>\n"));
}

fn section(out: &mut Out<'_>, report: &Report) {
    let name = Escaped(&report.name);
    out.add(format_args!(
        "<section id=\"{name}\" aria-labelledby=\"{name}-title\">\n<h2 id=\"{name}-title\">{}</h2>\n\
         <p class=\"lead\">{}</p>\n",
        Escaped(&report.title),
        Escaped(&report.shows)
    ));
    list(out, "What this run shows", &report.findings);
    for (index, chart) in report.charts.iter().enumerate() {
        let drawing = chart.svg(&format!("{name}-{index}"));
        out.add(format_args!(
            "<figure>\n<figcaption><strong>{}</strong>{}</figcaption>\n{drawing}\n</figure>\n",
            Escaped(&chart.title),
            Escaped(&chart.note)
        ));
    }
    for entry in &report.tables {
        table(out, entry);
    }
    verdicts(out, &report.verdicts);
    list(out, "What to learn", &report.lessons);
    if !report.parameters.is_empty() {
        out.add(format_args!("<h3>This run</h3>\n<dl>\n"));
        for parameter in &report.parameters {
            let shown = value_in_words(parameter);
            out.add(format_args!(
                "<div><dt>{}</dt><dd>{}</dd></div>\n",
                Escaped(&parameter.name),
                Escaped(&shown)
            ));
        }
        out.add(format_args!("</dl>\n"));
    }
    out.add(format_args!("</section>\n"));
}

fn list(out: &mut Out<'_>, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    out.add(format_args!("<h3>{}</h3>\n<ul>\n", Escaped(title)));
    for item in items {
        out.add(format_args!("<li>{}</li>\n", Escaped(item)));
    }
    out.add(format_args!("</ul>\n"));
}

fn table(out: &mut Out<'_>, table: &Table) {
    // A wide table scrolls by itself, and can be reached with the keyboard for that.
    out.add(format_args!(
        "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<caption>{}</caption>\n<thead><tr>",
        Escaped(&table.caption)
    ));
    for column in &table.columns {
        let class = if column.is_number() { " class=\"number\"" } else { "" };
        out.add(format_args!("<th scope=\"col\"{class}>{}", Escaped(&column.name)));
        if !column.unit.is_empty() {
            out.add(format_args!(" <span class=\"unit\">({})</span>", Escaped(&column.unit)));
        }
        out.add(format_args!("</th>"));
    }
    out.add(format_args!("</tr></thead>\n<tbody>\n"));
    for row in &table.rows {
        out.add(format_args!("<tr>"));
        for (index, (column, cell)) in table.columns.iter().zip(row).enumerate() {
            let shown = cell_in_words(column, cell);
            let shown = Escaped(&shown);
            match (index, column.is_number()) {
                (0, false) => out.add(format_args!("<th scope=\"row\">{shown}</th>")),
                (_, true) => out.add(format_args!("<td class=\"number\">{shown}</td>")),
                (_, false) => out.add(format_args!("<td>{shown}</td>")),
            }
        }
        out.add(format_args!("</tr>\n"));
    }
    out.add(format_args!("</tbody>\n</table>\n</div>\n"));
}

fn verdicts(out: &mut Out<'_>, verdicts: &[Verdict]) {
    if verdicts.is_empty() {
        return;
    }
    out.add(format_args!(
        "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<caption>Targets</caption>\n<thead><tr>\
         <th scope=\"col\">What</th><th scope=\"col\">Target</th><th scope=\"col\">Measured</th>\
         <th scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n"
    ));
    for verdict in verdicts {
        let (class, word) = if verdict.met { ("met", "✓ met") } else { ("missed", "✗ missed") };
        out.add(format_args!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"{class}\">{word}</td></tr>\n",
            Escaped(&verdict.what),
            Escaped(&verdict.target),
            Escaped(&verdict.measured)
        ));
    }
    out.add(format_args!("</tbody>\n</table>\n</div>\n"));
}

/// A page that grows.
struct Out<'a>(&'a mut String);

impl Out<'_> {
    fn add(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.0.write_fmt(arguments).expect("a string takes everything");
    }
}
