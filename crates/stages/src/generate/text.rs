//! Lines of made-up words, of which few are frequent and many are rare.

use std::io::{self, Write};

use super::{Maker, Zipf};

/// Words of a line, at least and at most.
const LINE_WORDS: (u32, u32) = (5, 15);
const SYLLABLES: [&str; 32] = [
    "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va",
    "we", "xi", "yo", "zu", "bra", "cle", "dri", "flo", "gru", "pla", "spe", "sti", "tro", "shu",
    "cha", "ne",
];

pub(super) fn write<W: Write>(
    zipf: &Zipf,
    mut chance: fastrand::Rng,
    to: &mut Maker<'_, W>,
) -> io::Result<()> {
    while to.wants_more() {
        let words = chance.u32(LINE_WORDS.0..=LINE_WORDS.1);
        to.row(|line| {
            for nth in 0..words {
                if nth > 0 {
                    line.push(b' ');
                }
                put_word(zipf.choose(&mut chance), line);
            }
            line.push(b'\n');
        })?;
    }
    Ok(())
}

/// The word with this number: frequent ones are short.
fn put_word(number: u32, line: &mut Vec<u8>) {
    let mut rest = number + 1;
    while rest > 0 {
        line.extend_from_slice(SYLLABLES[(rest % 32) as usize].as_bytes());
        rest /= 32;
    }
}
