//! The loop over all pools: look, decide, tell the drivers. It looks every second while a pool has something to do. While
//! all rest it looks when something happens, and for pools that forecast every five minutes.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use divvy_engine::Error;
use divvy_types::pools::Driver;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::driver::{Order, carry_out};
use super::{memory, sampling};
use crate::app::App;

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// The least time between two looks, however much happens.
const PAUSE: Duration = Duration::from_millis(100);
/// How often what was learnt is kept while pools have something to do.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// Runs until `shutdown`, then keeps what was learnt.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    if let Some(path) = app.scale.scaling.file.clone() {
        // What cannot be read was told, and is learnt anew.
        let kept = tokio::task::spawn_blocking(move || memory::read(&path)).await;
        app.scale.remember(kept.unwrap_or_default());
    }
    let (mut rests, mut keep) = (false, Keeper { last: Instant::now(), is_due: false });
    loop {
        // Before the look: what becomes ready after it ends the wait.
        app.handle.await_work();
        match round(&app, rests).await {
            Ok(round) => {
                rests = round.rests;
                keep.is_due |= round.changed;
                keep.now_and_then(&app, !rests).await;
            }
            Err(Error::Stopping) => break,
            // An engine that is too busy to answer is asked again.
            Err(_) => rests = false,
        }
        let has_pools = app.scale.has_pools();
        let ahead = app.scale.next_look().filter(|_| rests);
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = app.scale.wake.notified() => {}
            () = app.settings_file.changed() => {}
            () = app.handle.work_came(), if rests && has_pools => {}
            () = sleep(EVERY), if !rests => {}
            () = sleep(ahead.unwrap_or_default()), if ahead.is_some() => {}
        }
        sleep(PAUSE).await;
    }
    if app.scale.has_pools() {
        keep.now(&app).await;
    }
}

struct Round {
    rests: bool,
    changed: bool,
}

async fn round(app: &App, rested: bool) -> Result<Round, Error> {
    let (own, known) = (app.scale.scaling.own.clone(), app.scale.known());
    let (pools, seen) = app
        .handle
        .look(move |core| {
            let scheduler = core.scheduler();
            let mut pools = own;
            pools.extend(scheduler.settings().pools.clone());
            let seen = if pools.is_empty() {
                Default::default()
            } else {
                sampling::look(scheduler, core.now(), &pools, &known)
            };
            (pools, seen)
        })
        .await?;
    let requests = app.requests.load(Relaxed);
    let taken = app.scale.take(pools, seen, requests, rested, EVERY);
    let changed = !taken.events.is_empty();
    for event in taken.events {
        let (from, to) = (event.from, event.decision.total());
        let leaving = event.leaving.as_deref();
        let (pool, reason) = (&event.pool, event.decision.why());
        tracing::info!(%pool, from, to, leaving, "workers wanted: {reason}");
        app.scale.events.extend([event.into()]);
    }
    for (worker, rests) in taken.rests {
        match app.handle.pause_worker(worker, rests).await {
            // Who has gone by itself needs no rest.
            Ok(_) | Err(Error::NoSuchWorker(_)) => {}
            Err(error) => return Err(error),
        }
    }
    for order in taken.orders {
        tell(app, order).await;
    }
    Ok(Round { rests: app.scale.is_at_rest(), changed })
}

/// Tells a driver. One that may take long is not waited for: its answer wakes the loop.
async fn tell(app: &App, order: Order) {
    let pool = order.pool.clone();
    if matches!(order.settings.driver, Driver::Local | Driver::Print) {
        let answer = carry_out(order, &app.scale.scaling.local).await;
        return app.scale.answered(&pool, answer);
    }
    let app = app.clone();
    tokio::spawn(async move {
        let answer = carry_out(order, &app.scale.scaling.local).await;
        if let Err(problem) = &answer {
            tracing::warn!(%pool, "cannot scale: {problem}");
        }
        app.scale.answered(&pool, answer);
        app.scale.wake();
    });
}

/// When what was learnt was kept.
struct Keeper {
    last: Instant,
    is_due: bool,
}

impl Keeper {
    /// Keeps it after a change, and every minute of work; not twice within a second.
    async fn now_and_then(&mut self, app: &App, works: bool) {
        let since = self.last.elapsed();
        if (self.is_due && since >= EVERY) || (works && since >= KEEP_EVERY) {
            self.now(app).await;
        }
    }

    async fn now(&mut self, app: &App) {
        (self.last, self.is_due) = (Instant::now(), false);
        let Some(path) = app.scale.scaling.file.clone() else { return };
        let kept = app.scale.to_keep();
        // A write that fails has been told, and is tried again.
        let _ = tokio::task::spawn_blocking(move || memory::write(&path, kept)).await;
    }
}
