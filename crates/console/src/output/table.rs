//! Tables for people: aligned columns that fit the terminal, 80 columns where there is none.
//!
//! Where a row is too wide, the widest column that may shrink is cut, with a sign that something is missing.

use std::fmt::Write as _;

use super::Output;
use super::visible::on_one_line;

const GAP: &str = "  ";
const WIDTH_DEFAULT: usize = 80;
const HEIGHT_DEFAULT: usize = 24;
/// No column shrinks below the first of these while another can still give, and none below the second.
const COLUMN_MIN: [usize; 2] = [8, 3];

/// A table that is being filled.
pub struct Table {
    headings: Vec<&'static str>,
    right: Vec<bool>,
    fixed: Vec<bool>,
    rows: Vec<Vec<Cell>>,
}

/// A text and the SGR code of its colour.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    color: Option<&'static str>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        // Control characters of other people's words could move the cursor or colour the rest.
        Self { text: on_one_line(&text.into()), color: None }
    }
}

impl Cell {
    /// The text in a colour.
    pub fn colored(text: impl Into<String>, color: &'static str) -> Self {
        Self { color: Some(color), ..Self::from(text) }
    }

    /// The text without anything that could move the cursor.
    pub fn into_text(self) -> String {
        self.text
    }
}

impl Table {
    /// A table with these headings. A heading that starts with `>` is aligned to the right, and one that starts with
    /// `=` is never cut.
    pub fn new(headings: &[&'static str]) -> Self {
        Self {
            right: headings.iter().map(|h| h.starts_with('>')).collect(),
            fixed: headings.iter().map(|h| h.starts_with(['>', '='])).collect(),
            headings: headings.iter().map(|h| h.trim_start_matches(['>', '='])).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(row.len(), self.headings.len(), "a row has a cell for each heading");
        self.rows.push(row);
    }

    /// Prints the table; an empty one is not printed at all.
    pub fn print(&self, output: &Output) -> std::io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        output.bytes(self.render(width(), output.has_color()).as_bytes())
    }

    /// The text of the table at this width, without colours.
    pub fn rendered(&self, width: usize) -> String {
        self.render(width, false)
    }

    fn render(&self, width: usize, color: bool) -> String {
        let widths = self.widths(width);
        let mut text = String::new();
        let headings: Vec<Cell> =
            self.headings.iter().map(|heading| Cell::colored(*heading, "1")).collect();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for (index, cell) in row.iter().enumerate() {
                let cut = cut(&cell.text, widths[index]);
                let space = " ".repeat(widths[index].saturating_sub(cut.chars().count()));
                if index > 0 {
                    line.push_str(GAP);
                }
                if self.right[index] {
                    line.push_str(&space);
                }
                match cell.color.filter(|_| color) {
                    Some(code) => {
                        write!(line, "\x1b[{code}m{cut}\x1b[0m").expect("a String takes any text")
                    }
                    None => line.push_str(&cut),
                }
                if !self.right[index] {
                    line.push_str(&space);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let widest = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].text.chars().count());
            cells.chain([self.headings[column].len()]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.headings.len()).map(widest).collect();
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        for floor in COLUMN_MIN {
            while widths.iter().sum::<usize>() + gaps > width {
                let shrinkable =
                    (0..widths.len()).filter(|i| !self.fixed[*i] && widths[*i] > floor);
                let Some(widest) = shrinkable.max_by_key(|i| widths[*i]) else { break };
                widths[widest] -= 1;
            }
        }
        widths
    }
}

/// A text in so many columns, with a sign where something is missing.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A text folded at the width of the terminal, further lines `indent` columns in. Whole where there is no terminal, so
/// that programs find each thing on its line.
pub fn folded(text: &str, indent: usize) -> String {
    match terminal_size::terminal_size() {
        Some((width, _)) => fold(text, indent, usize::from(width.0)),
        None => text.to_owned(),
    }
}

fn fold(text: &str, indent: usize, width: usize) -> String {
    // A terminal that leaves no room for words is not worth folding for.
    let room = width.saturating_sub(indent).max(20);
    let mut folded = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > room {
            write!(folded, "\n{:indent$}", "").expect("a String takes any text");
            column = 0;
        } else if column > 0 {
            folded.push(' ');
            column += 1;
        }
        folded.push_str(word);
        column += length;
    }
    folded
}

/// The columns of the terminal, or those of a usual one.
pub fn width() -> usize {
    size().0
}

/// The columns and rows of the terminal, or those of a usual one.
pub fn size() -> (usize, usize) {
    let size = terminal_size::terminal_size();
    size.map_or((WIDTH_DEFAULT, HEIGHT_DEFAULT), |(width, height)| {
        (width.0.into(), height.0.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["=ID", "KIND", ">N", "NOTE"]);
        table.row([
            "0198c0de".into(),
            "video.probe".into(),
            "7".into(),
            Cell::colored("x".repeat(200), "31"),
        ]);
        table.row(["0198c0df".into(), "noop".into(), "12345".into(), "a\x1b[2Jb".into()]);
        table
    }

    #[test]
    fn rows_are_aligned_and_fit_the_width() {
        let text = table().render(80, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            lines[1].ends_with('…') && lines[1].starts_with("0198c0de  video.probe      7  x"),
            "{text}"
        );
        assert!(lines[2].starts_with("0198c0df  noop         12345  a\\x1b[2Jb"), "{text}");
    }

    #[test]
    fn a_long_text_is_folded_between_words() {
        let text = fold("one two three four five six seven eight nine ten", 10, 40);
        assert_eq!(text, "one two three four five six\n          seven eight nine ten");
        assert!(fold(&"word ".repeat(40), 10, 40).lines().all(|line| line.chars().count() <= 40));
        assert_eq!(fold("short", 10, 40), "short");
    }

    #[test]
    fn colour_is_used_only_when_wanted() {
        assert!(!table().render(80, false).contains('\x1b'));
        assert!(table().render(80, true).contains("\x1b[31m"));
    }
}
