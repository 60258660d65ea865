//! How the state of a host is packed for the store: numbers of fixed width, its trouble, then what was in flight.

use super::host::Open;
use super::{Damaged, Frontier, Park, entry};
use crate::rules::priority::BANDS;

/// The first byte, so that another layout is not misread.
const LAYOUT: u8 = 2;
const BRAKED: u8 = 1;

impl Frontier {
    /// Packs what is durable of a host.
    pub(super) fn pack(&self, number: u32) -> Vec<u8> {
        let (host, lead) = (&self.hosts[number], &self.hosts[self.lead(number)]);
        let rare = host.rare();
        let mut out = Vec::with_capacity(96);
        out.push(LAYOUT);
        out.push(match host.parked {
            None => 0,
            Some(Park::Blocked) => 1,
            Some(Park::CrawlDelay) => 2,
            Some(Park::Unreachable) => 3,
            Some(Park::Refused) => 4,
        });
        out.push(if host.is_braked { BRAKED } else { 0 });
        out.extend_from_slice(&rare.failures.to_le_bytes());
        out.extend_from_slice(&lead.next_at_ms.to_le_bytes());
        out.extend_from_slice(&rare.rest_until_ms.to_le_bytes());
        out.extend_from_slice(&rare.open_until_ms.to_le_bytes());
        let budget = self.budget_of(host);
        for number in [host.gap_ms, host.pages, host.finished, host.used, budget] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let numbers: [_; BANDS] =
            std::array::from_fn(|band| host.queues.numbers(&self.pieces, band as u8));
        let heads = numbers.iter().map(|(head, _)| head);
        for number in heads.chain(numbers.iter().map(|(_, end)| end)) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let trouble = rare.trouble.as_deref().unwrap_or_default();
        let length = u16::try_from(trouble.len()).expect("TROUBLE_BYTES_MAX has 16 bits");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(trouble.as_bytes());
        let entries = host.opened().iter().filter_map(|open| open.entry.as_ref());
        entries.for_each(|each| out.extend(each));
        out
    }

    /// Puts a packed state into a host that was just made.
    pub(super) fn unpack(&mut self, bytes: &[u8], name: &str, number: u32) -> Result<(), Damaged> {
        let damaged = |problem| Damaged { subject: format!("host {name}"), problem };
        let (host, allowed) = (&mut self.hosts[number], self.rules.host_budget);
        let mut reader = Reader(bytes);
        let mut numbers = [[0; BANDS]; 2];
        let mut read = || -> Option<u8> {
            let layout = reader.byte()?;
            host.parked = match reader.byte()? {
                1 => Some(Park::Blocked),
                2 => Some(Park::CrawlDelay),
                3 => Some(Park::Unreachable),
                4 => Some(Park::Refused),
                _ => None,
            };
            host.is_braked = reader.byte()? & BRAKED != 0;
            let failures = u16::from_le_bytes(reader.array()?);
            host.next_at_ms = u64::from_le_bytes(reader.array()?);
            let rest_until_ms = u64::from_le_bytes(reader.array()?);
            let open_until_ms = u64::from_le_bytes(reader.array()?);
            let mut budget = 0;
            let counts = [
                &mut host.gap_ms,
                &mut host.pages,
                &mut host.finished,
                &mut host.used,
                &mut budget,
            ];
            for number in counts.into_iter().chain(numbers.as_flattened_mut()) {
                *number = u32::from_le_bytes(reader.array()?);
            }
            let trouble = reader.text()?;
            host.change(|rare| {
                (rare.failures, rare.rest_until_ms) = (failures, rest_until_ms);
                (rare.open_until_ms, rare.trouble) = (open_until_ms, trouble);
                rare.budget = (budget != allowed).then_some(budget);
            });
            Some(layout)
        };
        match read() {
            None => return Err(damaged("it is too short")),
            Some(LAYOUT) => {}
            Some(_) => return Err(damaged("its layout is not known")),
        }
        let [heads, ends] = numbers;
        for (band, (head, end)) in (0..).zip(heads.into_iter().zip(ends)) {
            if head > end {
                return Err(damaged("a queue ends before it begins"));
            }
            host.queues.restore(&mut self.pieces, band, head, end);
        }
        while !reader.0.is_empty() {
            let length =
                entry::length(reader.0).ok_or_else(|| damaged("an entry in flight is cut"))?;
            let (packed, rest) = reader.0.split_at(length);
            entry::Entry::unpack(packed).ok_or_else(|| damaged("an entry in flight is no text"))?;
            host.open(Open::waiting(packed.into()));
            reader.0 = rest;
        }
        Ok(())
    }
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

    /// A text after its length; nothing in it if it is empty or no text, for it is only told to people.
    fn text(&mut self) -> Option<Option<Box<str>>> {
        let length = usize::from(u16::from_le_bytes(self.array()?));
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(str::from_utf8(text).ok().filter(|text| !text.is_empty()).map(Box::from))
    }
}
