//! Numbers and texts as bytes: whole numbers in groups of seven bits, texts behind their length.

/// What was read is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of the shuffle is damaged")]
pub struct Damaged;

/// Appends a number.
#[inline]
pub fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number from the front.
///
/// # Errors
/// If there is none.
#[inline]
pub fn take_number(from: &mut &[u8]) -> Result<u64, Damaged> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first().ok_or(Damaged)?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Damaged)
}

/// Appends bytes behind their length.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Takes bytes from behind their length.
///
/// # Errors
/// If they are not there.
pub fn take_bytes<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], Damaged> {
    let length = usize::try_from(take_number(from)?).map_err(|_| Damaged)?;
    let (bytes, rest) = from.split_at_checked(length).ok_or(Damaged)?;
    *from = rest;
    Ok(bytes)
}

/// Appends the bits of a float.
pub(super) fn put_float(float: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&float.to_bits().to_le_bytes());
}

/// Takes a float from the front.
pub(super) fn take_float(from: &mut &[u8]) -> Result<f64, Damaged> {
    let (bytes, rest) = from.split_first_chunk::<8>().ok_or(Damaged)?;
    *from = rest;
    Ok(f64::from_bits(u64::from_le_bytes(*bytes)))
}
