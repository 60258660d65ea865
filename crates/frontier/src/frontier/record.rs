//! How the state of a host is packed for the store: numbers of fixed width, then what was in flight.

use super::Damaged;
use super::entry;
use super::host::{Host, Open};
use super::words::Park;
use crate::rules::priority::BANDS;

/// The first byte, so that another layout is not misread.
const LAYOUT: u8 = 1;
const BRAKED: u8 = 1;

/// Packs what is durable of a host. `lead` is whose gap counts.
pub(super) fn pack(host: &Host, lead: &Host) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    out.push(LAYOUT);
    out.push(match host.parked {
        None => 0,
        Some(Park::Blocked) => 1,
        Some(Park::CrawlDelay) => 2,
        Some(Park::Unreachable) => 3,
    });
    out.push(if host.is_braked { BRAKED } else { 0 });
    out.extend_from_slice(&host.failures.to_le_bytes());
    out.extend_from_slice(&lead.next_at_ms.to_le_bytes());
    out.extend_from_slice(&host.rest_until_ms.to_le_bytes());
    for number in [host.gap_ms, host.pages, host.finished, host.used, host.budget] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for number in host.heads.iter().chain(&host.ends) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    host.opened().iter().filter_map(|open| open.entry.as_ref()).for_each(|each| out.extend(each));
    out
}

/// Puts a packed state into a host that was just made.
pub(super) fn unpack(bytes: &[u8], name: &str, host: &mut Host) -> Result<(), Damaged> {
    let damaged = |problem| Damaged { subject: format!("host {name}"), problem };
    let mut reader = Reader(bytes);
    let mut read = || -> Option<u8> {
        let layout = reader.byte()?;
        host.parked = match reader.byte()? {
            1 => Some(Park::Blocked),
            2 => Some(Park::CrawlDelay),
            3 => Some(Park::Unreachable),
            _ => None,
        };
        host.is_braked = reader.byte()? & BRAKED != 0;
        host.failures = u16::from_le_bytes(reader.array()?);
        host.next_at_ms = u64::from_le_bytes(reader.array()?);
        host.rest_until_ms = u64::from_le_bytes(reader.array()?);
        let numbers = [
            &mut host.gap_ms,
            &mut host.pages,
            &mut host.finished,
            &mut host.used,
            &mut host.budget,
        ];
        for number in numbers {
            *number = u32::from_le_bytes(reader.array()?);
        }
        for number in host.heads.iter_mut().chain(&mut host.ends) {
            *number = u32::from_le_bytes(reader.array()?);
        }
        Some(layout)
    };
    match read() {
        None => return Err(damaged("it is too short")),
        Some(LAYOUT) => {}
        Some(_) => return Err(damaged("its layout is not known")),
    }
    if (0..BANDS).any(|band| host.heads[band] > host.ends[band]) {
        return Err(damaged("a queue ends before it begins"));
    }
    while !reader.0.is_empty() {
        let length = entry::length(reader.0).ok_or_else(|| damaged("an entry in flight is cut"))?;
        let (packed, rest) = reader.0.split_at(length);
        entry::Entry::unpack(packed).ok_or_else(|| damaged("an entry in flight is no text"))?;
        host.open(Open::waiting(packed.into()));
        reader.0 = rest;
    }
    Ok(())
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }
}
