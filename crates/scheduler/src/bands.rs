//! The streams of one class and priority that may be served, and which of them is next.
//!
//! Most classes have one stream per priority, which costs a comparison; with several, three ordered sets are kept:
//! by age, by least slack and by fair share. Tags of fair keys grow behind the band's back when another class serves
//! the same key, so the first by share is checked when it comes up.

use std::collections::BTreeSet;

use divvy_types::Timestamp;

use crate::streams::Listing;

#[derive(Debug, Default)]
pub(crate) struct Band {
    /// The stream that may be served, if there is just one.
    only: Option<(u32, Listing)>,
    many: Option<Box<Many>>,
}

#[derive(Debug, Default)]
struct Many {
    /// By the oldest task without a deadline.
    by_age: BTreeSet<(Timestamp, u32)>,
    /// By the oldest task with one.
    by_timed_age: BTreeSet<(Timestamp, u32)>,
    by_slack: BTreeSet<(Timestamp, u32)>,
    by_share: BTreeSet<(u64, Timestamp, u32)>,
}

/// What a band has to offer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// When its oldest task became ready, and that task's stream.
    pub(crate) oldest: (Timestamp, u32),
    /// The same of tasks without deadlines.
    pub(crate) plain: Option<(Timestamp, u32)>,
    /// The latest start of its most urgent task with a deadline, and that task's stream.
    pub(crate) slack: Option<(Timestamp, u32)>,
    /// The stream whose fair key is the furthest behind, and that key's tag.
    pub(crate) share: (u64, Timestamp, u32),
}

impl Front {
    /// When something of it should start at the latest, where tasks without deadlines have so much patience; of which
    /// stream, and whether that task has a deadline.
    pub(crate) fn urgency(&self, patience_us: u64) -> (u64, u32, bool) {
        let plain =
            self.plain.map(|(oldest, stream)| (oldest.0.saturating_add(patience_us), stream));
        match (plain, self.slack) {
            (Some((by, stream)), Some((latest, _))) if by < latest.0 => (by, stream, false),
            (Some((by, stream)), None) => (by, stream, false),
            (_, Some((latest, stream))) => (latest.0, stream, true),
            (None, None) => (u64::MAX, self.oldest.1, false),
        }
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
            if many.by_share.is_empty() {
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

    #[inline]
    pub(crate) fn front(&self) -> Option<Front> {
        if let Some((stream, listing)) = self.only {
            return Some(Front {
                oldest: (listing.oldest(), stream),
                plain: listing.plain.map(|oldest| (oldest, stream)),
                slack: listing.timed.map(|(_, latest)| (latest, stream)),
                share: (listing.tag, listing.oldest(), stream),
            });
        }
        let many = self.many.as_ref()?;
        let plain = many.by_age.first().copied();
        Some(Front {
            oldest: plain.into_iter().chain(many.by_timed_age.first().copied()).min()?,
            plain,
            slack: many.by_slack.first().copied(),
            share: many.by_share.first().copied()?,
        })
    }
}

impl Many {
    fn insert(&mut self, stream: u32, listing: Listing) {
        self.by_share.insert((listing.tag, listing.oldest(), stream));
        if let Some(oldest) = listing.plain {
            self.by_age.insert((oldest, stream));
        }
        if let Some((oldest, latest)) = listing.timed {
            self.by_timed_age.insert((oldest, stream));
            self.by_slack.insert((latest, stream));
        }
    }

    fn remove(&mut self, stream: u32, listing: Listing) {
        self.by_share.remove(&(listing.tag, listing.oldest(), stream));
        if let Some(oldest) = listing.plain {
            self.by_age.remove(&(oldest, stream));
        }
        if let Some((oldest, latest)) = listing.timed {
            self.by_timed_age.remove(&(oldest, stream));
            self.by_slack.remove(&(latest, stream));
        }
    }
}
