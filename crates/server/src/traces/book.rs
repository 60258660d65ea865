//! What spans follow from changes of tasks. Pure: the changes carry their times.
//!
//! ```text
//! workflow ├──────────────────────────────────────────┤   when its last member has ended
//!   task     ├─────────────────────────────────────┤      from its submission to its end
//!     wait     ├────┤              ├──┤                   until it is given to a worker
//!     attempt       ├──────┤ failed   ├───────────┤       until it ends; a worker's own spans hang below it
//! ```
//!
//! A task that was submitted before the server started has no span of its own, because its begin is not known here; its
//! attempts from then on have.

use std::collections::BTreeMap;

use divvy_types::view::{TaskChange, WorkflowState};
use divvy_types::{Name, TaskId, TaskState, Timestamp, Token, WorkflowId, trace};

/// Open tasks that are followed; the spans of more are left out.
const OPEN_MAX: usize = 200_000;

/// Something that took time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Vec<(&'static str, String)>,
    /// What went wrong, if something did.
    pub(super) error: Option<String>,
}

impl Span {
    /// A workflow that has ended.
    pub(super) fn of_workflow(
        id: WorkflowId,
        name: &str,
        start: Timestamp,
        end: Timestamp,
        total: u64,
        state: WorkflowState,
    ) -> Self {
        let failed = (state == WorkflowState::Failed).then(|| "a task of it failed".to_owned());
        Self {
            trace: trace::trace_of(TaskId(0), Some(id)),
            id: trace::span_of_workflow(id),
            parent: None,
            name: format!("workflow {name}"),
            start,
            end,
            attributes: vec![
                ("divvy.workflow.id", id.to_string()),
                ("divvy.workflow.tasks", total.to_string()),
            ],
            error: failed,
        }
    }
}

/// What is known of the tasks that are open.
#[derive(Debug, Default)]
pub(super) struct Book {
    open: BTreeMap<TaskId, Page>,
}

/// What is known of one task.
#[derive(Debug, Default)]
struct Page {
    submitted: Option<Timestamp>,
    /// Since when it waits.
    waits: Option<Timestamp>,
    attempt: Option<Attempt>,
}

#[derive(Debug)]
struct Attempt {
    token: Token,
    start: Timestamp,
    worker: Option<Name>,
}

/// What follows from a change.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Noted {
    pub(super) spans: Vec<Span>,
    /// A member of this workflow has ended.
    pub(super) workflow: Option<WorkflowId>,
}

impl Book {
    /// Takes in a change.
    pub(super) fn note(&mut self, change: &TaskChange) -> Noted {
        let mut noted = Noted::default();
        if change.progress.is_some() {
            return noted;
        }
        if !self.open.contains_key(&change.id) && self.open.len() >= OPEN_MAX {
            return noted;
        }
        let is_new = !self.open.contains_key(&change.id);
        let page = self.open.entry(change.id).or_default();
        match change.state {
            TaskState::Leased => noted.spans.extend(page.begin(change)),
            TaskState::Ready | TaskState::Scheduled | TaskState::Blocked => {
                if is_new && change.error.is_none() && change.worker.is_none() {
                    page.submitted = Some(change.at);
                }
                noted.spans.extend(page.end(change));
                page.waits = Some(change.at);
            }
            TaskState::Done | TaskState::Dead | TaskState::Cancelled => {
                noted.spans.extend(page.end(change));
                noted.spans.extend(page.whole(change));
                noted.workflow = change.workflow;
                self.open.remove(&change.id);
            }
        }
        noted
    }
}

impl Page {
    /// An attempt begins: the wait for it is over.
    fn begin(&mut self, change: &TaskChange) -> Option<Span> {
        let token = change.token?;
        self.attempt = Some(Attempt { token, start: change.at, worker: change.worker.clone() });
        let start = self.waits.take()?;
        let id = trace::span_of_wait(change.id, token);
        Some(self.span(change, id, format!("wait {}", change.kind), start))
    }

    /// The attempt that runs has ended, if one does.
    fn end(&mut self, change: &TaskChange) -> Option<Span> {
        let Attempt { token, start, worker } = self.attempt.take()?;
        let id = trace::span_of_attempt(change.id, token);
        let mut span = self.span(change, id, format!("run {}", change.kind), start);
        span.attributes.extend(worker.map(|worker| ("divvy.worker", worker.to_string())));
        span.attributes.push(("divvy.attempt.token", token.0.to_string()));
        span.error = change.error.as_ref().map(|error| error.message.to_string());
        Some(span)
    }

