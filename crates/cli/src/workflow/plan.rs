//! From names to ids: resolves dependencies, finds cycles, checks every task, and says where in the file a mistake is.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use divvy_types::{
    Dependency, Payload, SpecError, TaskId, TaskSpec, Terms, Timestamp, Workflow, WorkflowRole,
};

use super::file::{Edge, Entry, WorkflowFile};
use crate::exit::Failure;

/// The specs of all tasks, in the order of the file.
pub(super) fn specs(
    source: &str,
    file: WorkflowFile,
    workflow: &Workflow,
    task_id: impl Fn(&str) -> TaskId,
    now: Timestamp,
) -> Result<Vec<(String, TaskSpec)>> {
    let WorkflowFile { tasks, on_success, on_failure, .. } = file;
    let members = tasks.0.len();
    let roles = [
        (WorkflowRole::Member, members),
        (WorkflowRole::OnSuccess, on_success.0.len()),
        (WorkflowRole::OnFailure, on_failure.0.len()),
    ];
    let roles = roles.into_iter().flat_map(|(role, count)| std::iter::repeat_n(role, count));
    let tasks: Vec<Named> = tasks.0.into_iter().chain(on_success.0).chain(on_failure.0).collect();
    let ids: HashMap<&str, TaskId> =
        tasks.iter().map(|(name, _)| (name.value.as_str(), task_id(&name.value))).collect();
    check_twice(source, &tasks)?;
    check_names(source, &tasks, &ids)?;
    check_callbacks(source, &tasks, members)?;
    check_groups(source, &tasks)?;
    check_cycles(source, &tasks)?;
    let specs = tasks.iter().zip(roles).map(|((name, entry), role)| {
        let label = Workflow { role, ..workflow.clone() };
        let spec = spec(entry, ids[name.value.as_str()], &ids, label, now);
        let spec = spec.and_then(|spec| spec.validate().map(|()| spec));
        let place = format!("{source}:{}:{}", name.referenced.line(), name.referenced.column());
        let spec = spec.map_err(|error| {
            Failure::usage(format!("{place}: task `{}`: {}", name.value, worded(&error)))
        })?;
        Ok((name.value.clone(), spec))
    });
    specs.collect()
}

/// The words of the file for the fields of the API.
fn worded(error: &SpecError) -> String {
    error.to_string().replace("timeout_ms", "timeout (in ms)").replace("retry.limit", "retries")
}

fn spec(
    entry: &Entry,
    id: TaskId,
    ids: &HashMap<&str, TaskId>,
    workflow: Workflow,
    now: Timestamp,
) -> Result<TaskSpec, SpecError> {
    let mut spec = TaskSpec::new(id, entry.kind.clone().unwrap_or_default());
    spec.payload = Payload::from_value(&entry.payload).map_err(|error| {
        SpecError::field("payload", format!("cannot be written as JSON: {error}"))
    })?;
    spec.queue = entry.queue.clone().unwrap_or(spec.queue);
    spec.priority = entry.priority.unwrap_or(spec.priority);
    let dependency =
        |edge: &Edge| Dependency { task: ids[edge.name.as_str()], optional: edge.optional };
    let mut terms = Terms {
        after: entry.after.0.iter().map(dependency).collect(),
        run_at: entry.run_at.map(|moment| moment.from(now)),
        deadline: entry.deadline.map(|moment| moment.from(now)),
        timeout_ms: entry.timeout.map(|timeout| timeout.as_ms()),
        workflow: Some(Box::new(workflow)),
        ..entry.terms.clone()
    };
    terms.retry.limit = entry.retries.unwrap_or(terms.retry.limit);
    spec.terms = terms.into();
    Ok(spec)
}

type Named = (serde_saphyr::Spanned<String>, Entry);

/// A name stands for one task, in whichever part of the file.
fn check_twice(source: &str, tasks: &[Named]) -> Result<()> {
    let mut seen = HashSet::new();
    match tasks.iter().find(|(name, _)| !seen.insert(name.value.as_str())) {
        None => Ok(()),
        Some((name, _)) => {
            let place = format!("{source}:{}:{}", name.referenced.line(), name.referenced.column());
            let text = format!("{place}: the name `{}` is used twice", name.value);
            Err(Failure::usage(text).cure("give one of the two another name").into())
        }
    }
}

/// What is under `tasks` must not wait for what waits for all of it.
fn check_callbacks(source: &str, tasks: &[Named], members: usize) -> Result<()> {
    let (tasks, callbacks) = tasks.split_at(members);
    for (name, entry) in tasks {
        for edge in &entry.after.0 {
            if callbacks.iter().any(|(callback, _)| callback.value == edge.name) {
                let text = format!(
                    "{source}:{}:{}: task `{}` waits for `{}`, which runs when all tasks have ended",
                    edge.line, edge.column, name.value, edge.name
                );
                let cure = "move it under `on_success:` or `on_failure:` too";
                return Err(Failure::usage(text).cure(cure).into());
            }
        }
    }
    Ok(())
}

