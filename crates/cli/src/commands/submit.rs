//! `divvy submit`: one task from the command line, or many alike for trying.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use anyhow::{Context as _, Result};
use divvy_types::limits::{BATCH_TASKS_MAX, PAYLOAD_BYTES_MAX};
use divvy_types::view::{Late, TaskDetail, WorkflowView};
use divvy_types::{
    Dependency, GroupDependency, Name, Payload, Submitted, TaskId, TaskSpec, TaskState, Terms,
    Timestamp, Unique, Workflow, WorkflowRole,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Context;
use super::submit_lines;
use super::wait::{print_ends, resolve};
use crate::args::submit::Submit;
use crate::args::terms::TermsArgs;
use crate::exit::{Code, Failure};
use crate::output::ids::{Shortener, fresh};
use crate::output::words;
use crate::watch::Watch;
use divvy::api::{Api, Reply};

/// Tasks of one request.
const BATCH: usize = 2_000;

/// Submits, and waits if asked.
pub(super) async fn run(args: Submit, context: &Context) -> Result<Code> {
    if let Some(source) = &args.from {
        return submit_lines::run(&args, source, context).await;
    }
    let (api, output) = (context.api()?, &context.output);
    let first = spec(&args, &api).await?;
    let specs: Vec<TaskSpec> =
        (0..args.count).map(|number| numbered(&first, number, args.key.as_deref())).collect();
    first.validate().map_err(|error| Failure::usage(error.to_string()))?;
    let sent = send(&api, &specs, args.strict).await;
    let replies = sent.map_err(|error| taken_key(error, args.key.as_deref()))?;
    warn_of_late(&replies, context)?;
    let ids = taken(&specs, &replies, context)?;
    if !args.wait {
        for reply in &replies {
            if output.is_json() {
                output.raw(reply.text())?;
            }
        }
        if !output.is_json() {
            ids.iter().try_for_each(|id| output.data(id))?;
            output.note(format_args!(
                "follow it: divvy wait {0}   why it waits: divvy explain {0}",
                Shortener::new(ids.iter().copied()).short(ids[0])
            ));
        }
        return Ok(Code::Done);
    }
    if ids.len() == 1 {
        output.note(ids[0]);
    }
    leave_behind(&ids, context);
    let watched = ids.iter().map(|id| (*id, first.kind.as_str()));
    let states = Watch::new(&api, output, watched).run().await?;
    if output.is_quiet() {
        ids.iter().try_for_each(|id| output.data(id))?;
    } else if let [id] = ids[..] {
        return print_result(&api, id, context).await;
    } else {
        return print_ends(&api, &ids, &states, context).await;
    }
    let good = states.values().all(|state| *state == TaskState::Done);
    Ok(if good { Code::Done } else { Code::Failed })
}

/// Who gave a key is told of the key: the id that was made of it is nothing that they know.
fn taken_key(error: anyhow::Error, key: Option<&str>) -> anyhow::Error {
    let refused = error.downcast_ref::<divvy::api::Error>();
    let code = refused.map(divvy::api::Error::code);
    match key {
        Some(key) if code == Some("id_taken") => {
            let id = TaskId::from_key(key);
            let mut failure = Failure::refused(format!(
                "key `{key}` is taken by a task that was submitted otherwise (another kind, payload or option)"
            ));
            failure.name = Some("id_taken".to_owned());
            failure.cure(format!("use another key, or see that task: divvy task show {id}")).into()
        }
        _ => error,
    }
}

/// Tells who stops waiting that the tasks go on.
pub(super) fn leave_behind(ids: &[TaskId], context: &Context) {
    match ids {
        [id] => context.leaves_behind("; the task goes on", format!("wait again: divvy wait {id}")),
        [first, ..] => context.leaves_behind(
            "; the tasks go on",
            format!("wait again, here for the first: divvy wait {first}"),
        ),
        [] => {}
    }
}

/// The tasks that stand for those that were sent: themselves, or the ones that have their unique key.
fn taken(specs: &[TaskSpec], replies: &[Reply], context: &Context) -> Result<Vec<TaskId>> {
    let mut instead: BTreeMap<TaskId, TaskId> = BTreeMap::new();
    for reply in replies {
        instead.extend(
            reply.parse::<Submitted>()?.conflicts.iter().map(|other| (other.task, other.first)),
        );
    }
    for (task, first) in &instead {
        context.output.note(format_args!("{task} skipped: {first} has its unique key"));
    }
    let mut seen = BTreeSet::new();
    let all = specs.iter().map(|spec| instead.get(&spec.id).copied().unwrap_or(spec.id));
    // Many that were skipped for one are that one.
    let ids = all.filter(|id| seen.insert(*id)).collect();
    Ok(ids)
}

/// Says which tasks were taken although they are expected to miss their deadlines.
fn warn_of_late(replies: &[Reply], context: &Context) -> Result<()> {
    let now = words::now();
    for reply in replies {
        let Submitted { late, late_total, .. } = reply.parse()?;
        for Late { task, deadline, expected_end } in &late {
            let end = words::relative(*expected_end, now);
            let after = words::span(expected_end.since(*deadline));
            context.output.note(format_args!(
                "warning: {task} is expected {end}, {after} after its deadline"
            ));
        }
        let more = u64::from(late_total).saturating_sub(late.len() as u64);
        if more > 0 {
            context.output.note(format_args!(
                "warning: {} more expected after the deadline",
                words::count(more, "task")
            ));
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Batch<'a> {
    tasks: &'a [TaskSpec],
}

/// Submits in batches. A strict submission is one batch, because what was taken before a refusal would stay.
pub(crate) async fn send(api: &Api, specs: &[TaskSpec], strict: bool) -> Result<Vec<Reply>> {
    if strict && specs.len() > BATCH_TASKS_MAX {
        let problem = format!("--strict submits at most {BATCH_TASKS_MAX} tasks at once");
        return Err(Failure::usage(problem)
            .cure("give a smaller --count, or several times")
            .into());
    }
    let query = [("strict", "true".to_owned())];
    let query = if strict { &query[..] } else { &[] };
    let size = if strict { BATCH_TASKS_MAX } else { BATCH };
    let mut replies = Vec::new();
    for tasks in specs.chunks(size) {
        // One task goes alone, so that an error names its fields without a place in a list.
        replies.push(match tasks {
            [task] => api.post_with(&["tasks"], query, task).await?,
            tasks => api.post_with(&["tasks"], query, &Batch { tasks }).await?,
        });
    }
    Ok(replies)
}

/// The result is the data of a task that is done.
async fn print_result(api: &Api, id: TaskId, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = api.get(&["tasks", &id.to_string()], &[]).await?;
    let task: TaskDetail = reply.parse()?;
    let state = task.summary.state;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if state == TaskState::Done {
        let result = task.result.unwrap_or_default();
        match result.json_text() {
            Some(text) => output.json_text(text)?,
            None => output.foreign(result.data())?,
        }
    } else {
        let why = task.summary.error.map(|error| format!(": {error}")).unwrap_or_default();
        output.say(format_args!(
            "{state} after {}{why}",
            words::count(u64::from(task.summary.attempts), "attempt")
        ));
    }
    Ok(if state == TaskState::Done { Code::Done } else { Code::Failed })
}

async fn spec(args: &Submit, api: &Api) -> Result<TaskSpec> {
    let mut spec = described(args.kind.as_deref().unwrap_or_default(), &args.terms)?;
    give_moments(&mut spec, args, words::now());
    for (names, optional) in [(&args.after, false), (&args.optional_after, true)] {
        for name in names {
            spec.after.push(Dependency { task: resolve(api, name).await?, optional });
        }
    }
    if let Some(text) = &args.workflow {
        let WorkflowView { id, name, .. } = api.get(&["workflows", text], &[]).await?.parse()?;
        spec.workflow = Some(Box::new(Workflow { id, name, role: WorkflowRole::Member }));
        spec.group = args.group.clone();
        let after = |group: &Name| GroupDependency { group: group.clone(), optional: false };
        spec.after_groups = args.after_groups.iter().map(after).collect();
    }
    Ok(spec)
}

/// A task without an id, as the flags describe it that every command for tasks has.
pub(super) fn described(kind: &str, args: &TermsArgs) -> Result<TaskSpec> {
    let mut spec = TaskSpec::new(TaskId(0), kind);
    spec.payload = read_payload(args.payload.as_deref(), &args.args)?;
    spec.queue = args.queue.clone().unwrap_or(spec.queue);
    spec.priority = args.priority.unwrap_or(spec.priority);
    spec.terms = args.terms().into();
    Ok(spec)
}

/// Gives a task what only a single one has, except dependencies, which the server has to know.
pub(super) fn give_moments(spec: &mut TaskSpec, args: &Submit, now: Timestamp) {
    let terms = Terms {
        run_at: args.at.or_else(|| args.in_.map(|span| now + span.0)),
        deadline: args.deadline.map(|moment| moment.from(now)),
        unique: args.unique.as_ref().map(|unique| Unique {
            key: unique.key.clone(),
            window_ms: unique.window.map(|window| window.as_ms()),
            on_conflict: args.on_conflict.unwrap_or_default(),
        }),
        ..std::mem::take(&mut spec.terms).into_inner()
    };
    spec.terms = terms.into();
}

/// Copy number `number`, with an id of its own that is the same for the same key.
fn numbered(spec: &TaskSpec, number: u32, key: Option<&str>) -> TaskSpec {
    let id = match (key, number) {
        (Some(key), 0) => TaskId::from_key(key),
        (Some(key), number) => TaskId::from_key(&format!("{key}\0{number}")),
        (None, _) => TaskId(fresh()),
    };
    TaskSpec { id, ..spec.clone() }
}

/// The payload that is given whole, or field by field.
fn read_payload(payload: Option<&str>, args: &[String]) -> Result<Payload> {
    match payload {
        None if args.is_empty() => Ok(Payload::null()),
        None => Ok(Payload::from_value(&fields(args)?)?),
        Some(text) => payload_of(text),
    }
}

/// A payload as people write it: JSON, `-` for standard input, or `@FILE`.
pub(super) fn payload_of(text: &str) -> Result<Payload> {
    let text = match text {
        "-" => {
            let mut text = String::new();
            let limit = PAYLOAD_BYTES_MAX as u64 + 1;
            std::io::stdin()
                .take(limit)
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            text
        }
        text => match text.strip_prefix('@') {
            Some(path) => crate::yaml::read_text(path.as_ref(), PAYLOAD_BYTES_MAX as u64)?,
            None => text.to_owned(),
        },
    };
    Payload::json(text).map_err(|error| {
        let cure = "write JSON such as '{\"n\": 1}', or give fields one by one: --arg n:=1";
        Failure::usage(format!("payload {error}")).cure(cure).into()
    })
}

/// `k=text` and `k:=json` as an object.
fn fields(args: &[String]) -> Result<Value> {
    let mut object = Map::new();
    for arg in args {
        let wrong = || Failure::usage(format!("--arg `{arg}`: expected k=text or k:=json"));
        let (key, text) = arg.split_once('=').ok_or_else(wrong)?;
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => {
                let parsed = serde_json::from_str(text);
                (
                    key,
                    parsed.map_err(|e| {
                        Failure::usage(format!("--arg `{arg}`: `{text}` is not JSON: {e}"))
                    })?,
                )
            }
            None => (key, Value::from(text)),
        };
        if key.is_empty() {
            return Err(wrong().into());
        }
        if object.insert(key.to_owned(), value).is_some() {
            return Err(Failure::usage(format!("--arg `{key}` is given twice")).into());
        }
    }
    Ok(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_becomes_its_term_and_none_leaves_the_default() {
        use crate::args::{Command, Line, Verb};
        let terms = |words: &str| {
            let words = words.split(' ').map(Into::into);
            let line = Line::parse(words, &crate::workloads::Workloads::new(Vec::new())).unwrap();
            let Some(Verb::Ours(command, _)) = line.verb else { panic!("{line:?}") };
            let Command::Submit(args) = *command else { panic!("{command:?}") };
            let mut spec = described(args.kind.as_deref().unwrap(), &args.terms).unwrap();
            give_moments(&mut spec, &args, Timestamp(1_000_000));
            spec.terms
        };
        assert!(terms("divvy submit encode").is_untouched());
        let given = terms(
            "divvy submit encode --needs gpu>=2,region=eu --matching fallback --deadline 30m \
             --fair-key acme --limit api --limit gpu/acme --unique acme:10m --on-conflict replace \
             --affinity film-7 --cost-hint 4096 --timeout 5s --retries 1 --in 1s \
             --tag nightly --tag acme",
        );
        // A term that is added and not written here does not compile.
        let expected = Terms {
            needs: vec!["gpu>=2".into(), "region=eu".into()],
            matching: Some(divvy_types::Matching::Fallback),
            after: Vec::new(),
            run_at: Some(Timestamp(2_000_000)),
            deadline: Some(Timestamp(1_801_000_000)),
            timeout_ms: Some(5_000),
            retry: divvy_types::RetryPolicy { limit: 1, ..Default::default() },
            workflow: None,
            // Without a workflow there are no groups.
            group: None,
            after_groups: Vec::new(),
            unique: Some(Unique {
                key: "acme".into(),
                window_ms: Some(600_000),
                on_conflict: divvy_types::OnConflict::Replace,
            }),
            limits: vec!["api".into(), "gpu/acme".into()],
            fair_key: Some("acme".into()),
            affinity: Some("film-7".into()),
            cost_hint: Some(4_096),
            tags: vec!["nightly".into(), "acme".into()],
        };
        assert_eq!(*given, expected);
    }

    #[test]
    fn a_key_that_is_taken_is_called_a_key() {
        let taken = || divvy::api::Error::Refused {
            code: "id_taken".into(),
            message: "id 1 is taken".into(),
            field: Some("id".into()),
            status: Some(409),
            retry_after: None,
        };
        let failure: Failure = taken_key(taken().into(), Some("k9")).downcast().unwrap();
        assert!(failure.message.starts_with("key `k9` is taken"), "{failure}");
        let cure = failure.cure.unwrap();
        assert!(cure.contains(&TaskId::from_key("k9").to_string()), "{cure}");
        assert_eq!(taken_key(taken().into(), None).to_string(), "id 1 is taken");
    }

    #[test]
    fn fields_are_text_or_json() {
        let args =
            ["a=1", "b:=1", "c:=[true,\"x=y\"]", "d=", "url=http://x/?q=1"].map(String::from);
        let expected = serde_json::json!({"a": "1", "b": 1, "c": [true, "x=y"], "d": "", "url": "http://x/?q=1"});
        assert_eq!(fields(&args).unwrap(), expected);
        for wrong in [vec!["a"], vec!["=1"], vec!["a:=x"], vec!["a=1", "a=2"]] {
            let wrong: Vec<String> = wrong.into_iter().map(String::from).collect();
            assert!(fields(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn copies_have_ids_of_their_own_that_a_key_makes_the_same() {
        let spec = TaskSpec::new(TaskId(0), "noop");
        let ids = |key| (0..3).map(|number| numbered(&spec, number, key).id).collect::<Vec<_>>();
        assert_eq!(ids(Some("k")), ids(Some("k")));
        assert_eq!(ids(Some("k"))[0], TaskId::from_key("k"));
        let mut free = ids(None);
        free.dedup();
        assert_eq!(free.len(), 3);
    }
}
