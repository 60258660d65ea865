//! What may happen in a random life.

use divvy_types::FailureVerdict;
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Submit(Vec<Shape>),
    Join {
        credit: u32,
        slots: u32,
        queue: u8,
    },
    AnswerRecall {
        which: usize,
        give: bool,
    },
    Stealing {
        strategy: u8,
        busy: u32,
        begun_too: bool,
        predictive: bool,
    },
    Rebalance,
    Rejoin(usize),
    Leave(usize),
    /// The connection breaks; the process goes on.
    Cut(usize),
    /// It connects anew before the end of its old connection was noticed.
    Reconnect(usize),
    /// Another process takes the place and the name of one that is not connected.
    Replace(usize),
    Drain(usize),
    /// A worker is paused, or resumed.
    Rest {
        which: usize,
        paused: bool,
    },
    Report {
        which: usize,
        end: End,
    },
    StaleReport {
        which: usize,
        worker: usize,
    },
    Cancel(usize),
    Replay(usize),
    RunNow(usize),
    Pause {
        queue: u8,
        paused: bool,
    },
    Load,
    Time(u64),
    Restart {
        graceful: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) queue: u8,
    pub(crate) priority: u8,
    pub(crate) limit: u32,
    pub(crate) delay_ms: Option<u64>,
    pub(crate) timeout_ms: Option<u64>,
    /// How far back the parents are, and whether they are optional.
    pub(crate) parents: Vec<(u64, bool)>,
}

#[derive(Clone, Debug)]
pub(crate) enum End {
    Finish(Vec<Shape>),
    Fail(FailureVerdict),
    Release,
}

fn shape() -> impl Strategy<Value = Shape> {
    let parents = prop::collection::vec((1u64..12, any::<bool>()), 0..3);
    let delay = prop::option::weighted(0.2, 1u64..5_000);
    let timeout = prop::option::weighted(0.2, 1u64..5_000);
    (0u8..2, 1u8..=5, 0u32..3, delay, timeout, parents).prop_map(
        |(queue, priority, limit, delay_ms, timeout_ms, parents)| Shape {
            queue,
            priority,
            limit,
            delay_ms,
            timeout_ms,
            parents,
        },
    )
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let shapes = || prop::collection::vec(shape(), 1..8);
    let verdict = prop_oneof![
        3 => Just(FailureVerdict::Retry),
        1 => Just(FailureVerdict::RetryAfterMs(500)),
        1 => Just(FailureVerdict::SnoozeMs(300)),
        1 => Just(FailureVerdict::Dead),
        1 => Just(FailureVerdict::Cancelled),
    ];
    let end = prop_oneof![
        5 => Just(End::Finish(Vec::new())),
        2 => prop::collection::vec(shape(), 1..4).prop_map(End::Finish),
        4 => verdict.prop_map(End::Fail),
        1 => Just(End::Release),
    ];
    prop_oneof![
        6 => shapes().prop_map(Op::Submit),
        3 => (1u32..9, 1u32..4, 0u8..3).prop_map(|(credit, slots, queue)| Op::Join { credit, slots, queue }),
        5 => (any::<usize>(), any::<bool>()).prop_map(|(which, give)| Op::AnswerRecall { which, give }),
        1 => (0u8..4, 0u32..4, any::<bool>(), any::<bool>()).prop_map(
            |(strategy, busy, begun_too, predictive)| Op::Stealing { strategy, busy, begun_too, predictive }
        ),
        1 => Just(Op::Rebalance),
        2 => any::<usize>().prop_map(Op::Rejoin),
        1 => any::<usize>().prop_map(Op::Leave),
        2 => any::<usize>().prop_map(Op::Cut),
        1 => any::<usize>().prop_map(Op::Reconnect),
        1 => any::<usize>().prop_map(Op::Replace),
        1 => any::<usize>().prop_map(Op::Drain),
        1 => any::<(usize, bool)>().prop_map(|(which, paused)| Op::Rest { which, paused }),
        12 => (any::<usize>(), end).prop_map(|(which, end)| Op::Report { which, end }),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(which, worker)| Op::StaleReport { which, worker }),
        3 => any::<usize>().prop_map(Op::Cancel),
        1 => any::<usize>().prop_map(Op::Replay),
        1 => any::<usize>().prop_map(Op::RunNow),
        1 => (0u8..2, any::<bool>()).prop_map(|(queue, paused)| Op::Pause { queue, paused }),
        3 => Just(Op::Load),
        4 => (1u64..20_000).prop_map(Op::Time),
        1 => any::<bool>().prop_map(|graceful| Op::Restart { graceful }),
    ]
}
