//! The rules about workflows.

use divvy_types::{Fact, Lane, Name, Seq, TaskSpec, TaskState, Workflow, WorkflowId};

use super::{Bench, cancelled, dead, finished, id, spec, submission, submitted};
use crate::{Members, Recovered};

fn labelled(n: u64, workflow: u128, name: &str) -> TaskSpec {
    let mut spec = TaskSpec::new(id(n), "noop");
    let label = Workflow { id: WorkflowId(workflow), name: name.into(), role: Default::default() };
    spec.workflow = Some(Box::new(label));
    spec
}

fn grouped(n: u64, workflow: u128) -> TaskSpec {
    let mut spec = labelled(n, workflow, "");
    spec.group = Some("parts".into());
    spec
}

fn numbers(bench: &mut Bench, workflow: u128, which: Members) -> Vec<(u64, Option<TaskState>)> {
    let mut reader = bench.store().reader().expect("a reader opens");
    let mut found = Vec::new();
    let visit = &mut |member: crate::MemberRecord| {
        found.push((member.seq.0, member.end.map(|end| end.state)));
        true
    };
    reader.members(WorkflowId(workflow), which, visit).expect("members are read");
    found.sort_unstable_by_key(|(seq, _)| *seq);
    found
}

pub(super) fn workflows(bench: &mut Bench) {
    bench.apply(&[
        submission(1, labelled(1, 7, "seven")),
        submission(2, labelled(2, 7, "seven")),
        submission(3, labelled(3, 9, "")),
        submitted(4),
        submission(5, labelled(5, 7, "seven")),
        submission(6, labelled(6, 7, "seven")),
    ]);
    bench.apply(&[finished(1, 5), dead(2, 6), cancelled(5), finished(3, 7)]);
    bench.between();
    let (done, failed, gone) = (TaskState::Done, TaskState::Dead, TaskState::Cancelled);
    let all = vec![(1, Some(done)), (2, Some(failed)), (5, Some(gone)), (6, None)];
    let found = numbers(bench, 7, Members::All);
    bench.same(&found, &all, "all members");
    let found = numbers(bench, 7, Members::Failed);
    bench.same(&found, &vec![(2, Some(failed)), (5, Some(gone))], "failed members");
    let found = numbers(bench, 7, Members::Open);
    bench.same(&found, &vec![(6, None)], "open members");
    let found = numbers(bench, 8, Members::All);
    bench.same(&found, &vec![], "members of an unknown workflow");

    let mut reader = bench.store().reader().expect("a reader opens");
    let mut seen = 0;
    let visit = &mut |_| {
        seen += 1;
        false
    };
    reader.members(WorkflowId(7), Members::All, visit).expect("members are read");
    bench.same(&seen, &1, "a visit that wants no more");
    let named = |id, name: &str| (WorkflowId(id), name.into());
    let list = reader.workflows(None, 9).expect("workflows are read");
    bench.same(&list, &vec![named(9, ""), named(7, "seven")], "workflows");
    let list = reader.workflows(Some(WorkflowId(9)), 9).expect("workflows are read");
    bench.same(&list, &vec![named(7, "seven")], "workflows before one");
    let list = reader.workflows(None, 1).expect("workflows are read");
    bench.same(&list, &vec![named(9, "")], "one workflow");
    let (mut started, mut before) = (Vec::new(), None);
    loop {
        let page = reader.started_workflows(before, 1).expect("workflows are read");
        started.extend(page.workflows.iter().map(|(seq, id)| (seq.0, id.0)));
        before = page.searched_to;
        if before.is_none() {
            break;
        }
    }
    bench.same(&started, &vec![(3, 9), (1, 7)], "workflows, the last to start first");
}

pub(super) fn spilled(bench: &mut Bench) {
    let lane = Lane::of(&spec(1));
    let waits = |n: u64, spec: TaskSpec| match submission(n, spec) {
        Fact::Submitted { seq, at, spec, spawned_by, .. } => {
            Fact::Submitted { seq, at, spec, spawned_by, spilled: Some(lane) }
        }
        other => other,
    };
    bench.apply(&[
        waits(1, labelled(1, 7, "")),
        waits(2, spec(2)),
        waits(3, labelled(3, 7, "")),
        waits(4, labelled(4, 9, "")),
        submission(5, labelled(5, 7, "")),
        waits(6, labelled(6, 7, "")),
        waits(7, grouped(7, 7)),
        waits(8, grouped(8, 7)),
    ]);
    bench.apply(&[Fact::Cancelled {
        seq: Seq(6),
        at: super::second(9),
        reason: "not wanted".into(),
        spilled: Some(lane),
    }]);
    bench.between();
    let members = |bench: &mut Bench| -> Vec<(u128, Option<Name>, u64)> {
        let members = bench.recovered().into_iter().filter_map(|one| match one {
            Recovered::SpilledMembers { member, count } => {
                Some((member.workflow.0, member.group, count))
            }
            _ => None,
        });
        members.collect()
    };
    let parts = Some(Name::from("parts"));
    let found = members(bench);
    bench.same(
        &found,
        &vec![(7, None, 2), (7, parts.clone(), 2), (9, None, 1)],
        "members in the store",
    );
    bench.apply(&[Fact::Unspilled { lane, upto: Seq(2) }]);
    bench.restart();
    let found = members(bench);
    bench.same(
        &found,
        &vec![(7, None, 1), (7, parts, 2), (9, None, 1)],
        "members in the store after some were taken",
    );
}
