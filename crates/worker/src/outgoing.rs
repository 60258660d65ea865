//! What is said to the server, and when: the stream of messages of one connection.
//!
//! The connection pulls: when it can take a message it asks here, and gets everything that came together since. So
//! reports are batched without a timer. Order: hello; then, after the server's welcome, stopping, checkpoints of attempts
//! that ended, reports, checkpoints of those that run, heartbeats. Heartbeats exist only while tasks are held; progress
//! goes with a heartbeat of its own as soon as it may.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use divvy_proto::{Pages, checkpoint_to_wire, outcome_to_wire, v1};
use divvy_types::Token;
use divvy_types::view::Progress;
use futures_util::Stream;
use v1::from_worker::Message;

use crate::attempt::Context;
use crate::machine::Machine;
use crate::run::Runners;
use crate::state::{Ended, State};

/// Reports in one message.
const REPORTS_MAX: usize = 8_192;
/// Bytes of reports in one message, beyond which the rest goes into the next; a single report may exceed it.
const REPORTS_BYTES_MAX: usize = 4 << 20;
/// Bytes of checkpoints in one message, beyond which the rest goes into the next.
const CHECKPOINTS_BYTES_MAX: usize = 2 << 20;
/// The least time between two heartbeats that carry progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// The messages of connection number `link`, the first of which is `hello`.
pub(crate) fn messages(
    runners: Arc<Runners>,
    link: u64,
    hello: v1::Hello,
) -> impl Stream<Item = v1::FromWorker> + Send + 'static {
    let outgoing = Outgoing {
        runners,
        link,
        hello: Some(hello),
        ready: VecDeque::new(),
        beat_due: None,
        progress_sent: None,
        machine: Machine::default(),
    };
    futures_util::stream::unfold(outgoing, |mut outgoing| async move {
        let message = outgoing.next().await?;
        Some((v1::FromWorker { message: Some(message) }, outgoing))
    })
}

struct Outgoing {
    runners: Arc<Runners>,
    link: u64,
    hello: Option<v1::Hello>,
    /// Made and not sent yet; goes before anything else, so that a checkpoint is never behind its report.
    ready: VecDeque<Message>,
    /// When the next heartbeat is due; nothing while no task is held.
    beat_due: Option<Instant>,
    progress_sent: Option<Instant>,
    machine: Machine,
}

enum Step {
    Send(Message),
    Wait(Option<Instant>),
    Close,
}

impl Outgoing {
    async fn next(&mut self) -> Option<Message> {
        if let Some(hello) = self.hello.take() {
            return Some(Message::Hello(hello));
        }
        loop {
            let board = Arc::clone(&self.runners.hold.board);
            match self.step(Instant::now()) {
                Step::Send(message) => return Some(message),
                Step::Close => {
                    // The bell may have been meant for the connection after this one.
                    board.bell.notify_one();
                    return None;
                }
                Step::Wait(None) => board.bell.notified().await,
                Step::Wait(Some(due)) => {
                    // Running out of time is as good a reason to look again as the bell.
                    let _ = tokio::time::timeout_at(due.into(), board.bell.notified()).await;
                }
            }
        }
    }

    fn step(&mut self, now: Instant) -> Step {
        let runners = Arc::clone(&self.runners);
        let mut state = runners.hold.lock();
        if state.link != self.link {
            return Step::Close;
        }
        let Some(beat_every) = state.beat_every else { return Step::Wait(None) };
        if let Some(message) = self.ready.pop_front() {
            return Step::Send(message);
        }
        if !state.taking && !std::mem::replace(&mut state.stopping_told, true) {
            return Step::Send(Message::Stopping(v1::Stopping {}));
        }
        if let Some(saved) = state.take_saved() {
            return Step::Send(saved);
        }
        if let Some(reports) = state.take_reports() {
            return Step::Send(reports);
        }
        if state.held_count() == 0 {
            self.beat_due = None;
            return Step::Wait(None);
        }
        if self.beat_due.is_none() {
            // From here on it is measured what the tasks take.
            self.machine.begin(now);
        }
        let due = *self.beat_due.get_or_insert(now + beat_every);
        let beat_now = due <= now;
        if beat_now {
            self.beat_due = Some(now + beat_every);
        }
        let (progress, news_due) = self.collect_news(&state, now);
        if beat_now || !progress.is_empty() {
            // What the machine does is told at the regular beat, not with every progress.
            let load = if beat_now { self.machine.look(now) } else { None };
            self.ready.push_back(Message::Heartbeat(v1::Heartbeat { progress, load }));
        }
        match self.ready.pop_front() {
            Some(message) => Step::Send(message),
            None => Step::Wait(Some(news_due.map_or(due, |news_due| news_due.min(due)))),
        }
    }

