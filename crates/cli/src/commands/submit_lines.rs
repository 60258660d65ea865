//! `divvy submit --from FILE`: many tasks from lines of JSON, each a payload or a whole task.
//!
//! Lines are read, checked and sent in batches, so a file may be larger than memory. A batch is sent again as it is when
//! the server is busy or away for a moment; its ids are made before, so nothing is submitted twice. With a key the ids
//! are the same in the next run too: what was taken is then known, and a run that was cut off goes on.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use divvy::api::{Api, Error, Patience};
use divvy_types::limits::PAYLOAD_BYTES_MAX;
use divvy_types::{NewTask, Payload, Submitted, TaskId, TaskSpec};
use serde_json::{Value, json};

use super::Context;
use super::submit::{described, give_moments};
use crate::args::submit::Submit;
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::output::ids::fresh;
use crate::output::words;

/// Tasks of one request, and what their lines may have together.
const BATCH_TASKS: usize = 2_000;
const BATCH_BYTES: usize = 8 << 20;
/// A line is a payload, and in a whole task whatever else that has.
const LINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (256 << 10);
/// Between two notes on how far it is.
const NOTE_EVERY: Duration = Duration::from_secs(3);

/// Submits every line.
pub(super) async fn run(args: &Submit, source: &str, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let mut lines = Lines::open(source)?;
    let name = lines.name.clone();
    let maker = Maker::new(args)?;
    let mut sums = Sums::default();
    let mut batch = Batch::default();
    loop {
        let line = lines.next().map_err(|error| sums.explain(error, args))?;
        let Some((number, text)) = line else { break };
        let spec = maker.task(number, text);
        let spec = spec.map_err(|problem| {
            sums.explain(Failure::usage(format!("{name}:{number}: {problem}")).into(), args)
        })?;
        batch.push(number, spec, text.len());
        if batch.is_full() {
            batch.send(&api, &name, &mut sums, output).await.map_err(|e| sums.explain(e, args))?;
        }
    }
    if !batch.specs.is_empty() {
        batch.send(&api, &name, &mut sums, output).await.map_err(|e| sums.explain(e, args))?;
    }
    if !output.is_json() && !output.is_quiet() {
        output.data(sums.told())?;
    }
    Ok(Code::Done)
}

/// Lines of a file or of standard input, of a bounded length.
struct Lines {
    name: String,
    reader: Box<dyn BufRead + Send>,
    number: u64,
    line: Vec<u8>,
}

impl Lines {
    fn open(source: &str) -> Result<Self> {
        let (name, reader): (&str, Box<dyn BufRead + Send>) = match source {
            "-" => ("(standard input)", Box::new(BufReader::new(io::stdin()))),
            path => {
                let file = File::open(path).map_err(|error| {
                    let code = if error.kind() == io::ErrorKind::NotFound {
                        Code::NotFound
                    } else {
                        Code::Usage
                    };
                    Failure::new(code, format!("cannot read {path}: {error}"))
                })?;
                (path, Box::new(BufReader::new(file)))
            }
        };
        Ok(Self { name: name.to_owned(), reader, number: 0, line: Vec::new() })
    }

    /// The next line that says something, and its number.
    fn next(&mut self) -> Result<Option<(u64, &str)>> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = (&mut self.reader).take(LINE_BYTES_MAX as u64 + 1);
            let read = bounded.read_until(b'\n', &mut self.line);
            if read.with_context(|| format!("cannot read {}", self.name))? == 0 {
                return Ok(None);
            }
            let place = || format!("{}:{}", self.name, self.number);
            if self.line.len() > LINE_BYTES_MAX {
                let text = format!("{}: the line has more than {LINE_BYTES_MAX} bytes", place());
                return Err(Failure::usage(text).into());
            }
            if self.line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            // The place is made before the line is lent out.
            let problem = format!("{}: the line is not UTF-8", place());
            return match std::str::from_utf8(&self.line) {
                Ok(text) => Ok(Some((self.number, text.trim()))),
                Err(_) => Err(Failure::usage(problem).into()),
            };
        }
    }
}

/// Makes tasks of lines.
struct Maker {
    /// What all of them have; nothing if each line says all.
    common: Option<TaskSpec>,
    key: Option<String>,
    key_field: Option<String>,
}

impl Maker {
    fn new(args: &Submit) -> Result<Self> {
        let common = match &args.kind {
            Some(kind) => {
                let mut spec = described(kind, &args.terms)?;
                give_moments(&mut spec, args, words::now());
                spec.validate().map_err(|error| Failure::usage(error.to_string()))?;
                Some(spec)
            }
            None => None,
        };
        Ok(Self { common, key: args.key.clone(), key_field: args.key_field.clone() })
    }

