//! The first message of a worker, checked: what it is called, what it offers, what it still holds.

use divvy_engine::{Error, WorkerHello};
use divvy_proto::{task_id, v1};
use divvy_types::limits::{CAPABILITY_LEN_MAX, CREDIT_MAX, KIND_LEN_MAX, QUEUE_LEN_MAX};
use divvy_types::spec::check_name;
use divvy_types::{Name, SpecError, Token};

use crate::grpc::status::as_engine_error;

/// Characters of a worker's name.
pub(crate) const WORKER_NAME_LEN_MAX: usize = 128;
/// Kinds, queues or capabilities that one worker may list.
const NAMES_MAX: usize = 1_024;
/// Attempts that a worker may announce: more than it can have been granted at once, since a report that was not
/// answered yet has already given its place back.
const HELD_MAX: usize = 4 * CREDIT_MAX as usize;

/// Reads a hello; the error names the field.
pub(crate) fn read(hello: v1::Hello) -> Result<WorkerHello, Error> {
    check_name("hello.name", &hello.name, WORKER_NAME_LEN_MAX)?;
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
        queues: names("hello.queues", hello.queues, QUEUE_LEN_MAX)?,
        kinds,
        capabilities: names("hello.capabilities", hello.capabilities, CAPABILITY_LEN_MAX)?,
        credit: hello.credit,
        held: held.collect::<Result<_, _>>().map_err(|error| as_engine_error(&error))?,
    })
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
