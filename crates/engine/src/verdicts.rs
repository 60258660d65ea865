//! What it means that the store did not apply a fact.
//!
//! The core decides each fact on its own state, which mirrors the store, so a refusal means that the two differ and
//! the process must stop. There are two exceptions. A dead letter or a cancelled task is looked up in the store, and
//! retention may delete it between that look and the commit. Who gives it up gets what he asked for. Who puts it back
//! wins: it is submitted again under its old number, without its past. And what a checkpoint saves too late is of no use
//! to anyone.

use divvy_store::Store;
use divvy_types::{Fact, Timestamp, Verdict};

use crate::group::Group;
use crate::request::Error;

/// Looks at the verdicts of a group that is durable, and makes good what retention undid.
pub(crate) fn settle(
    store: &mut dyn Store,
    group: &Group,
    verdicts: &mut Vec<Verdict>,
    now: Timestamp,
) -> Result<(), Error> {
    let mut again = Vec::new();
    for (fact, verdict) in group.facts.iter().zip(verdicts.iter()) {
        match (fact, verdict) {
            (_, Verdict::Applied)
            | (Fact::Dropped { .. } | Fact::Checkpoint { .. }, Verdict::Stale) => {}
            (Fact::Replayed { seq, .. }, Verdict::Stale) => {
                let Some((_, spec)) = group.put_back.iter().find(|(put_back, _)| put_back == seq)
                else {
                    return Err(refused(fact, *verdict));
                };
                tracing::info!(task = %spec.id, "retention had just dropped a task that is put back");
                let (seq, spec) = (*seq, spec.clone());
                let (at, spawned_by, spilled) = (now, None, None);
                again.push(Fact::Submitted { seq, at, spec, spawned_by, spilled });
            }
            _ => return Err(refused(fact, *verdict)),
        }
    }
    if again.is_empty() {
        return Ok(());
    }
    store.commit(&again, verdicts)?;
    match again.iter().zip(verdicts).find(|(_, verdict)| **verdict != Verdict::Applied) {
        Some((fact, verdict)) => Err(refused(fact, *verdict)),
        None => Ok(()),
    }
}

fn refused(fact: &Fact, verdict: Verdict) -> Error {
    Error::Store(format!("the store refused a fact as {verdict:?}: {fact:?}"))
}
