//! A store that is full, locked, away, damaged or busy: what waits, what is refused, and what goes on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use divvy_engine::{Engine, Error, Handle, Request};
use divvy_store::sqlite::Options as SqliteOptions;
use divvy_store::{
    Error as StoreError, Maintenance, MemoryStore, Reader, Recovered, Room, SqliteStore, Store,
};
use divvy_types::fact::Replay;
use divvy_types::{Fact, FailureVerdict, TaskId, TaskState, Timestamp, Verdict};

use crate::support::{World, after, done, failed, task};

const PATIENCE: Duration = Duration::from_secs(30);

/// What is wrong with a store.
#[derive(Default)]
struct Troubles {
    /// What the next slices of background work say.
    slices: Mutex<Vec<StoreError>>,
    slices_done: AtomicUsize,
    /// What the next commits say.
    commits: Mutex<Vec<StoreError>>,
    away: Mutex<bool>,
    /// Background work is done up to this time right before the next commit.
    maintain_first: Mutex<Option<Timestamp>>,
    /// Tasks whose rows are damaged.
    damaged: Mutex<BTreeSet<TaskId>>,
}

struct Troubled {
    store: Box<dyn Store>,
    troubles: Arc<Troubles>,
}

fn locked() -> StoreError {
    StoreError::Blocked { path: "divvy.db".into(), message: "database is locked".into() }
}

fn damaged() -> StoreError {
    StoreError::Damaged { path: "history/1.db".into(), place: "table task, row 7".into() }
}

impl Store for Troubled {
    fn epoch(&self) -> u64 {
        self.store.epoch()
    }
    fn last_used(&self) -> Option<Timestamp> {
        self.store.last_used()
    }
    fn recover(&mut self, visit: &mut dyn FnMut(Recovered)) -> Result<(), StoreError> {
        self.store.recover(visit)
    }
    fn commit(&mut self, facts: &[Fact], verdicts: &mut Vec<Verdict>) -> Result<(), StoreError> {
        if let Some(now) = self.troubles.maintain_first.lock().unwrap().take() {
            while self.store.maintain(now, now)? == Maintenance::More {}
        }
        match self.troubles.commits.lock().unwrap().pop() {
            Some(error) => Err(error),
            None => self.store.commit(facts, verdicts),
        }
    }
    fn room(&self) -> Room {
        Room::Enough
    }
    fn in_place(&self) -> Result<(), StoreError> {
        let away = StoreError::Away { path: "d".into(), problem: "divvy.db is not there".into() };
        if *self.troubles.away.lock().unwrap() { Err(away) } else { Ok(()) }
    }
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        let troubles = Arc::clone(&self.troubles);
        Ok(Box::new(reader::Damaging { reader: self.store.reader()?, troubles }))
    }
    fn maintain(&mut self, _: Timestamp, _: Timestamp) -> Result<Maintenance, StoreError> {
        let next = self.troubles.slices.lock().unwrap().pop();
        self.troubles.slices_done.fetch_add(1, SeqCst);
        next.map_or(Ok(Maintenance::Rest), Err)
    }
}

/// A reader for which some rows are damaged.
mod reader {
    use std::sync::Arc;

    use divvy_store::{
        Error, Family, MemberRecord, Members, OpenTask, Reader, TaskPage, TaskRecord, WorkflowPage,
    };
    use divvy_types::{IdEnd, Lane, Name, Payload, Select, Seq, TaskId, TaskState, WorkflowId};

    use super::{Troubles, damaged};

    pub(super) struct Damaging {
        pub(super) reader: Box<dyn Reader>,
        pub(super) troubles: Arc<Troubles>,
    }

    impl Damaging {
        fn look(&self, found: Option<TaskRecord>) -> Result<Option<TaskRecord>, Error> {
            let bad = self.troubles.damaged.lock().unwrap();
            if found.as_ref().is_some_and(|record| bad.contains(&record.spec.id)) {
                return Err(damaged());
            }
            Ok(found)
        }
    }

