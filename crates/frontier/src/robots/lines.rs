//! Cuts a robots.txt into its lines: field, value, number. Knows the typos that are common enough that Google's parser takes
//! them; knows nothing of groups.
//!
//! A line ends with LF, CR or both. A byte order mark at the beginning, or the beginning of one, is skipped. A field ends at
//! the colon or, where it was forgotten, at white space if exactly one word follows. `#` begins a comment. Anything else is
//! passed over.

/// How much of a file is read; RFC 9309 asks for at least this. A line that it cuts is dropped: half a rule is another rule.
pub const BYTES_MAX: usize = 500 * 1024;
/// How much of a line is read.
const LINE_BYTES_MAX: usize = 8 * 2_083 - 1;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
    Other,
}

/// The spellings that count, by what a field begins with.
const FIELDS: [(&str, Field); 15] = [
    ("user-agent", Field::UserAgent),
    ("useragent", Field::UserAgent),
    ("user agent", Field::UserAgent),
    ("allow", Field::Allow),
    ("disallow", Field::Disallow),
    ("dissallow", Field::Disallow),
    ("dissalow", Field::Disallow),
    ("disalow", Field::Disallow),
    ("diasllow", Field::Disallow),
    ("disallaw", Field::Disallow),
    ("crawl-delay", Field::CrawlDelay),
    ("crawldelay", Field::CrawlDelay),
    ("crawl delay", Field::CrawlDelay),
    ("sitemap", Field::Sitemap),
    ("site-map", Field::Sitemap),
];

/// A line that says something.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) field: Field,
    pub(super) value: &'a [u8],
    /// Counted from 1.
    pub(super) number: u32,
}

/// The lines of a file that have a field and a value.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: u32,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        let mut rest = text;
        for byte in *b"\xEF\xBB\xBF" {
            let Some(after) = rest.strip_prefix(&[byte]) else { break };
            rest = after;
        }
        if let Some(head) = rest.get(..BYTES_MAX).filter(|head| head.len() < rest.len()) {
            let whole = head.iter().rposition(|byte| is_end(*byte)).map_or(0, |end| end + 1);
            rest = &head[..whole];
        }
        Self { rest, number: 0 }
    }

    fn next_raw(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| is_end(*byte)).unwrap_or(self.rest.len());
        let (line, after) = self.rest.split_at(end);
        self.rest = after.strip_prefix(b"\r\n").or_else(|| after.get(1..)).unwrap_or_default();
        self.number = self.number.saturating_add(1);
        Some(&line[..line.len().min(LINE_BYTES_MAX)])
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        loop {
            let line = self.next_raw()?;
            if let Some((field, value)) = field_and_value(line) {
                return Some(Line { field, value, number: self.number });
            }
        }
    }
}

fn field_and_value(line: &[u8]) -> Option<(Field, &[u8])> {
    let comment = line.iter().position(|byte| *byte == b'#').unwrap_or(line.len());
    let line = line[..comment].trim_ascii();
    let colon = line.iter().position(|byte| *byte == b':');
    let end = colon.or_else(|| forgotten_colon(line))?;
    let name = line[..end].trim_ascii();
    let field = FIELDS.iter().find(|(spelling, _)| {
        name.get(..spelling.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(spelling.as_bytes()))
    });
    let field = field.map_or(Field::Other, |(_, field)| *field);
    (!name.is_empty()).then(|| (field, line[end + 1..].trim_ascii()))
}

/// Where the field ends in a line such as `disallow /`: at the only white space between two words.
fn forgotten_colon(line: &[u8]) -> Option<usize> {
    let is_white = |byte: &u8| matches!(byte, b' ' | b'\t');
    let end = line.iter().position(is_white)?;
    let value = line[end..].trim_ascii();
    (!value.iter().any(is_white)).then_some(end)
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}
