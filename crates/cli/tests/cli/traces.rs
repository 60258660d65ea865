//! Traces: a collector of OTLP over HTTP gets the whole trace of a workflow, and programs know their place in it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::stack::{Folder, Server, until};

/// A collector that keeps every span. It answers badly once, as one that starts does.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector = self.clone();
        std::thread::spawn(move || {
            let mut starts = true;
            for stream in listener.incoming().flatten() {
                let _ = collector.take(stream, std::mem::replace(&mut starts, false));
            }
        });
        address
    }

    /// Answers the requests of one connection.
    fn take(&self, stream: TcpStream, mut refuses: bool) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let (mut first, mut length) = (String::new(), 0);
            if reader.read_line(&mut first)? == 0 {
                return Ok(());
            }
            assert!(first.starts_with("POST /v1/traces "), "{first}");
            loop {
                let mut line = String::new();
                reader.read_line(&mut line)?;
                let line = line.trim().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let status = if std::mem::replace(&mut refuses, false) {
                "503 Service Unavailable"
            } else {
                self.keep(&serde_json::from_slice(&body).unwrap());
                "200 OK"
            };
            write!(
                &stream,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
            )?;
        }
    }

    fn keep(&self, body: &Value) {
        let list = |value: &Value| value.as_array().unwrap().clone();
        for resource in list(&body["resourceSpans"]) {
            assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "divvy");
            for scope in list(&resource["scopeSpans"]) {
                self.spans.lock().unwrap().extend(list(&scope["spans"]));
            }
        }
    }
}

/// A program that returns its place, and fails at first if it is asked to.
const PLACE: &str = r#"#!/bin/sh
if grep -q fail && [ "$DIVVY_ATTEMPT" = 1 ]; then exit 75; fi
printf '"%s"' "$TRACEPARENT"
"#;

const WORKFLOW: &str = "
name: pair
tasks:
  first: {kind: place, payload: fail, retry: {base_ms: 1}}
  second: {kind: place, after: [first]}
";

#[test]
fn a_collector_gets_the_whole_trace_of_a_workflow_and_programs_know_their_place_in_it() {
    let collector = Collector::default();
    let folder = Folder::new();
    folder.write("place.sh", PLACE);
    let program = folder.path().join("place.sh");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder.write("w.yaml", WORKFLOW);
    let url = collector.listen();
    let args = ["up", "--workers", "1", "--exec", "place=./place.sh", "--otlp", &url];
    let server = Server::start(folder, &args);
    let done = server.run(&["run", "w.yaml", "--wait", "--json"]).expect(0).json().remove(0);
    let spans = until("the span of the workflow comes", || {
        let spans = collector.spans.lock().unwrap().clone();
        let is_whole = |span: &Value| span["name"] == "workflow pair";
        spans.iter().any(is_whole).then_some(spans)
    });
    let trace = done["workflow"].as_str().unwrap().replace('-', "");
    assert!(spans.iter().all(|span| span["traceId"] == trace.as_str()), "one trace: {spans:?}");
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for span in &spans {
        *names.entry(span["name"].as_str().unwrap()).or_default() += 1;
    }
    let whole = [("run place", 3), ("task place", 2), ("wait place", 3), ("workflow pair", 1)];
    assert_eq!(names, BTreeMap::from(whole), "{spans:?}");

    let by_id: BTreeMap<&str, &Value> =
        spans.iter().map(|span| (span["spanId"].as_str().unwrap(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "no id twice");
    for span in &spans {
        let parent = span["parentSpanId"].as_str().map(|id| by_id[id]["name"].as_str().unwrap());
        let expected = match span["name"].as_str().unwrap() {
            "workflow pair" => None,
            "task place" => Some("workflow pair"),
            _ => Some("task place"),
        };
        assert_eq!(parent, expected, "{span}");
        let time = |field: &str| span[field].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
    }
    let failed: Vec<&Value> = spans.iter().filter(|span| span["status"]["code"] == 2).collect();
    assert_eq!(failed.len(), 1, "the attempt that failed, and nothing else");
    assert_eq!(failed[0]["name"], "run place");
    for name in ["first", "second"] {
        let task = server.task(done["tasks"][name]["id"].as_str().unwrap());
        let place = task["result"].as_str().unwrap();
        let span =
            place.strip_prefix(&format!("00-{trace}-")).unwrap().strip_suffix("-01").unwrap();
        let span = by_id[span];
        assert_eq!(
            (&span["name"], &span["status"]["code"]),
            (&"run place".into(), &1.into()),
            "{name}"
        );
    }
}
