//! How spans are written: OTLP as JSON, by the mapping of protocol buffers that the standard allows: ids as hexadecimal text,
//! times as text of nanoseconds.

use serde_json::{Value, json};

use super::book::Span;
use crate::app::VERSION;

/// What a span is: something within one program.
const INTERNAL: u32 = 1;
/// How it ended.
const GOOD: u32 = 1;
const BAD: u32 = 2;

/// The body of a request.
pub(super) fn written(spans: &[Span]) -> String {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let resource = [attribute("service.name", "divvy"), attribute("service.version", VERSION)];
    let body = json!({
        "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": { "name": "divvy", "version": VERSION }, "spans": spans }],
        }],
    });
    body.to_string()
}

fn span(span: &Span) -> Value {
    let attributes: Vec<Value> =
        span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let status = match &span.error {
        None => json!({ "code": GOOD }),
        Some(error) => json!({ "code": BAD, "message": error }),
    };
    let mut written = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(span.start.0),
        "endTimeUnixNano": nanos(span.end.0),
        "attributes": attributes,
        "status": status,
    });
    if let Some(parent) = span.parent {
        written["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    written
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanos(micros: u64) -> String {
    (u128::from(micros) * 1_000).to_string()
}

#[cfg(test)]
mod tests {
    use divvy_types::Timestamp;

    use super::*;

    #[test]
    fn a_span_is_written_as_collectors_read_it() {
        let span = Span {
            trace: 0xabc,
            id: 0x12,
            parent: Some(0x9),
            name: "run mail".into(),
            start: Timestamp(1_000_001),
            end: Timestamp(2_000_000),
            attributes: vec![("divvy.queue", "default".into())],
            error: Some("no route".into()),
        };
        let body: Value = serde_json::from_str(&written(&[span])).unwrap();
        let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"], "00000000000000000000000000000abc");
        assert_eq!(
            (&span["spanId"], &span["parentSpanId"]),
            (&json!("0000000000000012"), &json!("0000000000000009"))
        );
        assert_eq!(span["startTimeUnixNano"], "1000001000");
        assert_eq!(span["status"], json!({ "code": 2, "message": "no route" }));
        assert_eq!(span["attributes"][0]["value"]["stringValue"], "default");
    }
}
