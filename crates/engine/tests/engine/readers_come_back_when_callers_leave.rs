//! A caller that leaves in the middle of a read, such as a browser that is closed, costs nobody else a connection.

use std::time::Duration;

use divvy_engine::Engine;
use divvy_engine::runner::Options;
use divvy_store::sqlite::{Options as StoreOptions, SqliteStore};
use divvy_types::Select;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_go_on_after_many_were_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), StoreOptions::default()).unwrap();
    let options = Options { readers: 1, ..Options::default() };
    let (handle, engine) = Engine::start(Box::new(store), options).unwrap();
    for round in 0..2_000u64 {
        let read = || handle.tasks(Select::default(), 10, None);
        let early = Duration::from_micros(round % 50);
        // Given up at a random moment of the read, or done: either is fine.
        let _ = tokio::time::timeout(early, read()).await;
        read().await.expect("the next read has its connection");
    }
    engine.stopper().stop();
    engine.join().await.unwrap();
}
