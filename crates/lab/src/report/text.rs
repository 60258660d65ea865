//! Decides how a report looks on a terminal: plain text, no line wider than asked.
//!
//! A table that is too wide first breaks its headings and its longest words of text into lines, and if that is not
//! enough it is shown in parts, each beginning with the first column.

use std::cmp::Reverse;

use divvy_types::experiment::{Column, Table};

use super::{Report, cell_in_words, number, value_in_words};

/// Narrower terminals get this width: tables need some room.
const WIDTH_MIN: usize = 40;
/// Between two columns.
const GAP: usize = 2;
/// Columns of text are not broken below this width.
const TEXT_MIN: usize = 16;

/// The report in lines of at most `width` columns. With `color`, headings and verdicts stand out.
pub fn render(report: &Report, width: usize, color: bool) -> String {
    let width = width.max(WIDTH_MIN);
    let mut page = Page { width, color, text: String::new() };
    page.heading(&format!("{}: {}", report.name, report.title));
    page.paragraph(&report.shows, "");
    let parameters: Vec<String> = report
        .parameters
        .iter()
        .map(|parameter| format!("{} {}", parameter.name, value_in_words(parameter)))
        .collect();
    if !parameters.is_empty() {
        page.line("");
        page.paragraph(&format!("With {}.", parameters.join(", ")), "");
    }
    for table in &report.tables {
        page.line("");
        page.table(table);
    }
    page.list("What this run shows", &report.findings);
    page.list("What to learn", &report.lessons);
    page.verdicts(report);
    page.text
}

struct Page {
    width: usize,
    color: bool,
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, text: &str) {
        for line in wrap(text, self.width) {
            let line = self.painted(&line, "1");
            self.line(&line);
        }
    }

    fn painted(&self, text: &str, code: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Text in lines; the first begins with `bullet`, the others below its text.
    fn paragraph(&mut self, text: &str, bullet: &str) {
        let indent = bullet.chars().count();
        for (index, line) in wrap(text, self.width - indent).iter().enumerate() {
            let start = if index == 0 { bullet.to_owned() } else { " ".repeat(indent) };
            self.line(&format!("{start}{line}"));
        }
    }

    fn list(&mut self, title: &str, items: &[String]) {
        if items.is_empty() {
            return;
        }
        self.line("");
        self.heading(title);
        for item in items {
            self.paragraph(item, "- ");
        }
    }

    fn verdicts(&mut self, report: &Report) {
        if report.verdicts.is_empty() {
            return;
        }
        let (met, all) = report.met();
        self.line("");
        self.heading(&format!("Targets met: {met} of {all}"));
        for verdict in &report.verdicts {
            let word = format!("{:<6}", if verdict.met { "met" } else { "MISSED" });
            let text = format!(
                "{}: target {}, measured {}",
                verdict.what, verdict.target, verdict.measured
            );
            let start = self.text.len();
            self.paragraph(&text, &format!("{word}  "));
            let painted = self.painted(&word, if verdict.met { "32" } else { "31" });
            self.text.replace_range(start..start + word.len(), &painted);
        }
    }

    fn table(&mut self, table: &Table) {
        self.heading(&table.caption);
        let cells: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| {
                table
                    .columns
                    .iter()
                    .zip(row)
                    .map(|(column, cell)| cell_in_words(column, cell))
                    .collect()
            })
            .collect();
        let widths = widths(table, &cells, self.width);
        for (index, part) in parts(&widths, self.width).iter().enumerate() {
            if index > 0 {
                self.line("");
            }
            let headings: Vec<String> = table.columns.iter().map(Column::heading).collect();
            self.row(table, &headings, &widths, part, true);
            let rules: Vec<String> =
                part.iter().map(|column| "-".repeat(widths[*column])).collect();
            self.line(&rules.join(&" ".repeat(GAP)));
            for row in &cells {
                self.row(table, row, &widths, part, false);
            }
        }
    }

    /// One row, as many lines high as its highest cell. Headings stand at the bottom of their row.
    fn row(
        &mut self,
        table: &Table,
        cells: &[String],
        widths: &[usize],
        part: &[usize],
        low: bool,
    ) {
        let wrapped: Vec<Vec<String>> =
            part.iter().map(|column| wrap(&cells[*column], widths[*column])).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or_default();
        for line in 0..height {
            let mut text = String::new();
            for (column, lines) in part.iter().zip(&wrapped) {
                let skipped = if low { height - lines.len() } else { 0 };
                let cell = line.checked_sub(skipped).and_then(|line| lines.get(line));
                let cell = cell.map(String::as_str).unwrap_or_default();
                let room = " ".repeat(widths[*column] - cell.chars().count());
                let (before, after) = if table.columns[*column].is_number() {
                    (room, String::new())
                } else {
                    (String::new(), room)
                };
                text.push_str(&before);
                text.push_str(cell);
                text.push_str(&after);
                text.push_str(&" ".repeat(GAP));
            }
            self.line(&text);
        }
    }
}

