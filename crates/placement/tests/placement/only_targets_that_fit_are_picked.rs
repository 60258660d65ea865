//! Whatever happens to targets and requests, every policy picks one that fits if there is one, and never another.

use std::time::Duration;

use divvy_placement::policies::Kind;
use divvy_placement::policy::RANKED_MAX;
use divvy_placement::{
    Balancer, Outcome, Pick, Policy, Reason, Request, State, Target, TargetId, TargetSpec,
};
use proptest::prelude::*;

type Any = Balancer<Box<dyn Policy + Send>>;

#[derive(Clone, Debug)]
enum Step {
    Add { weight: u8, limit: Option<u32>, path: Vec<u8>, gpu: Option<u8> },
    Remove(usize),
    Drain(usize),
    Down(usize),
    Up(usize),
    Weight(usize, u8),
    Limit(usize, Option<u32>),
    Queued(usize, u32),
    Idle(usize),
    Assign(Ask),
    Start(usize),
    Finish { index: usize, ms: u16, outcome: u8 },
    AssignMany(Ask, u32),
    Pass { ms: u16 },
}

#[derive(Clone, Debug)]
struct Ask {
    key: Option<u64>,
    gpu: Option<u8>,
    exclude: Vec<usize>,
    want: usize,
}

fn ask() -> impl Strategy<Value = Ask> {
    let key = prop::option::of(0u64..20);
    let gpu = prop::option::weighted(0.3, 0u8..4);
    let exclude = prop::collection::vec(any::<usize>(), 0..3);
    (key, gpu, exclude, 0usize..6).prop_map(|(key, gpu, exclude, want)| Ask {
        key,
        gpu,
        exclude,
        want,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let limit = || prop::option::of(0u32..4);
    let index = any::<usize>;
    let add = (1u8..9, limit(), prop::collection::vec(0u8..3, 0..3), prop::option::of(0u8..4));
    prop_oneof![
        4 => add.prop_map(|(weight, limit, path, gpu)| Step::Add { weight, limit, path, gpu }),
        1 => index().prop_map(Step::Remove),
        1 => index().prop_map(Step::Drain),
        1 => index().prop_map(Step::Down),
        2 => index().prop_map(Step::Up),
        1 => (index(), 1u8..9).prop_map(|(index, weight)| Step::Weight(index, weight)),
        1 => (index(), limit()).prop_map(|(index, limit)| Step::Limit(index, limit)),
        1 => (index(), 0u32..9).prop_map(|(index, queued)| Step::Queued(index, queued)),
        1 => index().prop_map(Step::Idle),
        12 => ask().prop_map(Step::Assign),
        2 => index().prop_map(Step::Start),
        8 => (index(), any::<u16>(), 0u8..3)
            .prop_map(|(index, ms, outcome)| Step::Finish { index, ms, outcome }),
        1 => (ask(), 0u32..30).prop_map(|(ask, count)| Step::AssignMany(ask, count)),
        1 => any::<u16>().prop_map(|ms| Step::Pass { ms }),
    ]
}

struct World {
    balancer: Any,
    now: Duration,
    names: u32,
    /// Where requests are in flight, also at targets that have left since.
    open: Vec<TargetId>,
    /// Every id ever seen: exclusions may name targets that have left.
    seen: Vec<TargetId>,
}

impl World {
    fn new(kind: Kind) -> Self {
        let balancer = Balancer::new(kind.build(42));
        Self { balancer, now: Duration::ZERO, names: 0, open: Vec::new(), seen: Vec::new() }
    }

    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let now = self.now;
        match step {
            Step::Add { weight, limit, path, gpu } => self.add(*weight, *limit, path, *gpu),
            Step::Remove(index) => {
                self.change(*index, |it, id| it.remove(id, now).expect("it is there and sound"))
            }
            Step::Drain(index) => {
                self.change(*index, |it, id| it.drain(id, now).expect("it is there and sound"))
            }
            Step::Down(index) => {
                self.change(*index, |it, id| it.mark_down(id, now).expect("it is there and sound"))
            }
            Step::Up(index) => {
                self.change(*index, |it, id| it.mark_up(id, now).expect("it is there and sound"))
            }
            Step::Weight(index, weight) => self.change(*index, |it, id| {
                it.set_weight(id, f64::from(*weight) / 2.0, now).expect("it is there and sound");
            }),
            Step::Limit(index, limit) => {
                self.change(*index, |it, id| {
                    it.set_limit(id, *limit, now).expect("it is there and sound")
                });
            }
            Step::Queued(index, queued) => {
                self.change(*index, |it, id| {
                    it.set_queued(id, *queued, now).expect("it is there and sound")
                });
            }
            Step::Idle(index) => self.change(*index, |it, id| it.idle(id, now)),
            Step::Start(index) => {
                if let Some(id) = self.there(*index) {
                    self.balancer.start(id, now);
                    self.open.push(id);
                }
            }
            Step::Finish { index, ms, outcome } => self.finish(*index, *ms, *outcome),
            Step::Assign(ask) => self.assign(ask)?,
            Step::AssignMany(ask, count) => self.assign_many(ask, *count)?,
            Step::Pass { ms } => self.now += Duration::from_millis(u64::from(*ms)),
        }
        Ok(())
    }

    fn there(&self, index: usize) -> Option<TargetId> {
        let ids: Vec<TargetId> = self.balancer.targets().iter().map(|target| target.id).collect();
        (!ids.is_empty()).then(|| ids[index % ids.len()])
    }

    fn change(&mut self, index: usize, act: impl FnOnce(&mut Any, TargetId)) {
        if let Some(id) = self.there(index) {
            act(&mut self.balancer, id);
        }
    }

    fn add(&mut self, weight: u8, limit: Option<u32>, path: &[u8], gpu: Option<u8>) {
        self.names += 1;
        let spec = TargetSpec::new(self.names.to_string()).weight(f64::from(weight) / 2.0);
        let mut spec = TargetSpec { limit, ..spec }.path(path.iter().map(u8::to_string));
        if let Some(gpu) = gpu {
            spec = spec.capability("gpu", f64::from(gpu));
        }
        let id = self.balancer.add(spec, self.now).expect("it is there and sound");
        self.seen.push(id);
    }

    fn finish(&mut self, index: usize, ms: u16, outcome: u8) {
        if self.open.is_empty() {
            return;
        }
        let id = self.open.swap_remove(index % self.open.len());
        let outcome = [Outcome::Success, Outcome::Failure, Outcome::Cancelled][outcome as usize];
        self.balancer.finish(id, Duration::from_millis(u64::from(ms)), outcome, self.now);
    }

    fn with_request<T>(&mut self, ask: &Ask, act: impl FnOnce(&mut Self, &Request<'_>) -> T) -> T {
        let exclude: Vec<TargetId> = match self.seen.len() {
            0 => Vec::new(),
            seen => ask.exclude.iter().map(|index| self.seen[index % seen]).collect(),
        };
        let needs: Vec<(&str, f64)> = ask.gpu.iter().map(|gpu| ("gpu", f64::from(*gpu))).collect();
        let request = Request { key: ask.key, needs: &needs, exclude: &exclude, want: ask.want };
        act(self, &request)
    }

    fn assign(&mut self, ask: &Ask) -> Result<(), TestCaseError> {
        self.with_request(ask, |world, request| {
            let fitting: Vec<TargetId> = fitting(&world.balancer, request).collect();
            let pick = world.balancer.assign(request, world.now);
            check(&world.balancer, request, &fitting, pick)?;
            world.open.extend(pick.first());
            Ok(())
        })
    }

    fn assign_many(&mut self, ask: &Ask, count: u32) -> Result<(), TestCaseError> {
        self.with_request(ask, |world, request| {
            let before: Vec<Target> = world.balancer.targets().slots().to_vec();
            let batch = world.balancer.assign_many(request, count, world.now);
            let placed: u32 = batch.shares.iter().map(|(_, share)| share).sum();
            prop_assert_eq!(placed + batch.left, count);
            prop_assert_eq!(batch.refused.is_some(), batch.left > 0);
            for (id, share) in &batch.shares {
                let (old, new) = (
                    &before[id.slot()],
                    world.balancer.targets().get(*id).expect("it is there and sound"),
                );
                prop_assert!(request.fits(old), "{old:?} does not fit");
                prop_assert_eq!(new.in_flight, old.in_flight + share);
                prop_assert!(new.spec.limit.is_none_or(|limit| new.in_flight <= limit));
                world.open.extend((0..*share).map(|_| *id));
            }
            // What is left had no place to go.
            prop_assert!(batch.left == 0 || fitting(&world.balancer, request).next().is_none());
            Ok(())
        })
    }
}

/// Says again, in other words than the crate, who may get a request.
fn fitting(balancer: &Any, request: &Request<'_>) -> impl Iterator<Item = TargetId> {
    balancer
        .targets()
        .iter()
        .filter(|target| target.state == State::Up)
        .filter(|target| target.spec.limit.unwrap_or(u32::MAX) > target.in_flight)
        .filter(|target| request.exclude.iter().all(|id| *id != target.id))
        .filter(|target| {
            request.needs.iter().all(|(name, amount)| {
                target.spec.capabilities.get(*name).is_some_and(|offered| offered >= amount)
            })
        })
        .map(|target| target.id)
}

fn check(
    balancer: &Any,
    request: &Request<'_>,
    fitting: &[TargetId],
    pick: Pick,
) -> Result<(), TestCaseError> {
    match pick {
        Pick::One(id) => {
            prop_assert!(request.want <= 1);
            prop_assert!(fitting.contains(&id), "{id:?} does not fit");
        }
        Pick::Ranked(ranked) => {
            let ids = ranked.as_slice();
            prop_assert!(request.want > 1);
            prop_assert_eq!(ids.len(), request.want.min(RANKED_MAX).min(fitting.len()));
            prop_assert!(ids.iter().all(|id| fitting.contains(id)));
            let repeats = (1..ids.len()).any(|index| ids[..index].contains(&ids[index]));
            prop_assert!(!repeats, "{ids:?} names a target twice");
        }
        Pick::Wait => {
            prop_assert!(fitting.is_empty(), "waits although {fitting:?} fit");
        }
        Pick::Shed(reason) => {
            prop_assert!(fitting.is_empty(), "sheds although {fitting:?} fit");
            let any_up = balancer.targets().iter().any(|target| target.state == State::Up);
            prop_assert_eq!(reason == Reason::NoTargetUp, !any_up);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_picks_one_that_fits_if_there_is_one(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        for kind in Kind::ALL {
            let mut world = World::new(kind);
            for step in &steps {
                world.apply(step).map_err(|error| {
                    TestCaseError::fail(format!("{kind} at {step:?}: {error}"))
                })?;
            }
        }
    }

    #[test]
    fn every_policy_repeats_itself_from_the_same_seed(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        for kind in Kind::ALL {
            let [first, second] = [(); 2].map(|()| {
                let mut world = World::new(kind);
                steps.iter().for_each(|step| world.apply(step).expect("it is there and sound"));
                world.open
            });
            prop_assert_eq!(first, second, "{}", kind);
        }
    }
}
