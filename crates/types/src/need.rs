//! What workers have and what tasks need of it.
//!
//! A capability is a name, with a value if it has one: `ffmpeg`, `gpu=2`, `region=eu`. A need is one of
//! `ffmpeg` (there at all), `region=eu` (exactly that value) and `gpu>=2` (a number, at least so much).
//!
//! A program that a worker may run is a capability too, `exec.NAME`: a task of kind `exec` needs the one that its payload
//! names.

use crate::limits::CAPABILITY_LEN_MAX;
use crate::{Name, shell};

/// The kind whose tasks name a program.
pub const PROGRAM_KIND: &str = "exec";
/// What the capabilities of programs begin with.
const PROGRAM: &str = "exec.";

/// What is asked of a capability.
#[derive(Clone, Debug, PartialEq)]
pub struct Need<'a> {
    /// The capability.
    pub name: &'a str,
    /// What it must be like.
    pub test: Test<'a>,
}

/// What a capability must be like.
#[derive(Clone, Debug, PartialEq)]
pub enum Test<'a> {
    /// There.
    Present,
    /// There, with this value.
    Equals(&'a str),
    /// There, with a number that is at least this.
    AtLeast(f64),
}

impl<'a> Need<'a> {
    /// The need in a text, or what is wrong with it.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let bad = |problem: &str| {
            format!("has `{text}`: {problem}; write `gpu`, `region=eu` or `memory_gb>=16`")
        };
        if text.contains('<') {
            return Err(bad("only `=` and `>=` can be asked for"));
        }
        if let Some((name, value)) = text.split_once(">=") {
            let number: f64 = value.trim().parse().map_err(|_| bad("no number after `>=`"))?;
            if !number.is_finite() {
                return Err(bad("no number after `>=`"));
            }
            return named(name, Test::AtLeast(number)).ok_or_else(|| bad("no name before `>=`"));
        }
        if let Some((name, value)) = text.split_once('=') {
            let value = value.strip_prefix('=').unwrap_or(value).trim();
            if value.is_empty() {
                return Err(bad("no value after `=`"));
            }
            return named(name, Test::Equals(value)).ok_or_else(|| bad("no name before `=`"));
        }
        if text.contains('>') {
            return Err(bad("only `=` and `>=` can be asked for"));
        }
        named(text, Test::Present).ok_or_else(|| bad("no name"))
    }

    /// Whether a capability of this name and value will do.
    pub fn is_met_by(&self, name: &str, value: &str) -> bool {
        if name != self.name {
            return false;
        }
        match self.test {
            Test::Present => true,
            Test::Equals(wanted) => wanted == value || numbers_equal(wanted, value),
            Test::AtLeast(least) => value.parse::<f64>().is_ok_and(|number| number >= least),
        }
    }
}

fn named<'a>(name: &'a str, test: Test<'a>) -> Option<Need<'a>> {
    let name = name.trim();
    (!name.is_empty()).then_some(Need { name, test })
}