/// How wide each column is: as its cells and the longest word of its heading ask; text gives way if all is too wide.
fn widths(table: &Table, cells: &[Vec<String>], width: usize) -> Vec<usize> {
    let length = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = Vec::with_capacity(table.columns.len());
    for (index, column) in table.columns.iter().enumerate() {
        let heading = column.heading();
        let word = heading.split_whitespace().map(length).max().unwrap_or_default();
        let cell = cells.iter().map(|row| length(&row[index])).max().unwrap_or_default();
        widths.push(word.max(cell).clamp(1, width));
    }
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * (widths.len().max(1) - 1);
    while total(&widths) > width {
        let texts = (0..widths.len())
            .filter(|index| !table.columns[*index].is_number() && widths[*index] > TEXT_MIN);
        let Some(widest) = texts.max_by_key(|index| widths[*index]) else { break };
        widths[widest] -= 1;
    }
    // What is left goes to the highest headings, so that all need fewer lines.
    let headings: Vec<String> = table.columns.iter().map(Column::heading).collect();
    for _ in total(&widths)..width {
        let height = |index: &usize| wrap(&headings[*index], widths[*index]).len();
        let highest = (0..widths.len()).max_by_key(|index| (height(index), Reverse(*index)));
        match highest.filter(|index| height(index) > 1) {
            Some(index) => widths[index] += 1,
            None => break,
        }
    }
    widths
}

/// The columns in parts that fit the width, each with the first column.
fn parts(widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut used = usize::MAX;
    for (index, column) in widths.iter().enumerate() {
        if used.saturating_add(GAP + column) <= width {
            used += GAP + column;
            parts.last_mut().expect("a width is in use only within a part").push(index);
        } else if index == 0 {
            parts.push(vec![0]);
            used = *column;
        } else {
            parts.push(vec![0, index]);
            used = widths[0] + GAP + column;
        }
    }
    parts
}

/// Text in lines of at most `width` characters, broken between words, and within a word only if it is longer.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if let Some(line) = lines.last_mut()
            && line.chars().count() + 1 + word.len() <= width
        {
            line.push(' ');
            line.extend(&word);
            continue;
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        lines.push(word.into_iter().collect());
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// One line per experiment: its name, how many targets were met, its title.
pub fn summary(reports: &[Report]) -> String {
    let widest = reports.iter().map(|report| report.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for report in reports {
        let (met, all) = report.met();
        let verdict = if all == 0 { "–".into() } else { format!("{met} of {all}") };
        text.push_str(&format!("{:<widest$}  {verdict:>8}  {}\n", report.name, report.title));
    }
    let missed: u64 =
        reports.iter().map(|report| report.met()).map(|(met, all)| (all - met) as u64).sum();
    let closing = match missed {
        0 => "every target was met".to_owned(),
        _ => format!("{} missed", number::counted(missed, "target")),
    };
    text + &closing + "\n"
}
