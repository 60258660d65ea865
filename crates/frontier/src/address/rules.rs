//! Which addresses lead nowhere, as data: calendars without an end, links that nest into themselves, sessions.
//!
//! Each limit is far above what people write by hand and far below what a program makes without end. What a page holds
//! is not known here; pages that repeat themselves are found by their text.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Address, Refusal};

/// The limits of addresses, and the parameters that are dropped from them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Bytes of an address.
    pub bytes_max: usize,
    /// Parts of a path between slashes.
    pub segments_max: usize,
    /// How often the same part may stand in one path.
    pub repeats_max: usize,
    /// Parameters of a query.
    pub parameters_max: usize,
    /// Links between a seed and a page.
    pub depth_max: u32,
    /// Names of parameters that are dropped; one that ends with `*` stands for all that begin so.
    pub session_parameters: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            bytes_max: 2048,
            segments_max: 16,
            repeats_max: 3,
            parameters_max: 8,
            depth_max: 32,
            session_parameters: ["jsessionid", "phpsessid", "sid", "utm_*"]
                .map(str::to_owned)
                .into(),
        }
    }
}

/// The limit that an address is beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trap {
    /// Too many bytes.
    Bytes,
    /// Too many parts of the path.
    Segments,
    /// The same part of the path too often.
    Repeats,
    /// Too many parameters.
    Parameters,
    /// Too many links from a seed.
    Depth,
}

impl Trap {
    /// The name of the rule that it broke.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Bytes => "bytes_max",
            Self::Segments => "segments_max",
            Self::Repeats => "repeats_max",
            Self::Parameters => "parameters_max",
            Self::Depth => "depth_max",
        }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Bytes => "the address is too long",
            Self::Segments => "the path has too many parts",
            Self::Repeats => "the path repeats a part too often",
            Self::Parameters => "the query has too many parameters",
            Self::Depth => "the page is too many links away from a seed",
        };
        write!(formatter, "{what} (rule `{}`)", self.rule())
    }
}

impl Rules {
    /// The first limit that an address so many links from a seed is beyond.
    pub fn trap(&self, address: &Address, depth: u32) -> Option<Trap> {
        if depth > self.depth_max {
            return Some(Trap::Depth);
        }
        if address.as_str().len() > self.bytes_max {
            return Some(Trap::Bytes);
        }
        let segments = || address.path().split('/').filter(|segment| !segment.is_empty());
        let count = segments().count();
        if count > self.segments_max {
            return Some(Trap::Segments);
        }
        // At most `segments_max` of them, so looking at each pair is cheaper than a map.
        let is_repeating = count > self.repeats_max
            && segments()
                .any(|one| segments().filter(|other| *other == one).count() > self.repeats_max);
        if is_repeating {
            return Some(Trap::Repeats);
        }
        let parameters = address.url().query().map_or(0, |query| query.split('&').count());
        (parameters > self.parameters_max).then_some(Trap::Parameters)
    }

    /// Refuses before it is read what would be refused for its length afterwards.
    pub(super) fn check_bytes(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > self.bytes_max {
            return Err(Refusal::Long { bytes, max: self.bytes_max });
        }
        Ok(())
    }
}
