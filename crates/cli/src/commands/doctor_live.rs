//! `divvy doctor --live`: every rule about the health of a running server, each with its cure. Exit code 1 if one is
//! broken. The rules themselves are the server's; only its clock is judged here.

use anyhow::Result;
use divvy_types::Timestamp;
use divvy_types::alerts::{Alert, Alerts, Severity};
use serde_json::json;

use super::Context;
use crate::exit::Code;
use crate::output::table::folded;
use crate::output::words;

/// A larger difference of clocks makes waits and leases look wrong to people.
const CLOCK_MS_MAX: u128 = 2_000;

/// Where the texts begin.
const INDENT: usize = 28;

/// Asks the server and prints what it says.
pub(super) async fn run(context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let ready = api.ready().await?;
    let before = words::now();
    let reply = api.get(&["alerts"], &[]).await?;
    let after = words::now();
    let Alerts { time, alerts, .. } = reply.parse()?;
    let mut rules = vec![server(ready, api.server()), clock(before, time, after)];
    rules.extend(alerts);
    for rule in &rules {
        let grade = match (rule.needs_attention(), rule.severity) {
            (false, _) => "ok",
            (true, Severity::Warning) => "WARN",
            (true, Severity::Fault) => "FAULT",
        };
        if output.is_json() {
            let grade = grade.to_lowercase();
            let (check, text, cure) = (&rule.name, &rule.text, &rule.cure);
            output
                .object(&json!({ "check": check, "grade": grade, "text": text, "cure": cure }))?;
            continue;
        }
        if output.is_quiet() {
            continue;
        }
        let text = folded(&rule.text, INDENT);
        output.data(format_args!("{grade:<6} {:<20} {text}", rule.name))?;
        if let Some(cure) = &rule.cure {
            output.data(format_args!("{:22}cure: {}", "", folded(cure, INDENT)))?;
        }
    }
    let broken = rules.iter().filter(|rule| rule.needs_attention()).count();
    if broken == 0 {
        output.note("all is well");
    }
    Ok(if broken == 0 { Code::Done } else { Code::Failed })
}

fn server(ready: bool, address: &str) -> Alert {
    let (text, cure) = if ready {
        (format!("{address} takes work"), None)
    } else {
        let text = format!("{address} does not take work: it starts or stops");
        (text, Some("look at its log".to_owned()))
    };
    let (name, severity) = ("server".into(), Severity::Fault);
    Alert { name, firing: !ready, severity, text, cure, ..Alert::default() }
}

/// The server's time was taken between the two of ours.
fn clock(before: Timestamp, theirs: Timestamp, after: Timestamp) -> Alert {
    let off = before.since(theirs).max(theirs.since(after));
    let firing = off.as_millis() > CLOCK_MS_MAX;
    let (text, cure) = if firing {
        let text = format!("the server's clock is {} off ours", words::span(off));
        (text, Some("set both, such as with NTP".to_owned()))
    } else {
        ("the server's clock agrees with ours".to_owned(), None)
    };
    Alert { name: "clock".into(), firing, text, cure, ..Alert::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_off_only_beyond_the_time_that_the_answer_took() {
        let second = |number: u64| Timestamp(number * 1_000_000);
        assert!(!clock(second(10), second(12), second(15)).firing);
        assert!(!clock(second(10), second(16), second(15)).firing);
        assert!(clock(second(10), second(18), second(15)).firing);
        let behind = clock(second(10), second(5), second(15));
        assert!(behind.firing && behind.text.contains("5.0s"), "{behind:?}");
    }
}
