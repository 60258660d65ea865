//! The values that people write about servers, workers and tasks, on the command line, in the environment and in
//! `divvy.yaml` alike: slots, programs, keys. Each has one text form, so all three places accept the same. Those that
//! every command may need, such as spans of time, are in `divvy-console`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

pub(crate) use divvy_console::values::{Moment, Names, Span, one_of};
use divvy_types::Name;
use divvy_types::limits::CREDIT_MAX;
use divvy_worker::builtin::Limits;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// IP addresses, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Addresses(pub(crate) Vec<IpAddr>);

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let read = |word: &str| {
            word.parse().map_err(|_| format!("`{word}` is not an IP address, such as 169.254.1.2"))
        };
        words.map(read).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(","))
    }
}

/// How many local worker processes `divvy up` keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// As many as the work needs, from one to as many as there are cores.
    Auto,
    /// This many; 0 is a server without local workers.
    Count(u32),
}

/// More local worker processes than this are no use on one machine; start some on others.
pub(crate) const LOCAL_WORKERS_MAX: u32 = 256;

impl Workers {
    /// The most on a machine with this many cores.
    pub(crate) fn most(self, cores: usize) -> u32 {
        match self {
            Self::Auto => u32::try_from(cores).unwrap_or(u32::MAX).clamp(1, LOCAL_WORKERS_MAX),
            Self::Count(count) => count,
        }
    }
}

impl FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(count) if count <= LOCAL_WORKERS_MAX => Ok(Self::Count(count)),
            _ => Err(format!(
                "`{text}` is not a number of workers: expected auto, or 0 to {LOCAL_WORKERS_MAX}"
            )),
        }
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

/// Tasks that a worker runs at once, per tier; a tier that is not named keeps its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SlotCounts {
    /// Tasks that mostly wait.
    #[serde(rename = "async")]
    pub(crate) async_: Option<u32>,
    /// Tasks that block a thread.
    pub(crate) blocking: Option<u32>,
    /// Tasks that compute.
    pub(crate) cpu: Option<u32>,
    /// Child processes.
    pub(crate) process: Option<u32>,
}

impl SlotCounts {
    /// What is named here, and what is not from `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            async_: self.async_.or(other.async_),
            blocking: self.blocking.or(other.blocking),
            cpu: self.cpu.or(other.cpu),
            process: self.process.or(other.process),
        }
    }
}

impl FromStr for SlotCounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut slots = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || {
                format!(
                    "`{part}` is not a slot count: expected such as cpu=2,blocking=8,async=64,process=2"
                )
            };
            let (tier, count) = part.split_once('=').ok_or_else(wrong)?;
            let count: u32 = count.trim().parse().map_err(|_| wrong())?;
            let place = match tier.trim() {
                "async" => &mut slots.async_,
                "blocking" => &mut slots.blocking,
                "cpu" => &mut slots.cpu,
                "process" => &mut slots.process,
                other => {
                    let hint = crate::suggest::hint(other, ["async", "blocking", "cpu", "process"]);
                    return Err(format!(
                        "`{other}` is not a tier: expected async, blocking, cpu or process{hint}"
                    ));
                }
            };
            if place.replace(count).is_some() {
                return Err(format!("tier `{tier}` is named twice"));
            }
        }
        Ok(slots)
    }
}

impl fmt::Display for SlotCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tiers = [
            ("async", self.async_),
            ("blocking", self.blocking),
            ("cpu", self.cpu),
            ("process", self.process),
        ];
        let named: Vec<String> = tiers
            .iter()
            .filter_map(|(tier, count)| count.map(|count| format!("{tier}={count}")))
            .collect();
        f.write_str(&named.join(","))
    }
}

/// Tasks that a worker takes ahead of its free slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefetch(pub(crate) u32);

impl FromStr for Prefetch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            Ok(tasks) if tasks <= CREDIT_MAX => Ok(Self(tasks)),
            _ => Err(format!(
                "`{text}` is not a number of tasks to take ahead: expected 0 to {CREDIT_MAX}"
            )),
        }
    }
}

impl fmt::Display for Prefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A program that a worker may run: `kind=program`, with fixed arguments after it if need be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The kind that it serves.
    pub(crate) name: Name,
    /// The program and its fixed arguments.
    pub(crate) words: Vec<String>,
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not a program: expected kind=program, such as resize=./resize.py")
        };
        let (name, command) = text.split_once('=').ok_or_else(wrong)?;
        Self::new(name.trim(), command)
    }
}

impl Program {
    /// The program of this name behind a command line.
    fn new(name: &str, command: &str) -> Result<Self, String> {
        let words = split_words(command)?;
        if name.is_empty() || words.is_empty() {
            return Err(format!(
                "`{name}={command}` is not a program: expected kind=program, such as resize=./resize.py"
            ));
        }
        Ok(Self { name: Name::from(name), words })
    }

    /// The form that [`FromStr`] reads.
    pub(crate) fn to_text(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| quote(word)).collect();
        format!("{}={}", self.name, words.join(" "))
    }
}