/// A group without tasks keeps nobody waiting, so one that no task of the file is in is a slip of the pen.
fn check_groups(source: &str, tasks: &[Named]) -> Result<()> {
    let groups: HashSet<&str> =
        tasks.iter().filter_map(|(_, entry)| entry.terms.group.as_deref()).collect();
    for (name, entry) in tasks {
        let mut unknown =
            entry.terms.after_groups.iter().filter(|edge| !groups.contains(edge.group.as_str()));
        if let Some(edge) = unknown.next() {
            let place = format!("{source}:{}:{}", name.referenced.line(), name.referenced.column());
            let hint = crate::suggest::hint(&edge.group, groups.iter().copied());
            let text = format!(
                "{place}: task `{}` waits for the group `{}`, in which no task of this file is{hint}",
                name.value, edge.group
            );
            return Err(Failure::usage(text).into());
        }
    }
    Ok(())
}

fn check_names(source: &str, tasks: &[Named], ids: &HashMap<&str, TaskId>) -> Result<()> {
    for (name, entry) in tasks {
        for edge in &entry.after.0 {
            let place = format!("{source}:{}:{}", edge.line, edge.column);
            if edge.name == name.value {
                return Err(Failure::usage(format!(
                    "{place}: task `{}` waits for itself",
                    name.value
                ))
                .into());
            }
            if !ids.contains_key(edge.name.as_str()) {
                let hint = crate::suggest::hint(
                    &edge.name,
                    tasks.iter().map(|(name, _)| name.value.as_str()),
                );
                let text = format!(
                    "{place}: task `{}` waits for `{}`, which is not in this file{hint}",
                    name.value, edge.name
                );
                return Err(Failure::usage(text).into());
            }
        }
    }
    Ok(())
}

