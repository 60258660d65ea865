//! A list and a bulk action find every task that fits, however many others stand before it and wherever it waits.

use divvy_engine::{Bulk, BulkAction, Engine, Handle, Options};
use divvy_store::Store;
use divvy_store::sqlite::{Options as StoreOptions, SqliteStore};
use divvy_types::{Select, TaskId, TaskSpec, TaskState};

/// More than one look at the store covers.
const HAY: u128 = 20_001;

fn named(kind: &str, state: &[TaskState]) -> Select {
    Select { kind: Some(kind.into()), state: state.to_vec(), ..Select::default() }
}

/// All that fit, page by page, and how many pages that took.
async fn all(handle: &Handle, select: &Select) -> (Vec<TaskId>, usize) {
    let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = handle.tasks(select.clone(), 4, after).await.unwrap();
        found.extend(page.items.iter().map(|task| task.id));
        assert!(!page.partial, "everything is found along an index: {select:?}");
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            return (found, pages);
        }
    }
}

async fn check(store: Box<dyn Store>, window_tasks: usize) {
    let options = Options { window_tasks, ..Options::default() };
    let (handle, engine) = Engine::start(store, options).unwrap();
    let mut needle = TaskSpec::new(TaskId(1), "needle");
    needle.tags = vec!["t".into()];
    handle.submit(vec![needle]).await.unwrap();
    let hay: Vec<u128> = (2..2 + HAY).collect();
    for part in hay.chunks(5_000) {
        let specs = part.iter().map(|n| TaskSpec::new(TaskId(*n), "hay")).collect();
        handle.submit(specs).await.unwrap();
    }
    let four = (100_000..100_004).map(|n| {
        let mut spec = TaskSpec::new(TaskId(n), "four");
        spec.tags = vec!["t".into(), "u".into()];
        spec
    });
    handle.submit(four.collect()).await.unwrap();

    for state in [vec![], vec![TaskState::Ready], vec![TaskState::Ready, TaskState::Leased]] {
        let select = named("needle", &state);
        let needle = all(&handle, &select).await;
        assert_eq!(needle, (vec![TaskId(1)], 1), "its page is the last and says so: {select:?}");
        let (found, pages) = all(&handle, &named("four", &state)).await;
        assert_eq!((found.len(), pages), (4, 1), "a full page that is the last says so");
    }
    let none = all(&handle, &named("needle", &[TaskState::Blocked])).await;
    assert_eq!(none, (vec![], 1));
    let (found, pages) = all(&handle, &Select { tag: Some("t".into()), ..Select::default() }).await;
    assert_eq!((found.len(), pages), (5, 2), "no page is empty");
    let error = Select { error: Some("nowhere".into()), ..Select::default() };
    assert_eq!(all(&handle, &error).await, (vec![], 1), "nothing has failed");
    let cancel = Bulk {
        action: BulkAction::Cancel,
        select: named("needle", &[]),
        priority: 3,
        reason: "by filter".into(),
        dry_run: false,
        limit: usize::MAX,
        after: None,
    };
    let report = handle.bulk(cancel).await.unwrap();
    assert_eq!((report.matched, report.done, report.next), (1, 1, None));
    engine.stopper().stop();
    engine.join().await.unwrap();
}

#[tokio::test]
async fn in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), StoreOptions::default()).unwrap();
    check(Box::new(store), 100_000).await;
}

#[tokio::test]
async fn with_most_of_them_in_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), StoreOptions::default()).unwrap();
    check(Box::new(store), 200).await;
}
