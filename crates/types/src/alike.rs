//! Which errors are alike: the one place that decides what a group of dead letters is.
//!
//! Two errors belong together if their kind and class are the same and their first lines differ only in what differs
//! from task to task.

/// Bytes of an error that are compared, roughly.
const COMPARED_BYTES_MAX: usize = 200;

/// The first line of an error without numbers and long hexadecimal words, each of which is `#` instead.
pub fn normalise(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let mut text = String::with_capacity(first.len().min(COMPARED_BYTES_MAX));
    for word in first.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let body = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let hexadecimal = body.len() >= 8 && body.bytes().all(|b| b.is_ascii_hexdigit());
        if hexadecimal || (!body.is_empty() && body.bytes().all(|b| b.is_ascii_digit())) {
            text.push('#');
            text.push_str(&word[body.len()..]);
        } else {
            text.push_str(word);
        }
        if text.len() > COMPARED_BYTES_MAX {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_only_are_alike() {
        let one = normalise("timeout after 30 s on 0198c0de7a3b");
        assert_eq!(one, normalise("timeout after 7 s on 0fffffffffff"));
        assert_eq!(one, normalise(&one), "what is normal stays as it is");
        assert_ne!(normalise("timeout"), normalise("refused"));
        assert_eq!(normalise("first line 1\nsecond"), "first line #");
    }
}
