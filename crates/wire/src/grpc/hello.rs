//! The first message of a worker, checked: what it is called, what it offers, what it still holds.

use std::collections::BTreeSet;

use divvy_engine::{Error, WorkerHello, WorkerTier};
use divvy_proto::{task_id, v1};
use divvy_types::limits::{
    CAPABILITY_LEN_MAX, CREDIT_MAX, KIND_LEN_MAX, QUEUE_LEN_MAX, WORKER_NAME_LEN_MAX,
};
use divvy_types::spec::check_name;
use divvy_types::{Name, SpecError, Token};

use crate::grpc::status::as_engine_error;

/// Characters of what tells a process from others of its name.
const INSTANCE_LEN_MAX: usize = 64;
/// Kinds, queues or capabilities that one worker may list.
const NAMES_MAX: usize = 1_024;
/// Attempts that a worker may announce: more than it can have been granted at once, since a report that was not
/// answered yet has already given its place back.
const HELD_MAX: usize = 4 * CREDIT_MAX as usize;

/// Reads a hello; the error names the field.
pub(crate) fn read(hello: v1::Hello) -> Result<WorkerHello, Error> {
    check_name("hello.name", &hello.name, WORKER_NAME_LEN_MAX)?;
    if !hello.instance.is_empty() {
        check_name("hello.instance", &hello.instance, INSTANCE_LEN_MAX)?;
    }
    let kinds = names("hello.kinds", hello.kinds, KIND_LEN_MAX)?;
    if kinds.is_empty() {
        return Err(SpecError::field(
            "hello.kinds",
            "is empty; list what the worker can run".into(),
        )
        .into());
    }
    if !(1..=CREDIT_MAX).contains(&hello.credit) {
        let problem = format!("is {}, expected 1 to {CREDIT_MAX}", hello.credit);
        return Err(SpecError::field("hello.credit", problem).into());
    }
    if hello.slots > hello.credit {
        let problem = format!(
            "is {}, expected 1 to hello.credit, which is {}, or 0 for as many",
            hello.slots, hello.credit
        );
        return Err(SpecError::field("hello.slots", problem).into());
    }
    let tiers = tiers(hello.tiers, &kinds, hello.credit)?;
    if hello.held.len() > HELD_MAX {
        let problem = format!("lists {} attempts, at most {HELD_MAX}", hello.held.len());
        return Err(SpecError::field("hello.held", problem).into());
    }
    let held = hello
        .held
        .iter()
        .map(|lease| Ok((task_id("hello.held.task", &lease.task)?, Token(lease.token))));
    Ok(WorkerHello {
        slots: hello.slots,
        name: hello.name.into(),
        instance: hello.instance.into(),
        queues: names("hello.queues", hello.queues, QUEUE_LEN_MAX)?,
        kinds,
        capabilities: names("hello.capabilities", hello.capabilities, CAPABILITY_LEN_MAX)?,
        credit: hello.credit,
        tiers,
        held: held.collect::<Result<_, _>>().map_err(|error| as_engine_error(&error))?,
    })
}

/// How the worker divides its places: every kind has its own, and together they are no more than it takes.
fn tiers(tiers: Vec<v1::Tier>, kinds: &[Name], credit: u32) -> Result<Vec<WorkerTier>, SpecError> {
    let wrong = |problem: String| Err(SpecError::field("hello.tiers", problem));
    let mut placed = BTreeSet::new();
    let mut free = credit;
    let mut read = Vec::new();
    for v1::Tier { kinds: some, credit, slots } in tiers {
        let some = names("hello.tiers.kinds", some, KIND_LEN_MAX)?;
        if some.is_empty() || slots == 0 || slots > credit || credit > free {
            return wrong(format!(
                "has one of {} kinds with credit {credit} and slots {slots}, expected at least one kind, and \
                 0 < slots <= credit <= {free} of hello.credit that is left",
                some.len()
            ));
        }
        free -= credit;
        for kind in &some {
            if kinds.binary_search(kind).is_err() {
                return wrong(format!("names the kind `{kind}`, which hello.kinds does not"));
            }
            if !placed.insert(kind.clone()) {
                return wrong(format!("names the kind `{kind}` twice"));
            }
        }
        read.push(WorkerTier { kinds: some, credit, slots });
    }
    match kinds.iter().find(|kind| !read.is_empty() && !placed.contains(*kind)) {
        Some(kind) => wrong(format!("leaves out the kind `{kind}`")),
        None => Ok(read),
    }
}

