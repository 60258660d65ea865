//! Submission over gRPC: statuses, streams that survive a bad batch, and garbage.

use bytes::Bytes;
use divvy_proto::v1::{SubmitReply, SubmitRequest};
use divvy_proto::{granted_spec_from_wire, spec_to_wire};
use divvy_types::{
    Dependency, ErrorClass, Matching, OnConflict, RetryPolicy, RetryRule, TaskId, TaskSpec, Terms,
    Timestamp, Unique,
};
use tokio_stream::StreamExt as _;
use tonic::Code;

use crate::world::{World, hello, id, soon};

fn batch(specs: &[TaskSpec]) -> SubmitRequest {
    SubmitRequest { tasks: specs.iter().map(spec_to_wire).collect(), strict: false }
}

fn task(number: u128) -> TaskSpec {
    TaskSpec::new(TaskId(number), "noop")
}

#[tokio::test]
async fn each_refusal_has_its_status_and_its_code() {
    let world = World::start().await;
    let mut client = world.submitter().await;
    let reply = client.submit(batch(&[task(1), task(2)])).await.unwrap().into_inner();
    assert_eq!(reply, SubmitReply { accepted: 2, known: 0, ..SubmitReply::default() });
    let reply = client.submit(batch(&[task(2), task(3)])).await.unwrap().into_inner();
    assert_eq!(reply, SubmitReply { accepted: 1, known: 1, ..SubmitReply::default() });

    let mut other = task(2);
    other.priority = 5;
    let mut orphan = task(6);
    orphan.after = vec![Dependency { task: TaskId(404), optional: false }];
    let mut long = task(5);
    long.kind = "k".repeat(200).into();
    let mut short_id = batch(&[task(5)]);
    short_id.tasks[0].id = Bytes::from_static(b"short");
    let mut not_json = batch(&[task(5)]);
    not_json.tasks[0].payload = Bytes::from_static(b"{");
    let mut unheard_of = batch(&[task(5)]);
    unheard_of.tasks[0].matching = 77;
    let cases = [
        (unheard_of, Code::InvalidArgument, "invalid_field", "matching is 77"),
        (batch(&[other]), Code::AlreadyExists, "id_taken", "is taken"),
        (batch(&[task(5), orphan]), Code::InvalidArgument, "unknown_dependency", "not known"),
        (batch(&[long]), Code::InvalidArgument, "invalid_field", "kind has 200 characters"),
        (short_id, Code::InvalidArgument, "invalid_field", "id has 5 bytes"),
        (not_json, Code::InvalidArgument, "invalid_field", "payload is not valid JSON"),
        (batch(&vec![task(5); 10_001]), Code::InvalidArgument, "batch_too_large", "10001 tasks"),
    ];
    for (request, code, name, words) in cases {
        let status = client.submit(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert_eq!(status.metadata().get("divvy-code").unwrap(), name);
        assert!(status.message().contains(words), "{status}");
    }
    world.get(&format!("/api/v1/tasks/{}", id(5))).await.refused(404, "not_found");
}

#[tokio::test]
async fn what_is_said_about_a_task_reaches_the_worker() {
    let world = World::start().await;
    let rule =
        RetryRule { class: Some(ErrorClass::Timeout), limit: Some(0), ..RetryRule::default() };
    let terms = Terms {
        matching: Some(Matching::Exact),
        deadline: Some(Timestamp(9_000_000_000_000_000)),
        timeout_ms: Some(9),
        retry: RetryPolicy { rules: vec![rule], ..RetryPolicy::default() },
        unique: Some(Unique {
            key: "report".into(),
            window_ms: None,
            on_conflict: OnConflict::Skip,
        }),
        fair_key: Some("acme".into()),
        affinity: Some("clip".into()),
        cost_hint: Some(0),
        ..Terms::default()
    };
    let spec = TaskSpec { terms: terms.into(), ..task(1) };
    let request = batch(std::slice::from_ref(&spec));
    world.submitter().await.submit(request).await.unwrap();
    let mut worker = world.worker(hello("w", &["noop"])).await.unwrap();
    let granted = worker.granted().await.task.unwrap();
    assert_eq!(granted_spec_from_wire(granted).unwrap(), spec);
}

#[tokio::test]
async fn a_stream_answers_in_order_and_survives_a_bad_batch() {
    let world = World::start().await;
    let mut client = world.submitter().await;
    let mut batches = Vec::new();
    for number in 1..=100u128 {
        let mut spec = task(number);
        if number % 10 == 0 {
            spec.kind = "".into();
        } else if number > 1 && number % 10 != 1 {
            // Each waits for the one before, which came in an earlier batch of the same stream.
            spec.after = vec![Dependency { task: TaskId(number - 1), optional: true }];
        }
        batches.push(batch(&[spec]));
    }
    let replies = client.submit_stream(tokio_stream::iter(batches)).await.unwrap().into_inner();
    let replies: Vec<SubmitReply> =
        soon("the replies", replies.map(Result::unwrap).collect()).await;
    assert_eq!(replies.len(), 100);
    for (at, reply) in replies.iter().enumerate() {
        match &reply.refusal {
            Some(refusal) => {
                assert_eq!((at + 1) % 10, 0, "{refusal:?}");
                assert_eq!(refusal.code, "invalid_field");
                assert!(refusal.message.contains("kind is empty"));
            }
            None => assert_eq!(reply.accepted, 1, "batch {}", at + 1),
        }
    }
    assert_eq!(world.get("/api/v1/stats").await.ok()["engine"]["submitted"], 90);
}

#[tokio::test]
async fn garbage_is_refused_and_the_server_goes_on() {
    let world = World::start().await;
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let bodies: [&[u8]; 5] = [
        b"\0\0\0\0\x05\xff\xff\xff\xff\xff",
        b"\0\0\0\0\x7fshort",
        b"\0\xff\xff\xff\xff",
        b"\x01\0\0\0\x01x",
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for body in bodies {
        let request = client
            .post(world.url("/divvy.v1.Submit/Submit"))
            .header("content-type", "application/grpc");
        let response = request.header("te", "trailers").body(body).send().await.unwrap();
        let status = response
            .headers()
            .get("grpc-status")
            .expect("a status at once")
            .to_str()
            .unwrap()
            .to_owned();
        assert_ne!(status, "0", "{body:?}");
    }
    let request = client
        .post(world.url("/divvy.v1.Submit/Nothing"))
        .header("content-type", "application/grpc");
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "12");
    let request =
        client.post(world.url("/divvy.v2.Else/Nothing")).header("content-type", "application/grpc");
    assert_eq!(request.send().await.unwrap().headers()["grpc-status"], "12");
    assert_eq!(world.get("/api/v1/stats").await.ok()["engine"]["submitted"], 0);
}

#[tokio::test]
async fn late_tasks_are_named_and_a_strict_batch_is_refused() {
    let world = World::start().await;
    let mut client = world.submitter().await;
    let mut late = task(1);
    late.deadline = Some(Timestamp(1_000_000));
    let strict = SubmitRequest { strict: true, ..batch(&[late.clone(), task(2)]) };
    let status = client.submit(strict).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert_eq!(status.metadata().get("divvy-code").unwrap(), "deadline_unmeetable");
    world.get(&format!("/api/v1/tasks/{}", id(2))).await.refused(404, "not_found");
    let reply = client.submit(batch(&[late, task(2)])).await.unwrap().into_inner();
    assert_eq!((reply.accepted, reply.late_total), (2, 1));
    assert_eq!(TaskId::from_slice(&reply.late[0].task), Some(TaskId(1)));
    assert_eq!(reply.late[0].deadline_us, 1_000_000);
    assert!(reply.late[0].expected_end_us > 1_000_000);
}
