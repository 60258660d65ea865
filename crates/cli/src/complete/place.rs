//! Where in the definition the cursor is: which command, which flags are given, and what is wanted next.

use clap::{Arg, Command};

/// Where the cursor is.
pub(super) struct Place<'a> {
    /// The command, from the first word on.
    pub(super) path: Vec<&'a str>,
    /// Flags that are given, by id, with their values.
    pub(super) given: Vec<(&'a str, String)>,
    command: &'a Command,
    /// The flag whose value comes next.
    pending: Option<&'a Arg>,
    /// How many words stand before that are neither commands nor flags.
    positional: usize,
    /// Whether `--` was typed: no flag follows.
    only_words: bool,
}

/// What may stand at the cursor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted<'a> {
    /// The value of a flag.
    Value(&'a Arg),
    /// A subcommand, or an argument without a flag.
    Word(Option<&'a Arg>),
}

impl<'a> Place<'a> {
    /// The place behind these words, the first of which is the program.
    pub(super) fn find(root: &'a Command, before: &[String]) -> Self {
        let mut place = Self {
            path: Vec::new(),
            given: Vec::new(),
            command: root,
            pending: None,
            positional: 0,
            only_words: false,
        };
        for word in before.iter().skip(1) {
            place.step(word);
        }
        place
    }

    fn step(&mut self, word: &str) {
        if let Some(arg) = self.pending.take() {
            self.given.push((arg.get_id().as_str(), word.to_owned()));
        } else if self.only_words {
            self.positional += 1;
        } else if word == "--" {
            self.only_words = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            let Some(arg) = self.long(name) else { return };
            match value {
                Some(value) => self.given.push((arg.get_id().as_str(), value.to_owned())),
                None => self.pending = Some(arg).filter(|arg| takes_value(arg)),
            }
        } else if let Some(shorts) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            // What follows a flag with a value in one word is the value.
            let mut letters = shorts.chars();
            let valued =
                letters.find_map(|letter| self.short(letter).filter(|arg| takes_value(arg)));
            self.pending = valued.filter(|_| letters.as_str().is_empty());
        } else if let Some(command) =
            self.command.find_subcommand(word).filter(|_| self.positional == 0)
        {
            self.command = command;
            self.path.push(command.get_name());
        } else {
            self.positional += 1;
        }
    }

    /// What may stand at the cursor, and how much of it is typed; nothing if a flag is being typed.
    pub(super) fn wanted<'t>(&self, current: &'t str) -> Option<(Wanted<'a>, &'t str)> {
        if let Some(arg) = self.pending {
            return Some((Wanted::Value(arg), current));
        }
        if self.only_words || !current.starts_with('-') {
            let words: Vec<&Arg> = self.command.get_positionals().collect();
            let many = words.iter().find(|arg| takes_many(arg));
            let arg = words.get(self.positional).or(many).copied();
            return Some((Wanted::Word(arg), current));
        }
        let (name, value) = current.strip_prefix("--")?.split_once('=')?;
        Some((Wanted::Value(self.long(name)?), value))
    }

    /// The flags that may stand here, and what they mean.
    pub(super) fn flags(&self) -> Vec<(String, String)> {
        let shown = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        let longs =
            shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), help(arg.get_help()))));
        longs.collect()
    }

    /// The commands that may stand here, and what they mean.
    pub(super) fn subcommands(&self) -> Vec<(String, String)> {
        if self.positional > 0 || self.only_words {
            return Vec::new();
        }
        let shown = self.command.get_subcommands().filter(|command| !command.is_hide_set());
        shown.map(|command| (command.get_name().to_owned(), help(command.get_about()))).collect()
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|arg| arg.get_long() == Some(name))
    }

    fn short(&self, letter: char) -> Option<&'a Arg> {
        self.command.get_arguments().find(|arg| arg.get_short() == Some(letter))
    }
}

/// Help as one line without anything that a shell could take for more.
fn help(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().replace('\t', " ")
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && arg.get_num_args().is_none_or(|range| range.min_values() > 0)
}

fn takes_many(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.max_values() > 1)
        || matches!(arg.get_action(), clap::ArgAction::Append)
}