fn names(field: &'static str, names: Vec<String>, len_max: usize) -> Result<Vec<Name>, SpecError> {
    if names.len() > NAMES_MAX {
        return Err(SpecError::field(field, format!("lists {}, at most {NAMES_MAX}", names.len())));
    }
    names.iter().try_for_each(|name| check_name(field, name, len_max))?;
    let mut names: Vec<Name> = names.into_iter().map(Name::from).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> v1::Hello {
        v1::Hello {
            name: "w".into(),
            kinds: vec!["b".into(), "a".into(), "b".into()],
            credit: 4,
            ..Default::default()
        }
    }

    /// Kinds of a tier, its credit and its slots.
    type Part<'a> = (&'a [&'a str], u32, u32);

    fn divided(tiers: &[Part<'_>]) -> v1::Hello {
        let tiers = tiers.iter().map(|(kinds, credit, slots)| v1::Tier {
            kinds: kinds.iter().map(ToString::to_string).collect(),
            credit: *credit,
            slots: *slots,
        });
        v1::Hello { tiers: tiers.collect(), ..hello() }
    }

    #[test]
    fn tiers_hold_every_kind_once_and_no_more_than_the_credit() {
        let read_back = read(divided(&[(&["b"], 1, 1), (&["a"], 3, 2)])).unwrap();
        let kinds = ["a"].map(Name::from).to_vec();
        assert_eq!(read_back.tiers[1], WorkerTier { kinds, credit: 3, slots: 2 });
        let cases: Vec<(&str, &[Part<'_>])> = vec![
            ("leaves out the kind `b`", &[(&["a"], 4, 1)]),
            ("names the kind `a` twice", &[(&["a"], 1, 1), (&["a", "b"], 1, 1)]),
            ("names the kind `c`, which hello.kinds does not", &[(&["c"], 1, 1)]),
            ("has one of 0 kinds", &[(&[], 1, 1)]),
            ("credit 1 and slots 2", &[(&["a", "b"], 1, 2)]),
            ("credit 1 and slots 0", &[(&["a", "b"], 1, 0)]),
            ("<= 1 of hello.credit that is left", &[(&["a"], 3, 1), (&["b"], 2, 1)]),
        ];
        for (problem, tiers) in cases {
            let error = read(divided(tiers)).unwrap_err().to_string();
            assert!(error.starts_with("hello.tiers ") && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_good_hello_is_read_and_each_bad_field_is_named() {
        let read_back = read(hello()).unwrap();
        assert_eq!(read_back.kinds, ["a", "b"]);
        for slots in [0, 1, 4] {
            assert_eq!(read(v1::Hello { slots, ..hello() }).unwrap().slots, slots);
        }
        let cases: Vec<(&str, v1::Hello)> = vec![
            ("hello.name is empty", v1::Hello { name: String::new(), ..hello() }),
            ("hello.kinds is empty", v1::Hello { kinds: vec![], ..hello() }),
            (
                "hello.kinds contains the invisible",
                v1::Hello { kinds: vec!["a\u{202e}".into()], ..hello() },
            ),
            ("hello.queues has white space", v1::Hello { queues: vec![" q".into()], ..hello() }),
            (
                "hello.capabilities lists 2000",
                v1::Hello { capabilities: vec!["c".into(); 2_000], ..hello() },
            ),
            ("hello.instance", v1::Hello { instance: "i".repeat(65), ..hello() }),
            ("hello.credit is 0", v1::Hello { credit: 0, ..hello() }),
            (
                "hello.slots is 5, expected 1 to hello.credit, which is 4",
                v1::Hello { slots: 5, ..hello() },
            ),
            ("hello.credit is 65537", v1::Hello { credit: CREDIT_MAX + 1, ..hello() }),
            (
                "hello.held.task has 1 bytes",
                v1::Hello { held: vec![v1::Lease { task: vec![1].into(), token: 1 }], ..hello() },
            ),
        ];
        for (start, bad) in cases {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
        }
    }
}
