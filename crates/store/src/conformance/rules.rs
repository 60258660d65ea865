//! The rules, one function each.

use std::sync::Arc;

use divvy_types::fact::Replay;
use divvy_types::{
    Dependency, ErrorClass, Fact, GroupDependency, IdEnd, Lane, Matching, OnConflict, Payload,
    RetryPolicy, RetryRule, Select, Seq, TaskId, TaskSpec, TaskState, Timestamp, Token, Unique,
    Verdict, Workflow, WorkflowId, WorkflowRole,
};

use super::{
    Bench, cancelled, dead, failed, finished, id, second, spec, submission, submitted, worker,
};
use crate::{OpenTask, Recovered};

pub(super) type Rule = fn(&mut Bench);

pub(super) const RULES: &[(&str, Rule)] = &[
    ("a task is accepted once", accepted_once),
    ("an end is recorded once", ended_once),
    ("a report under an older token is stale", older_tokens),
    ("failed attempts count and delay", attempts_count),
    ("facts about unknown tasks are stale", unknown_tasks),
    ("a replayed dead letter starts anew", replayed_dead),
    ("a replayed cancelled task starts anew", replayed_cancelled),
    ("a task that is replayed and ends in one group is listed", replayed_and_ended_in_one_group),
    ("a dropped dead letter is cancelled", dropped),
    ("held attempts come back", held),
    ("spilled tasks wait in their lane", spilled),
    ("paused queues come back", paused),
    ("the epoch grows with each start", epoch),
    ("every field of a spec lasts", fields),
    ("pages are filtered and ordered", pages),
    ("upstream follows children", upstream),
    ("workflows and their members are found", super::members::workflows),
    ("spilled members are counted at a start", super::members::spilled),
    ("ids are found by range", ids),
    ("final states are counted", counts),
    ("the last numbers are known", last_numbers),
];

use Verdict::{Applied, Duplicate, Stale};

pub(super) fn open_tasks(bench: &mut Bench) -> Vec<OpenTask> {
    let open = bench.recovered().into_iter().filter_map(|one| match one {
        Recovered::Open(task) => Some(task),
        _ => None,
    });
    open.collect()
}

fn accepted_once(bench: &mut Bench) {
    let known = |n: u64, other: u64| submission(n, TaskSpec::new(id(other), "other"));
    bench.apply(&[submitted(1), submitted(2), finished(2, 5), submitted(3), cancelled(3)]);
    bench.between();
    for n in [1, 2, 3] {
        bench.expect(submitted(n), Duplicate);
        bench.expect(known(n, 90 + n), Duplicate);
        bench.expect(known(90 + n, n), Duplicate);
    }
    bench.expect(submitted(4), Applied);
    let by_key = |n: u64| submission(n, TaskSpec::new(TaskId::from_key("order-17"), "noop"));
    bench.apply(&[by_key(5), finished(5, 6)]);
    bench.between();
    bench.expect(by_key(6), Duplicate);
    let verdicts = bench.commit(&[submitted(7), submitted(7), finished(7, 8), finished(7, 8)]);
    bench.same(&verdicts, &vec![Applied, Duplicate, Applied, Duplicate], "one group");
    let kind = bench.task(2).spec.kind;
    bench.same(&kind.as_str(), &"noop", "the first spec is kept");
}

fn ended_once(bench: &mut Bench) {
    bench.apply(&[submitted(1), submitted(2), submitted(3)]);
    bench.apply(&[finished(1, 5), dead(2, 6), cancelled(3)]);
    bench.between();
    for (fact, verdict) in [
        (finished(1, 5), Duplicate),
        (finished(1, 7), Stale),
        (finished(1, 4), Stale),
        (dead(1, 7), Stale),
        (cancelled(1), Stale),
        (failed(1, 9, 60), Stale),
        (dead(2, 6), Duplicate),
        (finished(2, 7), Stale),
        (cancelled(2), Stale),
        (cancelled(3), Duplicate),
        (finished(3, 8), Stale),
    ] {
        bench.expect(fact, verdict);
    }
    let ends = [1, 2, 3].map(|n| bench.task(n).outcome.expect("it has ended"));
    bench.same(
        &ends.each_ref().map(|end| end.state),
        &[TaskState::Done, TaskState::Dead, TaskState::Cancelled],
        "states",
    );
    bench.same(&ends.each_ref().map(|end| end.token.0), &[5, 6, 0], "tokens");
    bench.same(&ends[0].result.json_text(), &Some("{\"by\":5}"), "the result of the first report");
    bench.same(&ends[1].log.as_deref(), &Some("last words"), "the log");
    bench.same(
        &ends[2].error.as_ref().map(|e| e.message.as_str()),
        &Some("not wanted"),
        "the reason of the cancel",
    );
    let open = open_tasks(bench).len();
    bench.same(&open, &0, "open tasks");
}

