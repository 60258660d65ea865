//! How attempts run on the tiers, and how they are made to end.
//!
//! A runner is one slot at work: it takes a grant, runs it, reports, and takes the next, until none waits. So a flood
//! of short tasks starts a handful of runners, not one runtime task each. Futures get runners on tokio, blocking and
//! cpu handlers on a pool of threads each, which has as many threads as the tier has slots.
//!
//! Once an attempt was asked to stop, what its handler returns does not count: a handler that ends early because it was
//! asked to must not look finished. After the grace time a future is dropped; a thread cannot be ended, so its attempt
//! is reported without it and its slot stays taken until it returns.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use divvy_pool::{self as pool, Pool};
use divvy_proto::outcome_bytes;
use divvy_types::limits::{FINISH_BYTES_MAX, RESULT_BYTES_MAX, SPAWNED_MAX};
use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict, Payload};
use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::attempt::Context;
use crate::handler::{BlockingHandler, Code, Handler, failed, run_on_thread, start_future};
use crate::state::{Hold, Key, Waiting};
use crate::{Attempt, CancelReason, Error, Options, Registry, Tier};

/// The grace time when the worker stops now: whoever stops it waits for this.
const STOP_NOW_GRACE_MAX: Duration = Duration::from_secs(2);

/// How much later than the grace time an attempt is reported without its handler, at most.
const ABANDON_AFTER_MAX: Duration = Duration::from_secs(1);

/// Runs what is held.
pub(crate) struct Runners {
    pub(crate) hold: Hold,
    pub(crate) registry: Registry,
    /// How long an attempt that was asked to stop has to end by itself.
    grace: Duration,
    runtime: Handle,
    blocking: Option<Pool>,
    cpu: Option<Pool>,
}

impl Runners {
    /// Prepares the tiers that the registry uses. Must be called on a tokio runtime.
    pub(crate) fn new(
        options: &Options,
        registry: Registry,
        grace: Duration,
    ) -> Result<Arc<Self>, Error> {
        let pool = |tier: Tier| {
            if !registry.uses(tier) {
                return Ok(None);
            }
            let options = pool::Options {
                name: format!("divvy-{tier}"),
                ..pool::Options::with_workers(options.slots.of(tier) as usize)
            };
            let failed = |e| Error::System {
                what: "cannot start the worker's threads",
                source: std::io::Error::other(e),
            };
            Pool::new(options).map(Some).map_err(failed)
        };
        let (blocking, cpu) = (pool(Tier::Blocking)?, pool(Tier::Cpu)?);
        let hold = Hold::new(options.slots);
        Ok(Arc::new(Self { hold, registry, grace, runtime: Handle::current(), blocking, cpu }))
    }

    /// Takes grants and starts runners for them where slots are free.
    pub(crate) fn take(self: &Arc<Self>, grants: Vec<(Tier, Waiting)>) {
        let (starts, replaced) = self.hold.enqueue(grants);
        for key in replaced {
            self.stop(key, CancelReason::Stopped("the server granted the task anew".into()));
        }
        for (tier, count) in Tier::ALL.into_iter().zip(starts) {
            for _ in 0..count {
                self.start(tier);
            }
        }
    }

    /// Asks an attempt to stop; if it does not within the grace time it is reported without its handler.
    pub(crate) fn stop(self: &Arc<Self>, key: Key, reason: CancelReason) {
        if self.hold.stop(key, reason.clone()) {
            let runners = Arc::clone(self);
            self.runtime.spawn(async move { runners.abandon(key, reason).await });
        }
    }

    /// Asks everything that runs to stop because the worker does.
    pub(crate) fn stop_all(self: &Arc<Self>) {
        for context in self.hold.running() {
            self.stop((context.task, context.token), CancelReason::WorkerStops);
        }
    }

    fn start(self: &Arc<Self>, tier: Tier) {
        let runners = Arc::clone(self);
        let pool = match tier {
            Tier::Async | Tier::Process => {
                self.runtime.spawn(async move { runners.run_futures(tier).await });
                return;
            }
            Tier::Blocking => &self.blocking,
            Tier::Cpu => &self.cpu,
        };
        let pool = pool
            .as_ref()
            .expect("a grant is put on a tier only by a registered kind, which made its pool");
        pool.submit(move || runners.run_threads(tier));
    }

    async fn run_futures(&self, tier: Tier) {
        let mut done = None;
        while let Some(Waiting { attempt, code }) = self.hold.next(tier, done.take()) {
            let key = (attempt.task.id, attempt.token);
            let Code::Future(handler) = code else {
                unreachable!("the registry puts futures on future tiers")
            };
            done = Some((key, seal(self.supervise(&*handler, attempt).await)));
            // A runner that never waits would keep its thread from everything else.
            tokio::task::coop::consume_budget().await;
        }
    }

    fn run_threads(self: &Arc<Self>, tier: Tier) {
        let mut done = None;
        while let Some(Waiting { attempt, code }) = self.hold.next(tier, done.take()) {
            let key = (attempt.task.id, attempt.token);
            let Code::Thread(handler) = code else {
                unreachable!("the registry puts threads on thread tiers")
            };
            done = Some((key, seal(self.run_thread(&*handler, attempt))));
        }
    }

