//! The rules of what tasks leave behind besides their end: checkpoints, settings, unique keys, and how they are put
//! back.

use divvy_types::fact::Replay;
use divvy_types::{
    ErrorClass, Fact, OnConflict, Payload, Seq, TaskError, TaskId, TaskState, Token, Unique,
    Verdict,
};

use super::rules::{Rule, open_tasks};
use super::{Bench, cancelled, dead, failed, finished, id, second, spec, submission, submitted};
use crate::Recovered;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("the last checkpoint of a task counts", checkpoints),
    ("a checkpoint goes with its task", checkpoints_go),
    ("settings are replaced and removed", settings),
    ("the newest task has a unique key", unique_keys),
    ("a unique key is forgotten when it is free", unique_keys_go),
    ("a replay may have a new payload", replayed_with_payload),
    ("a replay may be due later and keep its edges", replayed_later),
    ("lost workers are known by name since the last replay", lost_workers),
];

use Verdict::{Applied, Stale};

fn text(text: &str) -> Payload {
    Payload::new("text/plain", text.to_owned()).expect("a payload")
}

fn saved(n: u64, token: u64, data: &str) -> Fact {
    Fact::Checkpoint { seq: Seq(n), token: Token(token), at: second(5), data: text(data) }
}

fn replay(n: u64, replay: Replay) -> Fact {
    Fact::Replayed { seq: Seq(n), at: second(100), replay }
}

fn checkpoint(bench: &mut Bench, n: u64) -> Option<Payload> {
    let reader = bench.store().reader();
    reader.and_then(|mut reader| reader.checkpoint(Seq(n))).expect("a checkpoint can be read")
}

fn checkpoints(bench: &mut Bench) {
    bench.apply(&[submitted(1), submitted(2), saved(1, 5, "a"), saved(1, 5, "b")]);
    bench.between();
    bench.expect(saved(1, 4, "late"), Stale);
    bench.expect(saved(9, 4, "nobody"), Stale);
    let found = (checkpoint(bench, 1), checkpoint(bench, 2));
    bench.same(&found, &(Some(text("b")), None), "what was saved");
    let open: Vec<bool> = open_tasks(bench).iter().map(|task| task.checkpointed).collect();
    bench.same(&open, &vec![true, false], "what recovery says");
    bench.apply(&[failed(1, 6, 60)]);
    bench.between();
    bench.expect(saved(1, 6, "after the failure"), Stale);
    bench.expect(saved(1, 7, ""), Applied);
    bench.between();
    let found = checkpoint(bench, 1);
    bench.same(&found, &Some(text("")), "an attempt later");
}

fn checkpoints_go(bench: &mut Bench) {
    for n in 1..=4 {
        bench.apply(&[submitted(n), saved(n, 5, "half")]);
    }
    bench.apply(&[finished(1, 5), cancelled(2), dead(3, 5), dead(4, 5)]);
    for n in 1..=4 {
        bench.expect(saved(n, 9, "too late"), Stale);
    }
    bench.between();
    let left: Vec<bool> = (1..=4).map(|n| checkpoint(bench, n).is_some()).collect();
    bench.same(&left, &vec![false, false, true, true], "only dead letters keep theirs");
    bench.apply(&[replay(2, Replay::default()), replay(3, Replay::default())]);
    bench.apply(&[replay(4, Replay { payload: Some(text("other")), ..Replay::default() })]);
    bench.between();
    let open: Vec<_> = open_tasks(bench).iter().map(|t| (t.seq.0, t.checkpointed)).collect();
    bench.same(
        &open,
        &vec![(2, false), (3, true), (4, false)],
        "a dead letter goes on from there, unless its payload is another",
    );
}