fn older_tokens(bench: &mut Bench) {
    bench.apply(&[submitted(1), failed(1, 10, 60), failed(1, 20, 90)]);
    bench.between();
    bench.expect(failed(1, 20, 99), Duplicate);
    bench.expect(failed(1, 10, 99), Duplicate);
    bench.expect(failed(1, 15, 99), Stale);
    bench.expect(finished(1, 20), Stale);
    bench.expect(finished(1, 15), Stale);
    bench.expect(dead(1, 20), Stale);
    bench.expect(finished(1, 21), Applied);
    bench.between();
    bench.expect(failed(1, 20, 99), Duplicate);
    bench.expect(failed(1, 21, 99), Stale);
    let attempts: Vec<u64> = bench.task(1).attempts.iter().map(|attempt| attempt.token.0).collect();
    bench.same(&attempts, &vec![10, 20], "attempts, oldest first");
}

fn attempts_count(bench: &mut Bench) {
    let mut snooze = failed(1, 3, 50);
    if let Fact::AttemptFailed { counted, .. } = &mut snooze {
        *counted = false;
    }
    bench.apply(&[submitted(1), failed(1, 1, 30), failed(1, 2, 40), snooze, submitted(2)]);
    bench.between();
    let open = open_tasks(bench);
    bench.same(&open.len(), &2, "open tasks");
    bench.same(
        &(open[0].attempts, open[0].retry_at),
        &(2, Some(second(50))),
        "the attempts of the first",
    );
    bench.same(&(open[1].attempts, open[1].retry_at), &(0, None), "the attempts of the second");
    let counted = bench.task(1).counted;
    bench.same(&counted, &2, "the count of the record");
    bench.apply(&[finished(1, 4)]);
    let counted = bench.task(1).counted;
    bench.same(&counted, &3, "the count with the attempt that finished");
}

fn unknown_tasks(bench: &mut Bench) {
    bench.apply(&[submitted(1), finished(1, 1)]);
    bench.between();
    let hold = Fact::Held { seq: Seq(9), token: Token(1), began: second(9), worker: worker() };
    let replay = Fact::Replayed { seq: Seq(9), at: second(9), replay: Replay::default() };
    let drop = Fact::Dropped { seq: Seq(9), at: second(9) };
    for fact in [finished(9, 1), dead(9, 1), failed(9, 1, 60), cancelled(9), hold, replay, drop] {
        bench.expect(fact, Stale);
    }
    let found = bench
        .store()
        .reader()
        .and_then(|mut reader| reader.get(Seq(9)))
        .expect("a task can be looked for");
    assert!(found.is_none(), "stale facts leave nothing behind");
}

fn replayed_dead(bench: &mut Bench) {
    let replay = |n| Fact::Replayed { seq: Seq(n), at: second(100), replay: Replay::default() };
    bench.apply(&[
        submitted(1),
        failed(1, 1, 60),
        dead(1, 2),
        submitted(2),
        submitted(3),
        finished(3, 3),
    ]);
    bench.between();
    bench.expect(replay(2), Stale);
    bench.expect(replay(3), Stale);
    bench.expect(replay(1), Applied);
    bench.expect(replay(1), Stale);
    bench.between();
    let task = bench.task(1);
    assert!(task.outcome.is_none(), "it is open again");
    bench.same(&task.attempts.len(), &2, "what failed before stays as history");
    bench.same(
        &task.attempts[1].error.message.as_str(),
        &"it is over",
        "the error of the dead letter",
    );
    bench.same(&task.counted, &0, "attempts that count");
    let open = open_tasks(bench);
    bench.same(&(open[0].attempts, open[0].retry_at), &(0, None), "what recovery says of it");
    bench.expect(dead(1, 2), Stale);
    bench.expect(failed(1, 9, 70), Applied);
    bench.between();
    let open = open_tasks(bench);
    bench.same(
        &(open[0].attempts, open[0].retry_at),
        &(1, Some(second(70))),
        "attempts count anew",
    );
    bench.expect(finished(1, 10), Applied);
}

