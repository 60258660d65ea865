//! How an attempt of a part is named, and which files it may write: numbers only, so that no name leads anywhere else.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::Folder;

/// An attempt of a part. Tokens of twins are of different tasks and may be equal, so the twin is part of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptName {
    /// Which part of its stage.
    pub part: u32,
    /// 0, or 1 for the twin of a part that takes long.
    pub twin: u32,
    /// The token of the attempt.
    pub token: u64,
}

impl AttemptName {
    /// The same without the part, for files that have a number of their own.
    pub fn turn(self) -> String {
        format!("{}.{}", self.twin, self.token)
    }
}

impl fmt::Display for AttemptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.{}", self.part, self.twin, self.token)
    }
}

impl FromStr for AttemptName {
    type Err = NoAttempt;

    fn from_str(text: &str) -> Result<Self, NoAttempt> {
        let read = || {
            let (part, turn) = text.split_once('-')?;
            let (twin, token) = turn.split_once('.')?;
            let name = Self {
                part: part.parse().ok()?,
                twin: twin.parse().ok()?,
                token: token.parse().ok()?,
            };
            // One name for each attempt: no signs, no zeros in front.
            (name.to_string() == text).then_some(name)
        };
        read().ok_or(NoAttempt)
    }
}

/// A text that names no attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("names no attempt; expected PART-TWIN.TOKEN, such as 3-0.71")]
pub struct NoAttempt;

/// A file that an attempt writes into the job's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// What it hands to the next stage.
    Shuffle {
        /// Its stage.
        stage: u32,
        /// The attempt.
        attempt: AttemptName,
    },
    /// A file of the result, under the name that it has until the job is done.
    Output {
        /// The number of the file.
        number: u32,
        /// The attempt.
        attempt: AttemptName,
    },
}

impl Written {
    /// Where it is.
    pub fn path(self, folder: &Folder) -> PathBuf {
        match self {
            Self::Shuffle { stage, attempt } => folder.shuffle(stage).join(attempt.to_string()),
            Self::Output { number, attempt } => {
                folder.out().join(until_done(&output_name(number), attempt))
            }
        }
    }
}

/// The name of a file of the result: `part-00003` for number 3.
pub(super) fn output_name(number: u32) -> String {
    format!("part-{number:05}")
}

/// The number of a file of the result with such a name.
pub(super) fn output_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("part-")?.parse().ok()?;
    (output_name(number) == name).then_some(number)
}

/// The name that a file of the result has until the job is done.
pub(super) fn until_done(name: &str, attempt: AttemptName) -> String {
    format!(".{name}-{}", attempt.turn())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_spelling_of_an_attempt_names_it() {
        let name = AttemptName { part: 3, twin: 1, token: u64::MAX };
        assert_eq!(name.to_string().parse(), Ok(name));
        for wrong in
            ["", "3", "3-1", "03-1.7", "3-1.07", "+3-1.7", "3-1.7.", "../3-1.7", "3-1.7/..", "-1.7"]
        {
            assert_eq!(wrong.parse::<AttemptName>(), Err(NoAttempt), "{wrong}");
        }
        assert_eq!(output_number(&output_name(123_456)), Some(123_456));
        assert_eq!((output_number("part-7"), output_number("late")), (None, None));
        let folder = Folder::new("/f");
        let written = Written::Shuffle { stage: 2, attempt: AttemptName { token: 7, ..name } };
        assert_eq!(written.path(&folder), PathBuf::from("/f/shuffle/2/3-1.7"));
        let written = Written::Output { number: 4, attempt: AttemptName { token: 7, ..name } };
        assert_eq!(written.path(&folder), PathBuf::from("/f/out/.part-00004-1.7"));
    }
}
