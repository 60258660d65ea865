//! What became of a submission, to the wire and back.

use bytes::Bytes;
use divvy_types::view::Late;
use divvy_types::{Conflict, Submitted, TaskId, Timestamp};

use crate::convert::{WireError, task_id};
use crate::v1;

/// Writes what became of a submission.
pub fn submitted_to_wire(submitted: &Submitted) -> v1::SubmitReply {
    let bytes = |id: TaskId| Bytes::copy_from_slice(&id.to_bytes());
    let Submitted { accepted, known, conflicts, late, late_total } = submitted;
    let conflict =
        |other: &Conflict| v1::Conflict { task: bytes(other.task), first: bytes(other.first) };
    let late = late.iter().map(|late| v1::Late {
        task: bytes(late.task),
        deadline_us: late.deadline.0,
        expected_end_us: late.expected_end.0,
    });
    v1::SubmitReply {
        accepted: *accepted,
        known: *known,
        refusal: None,
        conflicts: conflicts.iter().map(conflict).collect(),
        late: late.collect(),
        late_total: *late_total,
    }
}

/// Reads what became of a submission that was not refused.
pub fn submitted_from_wire(wire: &v1::SubmitReply) -> Result<Submitted, WireError> {
    let conflict = |other: &v1::Conflict| {
        let task = task_id("conflicts.task", &other.task)?;
        Ok(Conflict { task, first: task_id("conflicts.first", &other.first)? })
    };
    let late = |late: &v1::Late| {
        Ok(Late {
            task: task_id("late.task", &late.task)?,
            deadline: Timestamp(late.deadline_us),
            expected_end: Timestamp(late.expected_end_us),
        })
    };
    Ok(Submitted {
        accepted: wire.accepted,
        known: wire.known,
        conflicts: wire.conflicts.iter().map(conflict).collect::<Result<_, WireError>>()?,
        late: wire.late.iter().map(late).collect::<Result<_, WireError>>()?,
        late_total: wire.late_total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_submission_survives_the_wire() {
        let (deadline, expected_end) = (Timestamp(5), Timestamp(6));
        let submitted = Submitted {
            accepted: 2,
            known: 1,
            conflicts: vec![Conflict { task: TaskId(7), first: TaskId(1) }],
            late: vec![Late { task: TaskId(8), deadline, expected_end }],
            late_total: 3,
        };
        assert_eq!(submitted_from_wire(&submitted_to_wire(&submitted)), Ok(submitted.clone()));
        let mut short = submitted_to_wire(&submitted);
        short.conflicts[0].first = Bytes::from_static(b"short");
        assert_eq!(submitted_from_wire(&short).unwrap_err().field, "conflicts.first");
    }
}
