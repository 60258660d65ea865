//! Handlers, extractors, verdicts and workflows on the test bench.
#![cfg(feature = "testing")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use divvy::prelude::*;
use divvy::testing::bench;
use divvy::types::{FailureVerdict, RetryPolicy, TaskId, TaskState};

#[derive(Serialize, Deserialize)]
struct Number(u32);
impl Task for Number {
    const KIND: &'static str = "number";
    type Output = u32;
}

#[derive(Serialize, Deserialize)]
struct Sum;
impl Task for Sum {
    const KIND: &'static str = "sum";
    type Output = u32;
}

/// Fails in the way that it is told to.
#[derive(Serialize, Deserialize)]
struct Trouble(String);
impl Task for Trouble {
    const KIND: &'static str = "trouble";
    type Output = u32;
    fn options() -> TaskOptions {
        TaskOptions::new().retry(RetryPolicy {
            limit: 2,
            base_ms: 1_000,
            cap_ms: 60_000,
            jitter_percent: 0,
            ..RetryPolicy::default()
        })
    }
}

async fn number(Number(number): Number) -> Outcome<u32> {
    Ok(number)
}

async fn sum(_: Sum, Upstreams(numbers): Upstreams<Number>) -> Outcome<u32> {
    Ok(numbers.iter().sum())
}

async fn trouble(Trouble(what): Trouble, attempt: Attempt) -> Outcome<u32> {
    let span = Duration::from_secs(30);
    match what.as_str() {
        "error" => Err(std::io::Error::other("the disk is on fire"))?,
        "once" if attempt.number == 1 => Err(Failure::retry("not yet")),
        "once" => Ok(attempt.number),
        "after" if attempt.number == 1 => Err(Failure::retry_after(span)),
        "after" => Ok(attempt.number),
        "dead" => Err(Failure::dead("no hope")),
        "cancelled" => Err(Failure::cancelled()),
        "panic" => panic!("out of cheese"),
        "sleep" => {
            tokio::time::sleep(span).await;
            Ok(0)
        }
        other => Err(Failure::dead(format!("what is {other}?"))),
    }
}

#[tokio::test]
async fn each_verdict_does_what_it_says() {
    let mut bench = bench(Worker::new("w").on(trouble));
    bench.run(Trouble("dead".into())).await.assert_dead("no hope");
    // Nobody asked it to stop: it goes back, and is not counted.
    let stopped = bench.run(Trouble("cancelled".into())).await;
    assert_eq!((stopped.assert_waiting("scheduled").attempts(), stopped.error()), (0, None));
    bench.cancel(stopped.id(), "enough");
    bench.task(stopped.id()).assert_cancelled("enough");
    let error = bench.run(Trouble("error".into())).await;
    error.assert_retried();
    assert_eq!(error.error().unwrap().message, "the disk is on fire");
    let panicked = bench.run(Trouble("panic".into())).await;
    assert!(panicked.assert_retried().error().unwrap().to_string().contains("out of cheese"));
    bench.drain().await;
    let dead = bench.task(error.id());
    assert_eq!(dead.assert_dead("the disk is on fire").attempts(), 3);
}

#[tokio::test]
async fn a_retry_waits_for_its_time_and_no_longer() {
    let mut bench = bench(Worker::new("w").on(trouble));
    let once = bench.run(Trouble("once".into())).await.assert_retried().id();
    let after = bench.run(Trouble("after".into())).await.assert_retried().id();
    bench.advance(Duration::from_millis(999)).await;
    bench.task(once).assert_retried();
    bench.advance(Duration::from_millis(1)).await;
    assert_eq!(bench.task(once).output::<u32>(), 2);
    bench.task(after).assert_retried();
    bench.advance(Duration::from_secs(29)).await;
    assert_eq!(bench.task(after).output::<u32>(), 2);
}