/// Programs by kind, as in `divvy.yaml`: `exec: {resize: ./resize.py}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Programs(pub(crate) Vec<Program>);

impl FromStr for Programs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(';')
            .filter(|part| !part.trim().is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs: Vec<String> = self.0.iter().map(Program::to_text).collect();
        f.write_str(&programs.join("; "))
    }
}

impl<'de> Deserialize<'de> for Programs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = BTreeMap::<String, String>::deserialize(deserializer)?;
        let programs = map.iter().map(|(name, command)| Program::new(name, command));
        programs.collect::<Result<_, _>>().map(Self).map_err(D::Error::custom)
    }
}

/// What the programs of a worker may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramLimits(pub(crate) Limits);

impl FromStr for ProgramLimits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl fmt::Display for ProgramLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A unique key, with the window after its colon if it has one: `acme`, `acme:10m`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UniqueKey {
    /// What makes it the same.
    pub(crate) key: Name,
    /// For how long.
    pub(crate) window: Option<Span>,
}

impl FromStr for UniqueKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A colon may be part of a key; only what reads as a span is a window.
        let cut = text.rsplit_once(':').and_then(|(key, span)| Some((key, span.parse().ok()?)));
        let (key, window) = cut.map_or((text, None), |(key, span)| (key, Some(span)));
        if key.is_empty() {
            return Err(format!("`{text}` has no key: expected KEY, or KEY:SPAN such as acme:10m"));
        }
        Ok(Self { key: key.into(), window })
    }
}

/// A key and its weight: `acme=5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyWeight(pub(crate) Name, pub(crate) u32);

impl FromStr for KeyWeight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a weight: expected KEY=N, such as acme=5");
        let (key, weight) = text.rsplit_once('=').ok_or_else(wrong)?;
        let weight = weight.trim().parse().map_err(|_| wrong())?;
        if key.trim().is_empty() {
            return Err(wrong());
        }
        Ok(Self(key.trim().into(), weight))
    }
}

/// Cuts a command line into words. Quotes keep spaces together and a backslash keeps the next character; nothing
/// else has a meaning, because no shell is involved.
fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => match chars.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(format!("`{text}` ends with a backslash")),
            },
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(format!("`{text}` has a quote that is not closed"));
    }
    words.extend(word);
    Ok(words)
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

macro_rules! deserialize_text {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}
deserialize_text!(Workers, Prefetch, ProgramLimits);

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn slots_name_their_tiers() {
        let slots: SlotCounts = "cpu=2, async=64".parse().unwrap();
        assert_eq!(slots, SlotCounts { cpu: Some(2), async_: Some(64), ..SlotCounts::default() });
        assert_eq!(slots.to_string(), "async=64,cpu=2");
        assert!("cup=2".parse::<SlotCounts>().unwrap_err().contains("did you mean `cpu`"));
        assert!("cpu=1,cpu=2".parse::<SlotCounts>().unwrap_err().contains("twice"));
        assert!("cpu=many".parse::<SlotCounts>().is_err());
    }

    #[test]
    fn tasks_taken_ahead_are_a_number_that_a_worker_may_hold() {
        assert_eq!(("0".parse(), " 12".parse()), (Ok(Prefetch(0)), Ok(Prefetch(12))));
        for text in ["", "-1", "many", "65537"] {
            assert!(text.parse::<Prefetch>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_program_keeps_its_fixed_arguments_apart() {
        let program: Program = r#"a.b=python3 "my script.py" --x='1 2' c\ d"#.parse().unwrap();
        assert_eq!(program.name, "a.b");
        assert_eq!(program.words, ["python3", "my script.py", "--x=1 2", "c d"]);
        assert_eq!(program.to_text().parse::<Program>().unwrap(), program);
        for text in ["resize", "=x", "x=", "x='open"] {
            assert!(text.parse::<Program>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_unique_key_keeps_its_colons_unless_a_span_follows() {
        let key = |text: &str| text.parse::<UniqueKey>().unwrap();
        assert_eq!((key("a").key.as_str(), key("a").window), ("a", None));
        assert_eq!(key("a:b:10m").key, "a:b");
        assert_eq!(key("a:b:10m").window, Some(Span(Duration::from_secs(600))));
        assert_eq!((key("a:b").key.as_str(), key("a:b").window), ("a:b", None));
        assert!(":10m".parse::<UniqueKey>().is_err());
        assert_eq!("acme=5".parse(), Ok(KeyWeight("acme".into(), 5)));
        for text in ["acme", "=5", "acme=many"] {
            assert!(text.parse::<KeyWeight>().is_err(), "{text}");
        }
    }

    #[test]
    fn auto_goes_up_to_one_worker_per_core() {
        assert_eq!([1, 2, 4, 64].map(|cores| Workers::Auto.most(cores)), [1, 2, 4, 64]);
        assert_eq!("0".parse::<Workers>().unwrap().most(4), 0);
        assert!("-1".parse::<Workers>().is_err());
    }
}