    /// Makes the checkpoints of running attempts ready, and returns their progress; says when there may be more.
    fn collect_news(
        &mut self,
        state: &State,
        now: Instant,
    ) -> (Vec<v1::Progress>, Option<Instant>) {
        let board = &self.runners.hold.board;
        if board.is_empty() {
            return (Vec::new(), None);
        }
        if let Some(allowed) =
            self.progress_sent.map(|at| at + PROGRESS_EVERY).filter(|allowed| *allowed > now)
        {
            return (Vec::new(), Some(allowed));
        }
        let (due, next) = board.take_due(now);
        let running = |context: &&Arc<Context>| state.is_running(&(context.task, context.token));
        let (mut progress, mut saved) = (Vec::new(), Vec::new());
        for context in due.iter().filter(running) {
            let update = context.notes().take_update(now);
            progress.extend(update.news.map(|news| progress_to_wire(context, news)));
            saved.extend(
                update.saved.map(|data| checkpoint_to_wire(context.task, context.token, &data)),
            );
        }
        if !progress.is_empty() || !saved.is_empty() {
            self.progress_sent = Some(now);
        }
        if state.takes_checkpoints {
            self.ready.extend(checkpoint_messages(saved));
        }
        (progress, next)
    }
}

/// Checkpoints in messages of a bounded size.
fn checkpoint_messages(saved: Vec<v1::Checkpoint>) -> Vec<Message> {
    let mut messages: Vec<v1::Checkpoints> = Vec::new();
    let mut bytes = 0;
    for checkpoint in saved {
        bytes += checkpoint.data.len();
        match messages.last_mut().filter(|_| bytes <= CHECKPOINTS_BYTES_MAX) {
            Some(last) => last.checkpoints.push(checkpoint),
            None => {
                bytes = checkpoint.data.len();
                messages.push(v1::Checkpoints { checkpoints: vec![checkpoint] });
            }
        }
    }
    messages.into_iter().map(Message::Checkpoints).collect()
}

impl State {
    /// What attempts saved that ended since, up to the size of a message: it goes before their reports.
    fn take_saved(&mut self) -> Option<Message> {
        let mut checkpoints = Vec::new();
        let mut bytes = 0;
        while bytes < CHECKPOINTS_BYTES_MAX {
            let Some(key) = self.saved.pop_front() else { break };
            let saved = self.ended(&key).and_then(|ended| ended.saved.as_ref());
            if let Some(data) = saved.filter(|_| self.takes_checkpoints) {
                bytes += data.data().len();
                checkpoints.push(checkpoint_to_wire(key.0, key.1, data));
            }
        }
        (!checkpoints.is_empty()).then_some(Message::Checkpoints(v1::Checkpoints { checkpoints }))
    }

    /// Everything that ended and was not sent over the present connection, up to the size of a message.
    fn take_reports(&mut self) -> Option<Message> {
        let mut reports = Vec::with_capacity(self.outbox.len().min(REPORTS_MAX));
        let (mut bytes, mut ids) = (0, Pages::default());
        while reports.len() < REPORTS_MAX && bytes < REPORTS_BYTES_MAX {
            let Some(key) = self.outbox.pop_front() else { break };
            if let Some(ended) = self.ended(&key) {
                let report = report_to_wire(ids.id(key.0), key.1, ended);
                bytes += size_of_report(&report);
                reports.push(report);
            }
        }
        (!reports.is_empty()).then_some(Message::Reports(v1::Reports { reports }))
    }
}

fn report_to_wire(task: Bytes, token: Token, ended: &Ended) -> v1::Report {
    v1::Report {
        task,
        token: token.0,
        end: Some(outcome_to_wire(&ended.outcome)),
        log: ended.log.clone(),
    }
}

/// Roughly how many bytes a report takes; children count by their payloads.
fn size_of_report(report: &v1::Report) -> usize {
    let end = match &report.end {
        Some(v1::report::End::Finished(finished)) => {
            finished.result.len()
                + finished.spawned.iter().map(|child| child.payload.len() + 128).sum::<usize>()
        }
        Some(v1::report::End::Failed(failed)) => failed.message.len(),
        Some(v1::report::End::Released(_)) | None => 0,
    };
    64 + report.log.len() + end
}

fn progress_to_wire(context: &Context, (progress, log): (Progress, String)) -> v1::Progress {
    v1::Progress {
        task: Bytes::copy_from_slice(&context.task.to_bytes()),
        token: context.token.0,
        done: progress.done,
        total: progress.total,
        message: progress.message.to_string(),
        log,
    }
}
