//! Words of others, made safe to print: what a task, a program or a server wrote must not steer the terminal.
//!
//! Control characters (C0, DEL and C1, which begin escape sequences), and those that turn the direction of writing,
//! are written out: `\x1b`, `\u{202e}`. Line ends and tabs stay; a carriage return before a line end goes. Everything
//! that [`Output`](super::Output) prints for people passes here, so no command has to think of it.

use std::borrow::Cow;
use std::fmt::Write as _;

use divvy_types::hidden;

/// The text with what could steer a terminal written out.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            c if steers(c) => write_out(c, &mut shown),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// The same on one line: line ends and tabs become spaces.
pub fn on_one_line(text: &str) -> String {
    visible(text).replace(['\n', '\t'], " ")
}

/// JSON that means the same and is safe to print. A string in JSON cannot hold the lower control characters, so what is
/// written out here is inside of strings, where `\u` is an escape.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.contains(steers) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if steers(c) && c != '\r' {
            write!(shown, "\\u{:04x}", u32::from(c)).expect("a String takes any text");
        } else if c != '\r' {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Bytes of a text that arrive in pieces, which may end within a character.
#[derive(Debug, Default)]
pub struct Pieces {
    /// The beginning of a character, or a carriage return, whose meaning depends on what follows.
    rest: Vec<u8>,
}

impl Pieces {
    /// The next piece, safe to print. Bytes that are no text are written out.
    pub fn next(&mut self, piece: &[u8]) -> String {
        self.rest.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.rest);
        let whole = bytes.len() - unfinished(&bytes);
        self.rest = bytes[whole..].to_vec();
        printable(&bytes[..whole])
    }

    /// What is left when nothing follows.
    pub fn end(&mut self) -> String {
        printable(&std::mem::take(&mut self.rest))
    }
}

/// Bytes as a text that is safe to print; those that are no text are written out.
fn printable(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&visible(chunk.valid()));
        for byte in chunk.invalid() {
            write!(shown, "\\x{byte:02x}").expect("a String takes any text");
        }
    }
    shown
}

/// How many bytes at the end wait for what follows.
fn unfinished(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return 1;
    }
    // A character has four bytes at most, so its beginning is among the last three.
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let length = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if length > back { back } else { 0 };
    }
    0
}

/// Whether a terminal would obey it rather than show it. Ends of lines and tabs are for the caller to judge.
fn steers(c: char) -> bool {
    !matches!(c, '\n' | '\t') && hidden::steers(c)
}

fn write_out(c: char, to: &mut String) {
    let wrote = match (c, u32::from(c)) {
        ('\r', _) => write!(to, "\\r"),
        (_, code @ 0..=0xff) => write!(to, "\\x{code:02x}"),
        (_, code) => write!(to, "\\u{{{code:x}}}"),
    };
    wrote.expect("a String takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_out_and_the_rest_stays() {
        for (text, shown) in [
            ("plain, ä, 漢\n\tindented\n", "plain, ä, 漢\n\tindented\n"),
            ("\x1b]0;PWNED\x07\x1b[2J", "\\x1b]0;PWNED\\x07\\x1b[2J"),
            ("over\rwritten", "over\\rwritten"),
            ("dos\r\nline", "dos\nline"),
            ("\u{9b}2J\x7f\0\x08", "\\x9b2J\\x7f\\x00\\x08"),
            ("a\u{202e}b\u{2028}c", "a\\u{202e}b\\u{2028}c"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(on_one_line("a\nb\tc\x1b[0m"), "a b c\\x1b[0m");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let json = "{\"a\":\"x\u{9b}2J\u{7f}\u{202e}\"}";
        let shown = visible_json(json);
        assert!(shown.is_ascii(), "{shown}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&shown), read(json));
    }

    #[test]
    fn a_text_in_pieces_is_shown_as_the_whole_would_be() {
        let text = "äß漢🦀\r\n\x1b[31mred\r\u{9b}x\r\n".as_bytes();
        for cut in 0..=text.len() {
            let mut pieces = Pieces::default();
            let mut shown = pieces.next(&text[..cut]) + &pieces.next(&text[cut..]);
            shown += &pieces.end();
            assert_eq!(shown, "äß漢🦀\n\\x1b[31mred\\r\\x9bx\n", "{cut}");
        }
        let mut pieces = Pieces::default();
        assert_eq!(pieces.next(b"a\xff\xc3") + &pieces.end(), "a\\xff\\xc3");
    }
}
