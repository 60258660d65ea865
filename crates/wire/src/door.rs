//! Connections that nobody vouches for yet: how many there may be, and how long each may be silent.
//!
//! A connection stands at the door until one of its requests was let in by the guard. Until then it may hold a file
//! descriptor that others need, so it must ask for something within ten seconds, again and again, and there is a bound
//! on how many stand there. When it is reached, the oldest that has asked for nothing is shown out, then the oldest of
//! the others; but each has a fair chance first, so that a crowd of honest callers waits instead of being sent away.
//!
//! Both bounds follow from the number of files that the process may open: the store and the objects need some too.
//! Does not know what is asked, nor who may ask it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use http::HeaderValue;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::quiet::Quiet;

/// How long a connection at the door may be silent: from its begin to its first request, and from each to the next.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long nobody is shown out: its first words may wait to be read.
const FAIR_CHANCE: Duration = Duration::from_millis(250);
/// Connections at once.
const CONNECTIONS_MAX: u64 = 20_000;
/// Connections at the door; each may make the server keep as much as headers may have.
const AT_DOOR_MAX: u64 = 1_024;
/// Files that are left to the store, the objects and programs: a quarter of all, within these bounds.
const KEPT_FILES: (u64, u64) = (32, 4_096);

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// In all.
    pub connections: usize,
    /// Of those, at the door.
    pub at_door: usize,
}

impl Room {
    /// What a process has room for that may open so many files.
    pub fn for_files(files: u64) -> Self {
        let kept = (files / 4).clamp(KEPT_FILES.0, KEPT_FILES.1);
        let connections = files.saturating_sub(kept).clamp(16, CONNECTIONS_MAX);
        let at_door = (connections / 3).clamp(8, AT_DOOR_MAX);
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Self { connections: count(connections), at_door: count(at_door) }
    }
}

/// Those who stand at the door; a clone is the same door.
#[derive(Clone)]
pub struct Door(Arc<Shared>);

struct Shared {
    at_door_max: usize,
    silence_max: Duration,
    waiting: Mutex<Waiting>,
    /// Someone left the door.
    left: Notify,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    silent: BTreeMap<u64, Arc<Place>>,
    asking: BTreeMap<u64, Arc<Place>>,
    told: Quiet,
}

/// One connection's place.
struct Place {
    came: Instant,
    heard: Mutex<Instant>,
    is_let_in: AtomicBool,
    /// The secret that it was let in with, if it showed one.
    secret: OnceLock<HeaderValue>,
    shown_out: Notify,
}

/// A connection, as its requests know it.
#[derive(Clone)]
pub struct Guest {
    /// The other end.
    pub address: IpAddr,
    number: u64,
    place: Arc<Place>,
    door: Door,
}

/// Held by who serves a connection.
pub struct Visit(Guest);

impl Door {
    /// A door with this room, where nobody may be silent for longer.
    pub fn new(room: Room, silence_max: Duration) -> Self {
        Self(Arc::new(Shared {
            at_door_max: room.at_door,
            silence_max,
            waiting: Mutex::default(),
            left: Notify::new(),
        }))
    }

    /// Waits until there is room for one more. Shows the oldest out if there is none, but not before its time.
    pub async fn room(&self) {
        loop {
            let left = self.0.left.notified();
            let Some(until) = self.make_room(Instant::now()) else { return };
            // Whichever comes first: someone leaves, or the oldest has had its chance.
            let _ = tokio::time::timeout_at(until, left).await;
        }
    }

    /// Nothing if there is room; else when the oldest may be shown out.
    fn make_room(&self, now: Instant) -> Option<Instant> {
        let waiting = self.waiting();
        if waiting.silent.len() + waiting.asking.len() < self.0.at_door_max {
            return None;
        }
        let had_chance_at = waiting.oldest().map(|came| came + FAIR_CHANCE);
        if let Some(until) = had_chance_at.filter(|until| *until > now) {
            return Some(until);
        }
        drop(waiting);
        self.show_out_oldest();
        None
    }

    /// Ends the connection that stands here for the longest without a word, or for the longest at all.
    pub fn show_out_oldest(&self) {
        let mut waiting = self.waiting();
        let Some(place) = waiting.take_oldest(Instant::now()) else { return };
        place.shown_out.notify_one();
        if let Some(count) = waiting.told.count() {
            tracing::warn!(
                count,
                "closed connections that held a file and were not let in, to make room for others"
            );
        }
    }

