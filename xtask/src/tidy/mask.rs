//! Separates the code of a Rust text from its comments and literals, line by line.
//!
//! Rules about names look at `code`, rules about words look at `comments`; neither is fooled by a string that holds
//! the word. It knows the shapes of tokens (nested comments, raw strings, lifetimes) and nothing of the grammar, so
//! it also sees inside macros.

/// A text in two copies with the same lines: one keeps only code, the other only comments.
#[derive(Debug, Default)]
pub(crate) struct Masked {
    /// The code, with the contents of literals left out.
    pub(crate) code: String,
    /// The comments, doc comments included.
    pub(crate) comments: String,
}

/// Separates `text`.
pub(crate) fn mask(text: &str) -> Masked {
    let mut scanner = Scanner { chars: text.chars().collect(), at: 0, masked: Masked::default() };
    scanner.run();
    scanner.masked
}

/// Whether `line` holds `name` as a whole: not as part of a longer identifier.
pub(crate) fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + name.len()..].chars().next();
        let cut = |inner: Option<char>, outer: Option<char>| {
            !(inner.is_some_and(is_identifier) && outer.is_some_and(is_identifier))
        };
        cut(name.chars().next(), before) && cut(name.chars().next_back(), after)
    })
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    masked: Masked,
}

impl Scanner {
    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.quoted('"'),
                ('\'', _) => self.quote_or_lifetime(),
                ('r' | 'b' | 'c', _) if !self.in_identifier() && self.raw_prefix().is_some() => {
                    self.raw_string()
                }
                _ => self.code(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn in_identifier(&self) -> bool {
        self.at > 0 && is_identifier(self.chars[self.at - 1])
    }

    /// Takes one character as code.
    fn code(&mut self) {
        let c = self.chars[self.at];
        self.masked.code.push(c);
        if c == '\n' {
            self.masked.comments.push(c);
        }
        self.at += 1;
    }

    /// Takes one character as part of a comment.
    fn comment(&mut self) {
        let c = self.chars[self.at];
        self.masked.comments.push(c);
        if c == '\n' {
            self.masked.code.push(c);
        }
        self.at += 1;
    }

    /// Takes one character of a literal: only its line breaks are kept.
    fn literal(&mut self) {
        if self.chars[self.at] == '\n' {
            self.masked.code.push('\n');
            self.masked.comments.push('\n');
        }
        self.at += 1;
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.comment();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.comment();
                    continue;
                }
            }
            self.comment();
            self.comment();
            if depth == 0 {
                return;
            }
        }
    }

    fn quoted(&mut self, end: char) {
        self.code();
        while let Some(c) = self.peek(0) {
            if c == end {
                self.code();
                return;
            }
            self.literal();
            if c == '\\' && self.peek(0).is_some() {
                self.literal();
            }
        }
    }

    fn quote_or_lifetime(&mut self) {
        if self.peek(1) == Some('\\') || self.peek(2) == Some('\'') {
            self.quoted('\'');
        } else {
            self.code();
        }
    }

    /// The length of the opening of a raw string that starts here, and its number of hashes.
    fn raw_prefix(&self) -> Option<(usize, usize)> {
        let letters = if matches!(self.peek(0), Some('b' | 'c')) { 2 } else { 1 };
        if self.peek(letters - 1) != Some('r') {
            return None;
        }
        let hashes = (0..).take_while(|n| self.peek(letters + n) == Some('#')).count();
        (self.peek(letters + hashes) == Some('"')).then_some((letters + hashes + 1, hashes))
    }

    fn raw_string(&mut self) {
        let Some((opening, hashes)) = self.raw_prefix() else { return self.code() };
        for _ in 0..opening {
            self.code();
        }
        while let Some(c) = self.peek(0) {
            if c == '"' && (1..=hashes).all(|n| self.peek(n) == Some('#')) {
                for _ in 0..=hashes {
                    self.code();
                }
                return;
            }
            self.literal();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_literals_are_told_apart() {
        let cases = [
            ("a // b", "a ", "// b"),
            ("a /* b /* c */ d */ e", "a  e", "/* b /* c */ d */"),
            ("let s = \"x // y \\\" z\"; q", "let s = \"\"; q", ""),
            ("r#\"a \" b\"# c", "r#\"\"# c", ""),
            ("br\"\\\" c", "br\"\" c", ""),
            ("f::<'a>('\"', '\\'', 'x')", "f::<'a>('', '', '')", ""),
            ("r#type // t", "r#type ", "// t"),
            ("for\"a\"", "for\"\"", ""),
        ];
        for (text, code, comments) in cases {
            let masked = mask(text);
            assert_eq!(
                (masked.code.as_str(), masked.comments.as_str()),
                (code, comments),
                "{text}"
            );
        }
    }

    #[test]
    fn lines_stay_where_they_are() {
        let masked = mask("a\n\"x\ny\" // c\n/* d\ne */ f\n");
        assert_eq!(masked.code, "a\n\"\n\" \n\n f\n");
        assert_eq!(masked.comments, "\n\n// c\n/* d\ne */\n");
    }

    #[test]
    fn a_name_is_found_only_as_a_whole() {
        assert!(names("x.Instant::now()", "Instant::now"));
        assert!(!names("Instant::nowhere()", "Instant::now"));
        assert!(!names("MyInstant::now()", "Instant::now"));
        assert!(names("tokio::todo!()", "todo!"));
        assert!(!names("my_todo!()", "todo!"));
    }
}
