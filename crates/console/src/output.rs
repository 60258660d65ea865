//! What the reader sees: data on stdout, everything else on stderr.
//!
//! Decides nothing about content, except that it must not steer the terminal: see `visible`. A broken pipe comes back as an `io::Error`, which ends the run quietly.

pub mod bars;
pub mod ids;
pub mod line;
pub mod screen;
pub mod table;
pub mod visible;
pub mod words;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;

use crate::exit::{Code, Failure};
use visible::{visible, visible_json};

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Display for Color {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

impl std::str::FromStr for Color {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        clap::ValueEnum::from_str(text, false)
            .map_err(|_| format!("`{text}` is not a choice: expected auto, always or never"))
    }
}

/// Where output goes and in which form.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    quiet: bool,
    color: bool,
    terminal: bool,
}

impl Output {
    /// Output in this form.
    pub fn new(json: bool, quiet: bool, color: Color) -> Self {
        let wanted = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        };
        Self { json, quiet, color: wanted && !json, terminal: io::stderr().is_terminal() }
    }

    /// Whether data is to be JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether only ids are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether data may have colours.
    pub fn has_color(&self) -> bool {
        self.color
    }

    /// Whether someone watches stderr, so that bars may move on it.
    pub fn is_live(&self) -> bool {
        self.terminal && !self.quiet && !self.json
    }

    /// A line of data.
    pub fn data(&self, line: impl Display) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{}", visible(&line.to_string()))
    }

    /// JSON that a task or a person wrote, as data for people.
    pub fn json_text(&self, json: &str) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{}", visible_json(json))
    }

    /// Bytes of others as they are, unless they would go to a terminal: that gets them as text.
    pub fn foreign(&self, bytes: &[u8]) -> io::Result<()> {
        if !io::stdout().is_terminal() {
            return self.bytes(bytes);
        }
        let mut pieces = visible::Pieces::default();
        let text = pieces.next(bytes) + &pieces.end();
        self.bytes(text.as_bytes())
    }

    /// Data of our own that brings its line ends, and its colours if it has some.
    pub fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// A value as one line of JSON.
    pub fn object(&self, value: &impl Serialize) -> anyhow::Result<()> {
        self.line(&serde_json::to_string(value)?)?;
        Ok(())
    }

    /// JSON text of the server, as it came but on one line.
    pub fn raw(&self, json: &str) -> io::Result<()> {
        self.line(&on_one_line(json))
    }

    /// A line as it is: JSON for programs.
    fn line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Something for people that is no data. Silent with `--quiet` and `--json`.
    pub fn note(&self, line: impl Display) {
        if !self.quiet && !self.json {
            self.say(line);
        }
    }

    /// A line on stderr, whatever the form. Nobody to read it is no reason to stop.
    pub fn say(&self, line: impl Display) {
        let _ = screen::Above.write_all(format!("{}\n", visible(&line.to_string())).as_bytes());
    }

    /// The end of a run that failed.
    pub fn failure(&self, error: &anyhow::Error) {
        let known = error.downcast_ref::<Failure>();
        let message = if known.is_some() { error.to_string() } else { format!("{error:#}") };
        let code = known.map_or(Code::Failed, |failure| failure.code);
        let cure = known.and_then(|failure| failure.cure.as_deref());
        if self.json {
            let name =
                known.and_then(|failure| failure.name.as_deref()).unwrap_or_else(|| code.word());
            let mut object = json!({ "code": name, "message": message, "exit": code as u8 });
            if let Some(field) = known.and_then(|failure| failure.field.as_deref()) {
                object["field"] = field.into();
            }
            if let Some(cure) = cure {
                object["cure"] = cure.into();
            }
            // Nobody to read it is no reason to stop.
            let _ = writeln!(io::stderr().lock(), "{}", json!({ "error": object }));
            return;
        }
        self.say(format_args!("error: {message}"));
        if let Some(cure) = cure {
            self.say(format_args!("  cure: {cure}"));
        }
    }
}

/// JSON without white space between its parts; payloads keep whatever their submitter wrote, line ends included.
fn on_one_line(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if in_string {
            line.push(c);
            match (escaped, c) {
                (true, _) => escaped = false,
                (false, '\\') => escaped = true,
                (false, '"') => in_string = false,
                _ => {}
            }
        } else if !matches!(c, ' ' | '\n' | '\r' | '\t') {
            in_string = c == '"';
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_the_server_is_one_line_with_its_strings_untouched() {
        assert_eq!(
            on_one_line("{ \"a b\": [1,\n 2],\t\"c\": \"d \\\" e\" }"),
            "{\"a b\":[1,2],\"c\":\"d \\\" e\"}"
        );
    }
}