    /// A connection from there has come.
    pub fn enter(&self, address: IpAddr) -> Visit {
        let now = Instant::now();
        let place = Arc::new(Place {
            came: now,
            heard: Mutex::new(now),
            is_let_in: AtomicBool::new(false),
            secret: OnceLock::new(),
            shown_out: Notify::new(),
        });
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.silent.insert(number, Arc::clone(&place));
        drop(waiting);
        Visit(Guest { address, number, place, door: self.clone() })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// When the one came that stands here for the longest, whether it asked or not.
    fn oldest(&self) -> Option<Instant> {
        let first = [self.silent.values().next(), self.asking.values().next()];
        first.into_iter().flatten().map(|place| place.came).min()
    }

    /// Takes out the oldest that has asked for nothing, if it had its chance; else the oldest of the others.
    fn take_oldest(&mut self, now: Instant) -> Option<Arc<Place>> {
        let is_due = |place: &Arc<Place>| place.came + FAIR_CHANCE <= now;
        let has_due = self.silent.values().next().is_some_and(is_due) || self.asking.is_empty();
        let list = if has_due { &mut self.silent } else { &mut self.asking };
        list.pop_first().map(|(_, place)| place)
    }
}

impl Guest {
    /// It asks for something.
    pub fn asks(&self) {
        if self.place.is_let_in.load(Ordering::Relaxed) {
            return;
        }
        *self.place.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut waiting = self.door.waiting();
        if let Some(place) = waiting.silent.remove(&self.number) {
            waiting.asking.insert(self.number, place);
        }
    }

    /// Someone vouches for it: it stands at the door no more.
    fn enters(&self) {
        if !self.place.is_let_in.swap(true, Ordering::Relaxed) {
            self.leave_door();
        }
    }

    /// Whether it showed the same before, and that was right.
    pub fn was_let_in_with(&self, secret: &HeaderValue) -> bool {
        self.place.secret.get() == Some(secret)
    }

    /// It showed this, and it is right.
    pub fn remember(&self, secret: &HeaderValue) {
        // The first is as good as any.
        let _ = self.place.secret.set(secret.clone());
    }

    fn leave_door(&self) {
        let mut waiting = self.door.waiting();
        waiting.silent.remove(&self.number);
        waiting.asking.remove(&self.number);
        drop(waiting);
        self.door.0.left.notify_one();
    }
}

impl Visit {
    /// The connection, for its requests.
    pub fn guest(&self) -> Guest {
        self.0.clone()
    }

    /// Comes when the connection must end: it was silent for too long, or made room for another.
    pub async fn over(&self) {
        let Guest { place, door, .. } = &self.0;
        loop {
            if place.is_let_in.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            let heard = *place.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let until = heard + door.0.silence_max;
            if until <= Instant::now() {
                return;
            }
            if tokio::time::timeout_at(until, place.shown_out.notified()).await.is_ok() {
                return;
            }
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.leave_door();
    }
}

/// The guard let a request in, and so its connection.
pub fn let_in(request: &Request) {
    if let Some(guest) = request.extensions().get::<Guest>() {
        guest.enters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn door(at_door: usize, silence_max: Duration) -> Door {
        Door::new(Room { connections: 100, at_door }, silence_max)
    }

    #[test]
    fn files_are_kept_for_others_than_callers() {
        for (files, connections, at_door) in
            [(64, 32, 10), (1_024, 768, 256), (4_096, 3_072, 1_024), (1 << 20, 20_000, 1_024)]
        {
            assert_eq!(Room::for_files(files), Room { connections, at_door }, "{files}");
        }
    }

    #[tokio::test]
    async fn who_is_silent_at_the_door_is_shown_out_and_who_was_let_in_stays() {
        let door = door(8, Duration::from_millis(20));
        let (silent, asking, known) = (door.enter(HERE), door.enter(HERE), door.enter(HERE));
        asking.guest().asks();
        known.guest().asks();
        known.guest().enters();
        tokio::time::timeout(Duration::from_secs(20), silent.over()).await.unwrap();
        tokio::time::timeout(Duration::from_secs(20), asking.over()).await.unwrap();
        assert!(tokio::time::timeout(Duration::ZERO, known.over()).await.is_err());
    }

    #[tokio::test]
    async fn a_full_door_shows_out_the_oldest_silent_one_after_its_chance() {
        let door = door(2, SILENCE_MAX);
        let (asking, silent) = (door.enter(HERE), door.enter(HERE));
        asking.guest().asks();
        let come = silent.0.place.came;
        let first = asking.0.place.came + FAIR_CHANCE;
        assert_eq!(door.make_room(asking.0.place.came), Some(first), "too early");
        let place = door.waiting().take_oldest(come + FAIR_CHANCE).unwrap();
        assert!(Arc::ptr_eq(&place, &silent.0.place));
        place.shown_out.notify_one();
        silent.over().await;
        assert!(tokio::time::timeout(Duration::ZERO, asking.over()).await.is_err());
        assert_eq!(door.make_room(come), None, "there is room now");
        let third = door.enter(HERE);
        drop(asking);
        assert_eq!(door.make_room(come), None, "who left makes room too");
        drop(third);
        // One that has just come is spared while others stand here that had their chance.
        let (asking, _fresh) = (door.enter(HERE), door.enter(HERE));
        asking.guest().asks();
        let place = door.waiting().take_oldest(asking.0.place.came).unwrap();
        assert!(Arc::ptr_eq(&place, &asking.0.place));
    }
}
