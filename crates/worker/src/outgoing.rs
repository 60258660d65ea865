//! What is said to the server, and when: the stream of messages of one connection.
//!
//! The connection pulls: when it can take a message it asks here, and gets everything that came together since. So
//! reports are batched without a timer. Order: hello; then, after the server's welcome, stopping, reports, heartbeats.
//! Heartbeats exist only while tasks are held; progress goes with a heartbeat of its own as soon as it may.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use divvy_proto::{outcome_to_wire, v1};
use futures_util::Stream;
use v1::from_worker::Message;

use crate::attempt::Context;
use crate::run::Runners;
use crate::state::{Ended, Key, State};

/// Reports in one message.
const REPORTS_MAX: usize = 8_192;
/// Bytes of reports in one message, beyond which the rest goes into the next; a single report may exceed it.
const REPORTS_BYTES_MAX: usize = 4 << 20;
/// The least time between two heartbeats that carry progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// The messages of connection number `link`, the first of which is `hello`.
pub(crate) fn messages(
    runners: Arc<Runners>,
    link: u64,
    hello: v1::Hello,
) -> impl Stream<Item = v1::FromWorker> + Send + 'static {
    let outgoing =
        Outgoing { runners, link, hello: Some(hello), beat_due: None, progress_sent: None };
    futures_util::stream::unfold(outgoing, |mut outgoing| async move {
        let message = outgoing.next().await?;
        Some((v1::FromWorker { message: Some(message) }, outgoing))
    })
}

struct Outgoing {
    runners: Arc<Runners>,
    link: u64,
    hello: Option<v1::Hello>,
    /// When the next heartbeat is due; nothing while no task is held.
    beat_due: Option<Instant>,
    progress_sent: Option<Instant>,
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
        if !state.taking && !std::mem::replace(&mut state.stopping_told, true) {
            return Step::Send(Message::Stopping(v1::Stopping {}));
        }
        if let Some(reports) = state.take_reports() {
            return Step::Send(reports);
        }
        if state.held_count() == 0 {
            self.beat_due = None;
            return Step::Wait(None);
        }
        let due = *self.beat_due.get_or_insert(now + beat_every);
        let beat_now = due <= now;
        if beat_now {
            self.beat_due = Some(now + beat_every);
        }
        let (progress, progress_due) = self.collect_progress(&state, now);
        if beat_now || !progress.is_empty() {
            return Step::Send(Message::Heartbeat(v1::Heartbeat { progress }));
        }
        Step::Wait(Some(progress_due.map_or(due, |progress_due| progress_due.min(due))))
    }

    fn collect_progress(
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
        let progress: Vec<_> =
            due.iter().filter(running).map(|context| progress_to_wire(context, now)).collect();
        if !progress.is_empty() {
            self.progress_sent = Some(now);
        }
        (progress, next)
    }
}

impl State {
    /// Everything that ended and was not sent over the present connection, up to the size of a message.
    fn take_reports(&mut self) -> Option<Message> {
        let mut reports = Vec::with_capacity(self.outbox.len().min(REPORTS_MAX));
        let mut bytes = 0;
        while reports.len() < REPORTS_MAX && bytes < REPORTS_BYTES_MAX {
            let Some(key) = self.outbox.pop_front() else { break };
            if let Some(ended) = self.ended(&key) {
                let report = report_to_wire(key, ended);
                bytes += size_of_report(&report);
                reports.push(report);
            }
        }
        (!reports.is_empty()).then_some(Message::Reports(v1::Reports { reports }))
    }
}

fn report_to_wire((task, token): Key, ended: &Ended) -> v1::Report {
    v1::Report {
        task: Bytes::copy_from_slice(&task.to_bytes()),
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

fn progress_to_wire(context: &Context, now: Instant) -> v1::Progress {
    let (progress, log) = context.notes().take_update(now);
    v1::Progress {
        task: Bytes::copy_from_slice(&context.task.to_bytes()),
        token: context.token.0,
        done: progress.done,
        total: progress.total,
        message: progress.message.to_string(),
        log,
    }
}