#[tokio::test]
async fn a_snooze_is_not_an_attempt() {
    let calls = Arc::new(AtomicU32::new(0));
    async fn sleepy(
        _: Trouble,
        State(calls): State<Arc<AtomicU32>>,
        attempt: Attempt,
    ) -> Outcome<u32> {
        if calls.fetch_add(1, Ordering::Relaxed) < 5 {
            return Err(Failure::snooze(Duration::from_secs(3_600)));
        }
        Ok(attempt.number)
    }
    let mut bench = bench(Worker::new("w").state(Arc::clone(&calls)).on(sleepy));
    bench.run(Trouble("".into())).await.assert_snoozed();
    let start = bench.now();
    assert_eq!(bench.drain().await[0].output::<u32>(), 1);
    assert_eq!(bench.now().since(start), Duration::from_secs(5 * 3_600));
    assert_eq!(calls.load(Ordering::Relaxed), 6);
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_ends_an_attempt() {
    let mut bench = bench(Worker::new("w").on(trouble));
    let slow = bench
        .run_with(Trouble("sleep".into()), |o| o.timeout(Duration::from_secs(5)).retries(0))
        .await;
    assert!(
        slow.assert_dead("timeout_ms of 5000").error().unwrap().to_string().starts_with("timeout")
    );
}

#[tokio::test]
async fn a_fan_out_is_joined_in_the_declared_order() {
    #[derive(Serialize, Deserialize)]
    struct List;
    impl Task for List {
        const KIND: &'static str = "list";
        type Output = Vec<u32>;
    }
    async fn list(_: List, Upstreams(numbers): Upstreams<Number>) -> Outcome<Vec<u32>> {
        Ok(numbers)
    }
    let mut bench = bench(Worker::new("w").on(number).on(list));
    let mut workflow = Workflow::new("fan");
    // The order of running is another one: the last has the highest priority.
    let parts: Vec<_> = (1..=5)
        .map(|n| workflow.add_with(Number(n * 10), move |options| options.priority(n as u8)))
        .collect();
    let end = workflow.after(&parts, List);
    let run = bench.start(workflow).await;
    assert_eq!(bench.node(&run, end).output::<Vec<u32>>(), [10, 20, 30, 40, 50]);
    bench.assert_submitted::<Number>(5);
}

#[tokio::test]
async fn children_come_with_the_finish_and_dependents_wait_for_them() {
    #[derive(Serialize, Deserialize)]
    struct Fan(u32);
    impl Task for Fan {
        const KIND: &'static str = "fan";
        type Output = ();
    }
    fn fan(Fan(count): Fan, spawner: Spawner, attempt: Attempt) -> Outcome<()> {
        let children: Vec<Child> = (1..=count).map(|n| spawner.spawn(Number(n))).collect();
        // An attempt that fails spawns nothing.
        if attempt.number == 1 {
            return Err(Failure::retry("again"));
        }
        spawner.spawn_after(children, Sum);
        Ok(())
    }
    let mut bench = bench(Worker::new("w").on_cpu(fan).on(number).on(sum));
    let mut workflow = Workflow::new("spawn");
    let fan = workflow.add(Fan(4));
    let total = workflow.after(fan, Sum);
    let run = bench.start(workflow).await;
    bench.node(&run, fan).assert_retried();
    bench.assert_submitted::<Number>(0);
    let all = bench.drain().await;
    assert!(all.iter().all(|task| task.state() == TaskState::Done));
    bench.assert_submitted::<Number>(4);
    bench.assert_submitted::<Sum>(2);
    assert_eq!(bench.node(&run, total).output::<u32>(), 10);
}

#[tokio::test]
async fn a_join_that_is_too_wide_fails_instead_of_working_on_a_part() {
    #[derive(Serialize, Deserialize)]
    struct Wide(u32);
    impl Task for Wide {
        const KIND: &'static str = "wide";
        type Output = ();
    }
    async fn wide(Wide(count): Wide, spawner: Spawner) -> Outcome<()> {
        for _ in 0..count {
            spawner.spawn(Number(1));
        }
        Ok(())
    }
    let mut bench = bench(Worker::new("w").on(wide).on(number).on(sum));
    for (count, fits) in [(1_998, true), (9_999, true), (10_000, false)] {
        let mut workflow = Workflow::new("wide");
        let parent = workflow.add(Wide(count));
        let joined = workflow.after(parent, Sum);
        let run = bench.start(workflow).await;
        let joined = bench.node(&run, joined);
        if fits {
            assert_eq!(joined.output::<u32>(), count);
        } else {
            joined.assert_dead("join them through intermediate tasks");
        }
    }
}

#[tokio::test]
async fn a_dead_parent_cancels_dependents_unless_it_is_optional() {
    async fn tolerant(
        _: Sum,
        parent: Option<Upstream<Trouble>>,
        Parents(all): Parents,
    ) -> Outcome<u32> {
        assert!(parent.is_none());
        Ok(all.iter().filter(|parent| parent.state == TaskState::Dead).count() as u32)
    }
    let mut bench = bench(Worker::new("w").on(trouble).on(number).on(tolerant));
    let mut workflow = Workflow::new("fragile");
    let bad = workflow.add(Trouble("dead".into()));
    let strict = workflow.after(bad, Number(1));
    let relaxed = workflow.after_optional(bad, Sum);
    let run = bench.start(workflow).await;
    bench.node(&run, bad).assert_dead("no hope");
    bench.node(&run, strict).assert_cancelled("");
    assert_eq!(bench.node(&run, relaxed).output::<u32>(), 1);
}

#[tokio::test]
async fn one_upstream_is_one() {
    async fn one(_: Sum, Upstream(number): Upstream<Number>) -> Outcome<u32> {
        Ok(number)
    }
    let mut bench = bench(Worker::new("w").on(number).on(one));
    bench.run(Sum).await.assert_dead("no parent of kind `number` is done");
    let mut workflow = Workflow::new("two");
    let both = [workflow.add(Number(1)), workflow.add(Number(2))];
    let joined = workflow.after(both, Sum);
    let run = bench.start(workflow).await;
    bench.node(&run, joined).assert_dead("2 parents are of kind `number`, expected one");
}

#[tokio::test]
async fn a_payload_that_does_not_decode_is_dead_at_once() {
    #[derive(Serialize, Deserialize)]
    struct Old;
    impl Task for Old {
        const KIND: &'static str = "number";
        type Output = u32;
    }
    let mut bench = bench(Worker::new("w").on(number));
    let ran = bench.run(Old).await;
    ran.assert_dead("the payload is not what a task of kind `number` has");
    assert_eq!(ran.attempts(), 1);
}

#[tokio::test]
async fn a_result_or_a_child_over_a_limit_is_dead_with_the_cure() {
    #[derive(Serialize, Deserialize)]
    struct Text(usize);
    impl Task for Text {
        const KIND: &'static str = "text";
        type Output = String;
    }
    async fn text(Text(len): Text, spawner: Spawner) -> Outcome<String> {
        if len == 0 {
            spawner.spawn_with(Number(1), |options| options.priority(77));
        }
        Ok("x".repeat(len))
    }
    let mut bench = bench(Worker::new("w").on(text));
    bench.run(Text(2 << 20)).await.assert_dead("object store");
    bench
        .run(Text(0))
        .await
        .assert_dead("child 1, of kind `number`, cannot be spawned: priority is 77");
    bench.run(Text(1_000)).await.assert_done();
}

#[tokio::test]
async fn progress_and_log_are_seen_and_a_cancelled_attempt_stops() {
    async fn work(_: Number, progress: Progress, log: Log, cancel: Cancel) -> Outcome<u32> {
        progress.set(3, 10);
        progress.message("third");
        log.line("at work");
        if cancel.is_cancelled() {
            cancel.guard(std::future::pending::<()>()).await?;
        }
        Ok(1)
    }
    let mut bench = bench(Worker::new("w").on(work));
    let ran = bench.run(Number(1)).await;
    assert_eq!(ran.log(), "at work\n");
    let progress = ran.progress().unwrap();
    assert_eq!((progress.done, progress.total, progress.message.as_str()), (3, 10, "third"));
    bench.cancel_next("changed my mind");
    let cancelled = bench.run(Number(1)).await;
    cancelled.assert_cancelled("changed my mind");
    bench.retry(cancelled.id());
    bench.drain().await;
    bench.task(cancelled.id()).assert_done();
}

#[tokio::test]
async fn what_no_worker_can_run_waits_and_says_why() {
    let mut bench = bench(Worker::new("w").caps(["ffmpeg"]).on(number));
    bench.run_with(Number(1), |options| options.needs(["ffmpeg"])).await.assert_done();
    bench.run_with(Number(1), |options| options.needs(["gpu"])).await.assert_waiting("gpu");
    bench.run(Sum).await.assert_waiting("sum");
    assert_eq!(bench.drain().await.len(), 3);
}

#[tokio::test]
async fn the_same_key_is_the_same_task() {
    let mut bench = bench(Worker::new("w").on(number));
    let first = bench.run_with(Number(1), |options| options.key("k")).await;
    let second = bench.run_with(Number(1), |options| options.key("k")).await;
    assert_eq!((first.id(), second.id()), (TaskId::from_key("k"), TaskId::from_key("k")));
    bench.assert_submitted::<Number>(1);
}

#[tokio::test]
async fn handlers_take_any_error_and_up_to_four_extractors() {
    async fn four(
        _: Number,
        _: Log,
        _: Progress,
        _: Cancel,
        attempt: Attempt,
    ) -> anyhow::Result<u32> {
        anyhow::ensure!(attempt.kind == "number", "kind is {}", attempt.kind);
        Ok(attempt.number)
    }
    fn blocking(_: Sum) -> Result<u32, std::num::ParseIntError> {
        "7".parse()
    }
    let mut bench = bench(Worker::new("w").on(four).on_blocking(blocking));
    assert_eq!(bench.run(Number(0)).await.output::<u32>(), 1);
    assert_eq!(bench.run(Sum).await.output::<u32>(), 7);
    assert_eq!(Failure::retry("x").verdict(), FailureVerdict::Retry);
}

#[tokio::test]
async fn a_worker_that_is_built_wrong_does_not_start_and_says_everything() {
    async fn needy(_: Number, State(_): State<String>) -> Outcome<u32> {
        Ok(1)
    }
    let shutdown = divvy::Shutdown::new();
    let worker = Worker::new("w").state(1u8).state(2u8).on(needy).on(number);
    let error = worker.run_until(shutdown.clone()).await.unwrap_err().to_string();
    for part in [
        "worker `w` cannot start",
        "alloc::string::String",
        "`u8` is given twice",
        "`number` has two handlers",
    ] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    let error = Worker::new("w").run_until(shutdown).await.unwrap_err().to_string();
    assert!(error.contains("no handlers"), "{error}");
}

#[tokio::test]
async fn a_later_attempt_goes_on_where_an_earlier_one_saved() {
    /// Counts to the number, and fails after each step.
    async fn count(Number(goal): Number, mut checkpoint: Checkpoint<u32>) -> Outcome<u32> {
        let from = checkpoint.take().unwrap_or(0);
        checkpoint.save(&(from + 1))?;
        if from + 1 < goal { Err(Failure::retry("tired")) } else { Ok(from + 1) }
    }
    let mut bench = bench(Worker::new("w").on(count));
    let first = bench.run_with(Number(3), |options| options.retries(2)).await;
    assert_eq!(first.assert_retried().checkpoint::<u32>(), Some(1));
    bench.drain().await;
    assert_eq!(bench.task(first.id()).output::<u32>(), 3);
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_is_dead_and_one_that_cannot_be_read_is_left_out() {
    #[derive(Serialize, Deserialize)]
    struct Changed(u32);
    impl Task for Changed {
        const KIND: &'static str = "changed";
        type Output = u32;
    }
    /// Saves a text, and expects a number from then on.
    async fn changed(
        _: Changed,
        texts: Checkpoint<String>,
        numbers: Checkpoint<u32>,
        attempt: Attempt,
    ) -> Outcome<u32> {
        if attempt.number == 1 {
            texts.save(&"one".to_owned())?;
            return Err(Failure::retry("again"));
        }
        assert_eq!(texts.resume_point().map(String::as_str), Some("one"));
        Ok(numbers.resume_point().copied().unwrap_or(7))
    }
    async fn large(_: Number, checkpoint: Checkpoint<String>) -> Outcome<u32> {
        checkpoint.save(&"x".repeat(300_000))?;
        Ok(1)
    }
    let mut bench = bench(Worker::new("w").on(changed).on(large));
    bench.run(Number(1)).await.assert_dead("the checkpoint is 300002 bytes, at most 262144");
    let id = bench.run(Changed(1)).await.assert_retried().id();
    bench.drain().await;
    let ran = bench.task(id);
    assert_eq!(ran.output::<u32>(), 7);
    assert!(ran.log().contains("starts anew"), "{}", ran.log());
}

#[tokio::test]
async fn a_recalled_attempt_does_not_count_and_its_checkpoint_stays() {
    async fn moves(_: Number, mut checkpoint: Checkpoint<u32>, cancel: Cancel) -> Outcome<u32> {
        let from = checkpoint.take().unwrap_or(0);
        checkpoint.save(&(from + 1))?;
        if cancel.is_cancelled() {
            assert_eq!(cancel.reason().unwrap(), "the task moves to another worker");
        }
        Ok(from)
    }
    let mut bench = bench(Worker::new("w").on(moves));
    bench.recall_next();
    let ran = bench.run_with(Number(1), |options| options.retries(0)).await;
    assert_eq!(ran.assert_done().output::<u32>(), 1, "it went on after the move");
}

#[tokio::test]
async fn a_deadline_is_told_to_the_handler_and_missing_it_is_seen() {
    async fn due(_: Number, attempt: Attempt) -> Outcome<u32> {
        Ok(attempt.deadline.map_or(0, |_| 1))
    }
    let mut bench = bench(Worker::new("w").on(due));
    let minute = Duration::from_secs(60);
    let in_time = bench.run_with(Number(1), |options| options.deadline(minute)).await;
    assert_eq!((in_time.output::<u32>(), in_time.is_late()), (1, false));
    let late = |options: TaskOptions| options.deadline(minute).delay(2 * minute);
    let id = bench.submit_with(Number(1), late);
    assert!(!bench.task(id).is_late());
    bench.drain().await;
    assert!(bench.task(id).is_late());
    assert_eq!(bench.run(Number(1)).await.output::<u32>(), 0);
}

#[tokio::test]
async fn a_workflow_calls_back_and_goes_on_where_it_broke() {
    let mended = Arc::new(AtomicU32::new(0));
    let state = Arc::clone(&mended);
    async fn fragile(_: Trouble, State(state): State<Arc<AtomicU32>>) -> Outcome<u32> {
        match state.load(Ordering::Relaxed) {
            0 => Err(Failure::dead("broken")),
            works => Ok(works),
        }
    }
    let worker = Worker::new("w").on(number).on(sum).on(fragile).state(state);
    let mut bench = bench(worker);
    let mut workflow = Workflow::new("callbacks");
    let first = workflow.add(Number(1));
    let broken = workflow.after(first, Trouble("fragile".into()));
    let last = workflow.after(broken, Number(3));
    let success = workflow.on_success(Sum);
    workflow.wait_for_optional(success, first);
    let failure = workflow.on_failure(Number(9));

    let run = bench.start(workflow).await;
    bench.node(&run, broken).assert_dead("broken");
    bench.node(&run, last).assert_cancelled("broken");
    bench.node(&run, success).assert_cancelled("the workflow failed");
    bench.node(&run, failure).assert_done();

    mended.store(7, Ordering::Relaxed);
    assert_eq!(bench.resume(&run), 3);
    bench.node(&run, success).assert_waiting("its workflow has ended; 2 tasks are open in it");
    bench.drain().await;
    assert_eq!(bench.node(&run, broken).output::<u32>(), 7);
    bench.node(&run, last).assert_done();
    assert_eq!(bench.node(&run, success).output::<u32>(), 1, "it gets what it waited for besides");
    bench.node(&run, first).assert_done();
    assert_eq!(bench.resume(&run), 0);
}

#[tokio::test]
async fn a_cancelled_workflow_stays_cancelled() {
    let mut bench = bench(Worker::new("w").on(number).on(trouble));
    let mut workflow = Workflow::new("cancelled");
    let snoozes = workflow.add(Trouble("error".into()));
    let next = workflow.after(snoozes, Number(2));
    let failure = workflow.on_failure(Number(9));
    let run = bench.start(workflow).await;
    assert_eq!(bench.cancel_run(&run, "wrong input"), 3);
    for node in [next, failure] {
        bench.node(&run, node).assert_cancelled("wrong input");
    }
    assert_eq!(bench.resume(&run), 0, "people cancelled them");
}

/// Spawns as many numbers, and a task that runs after all of them.
#[derive(Serialize, Deserialize)]
struct Scatter(u32);
impl Task for Scatter {
    const KIND: &'static str = "scatter";
    type Output = ();
}

async fn scatter(Scatter(count): Scatter, spawner: Spawner) -> Outcome<()> {
    spawner.spawn_with(Sum, |options| options.after_group("numbers"));
    for number in 0..count {
        spawner.spawn_with(Number(number), |options| options.group("numbers"));
    }
    Ok(())
}

#[tokio::test]
async fn a_task_runs_after_every_task_of_a_group_however_many_were_spawned() {
    let seen = Arc::new(AtomicU32::new(0));
    async fn count(Number(number): Number, State(seen): State<Arc<AtomicU32>>) -> Outcome<u32> {
        seen.fetch_add(1, Ordering::Relaxed);
        Ok(number)
    }
    async fn look(_: Sum, State(seen): State<Arc<AtomicU32>>) -> Outcome<u32> {
        Ok(seen.load(Ordering::Relaxed))
    }
    for size in [0, 1, 1_500] {
        seen.store(0, Ordering::Relaxed);
        let worker = Worker::new("w").state(Arc::clone(&seen)).on(scatter).on(count).on(look);
        let mut bench = bench(worker);
        let mut workflow = Workflow::new("fan");
        workflow.add(Scatter(size));
        bench.start(workflow).await;
        let ran = bench.drain().await;
        assert_eq!(ran.len(), size as usize + 2);
        assert_eq!(ran[1].output::<u32>(), size, "all of them have run before it");
    }
    // Outside of a workflow nobody has a group, and the attempt says so.
    let mut bench = bench(Worker::new("w").on(scatter).on(number).on(sum));
    bench.run(Scatter(1)).await.assert_dead("after_groups needs a workflow");
}

#[tokio::test]
async fn a_failed_task_of_a_group_cancels_who_requires_it_and_not_who_waits_optionally() {
    let mut bench = bench(Worker::new("w").on(number).on(trouble).on(sum));
    let mut workflow = Workflow::new("group");
    workflow.add_with(Number(1), |options| options.group("parts"));
    workflow.add_with(Trouble("dead".into()), |options| options.group("parts"));
    let required = workflow.add_with(Sum, |options| options.after_group("parts"));
    let optional = workflow.add_with(Sum, |options| options.after_group_optional("parts"));
    let run = bench.start(workflow).await;
    bench.drain().await;
    bench.node(&run, required).assert_cancelled("no hope");
    bench.node(&run, optional).assert_done();
}