fn replayed_cancelled(bench: &mut Bench) {
    bench.apply(&[submitted(1), failed(1, 3, 60), cancelled(1)]);
    bench.between();
    bench.expect(
        Fact::Replayed { seq: Seq(1), at: second(100), replay: Replay::default() },
        Applied,
    );
    let task = bench.task(1);
    assert!(task.outcome.is_none(), "it is open again");
    bench.same(&(task.attempts.len(), task.counted), &(1, 0), "its attempts, and how many count");
    let found = open_tasks(bench).len();
    bench.same(&found, &1, "open tasks");
    bench.between();
    let found = open_tasks(bench).len();
    bench.same(&found, &1, "open tasks later");
    bench.expect(finished(1, 3), Stale);
    bench.expect(finished(1, 4), Applied);
    bench.between();
    bench.expect(finished(1, 4), Duplicate);
    let state = bench.task(1).outcome.map(|end| end.state);
    bench.same(&state, &Some(TaskState::Done), "its state in the end");
    let listed = page(bench, Select::default());
    bench.same(&listed, &vec![1], "it is listed once");
    let counts = bench
        .store()
        .reader()
        .and_then(|mut reader| reader.final_counts())
        .expect("counts can be read");
    bench.same(
        &counts,
        &vec![(TaskState::Done, 1), (TaskState::Dead, 0), (TaskState::Cancelled, 0)],
        "counts",
    );
}

fn replayed_and_ended_in_one_group(bench: &mut Bench) {
    bench.apply(&[submitted(1), cancelled(1)]);
    bench.between();
    let open = open_tasks(bench).len();
    bench.same(&open, &0, "open tasks");
    let replayed = Fact::Replayed { seq: Seq(1), at: second(100), replay: Replay::default() };
    bench.apply(&[replayed, finished(1, 5)]);
    let done = Select { state: vec![TaskState::Done], ..Select::default() };
    let listed = page(bench, done);
    bench.same(&listed, &vec![1], "tasks that are done");
}

fn dropped(bench: &mut Bench) {
    let drop = |n| Fact::Dropped { seq: Seq(n), at: second(100) };
    bench.apply(&[
        submitted(1),
        dead(1, 2),
        submitted(2),
        submitted(3),
        cancelled(3),
        submitted(4),
        finished(4, 1),
    ]);
    bench.between();
    bench.expect(drop(1), Applied);
    for n in [1, 2, 3, 4] {
        bench.expect(drop(n), Stale);
    }
    bench.between();
    let task = bench.task(1);
    let end = task.outcome.expect("it has ended");
    bench.same(&(end.state, end.at), &(TaskState::Cancelled, second(100)), "its end");
    bench.same(
        &end.error.map(|e| e.message.to_string()),
        &Some("dead letter dropped".into()),
        "the reason",
    );
    bench.same(&task.attempts.len(), &1, "the error that killed it stays as history");
    bench.same(&task.counted, &1, "attempts that count");
}

fn held(bench: &mut Bench) {
    let hold = |n, token| Fact::Held {
        seq: Seq(n),
        token: Token(token),
        began: second(40 + token),
        worker: worker(),
    };
    bench.apply(&[submitted(1), submitted(2), submitted(3), submitted(4), cancelled(4)]);
    bench.apply(&[
        hold(1, 5),
        hold(1, 6),
        hold(2, 7),
        failed(2, 7, 60),
        hold(3, 8),
        finished(3, 8),
    ]);
    bench.between();
    bench.expect(hold(1, 4), Stale);
    bench.expect(hold(2, 7), Stale);
    bench.expect(hold(3, 9), Stale);
    bench.expect(hold(4, 9), Stale);
    let held: Vec<_> = open_tasks(bench).into_iter().map(|task| (task.seq.0, task.held)).collect();
    bench.same(
        &held,
        &vec![(1, Some((Token(6), worker(), second(46)))), (2, None)],
        "attempts that are held",
    );
    bench.apply(&[
        cancelled(1),
        Fact::Replayed { seq: Seq(1), at: second(90), replay: Replay::default() },
    ]);
    let held = open_tasks(bench)[0].held.clone();
    bench.same(&held, &None, "a replay forgets what was held");
}

