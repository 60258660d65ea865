//! The words of a page that a person can read, found without a parser: what stands between tags, except in elements that
//! are not shown.
//!
//! It serves fingerprints and counts of words, for which it must be quick and give the same for the same page, and for
//! which an odd page may lose a few words. Entities stay as they are written. Links are never taken from here.

/// Elements whose content is not shown, or is no text.
const HIDDEN: [&str; 8] =
    ["script", "style", "noscript", "template", "iframe", "noembed", "noframes", "svg"];

/// Calls `piece` with each run of text.
pub(super) fn visible<'a>(html: &'a str, mut piece: impl FnMut(&'a str)) {
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        if start > 0 {
            piece(&rest[..start]);
        }
        rest = after_markup(&rest[start..]).unwrap_or_else(|| {
            piece("<");
            &rest[start + 1..]
        });
    }
    piece(rest);
}

/// The content of an element that holds text only, up to its end tag, and whether there is one. `text` begins with it.
pub(super) fn until_end_tag<'a>(text: &'a str, name: &str) -> &'a str {
    &text[..end_tag(text, name).unwrap_or(text.len())]
}

/// What comes after the comment, tag or hidden element that `text` begins with; nothing if it begins with none.
fn after_markup(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    match bytes.get(1)? {
        b'!' if text.starts_with("<!--") => {
            Some(text[4..].find("-->").map_or("", |end| &text[4 + end + 3..]))
        }
        b'!' | b'?' => Some(text.find('>').map_or("", |end| &text[end + 1..])),
        b'/' => Some(after_tag(&text[2..])),
        byte if byte.is_ascii_alphabetic() => {
            let after = after_tag(&text[1..]);
            let name = name_of(&text[1..]);
            let hidden = HIDDEN.iter().find(|hidden| hidden.eq_ignore_ascii_case(name));
            Some(match hidden {
                Some(hidden) => {
                    end_tag(after, hidden).map_or("", |end| after_tag(&after[end + 2..]))
                }
                None => after,
            })
        }
        _ => None,
    }
}

/// The name that a tag begins with.
pub(super) fn name_of(tag: &str) -> &str {
    let end =
        tag.bytes().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'));
    &tag[..end.unwrap_or(tag.len())]
}

/// What comes after a tag, in whose values `>` may stand.
fn after_tag(tag: &str) -> &str {
    let bytes = tag.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'>' => return &tag[at + 1..],
            b'=' => {
                while bytes.get(at + 1).is_some_and(u8::is_ascii_whitespace) {
                    at += 1;
                }
                if let Some(quote @ (b'"' | b'\'')) = bytes.get(at + 1).copied() {
                    let Some(end) = bytes[at + 2..].iter().position(|byte| *byte == quote) else {
                        return "";
                    };
                    at += end + 2;
                }
            }
            _ => {}
        }
        at += 1;
    }
    ""
}

/// Where `</name` stands.
fn end_tag(text: &str, name: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("</")?;
        let found = text.as_bytes().get(at + 2..at + 2 + name.len());
        if found.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes())) {
            return Some(at);
        }
        from = at + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_shown_is_text() {
        let facts = [
            ("one <b>two</b> three", "one |two| three"),
            ("<a title='x > y' href=\"z>\">link</a>", "link"),
            ("<script>if (a < b) '</b>'</script>after", "after"),
            ("<SCRIPT>x</ScRiPt >after", "after"),
            ("<style>p > a {}</style><!-- c > d --><p>e", "e"),
            ("<!doctype html><?x y?>f", "f"),
            ("1 < 2 <3", "1 |<| 2 |<|3"),
            ("<script>never ends", ""),
            ("<!-- never ends", ""),
            ("<a href='never ends", ""),
            ("é<br>ü", "é|ü"),
            ("<", "<"),
        ];
        for (html, expected) in facts {
            let mut pieces = Vec::new();
            visible(html, |piece| {
                if !piece.is_empty() {
                    pieces.push(piece);
                }
            });
            assert_eq!(pieces.join("|"), expected, "{html}");
        }
    }

    #[test]
    fn an_element_of_text_ends_at_its_end_tag() {
        assert_eq!(until_end_tag("a </b> c</TITLE>d", "title"), "a </b> c");
        assert_eq!(until_end_tag("a", "title"), "a");
    }
}
