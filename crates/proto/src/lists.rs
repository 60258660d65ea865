//! How many entries the lists of a message have, counted in its bytes.
//!
//! Two bytes can stand for an empty task that takes half a kilobyte once it is read, so the size of a message does not
//! bound what it becomes. A walk over the bytes does, and it builds nothing. What is counted is the whole message: all
//! edges of all its tasks together. The bounds are a multiple of what is acceptable, so that a batch that is somewhat
//! too large is refused by those who know the rules, with their words; this here is for what is no honest mistake.
//!
//! Knows the numbers of fields, which never change, and nothing about what they mean.

use divvy_types::limits::{BATCH_EDGES_MAX, BATCH_TASKS_MAX, CREDIT_MAX};

use crate::v1;

/// Fields of all sorts in one message, those of the messages in it too: reading one takes time, known or not.
const FIELDS_MAX: usize = 2_000_000;

/// A message that is read from the wire.
pub trait Counted {
    /// The fields that hold lists or lead to some. Nothing if the sender is trusted.
    const FIELDS: Option<&'static [Field]>;
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    number: u32,
    /// What it is an entry of.
    list: Option<List>,
    /// The fields of its own message. Nothing if it holds a text.
    inner: Option<&'static [Self]>,
}

/// Why a message is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// A list is too long.
    #[error("the message has more than {max} {name} in all; send less at once")]
    Entries {
        /// What it lists.
        name: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// There is too much of everything.
    #[error("the message has more than {FIELDS_MAX} fields; send less at once")]
    Fields,
    /// It does not have the form of a message.
    #[error("the message is not valid protobuf: it breaks off, or has a field that cannot be")]
    Malformed,
}

/// What is counted: all texts in lists together, and the messages in each field that lists some. The protocol makes
/// the tables below name them, so a new list of messages does not compile before it has a bound here.
#[derive(Clone, Copy, Debug)]
enum List {
    Names,
    Tasks,
    Spawned,
    After,
    AfterGroups,
    Rules,
    Held,
    Tiers,
    Reports,
    Progress,
    Checkpoints,
}

const LISTS: usize = List::Checkpoints as usize + 1;

impl List {
    /// How people call it, and how many there may be in a message.
    const fn bound(self) -> (&'static str, usize) {
        match self {
            Self::Names => ("names", 50 * BATCH_TASKS_MAX),
            Self::Tasks => ("tasks", 2 * BATCH_TASKS_MAX),
            Self::Spawned => ("spawned tasks", 10 * BATCH_TASKS_MAX),
            Self::After => ("dependencies", 3 * BATCH_EDGES_MAX),
            Self::AfterGroups => ("dependencies on groups", 3 * BATCH_EDGES_MAX),
            Self::Rules => ("retry rules", 20 * BATCH_TASKS_MAX),
            Self::Held => ("held attempts", 5 * CREDIT_MAX as usize),
            Self::Tiers => ("tiers", 10_000),
            Self::Reports => ("reports", 2 * CREDIT_MAX as usize),
            Self::Progress => ("reports of progress", 2 * CREDIT_MAX as usize),
            Self::Checkpoints => ("checkpoints", 2 * CREDIT_MAX as usize),
        }
    }
}

/// Texts, each of which is an entry.
const fn names(number: u32) -> Field {
    Field { number, list: Some(List::Names), inner: None }
}

/// Messages, each of which is an entry.
const fn list(number: u32, list: List, inner: &'static [Field]) -> Field {
    Field { number, list: Some(list), inner: Some(inner) }
}

/// One message.
const fn one(number: u32, inner: &'static [Field]) -> Field {
    Field { number, list: None, inner: Some(inner) }
}

// A table for each message that can arrive, made from the protocol like the messages themselves.
include!("../generated/lists.rs");

impl Counted for v1::SubmitRequest {
    const FIELDS: Option<&'static [Field]> = Some(SUBMIT_REQUEST);
}

impl Counted for v1::FromWorker {
    const FIELDS: Option<&'static [Field]> = Some(FROM_WORKER);
}

impl Counted for v1::SubmitReply {
    const FIELDS: Option<&'static [Field]> = None;
}

impl Counted for v1::ToWorker {
    const FIELDS: Option<&'static [Field]> = None;
}

/// Walks over the bytes of a message.
pub(crate) fn count(message: &[u8], fields: &[Field]) -> Result<(), TooLarge> {
    Walk { fields_left: FIELDS_MAX, counts: [0; LISTS] }.message(message, fields)
}

struct Walk {
    fields_left: usize,
    counts: [usize; LISTS],
}

impl Walk {
    fn message(&mut self, mut bytes: &[u8], fields: &[Field]) -> Result<(), TooLarge> {
        while !bytes.is_empty() {
            self.fields_left = self.fields_left.checked_sub(1).ok_or(TooLarge::Fields)?;
            let key = varint(&mut bytes)?;
            let number = u32::try_from(key >> 3).map_err(|_| TooLarge::Malformed)?;
            let content = match key & 7 {
                0 => varint(&mut bytes).map(|_| None)?,
                1 => take(&mut bytes, 8).map(|_| None)?,
                2 => {
                    let length = varint(&mut bytes)?;
                    let length = usize::try_from(length).map_err(|_| TooLarge::Malformed)?;
                    Some(take(&mut bytes, length)?)
                }
                5 => take(&mut bytes, 4).map(|_| None)?,
                // Groups are older than this protocol, and nothing that it has.
                _ => return Err(TooLarge::Malformed),
            };
            if let (Some(content), Some(field)) =
                (content, fields.iter().find(|field| field.number == number))
            {
                self.field(content, field)?;
            }
        }
        Ok(())
    }

