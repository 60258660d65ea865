//! The fields of one line of CSV (RFC 4180): quoted or not, quotes doubled inside quotes.

use super::Field;

/// Why a line is no row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsvError {
    /// Other than in the header.
    #[error("the row has {found} fields, the header {expected}")]
    Fields {
        /// In the row.
        found: usize,
        /// In the header.
        expected: usize,
    },
    /// The closing quote is missing on this line.
    #[error("a quoted field does not end on its line; a row must be one line")]
    OpenQuote,
    /// Something follows the closing quote.
    #[error("field {field} goes on after its closing quote; quotes inside quotes are doubled")]
    AfterQuote {
        /// Which one, from 1.
        field: usize,
    },
}

/// How rows are read: what parts their fields, how many there are, which are wanted.
#[derive(Clone, Debug)]
pub struct Rows {
    delimiter: u8,
    fields: usize,
    /// By field of the row: where it goes in what is wanted.
    places: Vec<Vec<usize>>,
    wanted: usize,
    /// Text of quoted fields without their quotes.
    unquoted: Vec<u8>,
    /// The list of the row before, empty.
    spare: Vec<Field<'static>>,
}

/// The names in a header line.
///
/// # Errors
/// If it is no row.
pub fn header(line: &[u8], delimiter: u8) -> Result<Vec<String>, CsvError> {
    let mut names = Vec::new();
    let mut text = Vec::new();
    let mut rest = Some(line);
    while let Some(current) = rest {
        text.clear();
        let end = match current.first() {
            Some(b'"') => unquote(current, delimiter, names.len() + 1, &mut text)?,
            _ => {
                let end = memchr::memchr(delimiter, current).unwrap_or(current.len());
                text.extend_from_slice(&current[..end]);
                end
            }
        };
        names.push(String::from_utf8_lossy(&text).trim().to_owned());
        rest = current.get(end + 1..);
    }
    Ok(names)
}

impl Rows {
    /// Rows with so many fields, of which those with these numbers are wanted, in this order.
    pub fn new(delimiter: u8, fields: usize, wanted: &[usize]) -> Self {
        let mut places = vec![Vec::new(); fields];
        for (place, field) in wanted.iter().enumerate() {
            places[*field].push(place);
        }
        Self {
            delimiter,
            fields,
            places,
            wanted: wanted.len(),
            unquoted: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Hands the wanted fields of a line to `take`.
    ///
    /// # Errors
    /// If the line is no row with as many fields as the header.
    #[inline]
    pub fn read<T>(
        &mut self,
        line: &[u8],
        take: impl FnOnce(&[Field<'_>]) -> T,
    ) -> Result<T, CsvError> {
        let mut row: Vec<Field<'_>> = reuse(&mut self.spare);
        row.resize(self.wanted, Field::Nothing);
        let split = if memchr::memchr(b'"', line).is_some() {
            self.unquoted.clear();
            let spans = self.quoted(line)?;
            for (number, (start, end)) in spans.iter().enumerate() {
                for place in &self.places[number] {
                    row[*place] = Field::of_text(&self.unquoted[*start..*end]);
                }
            }
            spans.len()
        } else {
            self.plain(line, &mut row)
        };
        if split != self.fields {
            return Err(CsvError::Fields { found: split, expected: self.fields });
        }
        let taken = take(&row);
        self.spare = reuse(&mut row);
        Ok(taken)
    }

    /// Fields without quotes.
    #[inline]
    fn plain<'l>(&self, line: &'l [u8], row: &mut [Field<'l>]) -> usize {
        let (mut start, mut number) = (0, 0);
        let mut put = |number: usize, text: &'l [u8]| {
            for place in self.places.get(number).into_iter().flatten() {
                row[*place] = Field::of_text(text);
            }
        };
        for end in memchr::memchr_iter(self.delimiter, line) {
            put(number, &line[start..end]);
            start = end + 1;
            number += 1;
        }
        put(number, &line[start..]);
        number + 1
    }

    /// Where each field is in `unquoted`; fields too many are counted only.
    #[cold]
    fn quoted(&mut self, line: &[u8]) -> Result<Vec<(usize, usize)>, CsvError> {
        let mut spans = Vec::new();
        let mut rest = Some(line);
        while let Some(current) = rest {
            let start = self.unquoted.len();
            let end = if current.first() == Some(&b'"') {
                unquote(current, self.delimiter, spans.len() + 1, &mut self.unquoted)?
            } else {
                let end = memchr::memchr(self.delimiter, current).unwrap_or(current.len());
                self.unquoted.extend_from_slice(&current[..end]);
                end
            };
            spans.push((start, self.unquoted.len()));
            rest = current.get(end + 1..);
        }
        if spans.len() != self.fields {
            return Err(CsvError::Fields { found: spans.len(), expected: self.fields });
        }
        Ok(spans)
    }
}

/// Appends a quoted field without its quotes to `out`; where its delimiter is.
fn unquote(text: &[u8], delimiter: u8, field: usize, out: &mut Vec<u8>) -> Result<usize, CsvError> {
    let mut at = 1;
    loop {
        let quote = memchr::memchr(b'"', &text[at..]).ok_or(CsvError::OpenQuote)? + at;
        out.extend_from_slice(&text[at..quote]);
        match text.get(quote + 1) {
            Some(b'"') => {
                out.push(b'"');
                at = quote + 2;
            }
            None => return Ok(text.len()),
            Some(byte) if *byte == delimiter => return Ok(quote + 1),
            Some(_) => return Err(CsvError::AfterQuote { field }),
        }
    }
}

/// The same allocation for fields of another line; it is empty.
pub(super) fn reuse<'b>(fields: &mut Vec<Field<'_>>) -> Vec<Field<'b>> {
    fields.clear();
    // An empty list of the same layout is collected in place.
    std::mem::take(fields).into_iter().map(|_| Field::Nothing).collect()
}

/// Writes a field as CSV: quoted only where it must be.
pub fn write_field(text: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    let special = |byte: &u8| matches!(byte, b'"' | b'\n' | b'\r') || *byte == delimiter;
    if !text.iter().any(special) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for part in text.split_inclusive(|byte| *byte == b'"') {
        out.extend_from_slice(part);
        if part.ends_with(b"\"") {
            out.push(b'"');
        }
    }
    out.push(b'"');
}
