//! The pulse of a server: once a second one look at the engine, from which come the overview, the history of the last day
//! and the events that dashboards follow.
//!
//! Reading order: `look` (what is seen), `history` (what the last day looked like), `news` (what happened between two
//! looks), `file` (what lasts), and here who keeps it and when it beats.
//!
//! One look serves all watchers, and what they are sent is written once for all of them. While nobody watches and nothing
//! happens, the engine is asked only every ten seconds; that nothing happened is then known from counters alone.

mod file;
mod history;
mod look;
mod news;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use divvy_engine::Error;
use divvy_http::{Following, Ring};
use divvy_types::alerts::Alert;
use divvy_types::pulse::{History as HistoryView, Overview, Pulse as Beat, PulseEvent};
use divvy_types::{Name, Timestamp};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::alerts::{self, Looked};
use crate::app::App;
use history::{FINE_SEC, Figures, History, Span, waits_since};
use look::Look;

/// The time between two beats.
const EVERY: Duration = Duration::from_secs(1);
/// How old what is shown to someone who asks may be.
const FRESH: Duration = Duration::from_millis(900);
/// How often the engine is asked while nothing happens and nobody watches.
const REST: Duration = Duration::from_secs(10);
/// How often the rules about health are looked at.
const JUDGE_EVERY: Duration = Duration::from_secs(5);
/// How long beats are kept for watchers who come back after the last one left.
const LINGER: Duration = Duration::from_secs(60);
/// Events that are kept for watchers who come back.
const EVENTS_MAX: usize = 1_024;
/// The time over which the share of failed attempts is told, in seconds.
const FAILED_WITHIN_SEC: u64 = 300;
/// How long to wait before a write that failed is told again.
const TELL_EVERY: Duration = Duration::from_secs(600);