fn spilled(bench: &mut Bench) {
    let (low, high) =
        (Lane { class: u64::MAX - 3, priority: 2 }, Lane { class: u64::MAX - 3, priority: 4 });
    let spill = |n: u64, lane| {
        let mut spec = spec(n);
        spec.payload = Payload::json(format!("\"{}\"", "x".repeat(98))).expect("the text is JSON");
        let (seq, at, spec) = (Seq(n), second(n), Arc::new(spec));
        Fact::Submitted { seq, at, spec, spawned_by: None, spilled: Some(lane) }
    };
    bench.apply(&[
        submitted(1),
        spill(2, low),
        spill(3, high),
        spill(4, low),
        spill(5, low),
        spill(6, low),
    ]);
    bench.between();
    bench.expect(
        Fact::Cancelled { seq: Seq(4), at: second(9), reason: "no".into(), spilled: Some(low) },
        Applied,
    );
    bench.between();
    let loaded = |bench: &mut Bench, after: Option<u64>, rows, bytes| -> Vec<u64> {
        let reader = bench.store().reader();
        let tasks = reader
            .and_then(|mut r| r.spilled(low, after.map(Seq), rows, bytes))
            .expect("the spill is read");
        tasks.into_iter().map(|task| task.seq.0).collect()
    };
    let found = loaded(bench, None, 9, 9_999);
    bench.same(&found, &vec![2, 5, 6], "the lane");
    let found = loaded(bench, Some(2), 1, 9_999);
    bench.same(&found, &vec![5], "the lane after the first, one row");
    let found = loaded(bench, None, 9, 150);
    bench.same(&found, &vec![2, 5], "the lane, about 150 bytes");
    let found = loaded(bench, None, 9, 1);
    bench.same(&found, &vec![2], "the lane, at least one");
    let lanes = |bench: &mut Bench| -> Vec<(Lane, u64)> {
        let lanes = bench.recovered().into_iter().filter_map(|one| match one {
            Recovered::Spilled(lane) => Some((lane.lane, lane.count)),
            _ => None,
        });
        lanes.collect()
    };
    let found = lanes(bench);
    bench.same(&found, &vec![(low, 3), (high, 1)], "lanes");
    let open: Vec<u64> = open_tasks(bench).iter().map(|task| task.seq.0).collect();
    bench.same(&open, &vec![1], "open tasks that are not spilled");
    bench.expect(Fact::Unspilled { lane: low, upto: Seq(5) }, Applied);
    bench.restart();
    let found = lanes(bench);
    bench.same(&found, &vec![(low, 1), (high, 1)], "lanes after some were taken");
    let open: Vec<u64> = open_tasks(bench).iter().map(|task| task.seq.0).collect();
    bench.same(&open, &vec![1, 2, 5], "open tasks that are not spilled any more");
}

fn paused(bench: &mut Bench) {
    let pause = |queue: &str, paused| Fact::QueuePaused { queue: queue.into(), paused };
    bench.apply(&[
        pause("mail", true),
        pause("video", true),
        pause("mail", false),
        pause("mail", true),
        pause("video", false),
    ]);
    bench.between();
    let paused: Vec<String> = bench
        .recovered()
        .into_iter()
        .filter_map(|one| match one {
            Recovered::PausedQueue(name) => Some(name.to_string()),
            _ => None,
        })
        .collect();
    bench.same(&paused, &vec!["mail".to_owned()], "paused queues");
}

fn epoch(bench: &mut Bench) {
    let first = bench.store().epoch();
    bench.restart();
    let second = bench.store().epoch();
    assert!(first >= 1 && second > first, "epochs {first}, then {second}");
}

