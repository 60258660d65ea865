//! The situations: what comes, how long workers take to start, and what they cost.

use divvy_types::pools::{Policy, Pool, WorkerType};

use crate::sim::fleet::traffic::{DAY, HOUR, Traffic, seed_days};
use crate::sim::fleet::{Notice, Outcome, Rule, World};

/// Tasks that a worker starts per second, and the time within which they must start.
pub(super) const PER_WORKER: f64 = 20.0;
pub(super) const WITHIN_SEC: usize = 30;
/// The time that a worker takes to start, and on the day of slow starts.
pub(super) const BOOT_SEC: f64 = 90.0;
const SLOW_BOOT_SEC: f64 = 600.0;
/// Workers that there may be, and those of the fixed fleet.
pub(super) const MIN: u32 = 2;
pub(super) const MAX: u32 = 100;
const CROWD_MAX: u32 = 180;
const FIXED: u32 = 64;
/// What a spot worker costs of one that nobody takes away.
const SPOT_PRICE: f64 = 0.35;

/// The seeds with which the constants of the policies were chosen. They are never scored: [`scored`] begins after them.
pub(super) const TUNING: [u64; 3] = [1, 2, 3];
const SCORED_FROM: u64 = 5_000;

/// The seeds that are scored; those of `seed` are shared with no other one.
pub(super) fn scored(seed: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |number| SCORED_FROM + seed.wrapping_mul(100) + number)
}

/// A situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    Steps,
    Interpolated,
    Bursts,
    Week,
    Crowd,
    SlowBoots,
    Spot,
}

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decides {
    Policy(Policy),
    Clairvoyant,
}

/// Who is compared, ours first.
pub(super) const RULES: [(&str, Decides); 8] = [
    ("objective", Decides::Policy(Policy::Objective)),
    ("predictive", Decides::Policy(Policy::Predictive)),
    ("queue", Decides::Policy(Policy::Queue)),
    ("target 70 %", Decides::Policy(Policy::Target)),
    ("reactive", Decides::Policy(Policy::Reactive)),
    ("HPA-70", Decides::Policy(Policy::Hpa)),
    ("fixed at 64", Decides::Policy(Policy::Fixed)),
    ("clairvoyant", Decides::Clairvoyant),
];

