//! The windows of a stream, each with a state for each key.

use super::panes::Panes;
use super::sessions::Sessions;
use super::spec::{Spec, Trigger};
use crate::aggregate::{Damaged, put_number, take_number};

/// What is kept for a key in a window.
pub trait Aggregate {
    /// It.
    type State;

    /// That of no event.
    fn start(&self) -> Self::State;

    /// Adds the state of later events to that of earlier ones.
    fn merge(&self, into: &mut Self::State, from: Self::State);

    /// Appends a state.
    fn save(&self, state: &Self::State, out: &mut Vec<u8>);

    /// Takes a state from the front.
    ///
    /// # Errors
    /// If there is none.
    fn load(&self, from: &mut &[u8]) -> Result<Self::State, Damaged>;
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is in a window.
    In,
    /// All its windows are closed.
    Late,
}

/// What a window says about a key.
#[derive(Debug)]
pub struct Fired<'a, S> {
    /// When the window began.
    pub start_ms: i64,
    /// When it ended, or will.
    pub end_ms: i64,
    /// The key.
    pub key: &'a [u8],
    /// What is known of it.
    pub state: &'a S,
    /// Events that are in it.
    pub events: u64,
    /// Whether the window is not closed yet.
    pub is_early: bool,
}

/// All open windows of a stream.
#[derive(Debug)]
pub struct Windows<A: Aggregate> {
    aggregate: A,
    trigger: Trigger,
    watermark: i64,
    /// The next point of event time at which [`Trigger::EveryMs`] speaks.
    next_fire_ms: Option<i64>,
    open: Open<A::State>,
}

#[derive(Debug)]
enum Open<S> {
    Panes(Panes<S>),
    Sessions(Sessions<S>),
}

impl<A: Aggregate> Windows<A> {
    /// No windows yet.
    ///
    /// # Panics
    /// If the spec cannot be used; see [`Spec::check`].
    pub fn new(spec: Spec, trigger: Trigger, aggregate: A) -> Self {
        spec.check().expect("the windows were checked");
        let open = match spec {
            Spec::Tumbling { size_ms } => Open::Panes(Panes::new(size_ms, size_ms)),
            Spec::Sliding { size_ms, slide_ms } => Open::Panes(Panes::new(size_ms, slide_ms)),
            Spec::Session { gap_ms } => Open::Sessions(Sessions::new(gap_ms)),
        };
        Self { aggregate, trigger, watermark: i64::MIN, next_fire_ms: None, open }
    }

    /// How far event time has come.
    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// How states are made.
    pub fn aggregate(&self) -> &A {
        &self.aggregate
    }

    /// Windows that are open; sessions of each key count apart.
    pub fn open(&self) -> usize {
        match &self.open {
            Open::Panes(panes) => panes.len(),
            Open::Sessions(sessions) => sessions.len(),
        }
    }

    /// States that are kept.
    pub fn states(&self) -> usize {
        match &self.open {
            Open::Panes(panes) => panes.states(),
            Open::Sessions(sessions) => sessions.len(),
        }
    }

    /// Puts an event into its windows: `add` is called once for each. `fire` hears what the trigger says at once.
    ///
    /// # Errors
    /// That of `add`.
    #[inline]
    pub fn add<E>(
        &mut self,
        time_ms: i64,
        key: &[u8],
        mut add: impl FnMut(&mut A::State) -> Result<(), E>,
        mut fire: impl FnMut(Fired<'_, A::State>),
    ) -> Result<Taken, E> {
        let every = match self.trigger {
            Trigger::Events(every) => every.max(1),
            Trigger::Close | Trigger::EveryMs(_) => u64::MAX,
        };
        match &mut self.open {
            Open::Panes(panes) => {
                panes.add(time_ms, key, self.watermark, &self.aggregate, every, &mut add, &mut fire)
            }
            Open::Sessions(sessions) => sessions.add(
                time_ms,
                key,
                self.watermark,
                &self.aggregate,
                every,
                &mut add,
                &mut fire,
            ),
        }
    }

    /// Event time has come to here: what ended before is closed and handed out, in an order that depends on nothing else.
    pub fn advance(&mut self, watermark: i64, mut fire: impl FnMut(Fired<'_, A::State>)) {
        if watermark <= self.watermark {
            return;
        }
        self.watermark = watermark;
        match &mut self.open {
            Open::Panes(panes) => panes.close(watermark, &mut fire),
            Open::Sessions(sessions) => sessions.close(watermark, &mut fire),
        }
        let Trigger::EveryMs(every) = self.trigger else { return };
        if watermark == i64::MAX || self.next_fire_ms.is_some_and(|next| watermark < next) {
            return;
        }
        if self.next_fire_ms.is_some() {
            match &mut self.open {
                Open::Panes(panes) => panes.fire_changed(&mut fire),
                Open::Sessions(sessions) => sessions.fire_changed(&mut fire),
            }
        }
        self.next_fire_ms =
            Some(watermark.div_euclid(every).saturating_add(1).saturating_mul(every));
    }

    /// Appends everything.
    pub fn save(&self, out: &mut Vec<u8>) {
        put_signed(self.watermark, out);
        put_number(u64::from(self.next_fire_ms.is_some()), out);
        put_signed(self.next_fire_ms.unwrap_or(0), out);
        match &self.open {
            Open::Panes(panes) => panes.save(&self.aggregate, out),
            Open::Sessions(sessions) => sessions.save(&self.aggregate, out),
        }
    }

    /// Takes everything from the front, in place of what is there.
    ///
    /// # Errors
    /// If it is not what was saved with the same spec.
    pub fn load(&mut self, from: &mut &[u8]) -> Result<(), Damaged> {
        self.watermark = take_signed(from)?;
        let has_next = take_number(from)? == 1;
        let next = take_signed(from)?;
        self.next_fire_ms = has_next.then_some(next);
        match &mut self.open {
            Open::Panes(panes) => panes.load(&self.aggregate, from),
            Open::Sessions(sessions) => sessions.load(&self.aggregate, from),
        }
    }
}

pub(super) fn put_signed(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn take_signed(from: &mut &[u8]) -> Result<i64, Damaged> {
    let (bytes, rest) = from.split_first_chunk::<8>().ok_or(Damaged)?;
    *from = rest;
    Ok(i64::from_le_bytes(*bytes))
}