fn fields(bench: &mut Bench) {
    let mut full = spec(1);
    full.queue = "vidéo".into();
    full.payload = Payload::new("image/png", vec![0, 159, 146, 150]).expect("a payload");
    full.priority = 5;
    full.needs = vec!["gpu".into(), "linux".into()];
    full.after = vec![
        Dependency { task: id(7), optional: true },
        Dependency { task: id(8), optional: false },
    ];
    full.run_at = Some(second(77));
    full.timeout_ms = Some(1_234);
    full.retry = RetryPolicy {
        limit: 9,
        base_ms: 8,
        cap_ms: 7,
        jitter_percent: 6,
        rules: vec![RetryRule {
            class: Some(ErrorClass::Timeout),
            contains: Some("late".into()),
            limit: Some(1),
            base_ms: Some(2),
            cap_ms: Some(3),
        }],
    };
    full.workflow = Some(Box::new(Workflow {
        id: WorkflowId(42),
        name: "night run".into(),
        role: WorkflowRole::OnFailure,
    }));
    full.matching = Some(Matching::Fallback);
    full.deadline = Some(second(99));
    full.unique =
        Some(Unique { key: "one ä".into(), window_ms: Some(7), on_conflict: OnConflict::Replace });
    full.limits = vec!["api".into(), "gpu/7".into()];
    full.fair_key = Some("team a".into());
    full.affinity = Some("cache-1".into());
    full.cost_hint = Some(u64::MAX);
    full.group = Some("parts ä".into());
    full.after_groups = vec![
        GroupDependency { group: "first".into(), optional: false },
        GroupDependency { group: "second".into(), optional: true },
    ];
    let mut nameless = spec(2);
    nameless.workflow = Some(Box::new(Workflow {
        id: WorkflowId(43),
        name: "".into(),
        role: WorkflowRole::Member,
    }));
    nameless.payload = Payload::json("null").expect("JSON");
    let mut empty = spec(3);
    empty.payload = Payload::new("text/plain", "").expect("a payload");
    let specs = [full, nameless, empty, spec(4)];
    for (n, spec) in specs.iter().enumerate() {
        bench.apply(&[submission(n as u64 + 1, spec.clone())]);
    }
    bench.between();
    let open: Vec<TaskSpec> =
        open_tasks(bench).iter().map(|task| TaskSpec::clone(&task.spec)).collect();
    bench.same(&open, &specs.to_vec(), "recovered specs");
    let boxed = open.iter().filter(|spec| !spec.terms.is_untouched()).count();
    bench.same(&boxed, &2, "specs whose terms take memory");
    bench.apply(&[finished(1, 1), finished(2, 1), finished(3, 1), finished(4, 1)]);
    bench.between();
    let kept: Vec<TaskSpec> = (1..=4).map(|n| bench.task(n).spec).collect();
    bench.same(&kept, &specs.to_vec(), "specs of ended tasks");
    let worker_name = bench.task(1).outcome.map(|end| end.worker);
    bench.same(&worker_name, &Some(worker()), "who ran it");
}

fn page(bench: &mut Bench, select: Select) -> Vec<u64> {
    let (found, searched_to) = some(bench, &select, None, 100);
    bench.same(&searched_to, &None, "how far a page looks that has all");
    found
}

/// A page, and how far it looked.
fn some(
    bench: &mut Bench,
    select: &Select,
    before: Option<u64>,
    rows: usize,
) -> (Vec<u64>, Option<u64>) {
    let mut reader = bench.store().reader().expect("a reader opens");
    let page = reader.page(select, before.map(Seq), rows).expect("a page can be read");
    (page.tasks.iter().map(|task| task.seq.0).collect(), page.searched_to.map(|seq| seq.0))
}

fn pages(bench: &mut Bench) {
    for n in 1..=10 {
        let mut spec = spec(n);
        spec.kind = if n % 2 == 0 { "video.probe".into() } else { "mail".into() };
        spec.queue = if n > 8 { "late".into() } else { "default".into() };
        let workflow = [(3, 5, "w"), (5, 6, "v")].into_iter().find(|(every, ..)| n % every == 0);
        spec.workflow = workflow.map(|(_, id, name)| {
            Box::new(Workflow { id: WorkflowId(id), name: name.into(), role: WorkflowRole::Member })
        });
        spec.tags = if n % 4 == 0 { vec!["blue".into(), "ä \"b\"".into()] } else { vec![] };
        bench.apply(&[submission(n, spec)]);
    }
    bench.apply(&[
        finished(1, 1),
        finished(2, 2),
        dead(3, 3),
        dead(4, 4),
        cancelled(5),
        cancelled(6),
        failed(7, 5, 60),
    ]);
    bench.between();
    let all = Select::default();
    let of = |states: &[TaskState]| Select { state: states.to_vec(), ..Select::default() };
    let found = some(bench, &all, None, 3);
    bench.same(&found, &(vec![10, 9, 8], Some(8)), "the first page");
    let found = some(bench, &all, Some(5), 3);
    bench.same(&found, &(vec![4, 3, 2], Some(2)), "a next page");
    let found = some(bench, &all, Some(4), 3);
    bench.same(&found, &(vec![3, 2, 1], None), "a full page that is the last");
    let found = some(bench, &of(&[TaskState::Cancelled]), None, 1);
    bench.same(&found, &(vec![6], Some(6)), "the newest cancelled one");
    let found = some(bench, &of(&[TaskState::Cancelled, TaskState::Dead]), None, 3);
    bench.same(&found, &(vec![6, 5, 4], Some(4)), "dead or cancelled");
    for (select, expected, what) in selections() {
        let found = page(bench, select);
        bench.same(&found, &expected, what);
    }
}