fn settings(bench: &mut Bench) {
    let set = |key: &str, value: Option<&str>| Fact::Setting {
        key: key.into(),
        value: value.map(Into::into),
    };
    bench.apply(&[
        set("settings", Some("{\"a\":1}")),
        set("schedule/ä", Some("1")),
        set("schedule/b", Some("2")),
        set("settings", Some("{\"a\":2}")),
        set("schedule/b", None),
        set("nothing", None),
    ]);
    bench.between();
    let found: Vec<(String, String)> = bench
        .recovered()
        .into_iter()
        .filter_map(|one| match one {
            Recovered::Setting { key, value } => Some((key.into(), value.into())),
            _ => None,
        })
        .collect();
    let expected = [("schedule/ä", "1"), ("settings", "{\"a\":2}")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    bench.same(&found, &expected.to_vec(), "what is set");
}

fn keyed(n: u64, key: &str, window_ms: Option<u64>) -> Fact {
    let mut spec = spec(n);
    spec.unique = Some(Unique { key: key.into(), window_ms, on_conflict: OnConflict::Skip });
    submission(n, spec)
}

type Key = (String, TaskId, u64, bool, Option<u64>);

fn keys(bench: &mut Bench) -> Vec<Key> {
    let keys = bench.recovered().into_iter().filter_map(|one| match one {
        Recovered::UniqueKey { key, task, seq, open, at, until } => {
            assert_eq!(at, second(seq.0), "the time of the submission");
            let window = until.map(|until| (until.0 - at.0) / 1_000);
            Some((key.to_string(), task, seq.0, open, window))
        }
        _ => None,
    });
    keys.collect()
}

fn unique_keys(bench: &mut Bench) {
    bench.apply(&[keyed(1, "b", None), keyed(2, "a", Some(9_000_000)), submitted(3)]);
    bench.between();
    let found = keys(bench);
    let (a, b) = (("a".to_owned(), id(2), 2, true, Some(9_000_000)), "b".to_owned());
    bench.same(&found, &vec![a.clone(), (b.clone(), id(1), 1, true, None)], "who has which");
    bench.apply(&[cancelled(1), keyed(4, "b", None)]);
    bench.between();
    let found = keys(bench);
    bench.same(&found, &vec![a, (b.clone(), id(4), 4, true, None)], "the newest has it");
    bench.apply(&[finished(4, 1), replay(1, Replay::default())]);
    bench.between();
    let found = keys(bench).into_iter().nth(1);
    bench.same(&found, &Some((b, id(1), 1, true, None)), "one that is put back has it again");
}

fn unique_keys_go(bench: &mut Bench) {
    bench.apply(&[
        keyed(1, "open", None),
        keyed(2, "ended", None),
        keyed(3, "in its window", Some(1_000_000_000)),
        keyed(4, "past its window", Some(1_000)),
        keyed(5, "open, past its window", Some(1_000)),
        finished(2, 1),
        finished(3, 1),
        dead(4, 1),
    ]);
    super::maintain(bench.store(), second(3_600));
    bench.between();
    let found: Vec<(String, bool)> =
        keys(bench).into_iter().map(|(key, _, _, open, _)| (key, open)).collect();
    let expected = [("in its window", false), ("open", true), ("open, past its window", true)]
        .map(|(key, open)| (key.to_owned(), open));
    bench.same(&found, &expected.to_vec(), "keys that are left");
}

fn replayed_with_payload(bench: &mut Bench) {
    let with = |data: &str| Replay { payload: Some(text(data)), ..Replay::default() };
    bench.apply(&[submitted(1), dead(1, 2), submitted(2), cancelled(2), submitted(3)]);
    bench.between();
    bench.expect(replay(1, with("fixed")), Applied);
    bench.expect(replay(2, with("other")), Applied);
    bench.expect(replay(3, with("open")), Stale);
    bench.between();
    let payloads = |bench: &mut Bench| [1, 2, 3].map(|n| bench.task(n).spec.payload);
    let expected = [text("fixed"), text("other"), Payload::null()];
    let found = payloads(bench);
    bench.same(&found, &expected, "what a read sees");
    let open: Vec<Payload> = open_tasks(bench).iter().map(|t| t.spec.payload.clone()).collect();
    bench.same(&open, &expected.to_vec(), "what recovery sees");
    bench.apply(&[dead(1, 9), finished(2, 9)]);
    bench.between();
    bench.expect(replay(1, Replay::default()), Applied);
    bench.between();
    let found = payloads(bench);
    bench.same(&found, &expected, "what a later replay and an ended task keep");
    let by_id = bench
        .store()
        .reader()
        .and_then(|mut reader| reader.find(id(2)))
        .expect("a task is looked for");
    bench.same(&by_id.map(|task| task.seq.0), &Some(2), "the task by its id");
}

fn replayed_later(bench: &mut Bench) {
    let later = Replay { due: Some(second(500)), payload: None, keep_edges: true };
    bench.apply(&[submitted(1), failed(1, 1, 60), dead(1, 2), submitted(2), cancelled(2)]);
    bench.between();
    bench.apply(&[replay(1, later.clone()), replay(2, Replay { keep_edges: false, ..later })]);
    bench.between();
    let seen = |bench: &mut Bench| -> Vec<_> {
        open_tasks(bench).iter().map(|task| (task.seq.0, task.retry_at, task.replayed)).collect()
    };
    let due = Some(second(500));
    let found = seen(bench);
    bench.same(&found, &vec![(1, due, false), (2, due, true)], "what recovery says");
    bench.apply(&[failed(1, 3, 600), cancelled(2), replay(2, Replay::default())]);
    bench.between();
    let found = seen(bench);
    let expected = vec![(1, Some(second(600)), false), (2, None, true)];
    bench.same(&found, &expected, "after a failure, and after another replay");
    let state = bench.task(1).outcome.map(|end| end.state);
    bench.same(&state, &None::<TaskState>, "it is open");
}

fn lost_workers(bench: &mut Bench) {
    let lost = |n, token, name: &str| {
        let mut fact = failed(n, token, 60);
        if let Fact::AttemptFailed { error, worker, .. } = &mut fact {
            *error = TaskError::new(ErrorClass::WorkerLost, "gone");
            *worker = name.into();
        }
        fact
    };
    bench.apply(&[submitted(1), lost(1, 1, "a"), failed(1, 2, 60), lost(1, 3, "b")]);
    bench.apply(&[lost(1, 4, "a"), submitted(2)]);
    bench.between();
    let names = |bench: &mut Bench| -> Vec<String> {
        open_tasks(bench).iter().map(|task| task.lost.join(" ")).collect()
    };
    let found = names(bench);
    bench.same(&found, &vec!["a b".to_owned(), String::new()], "lost workers, each once");
    bench.apply(&[dead(1, 5), replay(1, Replay::default())]);
    bench.between();
    let found = names(bench);
    bench.same(&found, &vec![String::new(); 2], "lost workers after a replay");
    bench.apply(&[lost(1, 6, "a")]);
    bench.between();
    let found = names(bench);
    bench.same(&found, &vec!["a".to_owned(), String::new()], "lost workers since then");
}
