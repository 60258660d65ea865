//! Speech recognition and content scan: separate programs that speak JSON lines.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Who does it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Choice {
    /// Nobody: the part is skipped, and said to be.
    #[default]
    Nobody,
    /// A ready-made one that was installed, such as `whisper` or `open_nsfw`.
    Ready(String),
    /// A program with arguments.
    Exec(Vec<String>),
}

impl From<Choice> for String {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Nobody => "none".to_owned(),
            Choice::Ready(name) => name,
            Choice::Exec(words) => format!("exec:{}", words.join(" ")),
        }
    }
}

impl TryFrom<String> for Choice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("exec:") {
            _ if text == "none" => Ok(Self::Nobody),
            Some(command) if !command.trim().is_empty() => {
                Ok(Self::Exec(command.split_whitespace().map(str::to_owned).collect()))
            }
            None if !text.is_empty() => Ok(Self::Ready(text.to_owned())),
            _ => Err(format!(
                "`{text}` is no provider; give `none`, the name of one that is installed, or exec:PROGRAM"
            )),
        }
    }
}
