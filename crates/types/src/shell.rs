//! How a word is written on a command line, for the commands that explanations offer to copy.

use std::borrow::Cow;

/// The word as a shell reads it: as it is, or in quotes if it has anything that a shell would not leave alone.
pub fn word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        for (text, written) in [
            ("video.encode=PROGRAM", "video.encode=PROGRAM"),
            ("gpu=2,region=eu", "gpu=2,region=eu"),
            ("my kind=PROGRAM", "'my kind=PROGRAM'"),
            ("a'b", r"'a'\''b'"),
            ("$(x)", "'$(x)'"),
            ("", "''"),
        ] {
            assert_eq!(word(text), written);
        }
    }
}