fn selections() -> Vec<(Select, Vec<u64>, &'static str)> {
    let (all, name) = (Select::default, |name: &str| Some(name.into()));
    let of = |states: &[TaskState]| Select { state: states.to_vec(), ..Select::default() };
    let workflow = || Select { workflow: vec![WorkflowId(5)], ..Select::default() };
    let tag = |tag: &str| Select { tag: name(tag), ..Select::default() };
    let ready = || of(&[TaskState::Ready]);
    vec![
        (all(), (1..=10).rev().collect(), "all"),
        (ready(), vec![10, 9, 8, 7], "open ones"),
        (of(&[TaskState::Done]), vec![2, 1], "done ones"),
        (of(&[TaskState::Dead]), vec![4, 3], "dead ones"),
        (of(&[TaskState::Cancelled, TaskState::Dead]), vec![6, 5, 4, 3], "dead or cancelled"),
        (of(&TaskState::ALL), (1..=10).rev().collect(), "in any state"),
        (of(&[TaskState::Leased, TaskState::Done]), vec![10, 9, 8, 7, 2, 1], "leased or done"),
        (workflow(), vec![9, 6, 3], "of a workflow"),
        (
            Select { workflow: vec![WorkflowId(6), WorkflowId(5), WorkflowId(6)], ..all() },
            vec![10, 9, 6, 5, 3],
            "of one of two workflows, of which one is named twice",
        ),
        (Select { state: ready().state, ..workflow() }, vec![9], "open ones of a workflow"),
        (Select { workflow_name: name("w"), ..all() }, vec![9, 6, 3], "of a workflow's name"),
        (tag("ä \"b\""), vec![8, 4], "with a tag"),
        (Select { state: ready().state, ..tag("blue") }, vec![8], "open ones with a tag"),
        (tag("blu"), vec![], "a tag is matched whole"),
        (Select { kind: name("mail"), ..all() }, vec![9, 7, 5, 3, 1], "of a kind"),
        (Select { kind: name("vid*"), ..all() }, vec![10, 8, 6, 4, 2], "of a kind by its start"),
        (Select { kind: name("vid"), ..all() }, vec![], "of an unknown kind"),
        (Select { queue: name("late"), ..all() }, vec![10, 9], "of a queue"),
        (
            Select { worker: Some(worker()), ..all() },
            vec![7, 4, 3, 2, 1],
            "of a worker, and what failed there",
        ),
        (Select { worker: name("nobody"), ..of(&[TaskState::Done]) }, vec![], "of no worker"),
        (Select { class: Some(ErrorClass::Cancelled), ..all() }, vec![6, 5], "by class"),
        (Select { since: Some(second(9)), ..all() }, vec![10, 9], "submitted late"),
        (Select { until: Some(second(3)), ..all() }, vec![2, 1], "submitted early"),
        (Select { ended_until: Some(Timestamp::MAX), ..all() }, vec![6, 5, 4, 3, 2, 1], "ended"),
    ]
}

fn upstream(bench: &mut Bench) {
    let child = |n: u64, parent: u64| {
        let (seq, at, spec) = (Seq(n), second(n), Arc::new(spec(n)));
        Fact::Submitted { seq, at, spec, spawned_by: Some(Seq(parent)), spilled: None }
    };
    bench.apply(&[
        submitted(1),
        submitted(2),
        finished(1, 1),
        child(3, 1),
        child(4, 1),
        finished(3, 3),
        child(5, 3),
    ]);
    bench.apply(&[dead(4, 4), cancelled(5)]);
    bench.between();
    let mut of = |tasks: &[Seq], rows: usize, bytes: usize| {
        let reader = bench.store().reader();
        let family =
            reader.and_then(|mut r| r.upstream(tasks, rows, bytes)).expect("upstream is read");
        let ends = family.ends.into_iter().map(|end| (end.task, end.state, end.spawned));
        (ends.collect::<Vec<_>>(), family.cut)
    };
    let (_, gone) = of(&[Seq(1), Seq(99)], 100, 1 << 20);
    let mut ends = |rows: usize, bytes: usize| of(&[Seq(1), Seq(2)], rows, bytes);
    let ((all, whole), (two, cut), (states, bare)) =
        (ends(100, 1 << 20), ends(2, 1 << 20), ends(100, 0));
    bench.same(&(whole, cut, bare), &(false, true, true), "whether something was left out");
    bench.same(&gone, &true, "whether one is not kept any more");
    let expected = vec![
        (id(1), TaskState::Done, false),
        (id(3), TaskState::Done, true),
        (id(4), TaskState::Dead, true),
        (id(5), TaskState::Cancelled, true),
    ];
    bench.same(&all, &expected, "ends");
    bench.same(&two, &expected[..2].to_vec(), "the first two");
    bench.same(&states, &expected, "without results");
}

