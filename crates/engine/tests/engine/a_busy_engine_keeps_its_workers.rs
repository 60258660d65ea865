//! What a worker says is taken, however long the loop is busy: who is turned away would lose its connection.

use std::sync::mpsc::channel;

use divvy_engine::{Engine, Options, WorkerHello};
use divvy_store::memory::MemoryStore;
use tokio::sync::mpsc;

#[tokio::test(start_paused = true)]
async fn a_heartbeat_and_a_goodbye_wait_until_there_is_room() {
    let options = Options { channel: 1, ..Options::default() };
    let (handle, engine) = Engine::start(Box::new(MemoryStore::new()), options).unwrap();
    let (outbox, _inbox) = mpsc::channel(8);
    let kinds = vec!["noop".into()];
    let hello = WorkerHello { name: "w".into(), kinds, credit: 1, ..WorkerHello::default() };
    let worker = handle.connect(hello, outbox).await.unwrap();

    let (begun, busy) = channel();
    let (let_go, gate) = channel::<()>();
    let stuck = {
        let handle = handle.clone();
        tokio::spawn(async move {
            let look = handle.look(move |_| {
                begun.send(()).unwrap();
                // Whoever lets go may do so by leaving.
                let _ = gate.recv();
            });
            look.await
        })
    };
    while busy.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    handle.heartbeat(worker, vec![]).await.unwrap();
    // The channel is full. A clock that stands still jumps to whatever is waited for, so patience runs out at once.
    let refused = handle.settings().await.unwrap_err();
    assert!(refused.to_string().contains("try again"), "{refused}");
    let mut waiting = Box::pin(async {
        handle.heartbeat(worker, vec![]).await?;
        handle.disconnect(worker).await
    });
    let patience = tokio::time::timeout(std::time::Duration::from_secs(3_600), &mut waiting).await;
    assert!(patience.is_err(), "it waits: {patience:?}");
    tokio::time::resume();
    drop(let_go);
    waiting.await.unwrap();
    stuck.await.unwrap().unwrap();
    assert!(handle.workers().await.unwrap().is_empty(), "the goodbye was heard");
    engine.stopper().stop();
    engine.join().await.unwrap();
}