    impl Reader for Damaging {
        fn find(&mut self, id: TaskId) -> Result<Option<TaskRecord>, Error> {
            let found = self.reader.find(id)?;
            self.look(found)
        }
        fn get(&mut self, seq: Seq) -> Result<Option<TaskRecord>, Error> {
            let found = self.reader.get(seq)?;
            self.look(found)
        }
        fn ids_between(&mut self, a: TaskId, b: TaskId, max: usize) -> Result<Vec<TaskId>, Error> {
            self.reader.ids_between(a, b, max)
        }
        fn ids_ending(&mut self, end: IdEnd, max: usize) -> Result<Vec<TaskId>, Error> {
            self.reader.ids_ending(end, max)
        }
        fn page(
            &mut self,
            select: &Select,
            before: Option<Seq>,
            rows: usize,
        ) -> Result<TaskPage, Error> {
            self.reader.page(select, before, rows)
        }
        fn started_workflows(
            &mut self,
            before: Option<Seq>,
            rows: usize,
        ) -> Result<WorkflowPage, Error> {
            self.reader.started_workflows(before, rows)
        }
        fn upstream(&mut self, of: &[Seq], rows: usize, bytes: usize) -> Result<Family, Error> {
            for seq in of {
                self.get(*seq)?;
            }
            self.reader.upstream(of, rows, bytes)
        }
        fn members(
            &mut self,
            workflow: WorkflowId,
            which: Members,
            visit: &mut dyn FnMut(MemberRecord) -> bool,
        ) -> Result<(), Error> {
            self.reader.members(workflow, which, visit)
        }
        fn workflows(
            &mut self,
            before: Option<WorkflowId>,
            rows: usize,
        ) -> Result<Vec<(WorkflowId, Name)>, Error> {
            self.reader.workflows(before, rows)
        }
        fn checkpoint(&mut self, task: Seq) -> Result<Option<Payload>, Error> {
            self.reader.checkpoint(task)
        }
        fn spilled(
            &mut self,
            lane: Lane,
            after: Option<Seq>,
            rows: usize,
            bytes: usize,
        ) -> Result<Vec<OpenTask>, Error> {
            self.reader.spilled(lane, after, rows, bytes)
        }
        fn final_counts(&mut self) -> Result<Vec<(TaskState, u64)>, Error> {
            self.reader.final_counts()
        }
    }
}

fn start() -> (Handle, Engine, Arc<Troubles>) {
    let troubles = Arc::new(Troubles::default());
    let store = Troubled { store: Box::new(MemoryStore::new()), troubles: Arc::clone(&troubles) };
    let (handle, engine) = Engine::start(Box::new(store), Default::default()).unwrap();
    (handle, engine, troubles)
}

/// Asks again and again until the answer is as expected.
async fn until(what: &str, mut probe: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !probe().await {
        assert!(started.elapsed() < PATIENCE, "{what}");
        tokio::task::yield_now().await;
    }
}