fn ids(bench: &mut Bench) {
    bench.apply(&[
        submitted(1),
        submitted(2),
        submitted(3),
        submitted(4),
        finished(2, 1),
        cancelled(3),
    ]);
    bench.between();
    let mut reader = bench.store().reader().expect("a reader opens");
    let found = reader.ids_between(id(1), id(3), 10).expect("ids are read");
    let first = reader.ids_between(id(0), id(9), 2).expect("ids are read");
    let end = |text| IdEnd::parse(text).expect("the end of an id");
    let ends = ["0002-7000-8000-000000000000", "3-7000-8000-000000000000", "00000007"]
        .map(|text| reader.ids_ending(end(text), 10).expect("ids are read"));
    let few = reader.ids_ending(end("00000000"), 2).expect("ids are read").len();
    let known = [id(2), id(4), id(5)]
        .map(|id| reader.find(id).expect("a task is looked for").map(|task| task.seq.0));
    drop(reader);
    bench.same(&found, &vec![id(1), id(2), id(3)], "ids in a range");
    bench.same(&first, &vec![id(1), id(2)], "the first two");
    bench.same(&ends, &[vec![id(2)], vec![id(3)], Vec::new()], "ids by their end");
    bench.same(&few, &2, "no more than were asked for");
    bench.same(&known, &[Some(2), Some(4), None], "tasks by their id");
}

fn counts(bench: &mut Bench) {
    let counts = |bench: &mut Bench| -> Vec<u64> {
        let counts = bench
            .store()
            .reader()
            .and_then(|mut reader| reader.final_counts())
            .expect("counts can be read");
        let of = |state| {
            counts.iter().filter(|(other, _)| *other == state).map(|(_, count)| count).sum()
        };
        [TaskState::Done, TaskState::Dead, TaskState::Cancelled].map(of).into()
    };
    bench.apply(&(1..=6).map(submitted).collect::<Vec<_>>());
    bench.apply(&[finished(1, 1), finished(2, 2), dead(3, 3), dead(4, 4), cancelled(5)]);
    bench.commit(&[finished(1, 1), cancelled(1)]);
    bench.between();
    let found = counts(bench);
    bench.same(&found, &vec![2, 2, 1], "done, dead, cancelled");
    let (replay, drop) = (
        |n| Fact::Replayed { seq: Seq(n), at: second(9), replay: Replay::default() },
        Fact::Dropped { seq: Seq(4), at: second(9) },
    );
    bench.apply(&[replay(3), drop, replay(5)]);
    bench.between();
    let found = counts(bench);
    bench.same(&found, &vec![2, 0, 1], "after replays and a drop");
}

fn last_numbers(bench: &mut Bench) {
    let end = |bench: &mut Bench| match bench.recovered().pop() {
        Some(Recovered::End { last_seq, last_ordered_id }) => (last_seq.0, last_ordered_id),
        other => panic!("recovery ended with {other:?}"),
    };
    let found = end(bench);
    bench.same(&found, &(0, None), "of an empty store");
    // An id made from a key is not ordered by time, wherever it lies.
    let keyed = |seq, id| {
        let spec = Arc::new(TaskSpec::new(id, "noop"));
        Fact::Submitted { seq: Seq(seq), at: second(1), spec, spawned_by: None, spilled: None }
    };
    bench.apply(&[
        submitted(1),
        submitted(5),
        finished(5, 1),
        submitted(3),
        keyed(7, TaskId(u128::MAX)),
    ]);
    bench.apply(&[keyed(8, TaskId((1 << 124) - 1))]);
    bench.between();
    let found = end(bench);
    bench.same(&found, &(8, Some(id(5))), "of a store with tasks");
}