impl Scenario {
    pub(super) const ALL: [Self; 7] = [
        Self::Steps,
        Self::Interpolated,
        Self::Bursts,
        Self::Week,
        Self::Crowd,
        Self::SlowBoots,
        Self::Spot,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Steps => "day of steps",
            Self::Interpolated => "interpolated day",
            Self::Bursts => "bursts",
            Self::Week => "week",
            Self::Crowd => "flash crowd",
            Self::SlowBoots => "slow boots",
            Self::Spot => "spot",
        }
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Steps => {
                "quiet nights, a morning that rises, a full noon, a new level every hour"
            }
            Self::Interpolated => "the same load, moving in straight lines",
            Self::Bursts => "and twice a day ten minutes of 2.5 times the load",
            Self::Week => "the day of steps from Monday to Friday, a quiet weekend, a busy Monday",
            Self::Crowd => {
                "and once in three days four times the load within a minute, gone after an hour"
            }
            Self::SlowBoots => "the day of steps with workers that take ten minutes to start",
            Self::Spot => {
                "the day of steps with spot workers at 0.35 of the price, taken away at two minutes' notice"
            }
        }
    }

    /// Days to learn from, and days that are scored.
    fn days(self) -> (usize, usize) {
        if self == Self::Week { (21, 7) } else { (7, 3) }
    }

    fn boot(self) -> f64 {
        if self == Self::SlowBoots { SLOW_BOOT_SEC } else { BOOT_SEC }
    }

    /// What comes.
    pub(super) fn traffic(self, seed: u64) -> Traffic {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(8) + self as u64);
        let (learnt, scored) = self.days();
        let mut rates = seed_days(learnt + scored, self == Self::Interpolated, &mut random);
        match self {
            Self::Bursts => (0..learnt + scored).for_each(|day| {
                for half in 0..2 {
                    let from = day * DAY + half * DAY / 2 + random.usize(0..DAY / 2 - 600);
                    rates[from..from + 600].iter_mut().for_each(|rate| *rate *= 2.5);
                }
            }),
            Self::Week => rates.chunks_mut(DAY).enumerate().for_each(|(day, rates)| {
                // A simulation begins on a Thursday.
                match (day + 3) % 7 {
                    0 => rates.iter_mut().for_each(|rate| *rate *= 1.2),
                    5 | 6 => rates.iter_mut().for_each(|rate| *rate = 100.0 + *rate * 0.2),
                    _ => (),
                }
            }),
            Self::Crowd => (0..learnt + scored).step_by(3).for_each(|day| {
                // The last of them is in the scored days.
                let day = day + (learnt + scored - 1) % 3;
                if day < learnt + scored {
                    let from = day * DAY + random.usize(6 * HOUR..18 * HOUR);
                    for (second, rate) in rates[from..from + 5 * HOUR / 2].iter_mut().enumerate() {
                        let rise = (second as f32 / 60.0).min(1.0);
                        let fall = (-(second as f32 - 60.0).max(0.0) / 1_200.0).exp();
                        *rate *= 1.0 + 3.0 * rise * fall;
                    }
                }
            }),
            _ => (),
        }
        Traffic::draw(rates, &mut random)
    }

    fn notices(self, seed: u64) -> Vec<Notice> {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5907);
        let (learnt, scored) = self.days();
        let mut at = 0;
        let mut notices = Vec::new();
        if self != Self::Spot {
            return notices;
        }
        loop {
            // Eight times a day in the mean, a tenth to a half of them at once.
            at += 60 + (-(1.0 - random.f64()).ln() * (DAY / 8) as f64) as usize;
            if at >= (learnt + scored) * DAY {
                return notices;
            }
            notices.push(Notice { at, share: 0.1 + 0.4 * random.f64() });
        }
    }

    /// The pool that a rule decides for.
    pub(super) fn pool(self, decides: Decides) -> Pool {
        let firm = WorkerType { price_hour: 1.0, boot_sec: self.boot(), ..WorkerType::default() };
        let spot = || WorkerType {
            name: "spot".into(),
            price_hour: SPOT_PRICE,
            spot: true,
            ..firm.clone()
        };
        let both = self == Self::Spot && decides != Decides::Clairvoyant;
        let types = if both { vec![spot(), firm] } else { vec![firm] };
        let policy = match decides {
            Decides::Policy(policy) => policy,
            Decides::Clairvoyant => Policy::Fixed,
        };
        let most = if self == Self::Crowd { CROWD_MAX } else { MAX };
        let max =
            if policy == Policy::Fixed && decides != Decides::Clairvoyant { FIXED } else { most };
        Pool { min: MIN, max, types, policy, ..Pool::default() }
    }

    /// Plays it.
    pub(super) fn play(self, decides: Decides, seed: u64, traffic: &Traffic) -> Outcome {
        let pool = self.pool(decides);
        let forecasts = matches!(decides, Decides::Policy(Policy::Objective | Policy::Predictive));
        let ours = forecasts || decides == Decides::Policy(Policy::Queue);
        let notices = if decides == Decides::Clairvoyant { vec![] } else { self.notices(seed) };
        let world = World {
            pool: &pool,
            traffic,
            per_worker: PER_WORKER,
            within: WITHIN_SEC,
            scored_from: self.days().0 * DAY,
            notices: &notices,
            reads_notices: ours,
            learns: forecasts,
        };
        world.run(if decides == Decides::Clairvoyant { Rule::Clairvoyant } else { Rule::Scaler })
    }
}
