//! Texts that may be too long, cut between characters.

/// The beginning of a text, at most so many bytes of it.
pub fn head(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// The end of a text, at most so many bytes of it.
pub fn tail(text: &str, bytes_max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes_max))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_character_and_never_exceeds_the_limit() {
        let text = "añ€😀";
        for bytes_max in 0..=12 {
            let (head, tail) = (head(text, bytes_max), tail(text, bytes_max));
            assert!(head.len() <= bytes_max && text.starts_with(head));
            assert!(tail.len() <= bytes_max && text.ends_with(tail));
        }
        assert_eq!((head(text, 3), tail(text, 7)), ("añ", "€😀"));
        assert_eq!((head(text, 2), tail(text, 6)), ("a", "😀"));
        assert_eq!((head(text, 99), tail(text, 99)), (text, text));
    }
}