    /// The task has ended.
    fn whole(&self, change: &TaskChange) -> Option<Span> {
        let start = self.submitted?;
        let id = trace::span_of_task(change.id);
        let mut span = self.span(change, id, format!("task {}", change.kind), start);
        span.parent = change.workflow.map(trace::span_of_workflow);
        span.attributes.push(("divvy.task.state", change.state.as_str().to_owned()));
        if change.state != TaskState::Done {
            let message = change.error.as_ref().map(|error| error.message.to_string());
            span.error = Some(message.unwrap_or_else(|| change.state.as_str().to_owned()));
        }
        Some(span)
    }

    /// A span below that of the task, up to this change.
    fn span(&self, change: &TaskChange, id: u64, name: String, start: Timestamp) -> Span {
        let workflow = change.workflow.map(trace::span_of_workflow);
        let task = self.submitted.map(|_| trace::span_of_task(change.id));
        Span {
            trace: trace::trace_of(change.id, change.workflow),
            id,
            parent: task.or(workflow),
            name,
            start,
            end: change.at.max(start),
            attributes: vec![
                ("divvy.task.id", change.id.to_string()),
                ("divvy.task.kind", change.kind.to_string()),
                ("divvy.queue", change.queue.to_string()),
            ],
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use divvy_types::{ErrorClass, TaskError};

    use super::*;

    fn change(state: TaskState, at: u64) -> TaskChange {
        TaskChange {
            id: TaskId(7),
            kind: "mail".into(),
            queue: "default".into(),
            state,
            at: Timestamp(at),
            worker: None,
            workflow: Some(WorkflowId(3)),
            error: None,
            token: None,
            progress: None,
        }
    }

    fn leased(at: u64, token: u64) -> TaskChange {
        let (worker, token) = (Some("w1".into()), Some(Token(token)));
        TaskChange { worker, token, ..change(TaskState::Leased, at) }
    }

    fn noted(book: &mut Book, changes: &[TaskChange]) -> Vec<Span> {
        changes.iter().flat_map(|change| book.note(change).spans).collect()
    }

    #[test]
    fn a_task_that_fails_once_has_two_waits_two_attempts_and_one_whole() {
        let error = Some(TaskError::new(ErrorClass::Failed, "no route"));
        let failed =
            TaskChange { error, worker: Some("w1".into()), ..change(TaskState::Scheduled, 30) };
        let changes = [
            change(TaskState::Ready, 10),
            leased(20, 5),
            failed,
            leased(40, 6),
            change(TaskState::Done, 60),
        ];
        let mut book = Book::default();
        let spans = noted(&mut book, &changes);
        let told: Vec<(&str, u64, u64, bool)> = spans
            .iter()
            .map(|it| (it.name.as_str(), it.start.0, it.end.0, it.error.is_some()))
            .collect();
        assert_eq!(
            told,
            [
                ("wait mail", 10, 20, false),
                ("run mail", 20, 30, true),
                ("wait mail", 30, 40, false),
                ("run mail", 40, 60, false),
                ("task mail", 10, 60, false),
            ]
        );
        let whole = &spans[4];
        assert!(spans.iter().all(|span| span.trace == 3), "one trace");
        assert_eq!(whole.parent, Some(trace::span_of_workflow(WorkflowId(3))));
        assert!(spans[..4].iter().all(|span| span.parent == Some(whole.id)));
        assert_eq!(
            spans[3].id,
            trace::span_of_attempt(TaskId(7), Token(6)),
            "as the worker knows it"
        );
        assert!(book.open.is_empty());
    }

    #[test]
    fn a_task_from_before_the_start_has_its_attempts_only() {
        let mut book = Book::default();
        let spans = noted(&mut book, &[leased(20, 5), change(TaskState::Dead, 30)]);
        assert_eq!(spans.len(), 1);
        assert_eq!((spans[0].name.as_str(), spans[0].start), ("run mail", Timestamp(20)));
        assert_eq!(spans[0].parent, Some(trace::span_of_workflow(WorkflowId(3))));
    }

    #[test]
    fn a_dead_task_tells_why_and_ends_its_part_of_the_workflow() {
        let mut book = Book::default();
        let error = Some(TaskError::new(ErrorClass::Failed, "no route"));
        book.note(&change(TaskState::Blocked, 1));
        let noted = book.note(&TaskChange { error, ..change(TaskState::Cancelled, 9) });
        assert_eq!(noted.workflow, Some(WorkflowId(3)));
        assert_eq!(noted.spans[0].error.as_deref(), Some("no route"));
    }
}
