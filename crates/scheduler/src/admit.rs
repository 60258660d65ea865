//! What is let in: a batch of specs is checked whole, before anything of it is kept.
//!
//! Checked here is what the batch itself shows: the limits of each spec, ids used twice, edges in total, cycles. What
//! needs knowledge of other tasks (unknown dependencies, ids taken before) is the engine's.

use std::collections::BTreeMap;

use divvy_types::limits::{BATCH_EDGES_MAX, BATCH_TASKS_MAX};
use divvy_types::{Name, SpecError, TaskId, TaskSpec, WorkflowId};

/// Checks a batch. The same spec twice is allowed and means one task; the same id with two specs is not.
pub fn check_batch(specs: &[TaskSpec]) -> Result<(), SpecError> {
    if specs.len() > BATCH_TASKS_MAX {
        return Err(SpecError::BatchTooLarge { count: specs.len() });
    }
    for spec in specs {
        spec.validate()?;
    }
    let edges = specs.iter().map(|spec| spec.edges()).sum();
    if edges > BATCH_EDGES_MAX {
        return Err(SpecError::TooManyEdges { count: edges, max: BATCH_EDGES_MAX });
    }
    // Ids of one client come in order as a rule: then nothing can be named twice, and no map is needed.
    let rising = specs.windows(2).all(|pair| pair[0].id < pair[1].id);
    // Without edges, not even a task that waits for the end of a workflow or a group can be on a cycle.
    if rising && edges == 0 {
        return Ok(());
    }
    let mut places = BTreeMap::new();
    for (place, spec) in specs.iter().enumerate() {
        if let Some(first) = places.insert(spec.id, place) {
            if specs[first] != *spec {
                return Err(SpecError::IdTaken { task: spec.id });
            }
            places.insert(spec.id, first);
        }
    }
    if edges == 0 { Ok(()) } else { check_cycles(specs, &places) }
}

/// What waits for what in a batch. Besides the tasks, the end of each workflow and of each group of it is a node: it
/// waits for the members, and tasks that wait for the end wait for it.
fn waits(specs: &[TaskSpec], places: &BTreeMap<TaskId, usize>) -> Vec<Vec<usize>> {
    let mut waits: Vec<Vec<usize>> = vec![Vec::new(); specs.len()];
    let mut ends: BTreeMap<(WorkflowId, Option<&Name>), usize> = BTreeMap::new();
    for place in places.values().copied() {
        let spec = &specs[place];
        let parents = spec.after.iter().filter_map(|edge| places.get(&edge.task));
        waits[place].extend(parents);
        let Some(workflow) = &spec.workflow else { continue };
        let mut end = |group| {
            let end = *ends.entry((workflow.id, group)).or_insert(waits.len());
            if end == waits.len() {
                waits.push(Vec::new());
            }
            end
        };
        let (whole, group) = (end(None), spec.group.as_ref().map(|group| end(Some(group))));
        let awaited: Vec<usize> =
            spec.after_groups.iter().map(|edge| end(Some(&edge.group))).collect();
        let (from, to) = if workflow.role.is_member() { (whole, place) } else { (place, whole) };
        waits[from].push(to);
        if let Some(group) = group {
            waits[group].push(place);
        }
        waits[place].extend(awaited);
    }
    waits
}

/// Takes away tasks without open dependencies until none is left (Kahn 1962). What stays is on or behind a cycle.
fn check_cycles(specs: &[TaskSpec], places: &BTreeMap<TaskId, usize>) -> Result<(), SpecError> {
    let waits = waits(specs, places);
    let mut missing: Vec<usize> = waits.iter().map(Vec::len).collect();
    let mut dependents = vec![Vec::new(); waits.len()];
    for (place, parents) in waits.iter().enumerate() {
        parents.iter().for_each(|parent| dependents[*parent].push(place));
    }
    let mut free: Vec<usize> = (0..waits.len()).filter(|place| missing[*place] == 0).collect();
    let mut taken = 0;
    while let Some(place) = free.pop() {
        taken += 1;
        for dependent in &dependents[place] {
            missing[*dependent] -= 1;
            if missing[*dependent] == 0 {
                free.push(*dependent);
            }
        }
    }
    if taken == waits.len() { Ok(()) } else { Err(name_cycle(specs, &waits, &missing)) }
}