    fn field(&mut self, content: &[u8], field: &Field) -> Result<(), TooLarge> {
        if let Some(list) = field.list {
            let (name, max) = list.bound();
            let count = &mut self.counts[list as usize];
            *count += 1;
            if *count > max {
                return Err(TooLarge::Entries { name, max });
            }
        }
        // Messages hold each other only as deep as the tables above are.
        field.inner.map_or(Ok(()), |inner| self.message(content, inner))
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], TooLarge> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(TooLarge::Malformed)?;
    *bytes = rest;
    Ok(taken)
}

/// A number in groups of seven bits, the lowest first.
fn varint(bytes: &mut &[u8]) -> Result<u64, TooLarge> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        if at == 9 && *byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return Ok(value);
        }
    }
    Err(TooLarge::Malformed)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    /// A field that holds a message or a text.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        prost::encoding::encode_varint(u64::from(number) << 3 | 2, &mut bytes);
        prost::encoding::encode_varint(content.len() as u64, &mut bytes);
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn lists_of_nothing_are_counted_before_they_are_built() {
        const MANY: usize = 4 << 20;
        let empty = |number: u8| field(number, b"").repeat(MANY);
        let task = |list: &[u8]| field(1, list);
        let cases: [(&str, Vec<u8>, &[Field]); 12] = [
            ("20000 tasks", empty(1), SUBMIT_REQUEST),
            ("500000 names", task(&empty(7)), SUBMIT_REQUEST),
            ("300000 dependencies", task(&empty(8)), SUBMIT_REQUEST),
            ("500000 names", task(&empty(20)), SUBMIT_REQUEST),
            ("200000 retry rules", task(&field(11, &empty(5))), SUBMIT_REQUEST),
            ("2000000 fields", task(&field(12, &empty(99))), SUBMIT_REQUEST),
            ("2000000 fields", empty(99), SUBMIT_REQUEST),
            ("131072 reports", field(2, &empty(1)), FROM_WORKER),
            ("131072 reports of progress", field(3, &empty(1)), FROM_WORKER),
            ("327680 held attempts", field(1, &empty(6)), FROM_WORKER),
            ("10000 tiers", field(1, &empty(9)), FROM_WORKER),
            ("100000 spawned tasks", field(2, &field(1, &field(3, &empty(3)))), FROM_WORKER),
        ];
        for (words, bytes, fields) in cases {
            let text = count(&bytes, fields).unwrap_err().to_string();
            assert!(text.contains(&format!("more than {words}")), "{text}, expected {words}");
        }
        // The same lists, a little of each in many messages that are merged when they are read.
        let bits = field(11, &field(5, b"").repeat(16)).repeat(20_000);
        let text = count(&task(&bits), SUBMIT_REQUEST).unwrap_err().to_string();
        assert!(text.contains("more than 200000 retry rules"), "{text}");
    }

    #[test]
    fn the_largest_messages_that_are_acceptable_are_read() {
        let edges = vec![v1::Dependency { task: vec![7; 16].into(), optional: true }; 10];
        let rules = vec![v1::RetryRule { limit: Some(3), ..Default::default() }; 16];
        let task = v1::TaskSpec {
            id: vec![1; 16].into(),
            kind: "encode".into(),
            needs: vec!["gpu".into(); 16],
            limits: vec!["disk".into(); 8],
            tags: vec!["t".into(); 16],
            after: edges,
            retry: Some(v1::RetryPolicy { rules, ..Default::default() }),
            ..Default::default()
        };
        let request =
            v1::SubmitRequest { tasks: vec![task.clone(); BATCH_TASKS_MAX], strict: true };
        assert_eq!(count(&request.encode_to_vec(), SUBMIT_REQUEST), Ok(()));
        let finished = v1::Finished { spawned: vec![task; 100], ..Default::default() };
        let report = v1::Report {
            end: Some(v1::report::End::Finished(finished)),
            log: "done".into(),
            ..Default::default()
        };
        let reports = v1::Reports { reports: vec![report; 100] };
        let message = Some(v1::from_worker::Message::Reports(reports));
        assert_eq!(count(&v1::FromWorker { message }.encode_to_vec(), FROM_WORKER), Ok(()));
    }

    #[test]
    fn what_breaks_off_or_cannot_be_is_refused() {
        for bytes in [
            &b"\x0a"[..],
            b"\x0a\x05abc",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x0b\x0c",
            b"\x09\0\0",
            b"\x80",
        ] {
            assert_eq!(count(bytes, SUBMIT_REQUEST), Err(TooLarge::Malformed), "{bytes:?}");
        }
        // Unknown fields of every sort are passed over.
        assert_eq!(
            count(b"\x98\x06\x01\x99\x06\0\0\0\0\0\0\0\0\x9d\x06\0\0\0\0", SUBMIT_REQUEST),
            Ok(())
        );
    }
}