/// What is sent to watchers: the name of an event and its text.
pub(crate) type Sent = Arc<(&'static str, String)>;

/// The pulse, as handlers reach it.
pub(crate) struct Pulse {
    state: Mutex<State>,
    events: Ring<Sent>,
    /// Whether something changed that no counter tells.
    noted: AtomicBool,
    file: Option<PathBuf>,
}

#[derive(Default)]
struct State {
    history: History,
    last: Option<Look>,
    /// When that was looked at, by the clock of this process.
    looked: Option<Instant>,
    overview: Overview,
    /// Rules that fire or are pending.
    broken: Vec<Alert>,
    judged: Option<Instant>,
    /// When someone watched last.
    watched: Option<Instant>,
    /// The last fine step that was handed to the file.
    kept: u64,
}

impl Pulse {
    /// With what was kept in the file: whoever asks first finds it.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        let history = file.as_deref().map(file::read).unwrap_or_default();
        Self {
            state: Mutex::new(State { history, ..State::default() }),
            events: Ring::new(EVENTS_MAX),
            noted: AtomicBool::new(true),
            file,
        }
    }

    /// A worker came or went, or something was set: the next beat looks.
    pub(crate) fn note(&self) {
        self.noted.store(true, Relaxed);
    }

    /// The numbers of this moment, or of a moment ago.
    pub(crate) async fn overview(&self, app: &App) -> Result<Overview, Error> {
        self.refresh(app).await?;
        Ok(self.state().overview.clone())
    }

    /// The same with the last step of the history, as watchers are sent it.
    pub(crate) async fn beat(&self, app: &App) -> Result<Sent, Error> {
        self.refresh(app).await?;
        Ok(sent(&self.state().beat()))
    }

    /// Events from now on, or from the last one that was seen.
    pub(crate) fn follow(&self, last: Option<&str>) -> Following<Sent> {
        self.events.follow(last)
    }

    /// The figures of a time in equal steps.
    pub(crate) async fn history(
        &self,
        app: &App,
        queue: Option<&Name>,
        asked: (Option<Timestamp>, Option<Timestamp>),
        points: u64,
    ) -> Result<HistoryView, Error> {
        self.refresh(app).await?;
        let state = self.state();
        let to = asked.1.unwrap_or(state.overview.time);
        let from = asked.0.unwrap_or_else(|| Timestamp(to.0.saturating_sub(HOUR_US)));
        Ok(state.history.view(queue, &Span { from, to, points }))
    }

    /// Looks, unless that was a moment ago.
    async fn refresh(&self, app: &App) -> Result<(), Error> {
        let is_fresh = self.state().looked.is_some_and(|looked| looked.elapsed() < FRESH);
        if is_fresh { Ok(()) } else { self.look(app).await }
    }

    /// One beat.
    async fn beat_once(&self, app: &App) -> Result<(), Error> {
        let (is_watched, is_due) = {
            let mut state = self.state();
            if self.events.followers() > 0 {
                state.watched = Some(Instant::now());
            }
            let is_watched = state.watched.is_some_and(|watched| watched.elapsed() < LINGER);
            let active = state.last.as_ref().map(|last| last.activity);
            let changed = active != Some(app.handle.activity()) || self.noted.load(Relaxed);
            let rested = state.looked.is_none_or(|looked| looked.elapsed() >= REST);
            (is_watched, changed || rested || is_watched)
        };
        if is_due {
            self.look(app).await?;
        } else {
            self.state().rest();
        }
        if is_watched {
            let beat = self.state().beat();
            self.events.extend([sent(&beat)]);
        }
        Ok(())
    }

    /// Looks at the engine and takes what is seen.
    async fn look(&self, app: &App) -> Result<(), Error> {
        self.noted.store(false, Relaxed);
        let stolen = self.state().last.as_ref().map_or(0, |last| last.stolen_upto);
        let look = Look::take(app, stolen).await?;
        let is_due = self.state().judged.is_none_or(|judged| judged.elapsed() >= JUDGE_EVERY);
        let broken = if is_due { Some(broken(app, &look).await?) } else { None };
        let events = self.state().take(app, look, broken);
        self.events.extend(events.iter().map(sent));
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const HOUR_US: u64 = 3_600_000_000;

/// Rules that are broken now: alerts that fire, and those that are about to.
async fn broken(app: &App, look: &Look) -> Result<Vec<Alert>, Error> {
    let Looked { alerts, .. } = alerts::look(app, look.stats.clone()).await?;
    Ok(alerts.alerts.into_iter().filter(Alert::needs_attention).collect())
}

impl State {
    /// Takes what was seen; what happened since the last look.
    fn take(&mut self, app: &App, mut look: Look, broken: Option<Vec<Alert>>) -> Vec<PulseEvent> {
        let at = look.at;
        let Some(last) = self.last.take() else {
            // The first look tells how things are, not what happened; but counters begin with the engine.
            self.broken = broken.unwrap_or_default();
            let (all, queues) = since(&look, &Look::default());
            self.history.add(at, &all, queues);
            self.finish(app, look);
            return Vec::new();
        };
        if at < last.at {
            // Another look that began later was faster.
            self.last = Some(last);
            return Vec::new();
        }
        let mut events = news::changes(at, &last.scenery, &look.scenery);
        look.stolen.retain(|one| one.number > last.stolen_upto);
        events.extend(news::steals(at, &look.stolen));
        if let Some(broken) = broken {
            events.extend(news::alerts(at, &self.broken, &broken));
            (self.broken, self.judged) = (broken, Some(Instant::now()));
        }
        let (all, queues) = since(&look, &last);
        self.history.add(at, &all, queues);
        self.finish(app, look);
        events
    }

    fn finish(&mut self, app: &App, look: Look) {
        let pools = app.scale.list(look.at);
        self.judged.get_or_insert_with(Instant::now);
        self.overview = look.overview(&pools);
        self.overview.alerts = self.broken.clone();
        self.count();
        (self.last, self.looked) = (Some(look), Some(Instant::now()));
    }

    /// Nothing has happened since the last look, as counters tell.
    fn rest(&mut self) {
        let (Some(last), Some(looked)) = (&self.last, self.looked) else { return };
        let at = last.at + looked.elapsed();
        self.history.rest(at);
        self.overview.time = at;
        if let Some(wait) = &mut self.overview.oldest_wait_ms {
            *wait = last.oldest_wait_ms.unwrap_or(0) + looked.elapsed().as_millis() as u64;
        }
        self.count();
    }

    /// Tells what the history says of the last minutes.
    fn count(&mut self) {
        let at = self.overview.time;
        self.overview.done_per_min = self.history.sum(at, 60).done as f64;
        let Figures { done, failed, retried, .. } = self.history.sum(at, FAILED_WITHIN_SEC);
        let ended = done + failed + retried;
        let share = if ended == 0 { 0.0 } else { (failed + retried) as f64 / ended as f64 };
        self.overview.failed_share = (share * 10_000.0).round() / 10_000.0;
    }

    fn beat(&self) -> PulseEvent {
        let overview = self.overview.clone();
        let point = self.history.newest(overview.time);
        PulseEvent::Pulse(Box::new(Beat { overview, point }))
    }
}

/// What happened between two looks.
fn since(look: &Look, last: &Look) -> (Figures, Vec<(Name, Figures)>) {
    let grown = |now: u64, before: u64| now.saturating_sub(before);
    let (now, before) = (&look.stats, &last.stats);
    let all = Figures {
        submitted: grown(now.submitted, before.submitted),
        done: grown(now.finished, before.finished),
        failed: grown(now.dead, before.dead),
        retried: grown(now.failed_attempts, before.failed_attempts),
        waits: waits_since(&look.waits, &last.waits),
        ..look.standing()
    };
    let queues = look.queues.iter().map(|(name, queue)| {
        let nothing = Default::default();
        let before = last.queues.get(name).map_or(&nothing, |queue| &queue.tally);
        let now = &queue.tally;
        // A queue that was forgotten begins anew.
        let grown = |now: u64, before: u64| if now >= before { now - before } else { now };
        let figures = Figures {
            submitted: grown(now.submitted, before.submitted),
            done: grown(now.done, before.done),
            failed: grown(now.failed, before.failed),
            retried: grown(now.retried, before.retried),
            waits: waits_since(&now.waits, &before.waits),
            waiting: queue.waiting,
            running: queue.running,
            workers: 0,
        };
        (name.clone(), figures)
    });
    (all, queues.collect())
}

fn sent(event: &PulseEvent) -> Sent {
    let text = serde_json::to_string(event).expect("an event is JSON");
    Arc::new((event.name(), text))
}

/// Beats until `shutdown`, and keeps the history.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut keeper = Keeper::open(&app).await;
    let mut beats = tokio::time::interval(EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            _ = beats.tick() => {}
        }
        match app.pulse.beat_once(&app).await {
            Ok(()) => keeper.keep(&app, false).await,
            Err(Error::Stopping) => break,
            // An engine that is too busy to answer is asked again.
            Err(_) => {}
        }
    }
    keeper.keep(&app, true).await;
}

