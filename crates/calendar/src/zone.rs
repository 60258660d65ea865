//! Where: a time zone of the IANA database that comes with the binary.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;

/// Characters of a zone's name.
pub const ZONE_LEN_MAX: usize = 64;

/// A time zone by its IANA name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: String,
    pub(crate) rules: TimeZone,
}

/// A text that names no time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a time zone: expected an IANA name such as {example}")]
pub struct InvalidZone {
    /// What was given.
    pub given: String,
    /// A name that may have been meant.
    pub example: String,
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self { name: "UTC".into(), rules: TimeZone::UTC }
    }

    /// Its name, spelled as the database does.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for Zone {
    type Err = InvalidZone;

    fn from_str(text: &str) -> Result<Self, InvalidZone> {
        let found = (text.len() <= ZONE_LEN_MAX).then(|| TimeZone::get(text).ok()).flatten();
        match found {
            Some(rules) if rules == TimeZone::UTC => Ok(Self::utc()),
            Some(rules) => {
                let name = rules.iana_name().unwrap_or(text).to_owned();
                Ok(Self { name, rules })
            }
            None => Err(InvalidZone {
                given: text.chars().take(ZONE_LEN_MAX).collect(),
                example: meant(text).unwrap_or_else(|| "Europe/Berlin or UTC".into()),
            }),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The zone of a city that was given without its region.
fn meant(text: &str) -> Option<String> {
    let city = |name: &str| name.rsplit('/').next().unwrap_or_default().replace('_', " ");
    let wanted = text.rsplit('/').next().unwrap_or_default().replace('_', " ");
    let mut names = jiff::tz::db().available();
    names
        .find(|name| {
            name.as_str().contains('/') && city(name.as_str()).eq_ignore_ascii_case(&wanted)
        })
        .map(|name| name.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_in_the_database() {
        assert_eq!("europe/berlin".parse::<Zone>().unwrap().name(), "Europe/Berlin");
        for utc in ["UTC", "utc"] {
            assert_eq!(utc.parse::<Zone>().unwrap(), Zone::utc());
        }
    }

    #[test]
    fn a_wrong_name_is_refused_with_one_that_may_be_meant() {
        for (text, example) in [
            ("Berlin", "Europe/Berlin"),
            ("new york", "America/New_York"),
            ("Asia/Berlin", "Europe/Berlin"),
            ("Middle/Earth", "Europe/Berlin or UTC"),
            ("", "Europe/Berlin or UTC"),
            ("../../etc/passwd", "Europe/Berlin or UTC"),
        ] {
            assert_eq!(text.parse::<Zone>().unwrap_err().example, example, "{text}");
        }
    }
}
