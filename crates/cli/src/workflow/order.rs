//! The order in which the tasks of a large workflow are sent, which takes several submissions: whatever a task waits
//! for is known when the task comes. What runs at the end of the workflow comes last, because the end must not come
//! between two submissions.
//!
//! A task that waits for a group comes after all tasks of the group. Kahn, 1962: *Topological sorting of large networks*.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use divvy_types::{TaskId, TaskSpec};

/// The tasks with what they wait for before them, otherwise in the order in which they are.
pub(super) fn parents_first(specs: Vec<TaskSpec>) -> Vec<TaskSpec> {
    let mut edges = Edges::of(&specs);
    let mut free: BinaryHeap<Reverse<usize>> =
        (0..edges.missing.len()).filter(|at| edges.missing[*at] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(specs.len());
    while let Some(Reverse(at)) = free.pop() {
        order.push(at);
        for next in std::mem::take(&mut edges.dependents[at]) {
            edges.missing[next] -= 1;
            if edges.missing[next] == 0 {
                free.push(Reverse(next));
            }
        }
    }
    // Those that wait for each other, through groups: the server says so.
    order.extend((0..specs.len()).filter(|at| edges.missing[*at] > 0));
    let mut specs: Vec<Option<TaskSpec>> = specs.into_iter().map(Some).collect();
    let sorted = order.into_iter().filter_map(|at| specs.get_mut(at).and_then(Option::take));
    let member =
        |spec: &TaskSpec| spec.workflow.as_ref().is_none_or(|workflow| workflow.role.is_member());
    let (mut members, callbacks): (Vec<_>, Vec<_>) = sorted.partition(member);
    members.extend(callbacks);
    members
}

/// Who waits for whom, by place; places behind the tasks are groups.
struct Edges {
    dependents: Vec<Vec<usize>>,
    missing: Vec<usize>,
}

impl Edges {
    fn of(specs: &[TaskSpec]) -> Self {
        let ids: HashMap<TaskId, usize> =
            specs.iter().enumerate().map(|(at, spec)| (spec.id, at)).collect();
        let mut groups: HashMap<&str, usize> = HashMap::new();
        for group in specs.iter().filter_map(|spec| spec.group.as_deref()) {
            let place = specs.len() + groups.len();
            groups.entry(group).or_insert(place);
        }
        let places = specs.len() + groups.len();
        let mut edges = Self { dependents: vec![Vec::new(); places], missing: vec![0; places] };
        for (at, spec) in specs.iter().enumerate() {
            let tasks = spec.after.iter().filter_map(|edge| ids.get(&edge.task));
            let whole = spec.after_groups.iter().filter_map(|edge| groups.get(edge.group.as_str()));
            tasks.chain(whole).for_each(|parent| edges.add(*parent, at));
            if let Some(group) = spec.group.as_deref().and_then(|group| groups.get(group)) {
                edges.add(at, *group);
            }
        }
        edges
    }

    fn add(&mut self, parent: usize, dependent: usize) {
        self.dependents[parent].push(dependent);
        self.missing[dependent] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_waits_for_comes_before_it_and_callbacks_come_last() {
        let yaml = "
tasks:
  last: {kind: x, after: [middle]}
  all: {kind: x, after_groups: [{group: parts}]}
  middle: {kind: x, after: [first]}
  first: {kind: x}
  part: {kind: x, group: parts, after: [last]}
on_success:
  tell: {kind: x}
";
        let parsed = super::super::parse("w", yaml, None).unwrap();
        let name =
            |id: TaskId| parsed.tasks.iter().find(|(_, spec)| spec.id == id).unwrap().0.clone();
        let specs: Vec<TaskSpec> = parsed.tasks.iter().map(|(_, spec)| spec.clone()).collect();
        let order: Vec<String> = parents_first(specs).iter().map(|spec| name(spec.id)).collect();
        assert_eq!(order, ["first", "middle", "last", "part", "all", "tell"]);
    }
}
