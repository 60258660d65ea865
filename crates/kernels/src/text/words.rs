//! Words: the longest runs of bytes above the blank, so white space and control characters of ASCII part them. Bytes of
//! other scripts belong to words.

/// Calls `word` with every word of `text`.
#[inline]
pub fn for_each<'a>(text: &'a [u8], mut word: impl FnMut(&'a [u8])) {
    let mut at = 0;
    loop {
        while at < text.len() && text[at] <= b' ' {
            at += 1;
        }
        if at == text.len() {
            return;
        }
        let end = at + length(&text[at..]);
        word(&text[at..end]);
        at = end;
    }
}

/// What of a word is counted when case and punctuation do not matter: ASCII letters in lower case, without the ASCII
/// punctuation at both ends. Nothing may be left.
pub fn fold<'b>(word: &[u8], buffer: &'b mut Vec<u8>) -> &'b [u8] {
    let start = word.iter().position(|byte| !byte.is_ascii_punctuation()).unwrap_or(word.len());
    let end = word.iter().rposition(|byte| !byte.is_ascii_punctuation()).map_or(start, |at| at + 1);
    buffer.clear();
    buffer.extend(word[start..end].iter().map(u8::to_ascii_lowercase));
    buffer
}

/// How many bytes from the beginning on are above the blank. Eight at a time: the lowest byte that is found by the
/// subtraction is always a true one (Anderson, "Bit Twiddling Hacks", hasless).
#[inline]
fn length(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let mut at = 0;
    while let Some(chunk) = text.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let bytes = u64::from_le_bytes(chunk);
        let below = bytes.wrapping_sub(ONES * 0x21) & !bytes & (ONES * 0x80);
        if below != 0 {
            return at + (below.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < text.len() && text[at] > b' ' {
        at += 1;
    }
    at
}