async fn stop(engine: Engine) -> Result<(), Error> {
    engine.stopper().stop();
    tokio::time::timeout(PATIENCE, engine.join()).await.expect("the engine ends")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn background_work_is_done_under_steady_load_and_its_troubles_stop_nothing() {
    let (handle, engine, troubles) = start();
    let full = || StoreError::Full("divvy.db".into());
    troubles.slices.lock().unwrap().extend([locked(), full()]);
    let mut id = 0;
    until("no slice in spite of the load", async || {
        id += 1;
        handle.submit(vec![task(id)]).await.expect("the engine goes on");
        troubles.slices_done.load(SeqCst) >= 3
    })
    .await;
    assert!(troubles.slices.lock().unwrap().is_empty());
    stop(engine).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_while_the_data_folder_is_away() {
    let (handle, engine, troubles) = start();
    handle.submit(vec![task(1)]).await.unwrap();
    *troubles.away.lock().unwrap() = true;
    for id in 2..=3 {
        let refused = handle.submit(vec![task(id)]).await.unwrap_err();
        assert_eq!(refused.code(), "store_unavailable");
        assert!(refused.to_string().contains("divvy.db is not there"), "{refused}");
    }
    for _ in 0..2 {
        let refused = handle.pause_queue("q".into(), true).await.unwrap_err();
        assert_eq!(refused.code(), "store_unavailable");
    }
    assert!(handle.store_problem().is_some() && handle.is_running());
    assert!(handle.stats().await.unwrap().store_problem.is_some());
    *troubles.away.lock().unwrap() = false;
    until("it is back and still refused", async || handle.submit(vec![task(4)]).await.is_ok())
        .await;
    assert!(handle.store_problem().is_none());
    let again = handle.submit(vec![task(2)]).await.unwrap();
    assert_eq!(again.known, 1, "what was being written is recorded after all");
    *troubles.away.lock().unwrap() = true;
    handle.submit(vec![task(5)]).await.unwrap_err();
    let ended = stop(engine).await.unwrap_err();
    assert!(ended.to_string().contains("was not acknowledged"), "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_store_is_waited_for_and_a_failed_sync_is_fatal() {
    let (handle, engine, troubles) = start();
    troubles.commits.lock().unwrap().extend([locked(), locked()]);
    assert_eq!(handle.submit(vec![task(1)]).await.unwrap().accepted, 1);
    assert!(troubles.commits.lock().unwrap().is_empty());
    let broken = StoreError::Io { path: "divvy.db".into(), message: "fsync failed".into() };
    troubles.commits.lock().unwrap().push(broken);
    assert!(matches!(handle.submit(vec![task(2)]).await, Err(Error::Stopping)));
    let ended = tokio::time::timeout(PATIENCE, engine.join()).await.expect("ends");
    assert!(ended.unwrap_err().to_string().contains("fsync failed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_row_concerns_who_asks_for_it() {
    let (handle, engine, troubles) = start();
    handle.submit(vec![task(1), task(2)]).await.unwrap();
    for id in [1, 2] {
        handle.cancel(TaskId(id), "enough".into()).await.unwrap();
    }
    troubles.damaged.lock().unwrap().insert(TaskId(1));
    let mut spec = task(1);
    spec.priority = 5;
    let errors = [
        handle.submit(vec![spec]).await.unwrap_err(),
        handle.submit(vec![task(7), after(8, &[1])]).await.unwrap_err(),
        handle.cancel(TaskId(1), "again".into()).await.unwrap_err(),
        handle.retry(TaskId(1)).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), "store_failed");
        assert!(error.to_string().contains("table task, row 7"), "{error}");
    }
    assert_eq!(handle.submit(vec![task(7)]).await.unwrap().accepted, 1, "nothing was left behind");
    assert_eq!(handle.retry(TaskId(2)).await.unwrap(), TaskState::Ready);
    let stats = handle.stats().await.unwrap();
    assert_eq!(stats.failed_reads, 4);
    stop(engine).await.unwrap();
}

/// An engine without threads on a store of files in a folder, whose troubles the test makes.
fn by_hand(folder: &tempfile::TempDir, now: Timestamp) -> (World, Arc<Troubles>) {
    let troubles = Arc::new(Troubles::default());
    let options = SqliteOptions { history_after: Duration::ZERO, ..SqliteOptions::default() };
    let store = Box::new(SqliteStore::open(folder.path(), options).unwrap());
    let store = Troubled { store, troubles: Arc::clone(&troubles) };
    (World::on(Box::new(store), now), troubles)
}

const NOON: Timestamp = Timestamp(1_800_000_000_000_000);
const LATER: Timestamp = Timestamp(NOON.0 + 60 * 86_400_000_000);

#[test]
fn a_dead_letter_that_retention_has_just_deleted_can_be_replayed_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, troubles) = by_hand(&folder, NOON);
    let mut worker = world.join("w", 2, vec![]);
    world.submit(vec![task(1), task(2)]).unwrap();
    for granted in worker.grants() {
        world.report(&worker, granted.spec.id, granted.token, failed(FailureVerdict::Dead));
    }
    *troubles.maintain_first.lock().unwrap() = Some(LATER);
    let (id, replay) = (TaskId(1), Box::<Replay>::default());
    world.ask(|reply| Request::Replay { id, replay, reply }).expect("the replay wins");
    let granted = worker.grants().remove(0);
    world.finish(&worker, &granted);
    let gone = world.ask(|reply| Request::DropDead { id: TaskId(2), reply }).unwrap_err();
    assert_eq!(gone.code(), "not_found");
    world.submit(vec![task(3)]).unwrap();
    let granted = worker.grants().remove(0);
    world.report(&worker, TaskId(3), granted.token, failed(FailureVerdict::Dead));
    *troubles.maintain_first.lock().unwrap() = Some(LATER);
    world.ask(|reply| Request::DropDead { id: TaskId(3), reply }).expect("it is gone either way");
}

#[test]
fn a_dependent_is_told_that_the_result_of_a_parent_is_not_kept_any_more() {
    for restarted in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (mut world, troubles) = by_hand(&folder, NOON);
        let mut worker = world.join("w", 1, vec![]);
        let mut dependent = after(3, &[1, 2]);
        dependent.run_at = Some(LATER);
        world.submit(vec![task(1), task(2), dependent]).unwrap();
        for _ in 0..2 {
            let granted = worker.grants().remove(0);
            world.report(&worker, granted.spec.id, granted.token, done("7"));
        }
        *troubles.maintain_first.lock().unwrap() = Some(LATER);
        world.submit(vec![task(4)]).unwrap();
        let granted = worker.grants().remove(0);
        world.finish(&worker, &granted);
        if restarted {
            drop(world);
            world = by_hand(&folder, NOON).0;
            worker = world.join("w", 1, vec![]);
        }
        world.now = LATER;
        world.engine.pass_time(world.now).unwrap();
        let granted = worker.grants().remove(0);
        assert_eq!(granted.spec.id, TaskId(3));
        assert!(granted.upstream_cut && granted.upstream.is_empty(), "{granted:?}");
    }
}

#[test]
fn a_task_whose_inputs_are_damaged_fails_and_the_engine_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, troubles) = by_hand(&folder, NOON);
    let mut worker = world.join("w", 1, vec![]);
    let mut dependent = after(2, &[1]);
    dependent.retry.limit = 0;
    let mut last = task(3);
    last.priority = 1;
    world.submit(vec![task(1), dependent, last]).unwrap();
    let granted = worker.grants().remove(0);
    troubles.damaged.lock().unwrap().insert(TaskId(1));
    world.finish(&worker, &granted);
    let granted = worker.grants();
    assert_eq!(granted.iter().map(|g| g.spec.id).collect::<Vec<_>>(), [TaskId(3)]);
    assert_eq!(world.state(TaskId(2)), None, "it is a dead letter");
}