    async fn supervise(&self, handler: &dyn Handler, attempt: Attempt) -> AttemptOutcome {
        let context = Arc::clone(&attempt.context);
        let timeout_ms = attempt.task.timeout_ms;
        let mut future = start_future(handler, attempt);
        // Most short handlers are ready at once: no timer and no select for them.
        if let Poll::Ready(outcome) = poll_fn(|cx| Poll::Ready(future.poll_unpin(cx))).await {
            return end_of(&context, outcome);
        }
        let timeout = async {
            match timeout_ms {
                Some(ms) => {
                    sleep(Duration::from_millis(ms)).await;
                    context.cancel(CancelReason::TimedOut(ms));
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            outcome = &mut future => return end_of(&context, outcome),
            () = context.cancelled() => {}
            () = timeout => {}
        }
        let reason = context.reason().cloned().unwrap_or(CancelReason::WorkerStops);
        if tokio::time::timeout(self.grace_for(&reason), future).await.is_err() {
            tracing::warn!(task = %context.task, "was asked to stop ({reason}) and did not in time: dropped");
        }
        reason.outcome()
    }

    fn run_thread(
        self: &Arc<Self>,
        handler: &dyn BlockingHandler,
        attempt: Attempt,
    ) -> AttemptOutcome {
        let context = Arc::clone(&attempt.context);
        let watch = attempt.task.timeout_ms.map(|ms| {
            let (runners, context) = (Arc::clone(self), Arc::clone(&context));
            self.runtime.spawn(async move {
                sleep(Duration::from_millis(ms)).await;
                runners.stop((context.task, context.token), CancelReason::TimedOut(ms));
            })
        });
        let outcome = run_on_thread(handler, attempt);
        if let Some(watch) = watch {
            watch.abort();
        }
        end_of(&context, outcome)
    }

    async fn abandon(&self, key: Key, reason: CancelReason) {
        let grace = self.grace_for(&reason);
        // A future is dropped by its own runner first, so that it is really over when it is reported.
        sleep(grace + (grace / 4).min(ABANDON_AFTER_MAX)).await;
        if self.hold.end(key, reason.outcome()) {
            tracing::warn!(task = %key.0, "was asked to stop ({reason}) and did not: reported without its handler");
        }
    }

    fn grace_for(&self, reason: &CancelReason) -> Duration {
        match reason {
            CancelReason::WorkerStops => self.grace.min(STOP_NOW_GRACE_MAX),
            CancelReason::Stopped(_) | CancelReason::TimedOut(_) | CancelReason::Recalled => {
                self.grace
            }
        }
    }
}

fn end_of(context: &Context, outcome: AttemptOutcome) -> AttemptOutcome {
    context.reason().map_or(outcome, CancelReason::outcome)
}

/// Makes sure that the server can take an end: one that it cannot would be sent for ever.
fn seal(outcome: AttemptOutcome) -> AttemptOutcome {
    let AttemptOutcome::Finished { result, spawned } = &outcome else { return outcome };
    if result.data().is_empty() && spawned.is_empty() {
        return outcome;
    }
    let dead = |problem: String| failed(ErrorClass::Failed, FailureVerdict::Dead, problem);
    if result.data().len() > RESULT_BYTES_MAX {
        let bytes = result.data().len();
        return dead(format!(
            "the result is {bytes} bytes, at most {RESULT_BYTES_MAX}; store it elsewhere and return its address"
        ));
    }
    if let Err(problem) = Payload::new(result.content_type(), result.data().clone()) {
        return dead(format!("the result {problem}"));
    }
    if spawned.len() > SPAWNED_MAX {
        return dead(format!("the attempt spawned {} tasks, at most {SPAWNED_MAX}", spawned.len()));
    }
    for child in spawned {
        if let Err(problem) = child.validate() {
            return dead(format!("spawned task {}: {problem}", child.id));
        }
        if let Err(problem) =
            Payload::new(child.payload.content_type(), child.payload.data().clone())
        {
            return dead(format!("spawned task {}: payload {problem}", child.id));
        }
    }
    let bytes = if spawned.is_empty() { 0 } else { outcome_bytes(&outcome) };
    if bytes > FINISH_BYTES_MAX {
        return dead(format!(
            "the finish with its {} spawned tasks is {bytes} bytes, at most {FINISH_BYTES_MAX}; spawn fewer, which \
             spawn the rest, or store their payloads elsewhere and spawn them with its address",
            spawned.len()
        ));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use divvy_types::{TaskId, TaskSpec};

    use super::*;

    fn fan_out(children: u128, bytes: usize) -> AttemptOutcome {
        let payload = Payload::new("application/octet-stream", vec![7; bytes]).unwrap();
        let child = |id| TaskSpec { payload: payload.clone(), ..TaskSpec::new(TaskId(id), "noop") };
        AttemptOutcome::Finished {
            result: Payload::null(),
            spawned: (1..=children).map(child).collect(),
        }
    }

    #[test]
    fn a_fan_out_that_no_message_can_carry_is_a_dead_letter_that_says_so() {
        let fits = fan_out(1_900, 8 << 10);
        assert_eq!(seal(fits.clone()), fits);
        let AttemptOutcome::Failed(failure) = seal(fan_out(5_000, 8 << 10)) else {
            panic!("it would be sent for ever")
        };
        assert_eq!(failure.verdict, FailureVerdict::Dead);
        let text = failure.error.message;
        assert!(text.contains("5000 spawned tasks is 41"), "{text}");
        assert!(text.contains("at most 16777216; spawn fewer"), "{text}");
    }
}
