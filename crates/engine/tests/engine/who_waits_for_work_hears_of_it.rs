//! Whoever waits for work sleeps until a task becomes ready, and misses none that does between its look and its wait.

use std::time::Duration;

use divvy_engine::Engine;
use divvy_store::MemoryStore;
use divvy_types::{Dependency, TaskId, TaskSpec, Timestamp};

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_becomes_ready_ends_the_wait() {
    let (handle, engine) = Engine::start(Box::new(MemoryStore::new()), Default::default()).unwrap();
    let came = || tokio::time::timeout(PATIENCE, handle.work_came());
    handle.await_work();
    // Before the wait begins.
    handle.submit(vec![TaskSpec::new(TaskId(1), "noop")]).await.unwrap();
    came().await.expect("a submitted task is told");
    handle.await_work();
    let mut blocked = TaskSpec::new(TaskId(2), "noop");
    blocked.after = vec![Dependency { task: TaskId(1), optional: true }];
    handle.submit(vec![blocked]).await.unwrap();
    let mut later = TaskSpec::new(TaskId(3), "noop");
    let soon = handle.look(|core| core.now().plus_ms(30)).await.unwrap();
    later.run_at = Some(soon);
    handle.submit(vec![later]).await.unwrap();
    came().await.expect("a task whose time has come is told");
    let now: Timestamp = handle.look(|core| core.now()).await.unwrap();
    assert!(now >= soon, "what is blocked or waits for its time is no work yet");
    engine.stopper().stop();
    engine.join().await.unwrap();
}