    /// The task of a line, or what is wrong with it.
    fn task(&self, number: u64, line: &str) -> Result<TaskSpec, String> {
        let id = self.id(number, line)?;
        let spec = match &self.common {
            Some(common) => {
                let payload =
                    Payload::json(line.to_owned()).map_err(|error| format!("payload {error}"))?;
                TaskSpec { id: id.unwrap_or_else(|| TaskId(fresh())), payload, ..common.clone() }
            }
            None => {
                let task: NewTask =
                    serde_json::from_str(line).map_err(|error| error.to_string())?;
                if let (Some(_), Some(_)) = (task.id, id) {
                    return Err("the task has an id of its own, so a key has no use".to_owned());
                }
                task.into_spec(|| id.unwrap_or_else(|| TaskId(fresh())))
            }
        };
        spec.validate().map_err(|error| error.to_string())?;
        Ok(spec)
    }

    /// The id that a key gives: of the line's number, or of what stands in a field of it.
    fn id(&self, number: u64, line: &str) -> Result<Option<TaskId>, String> {
        let key = self.key.as_deref().unwrap_or_default();
        let Some(field) = &self.key_field else {
            let id = || TaskId::from_key(&format!("lines\0{key}\0{number}"));
            return Ok(self.key.is_some().then(id));
        };
        let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        // In a whole task the payload is meant: a task has no fields of its own that a caller could key it by.
        let fields = if self.common.is_none() { &value["payload"] } else { &value };
        let text = match &fields[field.as_str()] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null => {
                return Err(format!("the payload has no field `{field}` to make a key of"));
            }
            _ => return Err(format!("`{field}` is neither text nor a number, so it makes no key")),
        };
        let kind = self.common.as_ref().map_or("", |common| common.kind.as_str());
        Ok(Some(TaskId::from_key(&format!("field\0{key}\0{kind}\0{field}\0{text}"))))
    }
}

/// Tasks that go together, and their lines.
#[derive(Default)]
struct Batch {
    numbers: Vec<u64>,
    specs: Vec<TaskSpec>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, number: u64, spec: TaskSpec, bytes: usize) {
        self.numbers.push(number);
        self.specs.push(spec);
        self.bytes += bytes;
    }

    fn is_full(&self) -> bool {
        self.specs.len() >= BATCH_TASKS || self.bytes >= BATCH_BYTES
    }

    /// Sends all of it, with patience for a server that is busy, and begins anew.
    async fn send(
        &mut self,
        api: &Api,
        name: &str,
        sums: &mut Sums,
        output: &Output,
    ) -> Result<()> {
        let body = json!({ "tasks": self.specs });
        let mut patience = Patience::default();
        let reply = loop {
            match api.post(&["tasks"], &body).await {
                Ok(reply) => break reply,
                Err(error) => {
                    patience.bear(error).await.map_err(|error| self.blame(error, name))?;
                }
            }
        };
        if output.is_json() {
            output.raw(reply.text())?;
        } else if output.is_quiet() {
            self.specs.iter().try_for_each(|spec| output.data(spec.id))?;
        }
        sums.add(&reply.parse()?, output);
        *self = Self::default();
        Ok(())
    }

    /// Names the line that the server refuses.
    fn blame(&self, error: Error, name: &str) -> anyhow::Error {
        let Error::Refused { message, field, .. } = &error else { return error.into() };
        let by_field = field.as_deref().and_then(|field| {
            field.strip_prefix("tasks[")?.split(']').next()?.parse::<usize>().ok()
        });
        let by_id = || self.specs.iter().position(|spec| message.contains(&spec.id.to_string()));
        let Some(number) = by_field.or_else(by_id).and_then(|at| self.numbers.get(at)) else {
            return error.into();
        };
        let message = format!("{name}:{number}: {message}");
        let failure = Failure::from(error);
        Failure { message, ..failure }.into()
    }
}

/// How far it is.
struct Sums {
    accepted: u64,
    known: u64,
    skipped: u64,
    told_at: Instant,
}

impl Default for Sums {
    fn default() -> Self {
        Self { accepted: 0, known: 0, skipped: 0, told_at: Instant::now() }
    }
}

impl Sums {
    fn add(&mut self, submitted: &Submitted, output: &Output) {
        self.accepted += u64::from(submitted.accepted);
        self.known += u64::from(submitted.known);
        self.skipped += submitted.conflicts.len() as u64;
        if self.told_at.elapsed() >= NOTE_EVERY {
            self.told_at = Instant::now();
            output.note(format_args!("{} so far", self.told()));
        }
    }

    fn told(&self) -> String {
        let mut text = format!("{} submitted", words::count(self.accepted, "task"));
        if self.known > 0 {
            text += &format!(", {} known already", self.known);
        }
        if self.skipped > 0 {
            text += &format!(", {} skipped for their unique key", self.skipped);
        }
        text
    }