/// Writes steps that are over to the file.
struct Keeper {
    file: Option<PathBuf>,
    pending: file::Pending,
    told: Option<Instant>,
}

impl Keeper {
    /// Folds what has piled up; a line that a kill cut off is not gone on with.
    async fn open(app: &App) -> Self {
        let file = app.pulse.file.clone();
        if let Some(path) = file.clone() {
            let history = app.pulse.state().history.clone();
            // If it cannot be written, the first step that is over tells it.
            let _ = tokio::task::spawn_blocking(move || file::rewrite(&path, &history)).await;
        }
        Self { file, pending: file::Pending::default(), told: None }
    }

    /// Writes what is over; at the end what is not over too.
    async fn keep(&mut self, app: &App, is_end: bool) {
        let Some(path) = self.file.clone() else { return };
        let mut text = String::new();
        {
            let mut state = app.pulse.state();
            let current = state.overview.time.0 / 1_000_000 / FINE_SEC;
            let first = if state.kept == 0 { current } else { state.kept };
            for number in first..current + u64::from(is_end) {
                if let Some((all, queues)) = state.history.step(number) {
                    text.push_str(&self.pending.add(number, &all, queues));
                }
            }
            state.kept = current;
        }
        if is_end {
            text.push_str(&self.pending.flush());
        }
        if text.is_empty() {
            return;
        }
        let app = app.clone();
        let written = tokio::task::spawn_blocking(move || {
            if file::append(&path, &text)? {
                let history = app.pulse.state().history.clone();
                file::rewrite(&path, &history)?;
            }
            Ok::<_, std::io::Error>(())
        });
        if let Ok(Err(error)) = written.await
            && self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY)
        {
            self.told = Some(Instant::now());
            tracing::warn!("the history of the charts cannot be kept: {error}");
        }
    }
}
