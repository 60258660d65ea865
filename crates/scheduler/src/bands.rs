//! The streams of one class and priority that may be served, and which of them is next.
//!
//! Most classes have one stream per priority, which costs a comparison; with several, three ordered sets are kept:
//! by age, by least slack and by fair share. Tags of fair keys grow behind the band's back when another class serves
//! the same key, so the first by share is checked when it comes up.

use std::collections::BTreeSet;

use divvy_types::Timestamp;

use crate::streams::{Listing, NONE};

#[derive(Debug)]
pub(crate) struct Band {
    /// The stream that may be served, if there is just one.
    only: Option<(u32, Listing)>,
    many: Option<Box<Many>>,
}

#[derive(Debug, Default)]
struct Many {
    by_age: BTreeSet<(Timestamp, u32)>,
    by_slack: BTreeSet<(Timestamp, u32)>,
    by_share: BTreeSet<(u64, Timestamp, u32)>,
}

/// What a band has to offer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// When its oldest task became ready.
    pub(crate) oldest: Timestamp,
    /// The latest start of its most urgent task with a deadline, and that task's stream.
    pub(crate) slack: Option<(Timestamp, u32)>,
    /// The stream whose fair key is the furthest behind, and that key's tag.
    pub(crate) share: (u64, Timestamp, u32),
}

impl Front {
    /// When something of it should start at the latest, where tasks without deadlines have so much patience.
    pub(crate) fn urgency(&self, patience_us: u64) -> u64 {
        let plain = self.oldest.0.saturating_add(patience_us);
        self.slack.map_or(plain, |(latest, _)| latest.0.min(plain))
    }

    /// The stream of its most urgent task with a deadline, if that goes before those without.
    pub(crate) fn urgent(&self, patience_us: u64) -> Option<u32> {
        let plain = self.oldest.0.saturating_add(patience_us);
        self.slack.filter(|(latest, _)| latest.0 <= plain).map(|(_, stream)| stream)
    }
}

impl Default for Band {
    fn default() -> Self {
        Self { only: None, many: None }
    }
}

impl Band {
    pub(crate) fn is_empty(&self) -> bool {
        self.only.is_none() && self.many.is_none()
    }

    pub(crate) fn list(&mut self, stream: u32, listing: Listing) {
        if self.is_empty() {
            self.only = Some((stream, listing));
            return;
        }
        let many = self.many.get_or_insert_default();
        if let Some((other, listing)) = self.only.take() {
            many.insert(other, listing);
        }
        many.insert(stream, listing);
    }

    pub(crate) fn unlist(&mut self, stream: u32, listing: Listing) {
        if let Some((other, _)) = self.only {
            debug_assert_eq!(other, stream, "the stream that is listed");
            self.only = None;
        } else if let Some(many) = &mut self.many {
            many.remove(stream, listing);
            if many.by_age.is_empty() {
                self.many = None;
            }
        }
    }

    /// The same stream with another head.
    pub(crate) fn relist(&mut self, stream: u32, before: Listing, listing: Listing) {
        match (&mut self.only, &mut self.many) {
            (Some(only), _) => only.1 = listing,
            (None, Some(many)) => {
                many.remove(stream, before);
                many.insert(stream, listing);
            }
            (None, None) => unreachable!("a listed stream is in its band"),
        }
    }

    pub(crate) fn front(&self) -> Option<Front> {
        if let Some((stream, listing)) = self.only {
            return Some(Front {
                oldest: listing.oldest,
                slack: listing.slack.map(|latest| (latest, stream)),
                share: (listing.tag, listing.oldest, stream),
            });
        }
        let many = self.many.as_ref()?;
        Some(Front {
            oldest: many.by_age.first()?.0,
            slack: many.by_slack.first().copied(),
            share: many.by_share.first().copied().unwrap_or((0, Timestamp(0), NONE)),
        })
    }
}

impl Many {
    fn insert(&mut self, stream: u32, listing: Listing) {
        self.by_age.insert((listing.oldest, stream));
        self.by_share.insert((listing.tag, listing.oldest, stream));
        if let Some(latest) = listing.slack {
            self.by_slack.insert((latest, stream));
        }
    }

    fn remove(&mut self, stream: u32, listing: Listing) {
        self.by_age.remove(&(listing.oldest, stream));
        self.by_share.remove(&(listing.tag, listing.oldest, stream));
        if let Some(latest) = listing.slack {
            self.by_slack.remove(&(latest, stream));
        }
    }
}
