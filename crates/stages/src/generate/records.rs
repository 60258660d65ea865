//! Records of 100 bytes as the sort benchmark has them: a key of ten printable bytes, then a number and filling.
//!
//! They end with a line end, so they are lines too, and GNU sort can be asked.

use std::io::{self, Write};

use super::Maker;

/// Bytes of a record.
const RECORD_BYTES: usize = 100;
const KEY_BYTES: usize = 10;

pub(super) fn write<W: Write>(mut chance: fastrand::Rng, to: &mut Maker<'_, W>) -> io::Result<()> {
    let mut record = [b'.'; RECORD_BYTES];
    record[RECORD_BYTES - 1] = b'\n';
    while to.wants_more() {
        // Six bits for each byte of the key, from 32 on: printable, and as good as any order of bytes.
        let random = chance.u64(..);
        for (nth, byte) in record[..KEY_BYTES].iter_mut().enumerate() {
            *byte = 32 + (random >> (6 * nth) & 63) as u8;
        }
        let number = to.made.rows;
        for (nth, byte) in record[KEY_BYTES + 2..KEY_BYTES + 18].iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(number >> (60 - 4 * nth) & 15) as usize];
        }
        to.row(|line| line.extend_from_slice(&record))?;
    }
    Ok(())
}
