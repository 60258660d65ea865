//! Blocks, words, fields and numbers against slow references.

use proptest::prelude::*;

use super::*;

/// Gives few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.0.len().min(self.1).min(out.len());
        out[..bytes].copy_from_slice(&self.0[..bytes]);
        self.0 = &self.0[bytes..];
        Ok(bytes)
    }
}

fn lines_of(text: &[u8], range: std::ops::Range<u64>, step: usize) -> Vec<(u64, Vec<u8>)> {
    let from = range.start.saturating_sub(1).min(text.len() as u64) as usize;
    let mut blocks = Blocks::new(Slow(&text[from..], step), range);
    let mut lines = Vec::new();
    while let Some(block) = blocks.next().unwrap() {
        lines.extend(block.lines().map(|(offset, line)| (offset, line.to_vec())));
    }
    lines
}

proptest! {
    #[test]
    fn every_line_is_in_exactly_one_split(
        text in "[ab\r\n]{0,60}", cuts in prop::collection::vec(0_u64..70, 0..5), step in 1_usize..9,
    ) {
        let text = text.as_bytes();
        let mut whole = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let bare = line.strip_suffix(b"\n").unwrap_or(line);
            whole.push((start, bare.strip_suffix(b"\r").unwrap_or(bare).to_vec()));
            start += line.len() as u64;
        }
        let mut cuts = cuts;
        cuts.extend([0, text.len() as u64]);
        cuts.retain(|cut| *cut <= text.len() as u64);
        cuts.sort_unstable();
        let split: Vec<_> =
            cuts.windows(2).flat_map(|cut| lines_of(text, cut[0]..cut[1], step)).collect();
        prop_assert_eq!(&split, &whole);
        prop_assert_eq!(lines_of(text, 0..u64::MAX, step), whole);
    }

    #[test]
    fn words_are_what_is_between_blanks(text in "[a-zé \t\n\u{1}!]{0,80}") {
        let mut found = Vec::new();
        words::for_each(text.as_bytes(), |word| found.push(word.to_vec()));
        let expected: Vec<Vec<u8>> = text
            .split(|letter: char| letter <= ' ')
            .filter(|word| !word.is_empty())
            .map(|word| word.as_bytes().to_vec())
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn numbers_are_read_as_the_standard_library_reads_them(text in "[-]?[0-9]{0,18}[.]?[0-9]{0,8}(e-?[0-9]{1,2})?") {
        let expected = match text.parse::<i64>() {
            Ok(whole) => Some(Number::Whole(whole)),
            Err(_) => text.parse::<f64>().ok().map(Number::Float),
        };
        prop_assert_eq!(Number::parse(text.as_bytes()), expected, "{}", text);
    }

    #[test]
    fn fields_come_back_from_csv(rows in prop::collection::vec(prop::collection::vec("[ab,\" é]{0,6}", 3), 1..5)) {
        let mut reader = csv::Rows::new(b',', 3, &[2, 0]);
        for row in rows {
            let mut line = Vec::new();
            for (number, field) in row.iter().enumerate() {
                if number > 0 { line.push(b','); }
                csv::write_field(field.as_bytes(), b',', &mut line);
            }
            let names = csv::header(&line, b',').unwrap();
            prop_assert_eq!(names, row.iter().map(|field| field.trim().to_owned()).collect::<Vec<_>>());
            let read = reader.read(&line, |fields| fields.iter().map(|field| field.text(&mut Vec::new()).to_vec()).collect::<Vec<_>>());
            prop_assert_eq!(read.unwrap(), vec![row[2].as_bytes().to_vec(), row[0].as_bytes().to_vec()]);
        }
    }
}

#[test]
fn what_is_no_number_is_not_taken_for_one() {
    for bad in ["", "-", ".", "1e", "NaN", "inf", "1 2", "0x1", "1e999", "--1", "1.2.3"] {
        assert_eq!(Number::parse(bad.as_bytes()), None, "{bad}");
    }
    assert_eq!(Number::parse(b" 7 "), Some(Number::Whole(7)));
}

#[test]
fn malformed_rows_say_what_is_wrong() {
    let mut rows = csv::Rows::new(b',', 2, &[0]);
    let mut why = |line: &str| rows.read(line.as_bytes(), |_| ()).unwrap_err().to_string();
    assert_eq!(why("a"), "the row has 1 fields, the header 2");
    assert_eq!(why("a,b,c"), "the row has 3 fields, the header 2");
    assert_eq!(why("\"a\",b,c"), "the row has 3 fields, the header 2");
    assert_eq!(why("\"a,b"), "a quoted field does not end on its line; a row must be one line");
    assert!(why("\"a\"b,c").starts_with("field 1 goes on after its closing quote"));
}

#[test]
fn members_of_json_are_found_wherever_they_stand() {
    let members = json::Members::new(&["k".into(), "x".into(), "no".into()]);
    let read = |line: &str| {
        members.read(line.as_bytes(), |fields| {
            fields
                .iter()
                .map(|field| String::from_utf8_lossy(field.text(&mut Vec::new())).into_owned())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(read(r#"{"a":{"x":1},"x":2.50,"k":"q\"\u00e9"}"#).unwrap(), ["q\"é", "2.5", ""]);
    assert_eq!(read(r#"{"k":true,"x":null}"#).unwrap(), ["true", "", ""]);
    assert_eq!(
        read(r#"{"k":[1, 2],"x":18446744073709551615}"#).unwrap(),
        ["[1, 2]", "1.8446744073709552e19", ""]
    );
    for bad in ["", "[]", "{\"k\":1", "{\"k\":1} x", "7"] {
        assert!(
            read(bad).unwrap_err().to_string().starts_with("the line is no JSON object"),
            "{bad}"
        );
    }
}

#[test]
fn a_folded_word_has_no_case_and_no_punctuation_around_it() {
    let mut buffer = Vec::new();
    assert_eq!(words::fold(b"\"Don't,\"", &mut buffer), b"don't");
    assert_eq!(words::fold(b"--", &mut buffer), b"");
}
