//! Hosts that repeat themselves: calendars, session pages and error pages that answer 200 under ever new addresses.
//!
//! Of each host the fingerprints of its last pages are kept. They repeat themselves if over 90 % of a full window lie
//! within a few bits of their centre, the majority of each bit. A host about which little is known is never braked, and
//! what was forgotten, because so many other hosts were seen since, begins anew.

use std::collections::{BTreeMap, VecDeque};

use super::simhash::distance;

/// Pages of a host that are looked at.
const WINDOW: usize = 200;
/// How many of a full window may be alike: 90 %.
const ALIKE_MAX: usize = WINDOW * 9 / 10;
/// Bits in which a page may differ from the centre and still be alike: about an eighth of its text.
const BITS: u32 = 10;
/// Hosts that are remembered; half of them are forgotten when there are more.
const HOSTS_MAX: usize = 10_000;

/// The last pages of hosts.
#[derive(Debug, Default)]
pub struct Windows {
    hosts: BTreeMap<String, Window>,
    turn: u64,
}

#[derive(Debug, Default)]
struct Window {
    pages: VecDeque<u64>,
    /// How many of the pages have each bit.
    bits: Vec<u16>,
    /// When it was last used.
    turn: u64,
}

impl Windows {
    /// Notes the fingerprint of a page of a host; whether the host repeats itself: over 90 % of its last 200 pages are
    /// almost the same.
    pub fn observe(&mut self, host: &str, simhash: u64) -> bool {
        self.turn += 1;
        if !self.hosts.contains_key(host) {
            self.make_room();
            self.hosts.insert(host.to_owned(), Window { bits: vec![0; 64], ..Window::default() });
        }
        let Some(window) = self.hosts.get_mut(host) else { return false };
        window.turn = self.turn;
        window.push(simhash);
        window.repeats()
    }

    fn make_room(&mut self) {
        if self.hosts.len() < HOSTS_MAX {
            return;
        }
        let mut turns: Vec<u64> = self.hosts.values().map(|window| window.turn).collect();
        turns.sort_unstable();
        let middle = turns[turns.len() / 2];
        self.hosts.retain(|_, window| window.turn >= middle);
    }
}

impl Window {
    fn push(&mut self, simhash: u64) {
        if self.pages.len() == WINDOW
            && let Some(oldest) = self.pages.pop_front()
        {
            self.count(oldest, u16::wrapping_sub);
        }
        self.pages.push_back(simhash);
        self.count(simhash, u16::wrapping_add);
    }

    fn count(&mut self, simhash: u64, change: fn(u16, u16) -> u16) {
        for (bit, count) in self.bits.iter_mut().enumerate() {
            *count = change(*count, u16::from(simhash >> bit & 1 == 1));
        }
    }

    fn repeats(&self) -> bool {
        if self.pages.len() < WINDOW {
            return false;
        }
        let centre = self.bits.iter().enumerate().fold(0, |centre, (bit, count)| {
            centre | (u64::from(usize::from(*count) * 2 > WINDOW) << bit)
        });
        self.pages.iter().filter(|page| distance(**page, centre) <= BITS).count() > ALIKE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::super::simhash::simhash;
    use super::*;

    /// A page of an endless calendar: the same words but for the day.
    fn calendar(day: usize) -> u64 {
        let words: Vec<String> = (0..120).map(|number| format!("menu{number}")).collect();
        simhash(&format!("{} events of day {day} none next day {}", words.join(" "), day + 1))
    }

    /// A page with the frame of its site and a text of its own.
    fn article(number: usize) -> u64 {
        let frame: Vec<String> = (0..60).map(|word| format!("menu{word}")).collect();
        let text: Vec<String> =
            (0..200).map(|word| format!("w{}", word * 7919 + number * 104_729)).collect();
        simhash(&format!("{} {}", frame.join(" "), text.join(" ")))
    }

    #[test]
    fn an_endless_calendar_is_braked_and_a_newspaper_is_not() {
        let mut windows = Windows::default();
        for day in 0..199 {
            assert!(
                !windows.observe("calendar.example", calendar(day)),
                "a window is not full at {day}"
            );
            assert!(!windows.observe("paper.example", article(day)));
        }
        assert!(windows.observe("calendar.example", calendar(199)));
        assert!(!windows.observe("paper.example", article(199)));
    }

    #[test]
    fn exactly_nine_tenths_are_not_too_much() {
        let mut windows = Windows::default();
        let mut is_braked = false;
        for page in 0..200 {
            let other = 0xffff_ffff_0000_0000_u64.rotate_left(page);
            is_braked = windows.observe("a.example", if page % 10 == 0 { other } else { 0xabcd });
        }
        assert!(!is_braked);
        assert!(windows.observe("a.example", 0xabcd), "the oldest page was of the others");
    }

    #[test]
    fn a_host_that_changes_is_let_go() {
        let mut windows = Windows::default();
        assert!((0..200).any(|day| windows.observe("a.example", calendar(day))));
        let verdicts: Vec<bool> =
            (0..30).map(|number| windows.observe("a.example", article(number))).collect();
        assert_eq!(verdicts.last(), Some(&false));
    }

    #[test]
    fn hosts_without_number_do_not_fill_the_memory() {
        let mut windows = Windows::default();
        for host in 0..HOSTS_MAX * 2 {
            windows.observe(&format!("h{host}.example"), 1);
            assert!(windows.hosts.len() <= HOSTS_MAX);
        }
        let last = format!("h{}.example", HOSTS_MAX * 2 - 1);
        assert!(windows.hosts.contains_key(&last));
    }
}
