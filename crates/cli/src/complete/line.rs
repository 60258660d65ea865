//! What a shell tells of the line at a Tab, as words.

use std::ffi::OsString;

/// The words up to the cursor, of which the last is being typed, and how many bytes of that the shell keeps by itself.
/// The first argument names the shell. Bash gives the line and where the cursor is in it, because it breaks words at
/// colons too; the others give the words.
pub(super) fn read(mut arguments: impl Iterator<Item = OsString>) -> Option<(Vec<String>, usize)> {
    let mut text = || Some(arguments.next()?.to_string_lossy().into_owned());
    if text()? != "bash" {
        return Some((std::iter::from_fn(text).collect(), 0));
    }
    let (line, point) = (text()?, text()?.parse().ok()?);
    let words = split(line.get(..point).unwrap_or(&line));
    let last = words.last().map_or("", String::as_str);
    let kept = last.rfind([':', '=']).map_or(0, |place| place + 1);
    Some((words, kept))
}

/// The words of a line as a shell reads them; the last one is empty if a space stands before the cursor.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None | Some('"'), '\\') => word.extend(chars.next()),
            (None, ' ' | '\t') if word.is_empty() => {}
            (None, ' ' | '\t') => words.push(std::mem::take(&mut word)),
            (_, c) => word.push(c),
        }
    }
    words.push(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bash(line: &str, point: usize) -> (Vec<String>, usize) {
        read(["bash", line, &point.to_string()].into_iter().map(OsString::from)).unwrap()
    }

    #[test]
    fn a_line_of_bash_is_read_as_bash_would() {
        let (words, kept) = of_bash("divvy  --server http://h:1 queue ma", 35);
        assert_eq!(
            (words, kept),
            (["divvy", "--server", "http://h:1", "queue", "ma"].map(Into::into).into(), 0)
        );
        assert_eq!(of_bash("divvy a ", 8).0, ["divvy", "a", ""]);
        assert_eq!(
            of_bash(r#"divvy 'a b' "c \" d" e\ f"#, 25).0,
            ["divvy", "a b", "c \" d", "e f"]
        );
        let (words, kept) = of_bash("divvy --state=de and more", 16);
        assert_eq!(
            (words[1].as_str(), kept),
            ("--state=de", 8),
            "bash replaces what is behind the sign"
        );
    }

    #[test]
    fn other_shells_give_words() {
        let words = ["fish", "divvy", "task", ""].into_iter().map(OsString::from);
        assert_eq!(read(words), Some((vec!["divvy".into(), "task".into(), String::new()], 0)));
        assert_eq!(read(std::iter::empty()), None);
    }
}
