//! Schedules from typed tasks, against a private server.

use crate::support::TestServer;
use divvy::prelude::*;
use divvy::types::TaskState;

#[derive(Serialize, Deserialize)]
struct Report {
    days: u32,
}

impl Task for Report {
    const KIND: &'static str = "report";
    type Output = ();
    fn options() -> TaskOptions {
        TaskOptions::new().queue("night").priority(4).retries(2).timeout(Duration::from_secs(60))
    }
}

#[tokio::test]
async fn a_typed_task_is_scheduled_triggered_and_removed() {
    let server = TestServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let schedules = client.schedules();
    let nightly = NewSchedule::cron("0 3 * * *", &Report { days: 7 })
        .unwrap()
        .zone("Europe/Berlin")
        .catch_up(CatchUp::Last)
        .overlap(Overlap::Skip)
        .deadline(Duration::from_secs(3_600))
        .jitter(Duration::from_secs(30));
    // A name with any letters arrives as it is.
    let name = "nightly report/100 %ä";
    let view = schedules.set(name, nightly.clone()).await.unwrap();
    assert_eq!((view.name.as_str(), view.next.len()), (name, 5));
    assert_eq!(view.words, "at 03:00 every day, Europe/Berlin time");
    let task = &view.schedule.task;
    assert_eq!((task.kind.as_str(), task.queue.as_str(), task.priority), ("report", "night", 4));
    assert_eq!((task.terms.retry.limit, task.terms.timeout_ms), (2, Some(60_000)));
    assert_eq!(task.payload.json_text(), Some(r#"{"days":7}"#));
    assert_eq!((task.deadline_ms, view.schedule.jitter_ms), (Some(3_600_000), 30_000));

    assert!(schedules.pause(name).await.unwrap().next.is_empty());
    assert!(schedules.set(name, nightly.clone()).await.unwrap().schedule.is_paused());
    let on = nightly.paused(false);
    assert!(!schedules.set(name, on).await.unwrap().schedule.is_paused());
    schedules.pause(name).await.unwrap();
    assert_eq!(schedules.resume(name).await.unwrap().next.len(), 5);

    let handle = schedules.trigger(name).await.unwrap();
    assert_eq!(handle.detail().await.unwrap().summary.state, TaskState::Ready);
    assert_eq!(schedules.get(name).await.unwrap().last_task, Some(handle.id()));
    assert_eq!(schedules.list().await.unwrap().len(), 1);
    schedules.remove(name).await.unwrap();
    assert_eq!(schedules.remove(name).await.unwrap_err().code(), "no_such_schedule");
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_expression_is_told_with_its_field() {
    let server = TestServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let wrong = NewSchedule::cron("0 25 * * *", &Report { days: 1 }).unwrap();
    let error = client.schedules().set("x", wrong).await.unwrap_err();
    assert_eq!(error.code(), "invalid_field");
    assert!(error.to_string().contains("hours `25`: expected 0 to 23"), "{error}");
    let often = NewSchedule::every(Duration::from_millis(10), &Report { days: 1 }).unwrap();
    let error = client.schedules().set("x", often).await.unwrap_err();
    assert!(error.to_string().contains("expected from 1s to 366d"), "{error}");
    server.stop().await;
}
