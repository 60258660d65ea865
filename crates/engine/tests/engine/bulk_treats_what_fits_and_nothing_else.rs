//! Many tasks by filter: counted first, treated in slices, gone on with after an interruption.

use divvy_engine::{Bulk, BulkAction, Engine, Handle, Options};
use divvy_store::MemoryStore;
use divvy_types::{Select, TaskId, TaskSpec, TaskState};

fn bulk(action: BulkAction) -> Bulk {
    Bulk {
        action,
        select: Select::default(),
        reason: "by filter".into(),
        priority: 5,
        dry_run: false,
        limit: usize::MAX,
        after: None,
    }
}

fn task(n: u128) -> TaskSpec {
    let mut spec = TaskSpec::new(TaskId(n), if n.is_multiple_of(2) { "even" } else { "odd" });
    spec.queue = if n <= 1_500 { "first".into() } else { "last".into() };
    spec
}

async fn open(handle: &Handle) -> usize {
    let bulk = Bulk { dry_run: true, ..bulk(BulkAction::Cancel) };
    handle.bulk(bulk).await.unwrap().matched as usize
}

async fn check(window_tasks: usize) {
    let options = Options { window_tasks, ..Options::default() };
    let (handle, engine) = Engine::start(Box::new(MemoryStore::new()), options).unwrap();
    handle.submit((1..=3_000).map(task).collect()).await.unwrap();

    let first = Select { queue: Some("first".into()), ..Select::default() };
    let first = Bulk { select: first, ..bulk(BulkAction::Cancel) };
    let dry = handle.bulk(Bulk { dry_run: true, ..first.clone() }).await.unwrap();
    assert_eq!((dry.matched, dry.done, dry.next), (1_500, 0, None));
    assert_eq!(dry.by_kind.values().collect::<Vec<_>>(), [&750, &750]);
    assert_eq!(dry.by_state.get("ready"), Some(&1_500));
    assert_eq!((dry.sample.len(), dry.sample[0]), (20, TaskId(1_500)));
    assert_eq!(open(&handle).await, 3_000, "a dry run changes nothing");

    let part = handle.bulk(Bulk { limit: 1_100, ..first.clone() }).await.unwrap();
    assert_eq!((part.matched, part.done), (1_100, 1_100));
    let rest = handle.bulk(Bulk { after: part.next, ..first.clone() }).await.unwrap();
    assert_eq!((rest.matched, rest.done, rest.next), (400, 400, None));
    assert_eq!(open(&handle).await, 1_500);
    let again = handle.bulk(first).await.unwrap();
    assert_eq!((again.matched, again.done), (0, 0), "who asks again finds nothing left");

    let usual = handle.bulk(bulk(BulkAction::Retry)).await.unwrap();
    assert_eq!(usual.matched, 0, "cancelled tasks are retried only if that is said");
    let even =
        Select { state: vec![TaskState::Cancelled], kind: Some("ev*".into()), ..Select::default() };
    let even = Bulk { select: even, ..bulk(BulkAction::Retry) };
    let retried = handle.bulk(even).await.unwrap();
    assert_eq!((retried.matched, retried.done), (750, 750));
    let old = Select { older_than_ms: Some(86_400_000), ..Select::default() };
    let old = Bulk { select: old, ..bulk(BulkAction::Cancel) };
    assert_eq!(handle.bulk(old).await.unwrap().matched, 0, "none is that old");
    engine.stopper().stop();
    engine.join().await.unwrap();
}

#[tokio::test]
async fn in_memory() {
    check(100_000).await;
}

#[tokio::test]
async fn with_most_of_them_in_the_store() {
    check(200).await;
}
