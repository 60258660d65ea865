//! What may follow the words that were typed so far: the scripts of `divvy completions` ask for it at each Tab.
//!
//! Commands, flags and their words come from the same definition as the help. Names that only a server knows (queues,
//! workers, tasks, …) are asked of the one that the words and the settings name, for a short time. Without an answer there is
//! nothing to offer, and nothing is said: somebody is typing.
//!
//! Reading order: [`line`](mod@line) (a line as words), [`place`] (what is wanted at the cursor), [`names`] (who knows it).

mod line;
mod names;
mod place;

use std::ffi::OsString;

use clap::{Arg, ValueHint};
use divvy_types::shell;

use self::place::{Place, Wanted};
use crate::args::definition;
use crate::exit::Code;
use crate::output::{Color, Output};
use crate::workloads::Workloads;

/// The first word of a process that completes.
pub(crate) const COMPLETER: &str = "complete-words";

const BASH: &str = include_str!("divvy.bash");
const ZSH: &str = include_str!("divvy.zsh");
const FISH: &str = include_str!("divvy.fish");

/// The script for a shell, if it asks at each Tab.
pub(crate) fn script(shell: clap_complete::Shell) -> Option<&'static str> {
    match shell {
        clap_complete::Shell::Bash => Some(BASH),
        clap_complete::Shell::Zsh => Some(ZSH),
        clap_complete::Shell::Fish => Some(FISH),
        _ => None,
    }
}

/// What may stand at the cursor.
#[derive(Debug, PartialEq, Eq)]
enum Offer {
    /// One of these and nothing else; perhaps none is known. A word, and what it means.
    Words(Vec<(String, String)>),
    /// A file or a folder, which the shell knows best.
    Files,
}

/// Prints what may follow, a word on each line with what it means behind a tab. Exit code 1 asks for files.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>, workloads: &Workloads) -> Code {
    let Some((words, cut)) = line::read(arguments) else { return Code::Usage };
    let Offer::Words(found) = offer(&words, workloads) else { return Code::Failed };
    let text: String = found
        .iter()
        .filter_map(|(word, about)| Some(format!("{}\t{about}\n", word.get(cut..)?)))
        .collect();
    // Nobody reads it any more: nothing to do about that.
    let _ = Output::new(false, false, Color::Never).bytes(text.as_bytes());
    Code::Done
}

/// What may stand in place of the last word.
fn offer(words: &[String], workloads: &Workloads) -> Offer {
    let mut root = definition(workloads);
    root.build();
    let (current, before) = words.split_last().map_or(("", &[][..]), |(last, rest)| (last, rest));
    let place = Place::find(&root, before);
    let Some((wanted, typed)) = place.wanted(current) else {
        let flags = place.flags().into_iter();
        return Offer::Words(flags.filter(|(flag, _)| flag.starts_with(current)).collect());
    };
    let mut found = match wanted {
        Wanted::Value(_) => Vec::new(),
        Wanted::Word(_) => place.subcommands(),
    };
    if let Wanted::Value(arg) | Wanted::Word(Some(arg)) = wanted {
        if takes_files(arg) {
            return Offer::Files;
        }
        let own = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
        found.extend(own.map(|value| {
            let about = value.get_help().map(ToString::to_string);
            (value.get_name().to_owned(), about.unwrap_or_default())
        }));
        found.extend(names::known(&place.path, arg.get_id().as_str()));
        if let Some(list) = names::list_of(&place.path, arg.get_id().as_str(), workloads) {
            found.extend(names::ask(&list, &place.given, workloads));
        }
    }
    // In a list with commas, the last one is being typed.
    let (done, begun) = match wanted {
        Wanted::Value(arg) | Wanted::Word(Some(arg)) if arg.get_value_delimiter().is_some() => {
            typed.rfind(',').map_or(("", typed), |comma| typed.split_at(comma + 1))
        }
        _ => ("", typed),
    };
    let head = &current[..current.len() - typed.len()];
    let fits = found.into_iter().filter(|(word, _)| word.starts_with(begun));
    // A name that a shell would not leave alone is for people to quote.
    let plain = fits.filter(|(word, _)| shell::word(word) == word.as_str());
    Offer::Words(plain.map(|(word, about)| (format!("{head}{done}{word}"), about)).collect())
}

fn takes_files(arg: &Arg) -> bool {
    let named = arg.get_value_names().unwrap_or_default();
    let path = [ValueHint::AnyPath, ValueHint::FilePath, ValueHint::DirPath];
    path.contains(&arg.get_value_hint())
        || named.iter().any(|name| name.contains("FILE") || name.contains("DIR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(line: &str) -> Offer {
        let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        // No server is there.
        let words = [&["divvy".to_owned(), "--server=http://127.0.0.1:1".to_owned()], &words[1..]];
        offer(&words.concat(), &Workloads::new(Vec::new()))
    }

    #[track_caller]
    fn words(line: &str) -> Vec<String> {
        match offered(line) {
            Offer::Words(found) => found.into_iter().map(|(word, _)| word).collect(),
            Offer::Files => panic!("files for `{line}`"),
        }
    }

    #[test]
    fn commands_flags_and_their_words_are_offered() {
        assert_eq!(words("divvy qu"), ["queue"]);
        assert_eq!(words("divvy queue pa"), ["pause"]);
        assert_eq!(words("divvy task list --sta"), ["--state"]);
        assert_eq!(words("divvy task list --state de"), ["dead"]);
        assert_eq!(words("divvy task list --state dead,can"), ["dead,cancelled"]);
        assert_eq!(words("divvy task list --state=dead,can"), ["--state=dead,cancelled"]);
        assert_eq!(words("divvy --color al"), ["always"]);
        assert_eq!(words("divvy -q -v task li"), ["list"]);
        assert!(words("divvy lab run her").contains(&"herd".to_owned()));
        assert!(words("divvy ").contains(&"submit".to_owned()));
        assert!(!words("divvy ").contains(&"lab-child".to_owned()), "it is not for people");
        assert_eq!(words("divvy completions ba"), ["bash"]);
    }

    #[test]
    fn files_are_left_to_the_shell_and_nothing_else_is() {
        for line in
            ["divvy run ", "divvy --config ", "divvy store backup ", "divvy submit --from a"]
        {
            assert_eq!(offered(line), Offer::Files, "{line}");
        }
        for line in
            ["divvy submit noop --in ", "divvy queue pause ", "divvy nonsense ", "divvy up -- "]
        {
            assert_eq!(words(line), [""; 0], "{line}");
        }
    }
}
