//! What a detector answers: where the bottleneck is, why, and what to try. Decides nothing itself.

use std::fmt;

/// Why a stage is a bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// It is in use nearly all the time.
    Saturated {
        /// The share in use.
        utilisation: f64,
    },
    /// More comes in than goes out.
    QueueGrowing {
        /// The mean queue of the older samples.
        from: f64,
        /// The mean queue of the newer samples.
        to: f64,
    },
    /// It takes longer, and no more comes out.
    LatencyRising {
        /// The mean latency of the older samples, in seconds.
        from_seconds: f64,
        /// The mean latency of the newer samples, in seconds.
        to_seconds: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Saturated { utilisation } => write!(f, "{:.0} % in use", utilisation * 100.0),
            Self::QueueGrowing { from, to } => write!(f, "queue grew from {from:.1} to {to:.1}"),
            Self::LatencyRising { from_seconds, to_seconds } => write!(
                f,
                "latency rose from {:.1} ms to {:.1} ms without more throughput",
                from_seconds * 1e3,
                to_seconds * 1e3
            ),
        }
    }
}

/// What to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mitigation {
    /// Refuse a part of the arrivals: they outrun the stage by far.
    Shed,
    /// Give the stage more places, or more targets.
    Add,
    /// Move work to the others, which have room.
    Move,
    /// Give it less at once: more at once brings no more out.
    SlowDown,
    /// Mend this stage first: it is what holds the finding's stage up.
    MendFirst(String),
}

impl fmt::Display for Mitigation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shed => f.write_str("shed a part of the arrivals"),
            Self::Add => f.write_str("add places or targets"),
            Self::Move => f.write_str("move work to targets with room"),
            Self::SlowDown => f.write_str("allow fewer requests at once"),
            Self::MendFirst(stage) => write!(f, "mend `{stage}` first"),
        }
    }
}

/// A bottleneck.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Where.
    pub stage: String,
    /// From 0 to 1.
    pub severity: f64,
    /// Why; at least one.
    pub reasons: Vec<Reason>,
    /// What to try.
    pub mitigation: Mitigation,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", self.stage)?;
        for (at, reason) in self.reasons.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{reason}")?;
        }
        write!(f, "; {}", self.mitigation)
    }
}
