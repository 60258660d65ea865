//! How a run begins and ends: the words that were typed, the command that they name, and the code of the process.

use std::num::ParseIntError;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use divvy_workload::Workload;

use crate::args::Line;
use crate::exit::{Code, Failure};
use crate::output::{Color, Output};
use crate::workloads::Workloads;
use crate::{commands, complete, exit};

/// The first word of a process that looks after a program of a worker.
pub(crate) const KEEPER: &str = "keep-program";

/// Does what was typed, with these workloads.
pub fn main(workloads: Vec<Arc<dyn Workload>>) -> ExitCode {
    ExitCode::from(run(&Workloads::new(workloads)) as u8)
}

fn run(workloads: &Workloads) -> Code {
    // Not a command for people: it takes whatever words it is given, and must start at once.
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    if first.as_deref().is_some_and(|word| word == KEEPER) {
        let Err(error) = divvy_worker::builtin::keep(words);
        Output::new(false, false, Color::Never).say(format_args!("{error}"));
        return Code::Failed;
    }
    if first.as_deref().is_some_and(|word| word == complete::COMPLETER) {
        return complete::run(words, workloads);
    }
    if let Some(workload) = first.and_then(|word| workloads.of_inner_word(&word)) {
        return workload.run_inner(&mut words);
    }
    let line = match Line::parse(std::env::args_os(), workloads) {
        Ok(line) => line,
        Err(error) => return refuse(&error),
    };
    let (json, quiet) = (line.global.json, line.global.quiet);
    let color = line.global.color.unwrap_or(Color::Auto);
    commands::run(line, workloads).unwrap_or_else(|error| {
        if exit::is_broken_pipe(&error) {
            return Code::Done;
        }
        let error = exit::explained(error);
        Output::new(json, quiet, color).failure(&error);
        error.downcast_ref::<Failure>().map_or(Code::Failed, |failure| failure.code)
    })
}

/// What was probably meant, where the parser's own advice would lead astray.
fn tip(error: &clap::Error, words: impl IntoIterator<Item = String>) -> Option<Failure> {
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg)
        && missing.iter().any(|one| one.contains("--all|"))
    {
        let cure = "give ids, a filter such as --kind NAME, or --all; --help has all filters";
        return Some(Failure::usage("nothing says which tasks are meant").cure(cure));
    }
    let wrong = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => match error.get(ContextKind::InvalidSubcommand)? {
            ContextValue::String(word) => word.as_str(),
            _ => return None,
        },
    };
    if std::error::Error::source(error).is_some_and(|cause| cause.is::<ParseIntError>())
        && let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidValue)
    {
        return Some(Failure::usage(format!("{wrong} takes a whole number, not `{given}`")));
    }
    let mut words = words.into_iter();
    if error.kind() == ErrorKind::UnknownArgument {
        let negative = |word: &str| {
            word.strip_prefix('-')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let typed = words.find(|word| negative(word) && word.starts_with(wrong))?;
        return Some(Failure::usage(format!(
            "`{typed}` is below zero; numbers and spans are zero or more here"
        )));
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let noun = words.skip(1).take_while(|word| word != wrong).last().unwrap_or_default();
    let cure = crate::args::instead(&noun, wrong)?;
    Some(Failure::usage(format!("there is no `{wrong}` here")).cure(cure))
}

/// Help and version are answers; everything else is a mistake, told as JSON to those who asked for JSON.
fn refuse(error: &clap::Error) -> Code {
    let wants_json = std::env::args().any(|word| word == "--json");
    if let Some(failure) = tip(error, std::env::args()) {
        Output::new(wants_json, false, Color::Never).failure(&failure.into());
        return Code::Usage;
    }
    if error.use_stderr() && wants_json {
        let text = error.to_string();
        let message =
            text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let message = message.trim_start_matches("error: ").to_owned();
        Output::new(true, false, Color::Never).failure(&Failure::usage(message).into());
    } else {
        // Nobody reads it any more: nothing to do about that.
        let _ = error.print();
    }
    if error.use_stderr() { Code::Usage } else { Code::Done }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> Option<Failure> {
        let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        let none = Workloads::new(Vec::new());
        let error = Line::parse(words.iter().map(Into::into), &none).unwrap_err();
        tip(&error, words)
    }

    #[test]
    fn numbers_below_zero_are_called_that() {
        for (line, word) in [
            ("divvy submit noop --priority -1", "`-1`"),
            ("divvy submit noop --in -5m", "`-5m`"),
            ("divvy submit noop --retries -1", "`-1`"),
        ] {
            let failure = told(line).expect(line);
            assert!(failure.message.starts_with(word), "{line}: {failure}");
        }
        assert!(told("divvy submit noop --prio 1").is_none());
    }

    #[test]
    fn what_is_no_number_is_called_that() {
        let failure = told("divvy task list --limit x").unwrap();
        assert_eq!(failure.message, "--limit <N> takes a whole number, not `x`");
        assert!(told("divvy task list --limit 0").is_none(), "the parser says which are allowed");
    }

    #[test]
    fn a_verb_on_many_asks_for_which_in_one_line() {
        for line in ["divvy task cancel", "divvy task retry", "divvy dead drop --yes"] {
            let failure = told(line).expect(line);
            assert!(failure.message.contains("which tasks"), "{line}: {failure}");
        }
        assert!(told("divvy queue pause").is_none());
    }

    #[test]
    fn words_of_other_programs_lead_to_ours() {
        for (line, cure) in [
            ("divvy ls", "divvy task list"),
            ("divvy version", "divvy --version"),
            ("divvy queue purge mail", "divvy task cancel --queue"),
            ("divvy dead show x", "divvy task show"),
        ] {
            let failure = told(line).expect(line);
            assert!(failure.cure.as_deref().unwrap().contains(cure), "{line}: {failure:?}");
        }
        assert!(told("divvy statsu").is_none());
    }
}