fn numbers_equal(a: &str, b: &str) -> bool {
    matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

/// The name and the value of a capability; the value is empty if it has none.
pub fn capability(text: &str) -> (&str, &str) {
    text.split_once('=').map_or((text, ""), |(name, value)| (name.trim(), value.trim()))
}

/// Whether one of these capabilities meets a need. A need that cannot be read is not met.
pub fn is_met(need: &str, capabilities: &[Name]) -> bool {
    let Ok(need) = Need::parse(need) else { return false };
    capabilities.iter().any(|text| {
        let (name, value) = capability(text);
        need.is_met_by(name, value)
    })
}

/// The capability of a worker that may run this program; nothing if no program can have this name.
pub fn of_program(name: &str) -> Option<Name> {
    let strange = |c: char| c.is_whitespace() || c.is_control() || "<>=,".contains(c);
    let fits = !name.is_empty() && PROGRAM.len() + name.chars().count() <= CAPABILITY_LEN_MAX;
    (fits && !name.contains(strange)).then(|| format!("{PROGRAM}{name}").into())
}

/// The program that a capability or a need is about, if it is about one.
pub fn program(need: &str) -> Option<&str> {
    need.strip_prefix(PROGRAM)
}

/// The capability that a worker must have to meet a need, as it would be said: `gpu=2` for `gpu>=2`.
pub fn offer(need: &str) -> String {
    need.replace(">=", "=").replace("==", "=").replace(' ', "")
}

/// The flags of a `divvy work` that meets these needs: `--caps gpu=2 --exec count=PROGRAM`.
pub fn offers(needs: &[Name]) -> String {
    let (programs, others): (Vec<&Name>, Vec<&Name>) =
        needs.iter().partition(|need| program(need).is_some());
    let others = others.into_iter().map(|need| offer(need)).collect::<Vec<_>>().join(",");
    let mut flags = Vec::new();
    if !others.is_empty() {
        flags.push(format!("--caps {}", shell::word(&others)));
    }
    flags.extend(
        programs
            .into_iter()
            .filter_map(|need| program(need))
            .map(|name| format!("--exec {}", shell::word(&format!("{name}=PROGRAM")))),
    );
    flags.join(" ")
}

/// Needs as a person says them: `gpu>=2, the program count`.
pub fn spoken(needs: &[Name]) -> String {
    let word = |need: &Name| match program(need) {
        Some(name) => format!("the program `{name}`"),
        None => need.to_string(),
    };
    needs.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The number that a capability has as its value.
pub fn number(capabilities: &[Name], name: &str) -> Option<f64> {
    let found = capabilities.iter().map(|text| capability(text)).find(|(other, _)| *other == name);
    found.and_then(|(_, value)| value.parse().ok()).filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_equality_and_minimum_are_told_apart() {
        let has: Vec<Name> =
            ["ffmpeg", "gpu=2", "region=eu", "memory_gb=16.0"].map(Name::from).into();
        for (need, met) in [
            ("ffmpeg", true),
            ("gpu", true),
            ("gpu=2", true),
            ("gpu==2", true),
            ("gpu>=2", true),
            ("gpu>=2.5", false),
            ("gpu=3", false),
            ("region=eu", true),
            ("region=us", false),
            ("region>=1", false),
            ("memory_gb=16", true),
            ("memory_gb>=15.5", true),
            ("ffmpeg=1", false),
            ("nvenc", false),
        ] {
            assert_eq!(is_met(need, &has), met, "{need}");
        }
        for need in ["gpu", "gpu>=2", "gpu == 2", "region=eu"] {
            assert!(is_met(need, &[Name::from(offer(need))]), "{need}");
        }
        assert_eq!(number(&has, "gpu"), Some(2.0));
        assert_eq!(number(&has, "region"), None);
    }

    #[test]
    fn programs_are_capabilities_that_read_well() {
        assert_eq!(of_program("text.count").as_deref(), Some("exec.text.count"));
        for name in ["", "a b", "a=b", "a>b", &"x".repeat(CAPABILITY_LEN_MAX)] {
            assert_eq!(of_program(name), None, "{name}");
        }
        let needs: Vec<Name> = ["gpu>=2", "exec.text.count"].map(Name::from).into();
        assert_eq!(offers(&needs), "--caps gpu=2 --exec text.count=PROGRAM");
        assert_eq!(spoken(&needs), "gpu>=2, the program `text.count`");
    }

    #[test]
    fn a_need_that_says_nothing_is_refused_with_the_right_way() {
        for text in ["gpu>=many", "=2", ">=2", "gpu=", "gpu>2", "gpu<=2", "gpu>=inf"] {
            let problem = Need::parse(text).unwrap_err();
            assert!(problem.contains(text) && problem.contains("memory_gb>=16"), "{problem}");
        }
    }
}