/// Walks up from a task that stayed until one comes up again: that one is on the cycle.
fn name_cycle(specs: &[TaskSpec], waits: &[Vec<usize>], missing: &[usize]) -> SpecError {
    let parent_that_stayed = |place: usize| {
        waits[place].iter().copied().find(|parent| missing[*parent] > 0).unwrap_or(place)
    };
    let mut seen = vec![false; waits.len()];
    let mut place = missing.iter().position(|count| *count > 0).unwrap_or_default();
    while !std::mem::replace(&mut seen[place], true) {
        place = parent_that_stayed(place);
    }
    // The end of a workflow or a group is no task; whoever it waits for is.
    if place >= specs.len() {
        place = parent_that_stayed(place);
    }
    let mut other = parent_that_stayed(place);
    if other >= specs.len() {
        other = parent_that_stayed(other);
    }
    SpecError::Cycle { task: specs[place].id, other: specs[other].id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::Dependency;

    fn spec(id: u128, after: &[u128]) -> TaskSpec {
        let mut spec = TaskSpec::new(TaskId(id), "noop");
        spec.after =
            after.iter().map(|id| Dependency { task: TaskId(*id), optional: false }).collect();
        spec
    }

    #[test]
    fn a_chain_as_long_as_a_batch_may_be_is_let_in_both_ways_round() {
        let mut chain: Vec<TaskSpec> = (1..10_000).map(|id| spec(id, &[id + 1])).collect();
        chain.push(spec(10_000, &[]));
        assert_eq!(check_batch(&chain), Ok(()));
        chain.reverse();
        assert_eq!(check_batch(&chain), Ok(()));
        chain[0].after = vec![Dependency { task: TaskId(1), optional: true }];
        assert!(matches!(check_batch(&chain), Err(SpecError::Cycle { .. })));
    }

    #[test]
    fn a_cycle_is_named_by_two_tasks_on_it_not_by_one_behind_it() {
        let batch = [spec(1, &[2]), spec(2, &[3]), spec(3, &[4]), spec(4, &[3]), spec(5, &[99])];
        let Err(SpecError::Cycle { task, other }) = check_batch(&batch) else {
            panic!("a cycle was let in")
        };
        assert!(
            [TaskId(3), TaskId(4)].contains(&task)
                && [TaskId(3), TaskId(4)].contains(&other)
                && task != other
        );
    }

    #[test]
    fn a_member_cannot_wait_for_what_waits_for_its_workflow() {
        use divvy_types::{Workflow, WorkflowRole};
        let labelled = |id, after: &[u128], workflow, role| {
            let mut spec = spec(id, after);
            let id = WorkflowId(workflow);
            spec.workflow = Some(Box::new(Workflow { id, name: Default::default(), role }));
            spec
        };
        let callback = || labelled(1, &[], 7, WorkflowRole::OnSuccess);
        let member = |id, after: &[u128]| labelled(id, after, 7, WorkflowRole::Member);
        let cycle = |batch: &[TaskSpec]| match check_batch(batch) {
            Err(SpecError::Cycle { task, other }) => {
                assert_ne!(task, other);
                true
            }
            Ok(()) => false,
            Err(other) => panic!("{other}"),
        };
        assert!(cycle(&[callback(), member(2, &[1])]));
        assert!(cycle(&[callback(), spec(2, &[1]), member(3, &[2])]), "by way of another task");
        assert!(!cycle(&[callback(), member(2, &[]), spec(3, &[1])]));
        assert!(!cycle(&[callback(), labelled(2, &[1], 8, WorkflowRole::Member)]));
    }

    #[test]
    fn tasks_of_two_groups_cannot_wait_for_each_other() {
        use divvy_types::{GroupDependency, Workflow};
        let task = |id, after: &[u128], group: Option<&str>, awaited: Option<&str>| {
            let mut spec = spec(id, after);
            let label =
                Workflow { id: WorkflowId(7), name: Name::default(), role: Default::default() };
            spec.workflow = Some(Box::new(label));
            spec.group = group.map(Name::from);
            let edge = |name| GroupDependency { group: Name::from(name), optional: true };
            spec.after_groups = awaited.map(edge).into_iter().collect();
            spec
        };
        let waiter = || task(1, &[], None, Some("a"));
        let cycle = |batch: &[TaskSpec]| matches!(check_batch(batch), Err(SpecError::Cycle { task, other }) if task != other);
        assert!(cycle(&[waiter(), task(2, &[1], Some("a"), None)]), "by way of a member");
        assert!(!cycle(&[waiter(), task(2, &[1], Some("b"), None), task(3, &[], Some("a"), None)]));
        let both = [task(1, &[], Some("a"), Some("b")), task(2, &[], Some("b"), Some("a"))];
        assert!(cycle(&both), "without any other dependency");
        let mut elsewhere = task(2, &[1], Some("a"), None);
        elsewhere.workflow.as_mut().unwrap().id = WorkflowId(8);
        assert!(!cycle(&[waiter(), elsewhere]), "a group of the same name in another workflow");
    }

    #[test]
    fn the_same_spec_twice_is_one_task_and_two_specs_with_one_id_are_refused() {
        assert_eq!(check_batch(&[spec(1, &[]), spec(1, &[]), spec(2, &[1])]), Ok(()));
        assert_eq!(
            check_batch(&[spec(1, &[]), spec(1, &[7])]),
            Err(SpecError::IdTaken { task: TaskId(1) })
        );
    }

    #[test]
    fn limits_of_specs_batches_and_edges_hold() {
        let mut bad = spec(1, &[]);
        bad.priority = 9;
        assert!(matches!(
            check_batch(&[spec(0, &[]), bad]),
            Err(SpecError::Field { field: "priority", .. })
        ));
        let many: Vec<TaskSpec> = (0..10_001).map(|id| spec(id, &[])).collect();
        assert_eq!(check_batch(&many), Err(SpecError::BatchTooLarge { count: 10_001 }));
        let parents: Vec<u128> = (1_000..2_000).collect();
        let heavy: Vec<TaskSpec> = (0..101).map(|id| spec(id, &parents)).collect();
        assert_eq!(
            check_batch(&heavy),
            Err(SpecError::TooManyEdges { count: 101_000, max: 100_000 })
        );
        assert_eq!(
            check_batch(&[spec(1, &[1])]),
            Err(SpecError::SelfDependency { task: TaskId(1) })
        );
    }
}