    /// An error, with what was done before it and how to go on.
    fn explain(&self, error: anyhow::Error, args: &Submit) -> anyhow::Error {
        let error = crate::exit::explained(error);
        if self.accepted + self.known + self.skipped == 0 {
            return error;
        }
        let keyed = args.key.is_some() || args.key_field.is_some();
        match error.downcast::<Failure>() {
            Ok(failure) => {
                let again = if keyed {
                    "mend it and run this again: what was taken is known by its key"
                } else {
                    "lines before it may have been taken; with --key or --key-field a second run takes none twice"
                };
                let message = format!("{} ({})", failure.message, self.told());
                Failure { message, ..failure }.cure(again).into()
            }
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maker(kind: Option<&str>, key: Option<&str>, key_field: Option<&str>) -> Maker {
        Maker {
            common: kind.map(|kind| TaskSpec::new(TaskId(0), kind)),
            key: key.map(ToOwned::to_owned),
            key_field: key_field.map(ToOwned::to_owned),
        }
    }

    fn lines(text: &'static [u8]) -> Lines {
        Lines { name: "f".into(), reader: Box::new(text), number: 0, line: Vec::new() }
    }

    #[test]
    fn a_line_is_a_payload_or_a_whole_task() {
        let payloads = maker(Some("mail"), None, None);
        let spec = payloads.task(1, r#"{"to": "a"}"#).unwrap();
        assert_eq!(
            (spec.kind.as_str(), spec.payload.json_text()),
            ("mail", Some(r#"{"to": "a"}"#))
        );
        assert_ne!(spec.id, payloads.task(1, r#"{"to": "a"}"#).unwrap().id);
        let whole = maker(None, None, None);
        let spec = whole.task(1, r#"{"kind": "mail", "priority": 5, "payload": [1]}"#).unwrap();
        assert_eq!((spec.kind.as_str(), spec.priority), ("mail", 5));
        for (maker, line, words) in [
            (&payloads, "{", "payload is not valid JSON"),
            (&whole, r#"{"priority": 5}"#, "kind"),
            (&whole, r#"{"kind": "mail", "prio": 5}"#, "unknown field `prio`"),
            (&whole, r#"{"kind": "mail", "priority": 9}"#, "priority is 9"),
        ] {
            let problem = maker.task(1, line).unwrap_err();
            assert!(problem.contains(words), "{line}: {problem}");
        }
    }

    #[test]
    fn keys_make_the_same_ids_again_by_number_or_by_field() {
        let by_number = maker(Some("mail"), Some("monday"), None);
        let id = |maker: &Maker, number, line| maker.task(number, line).unwrap().id;
        assert_eq!(id(&by_number, 7, "1"), id(&by_number, 7, "1"));
        assert_ne!(id(&by_number, 7, "1"), id(&by_number, 8, "1"));
        assert_ne!(id(&by_number, 7, "1"), id(&maker(Some("mail"), Some("x"), None), 7, "1"));
        let by_field = maker(Some("mail"), None, Some("to"));
        assert_eq!(id(&by_field, 1, r#"{"to":"a"}"#), id(&by_field, 9, r#"{"n":1,"to":"a"}"#));
        assert_ne!(id(&by_field, 1, r#"{"to":"a"}"#), id(&by_field, 1, r#"{"to":"b"}"#));
        let whole = maker(None, None, Some("to"));
        let line = r#"{"kind":"mail","payload":{"to":7}}"#;
        assert_eq!(id(&whole, 1, line), id(&whole, 2, line));
        assert!(by_field.task(1, "{}").unwrap_err().contains("no field `to`"));
        assert!(by_field.task(1, r#"{"to":[]}"#).unwrap_err().contains("neither text"));
    }

    #[test]
    fn lines_are_numbered_and_blank_ones_say_nothing() {
        let mut some = lines(b"1\n\n  \r\n {\"a\": 2} \r\n3");
        let mut seen = Vec::new();
        while let Some((number, text)) = some.next().unwrap() {
            seen.push((number, text.to_owned()));
        }
        assert_eq!(seen, [(1, "1".into()), (4, "{\"a\": 2}".into()), (5, "3".into())]);
        assert!(lines(b"1\n\xff\n").next().unwrap().is_some());
        let mut bad = lines(b"1\n\xff\n");
        bad.next().unwrap();
        assert!(bad.next().unwrap_err().to_string().starts_with("f:2: "));
        let long = vec![b'1'; LINE_BYTES_MAX + 10].leak();
        assert!(lines(long).next().unwrap_err().to_string().starts_with("f:1: "));
    }

    #[test]
    fn what_the_server_refuses_is_named_by_its_line() {
        let mut batch = Batch::default();
        for (number, id) in [(10, 1), (12, 2)] {
            batch.push(number, TaskSpec::new(TaskId(id), "x"), 1);
        }
        let refused = |field: Option<&str>, message: &str| {
            let error = Error::Refused {
                code: "c".into(),
                message: message.into(),
                field: field.map(ToOwned::to_owned),
                status: Some(400),
                retry_after: None,
            };
            batch.blame(error, "f").to_string()
        };
        assert_eq!(refused(Some("tasks[1].kind"), "kind is bad"), "f:12: kind is bad");
        let taken = format!("id {} is taken", TaskId(1));
        assert_eq!(refused(Some("id"), &taken), format!("f:10: {taken}"));
        assert_eq!(refused(None, "no"), "no");
    }
}