/// Walks along the dependencies without recursion, because a file may be a chain of thousands.
fn check_cycles(source: &str, tasks: &[Named]) -> Result<()> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Closed,
    }
    let index: HashMap<&str, usize> =
        tasks.iter().enumerate().map(|(at, (name, _))| (name.value.as_str(), at)).collect();
    let mut marks = vec![Mark::New; tasks.len()];
    for start in 0..tasks.len() {
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((task, edge)) = path.last_mut() {
            let task = *task;
            if *edge == 0 && marks[task] == Mark::Closed {
                path.pop();
                continue;
            }
            marks[task] = Mark::Open;
            let Some(next) = tasks[task].1.after.0.get(*edge) else {
                marks[task] = Mark::Closed;
                path.pop();
                continue;
            };
            *edge += 1;
            let parent = index[next.name.as_str()];
            if marks[parent] == Mark::Open {
                let from = path.iter().position(|(task, _)| *task == parent).unwrap_or(0);
                let names = path[from..].iter().map(|(task, _)| tasks[*task].0.value.as_str());
                let names: Vec<&str> = names.chain([next.name.as_str()]).collect();
                let text = format!(
                    "{source}:{}:{}: tasks wait for each other: {}",
                    next.line,
                    next.column,
                    names.join(" → ")
                );
                return Err(Failure::usage(text)
                    .cure("remove one of these `after` entries")
                    .into());
            }
            if marks[parent] == Mark::New {
                path.push((parent, 0));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use divvy_types::TaskId;

    use super::super::parse;

    const GOOD: &str = "
name: nightly
tasks:
  fetch:
    kind: http
    payload: {url: 'https://example.org/', n: 1.5, deep: [true, null]}
    queue: net
    priority: 5
    timeout: 10m
    retries: 0
  side: {kind: noop}
  report:
    kind: report
    needs: [gpu]
    after: {fetch: required, side: optional}
  last: {kind: noop, after: [report]}
";

    #[test]
    fn names_become_edges_and_fields_become_a_spec() {
        let parsed = parse("w.yaml", GOOD, None).unwrap();
        let names: Vec<&str> = parsed.tasks.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            (parsed.name.as_str(), names),
            ("nightly", vec!["fetch", "side", "report", "last"])
        );
        let spec = |at: usize| &parsed.tasks[at].1;
        assert_eq!(
            spec(0).payload.json_text().unwrap(),
            r#"{"deep":[true,null],"n":1.5,"url":"https://example.org/"}"#
        );
        assert_eq!(
            (spec(0).queue.as_str(), spec(0).priority, spec(0).timeout_ms),
            ("net", 5, Some(600_000))
        );
        assert_eq!((spec(0).retry.limit, spec(1).retry.limit), (0, 5));
        let edges: Vec<(TaskId, bool)> =
            spec(2).after.iter().map(|edge| (edge.task, edge.optional)).collect();
        assert_eq!(edges, [(spec(0).id, false), (spec(1).id, true)]);
        assert!(
            parsed.tasks.iter().all(|(_, spec)| spec.workflow.as_ref().unwrap().id == parsed.id)
        );
    }

    #[test]
    fn callbacks_have_their_role_and_may_wait_for_more() {
        let yaml = "
tasks: {work: {kind: noop}}
on_success:
  publish: {kind: noop}
  tell: {kind: noop, after: [publish]}
on_failure: {alarm: {kind: noop, payload: {to: ops}}}
";
        let parsed = parse("w.yaml", yaml, None).unwrap();
        let roles: Vec<(&str, WorkflowRole)> = parsed
            .tasks
            .iter()
            .map(|(name, spec)| (name.as_str(), spec.workflow.as_ref().unwrap().role))
            .collect();
        use divvy_types::WorkflowRole::{self, Member, OnFailure, OnSuccess};
        assert_eq!(
            roles,
            [("work", Member), ("publish", OnSuccess), ("tell", OnSuccess), ("alarm", OnFailure)]
        );
        assert_eq!(parsed.tasks[2].1.after[0].task, parsed.tasks[1].1.id);
    }

    #[test]
    fn the_same_key_makes_the_same_ids() {
        let ids = |key| {
            parse("w", GOOD, key).unwrap().tasks.iter().map(|(_, spec)| spec.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(Some("monday")), ids(Some("monday")));
        assert_ne!(ids(Some("monday")), ids(Some("tuesday")));
        assert_ne!(ids(None), ids(None));
    }

    #[test]
    fn every_mistake_names_its_line() {
        for (yaml, start, words) in [
            ("tasks:\n  a:\n    kind: x\n    retris: 3\n", "w:4:", "did you mean `retries`?"),
            ("tasks:\n  a: {kind: x}\n  b: {kind: x, after: [aa]}\n", "w:3:", "did you mean `a`?"),
            ("tasks:\n  a: {kind: x, after: [a]}\n", "w:2:", "waits for itself"),
            (
                "tasks:\n  a: {kind: x, after: [b]}\n  b: {kind: x, after: [a]}\n",
                "w:3:",
                "a → b → a",
            ),
            ("tasks:\n  a: {kind: x, priority: 9}\n", "w:2:", "task `a`: priority is 9"),
            ("tasks:\n  a: {kind: x, timeout: soon}\n", "w:2:", "`soon` is not a span"),
            ("tasks:\n  a: {kind: ''}\n", "w:2:", "kind is empty"),
            ("tasks:\n  a: {kind: x}\n  a: {kind: y}\n", "w:3:", "a"),
            ("tasks:\n  a: {payload: 1}\n", "w:2:", "kind"),
            ("tasks:\n  a: {kind: x, after: {b: maybe}}\n  b: {kind: x}\n", "w:2:", "maybe"),
            ("tasks:\n  a: {kind: x, after: b}\n  b: {kind: x}\n", "w:2:", "expected a list"),
            ("tasks:\n  a: {kind: x}\non_success:\n  a: {kind: x}\n", "w:4:", "used twice"),
            (
                "tasks:\n  a: {kind: x, after: [b]}\non_success:\n  b: {kind: x}\n",
                "w:2:",
                "runs when all tasks have ended",
            ),
            ("task: {}\n", "w:1:", "did you mean `tasks`?"),
            ("tasks: {}\n", "w: no tasks", ""),
            ("tasks:\n  a: {kind: x, retries: 100000}\n", "w:2:", "retries is 100000"),
        ] {
            let error = parse("w", yaml, None).unwrap_err().to_string();
            assert!(error.starts_with(start) && error.contains(words), "{yaml}\n  → {error}");
        }
    }

    #[test]
    fn a_chain_of_thousands_is_no_problem() {
        let mut yaml = String::from("tasks:\n  t0: {kind: x}\n");
        for at in 1..5_000 {
            yaml += &format!("  t{at}: {{kind: x, after: [t{}]}}\n", at - 1);
        }
        assert_eq!(parse("w", &yaml, None).unwrap().tasks.len(), 5_000);
        let cycle = yaml.replacen("t0: {kind: x}", "t0: {kind: x, after: [t4999]}", 1);
        assert!(parse("w", &cycle, None).unwrap_err().to_string().contains("wait for each other"));
    }
}
