//! What a caller of a server may do: the scopes of its token. Knows neither secrets nor addresses.
//!
//! - `read`: see everything: tasks, queues, workers, figures, objects.
//! - `submit`: add work, and upload what it needs.
//! - `work`: be a worker: take tasks, and keep what they read and make.
//! - `admin`: everything, the others included.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Name, Timestamp};

/// One thing that a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Scope {
    /// See everything.
    Read,
    /// Add work.
    Submit,
    /// Be a worker.
    Work,
    /// Everything.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Submit, Self::Work, Self::Admin];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found
            .ok_or_else(|| format!("`{text}` is not a scope: expected read, submit, work or admin"))
    }
}

/// Some scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<Scope>", from = "Vec<Scope>")]
pub struct Scopes(u8);

impl Scopes {
    /// Nothing but `admin`, which is everything.
    pub const ADMIN: Self = Self(1 << Scope::Admin as u8);

    /// These.
    pub fn of(scopes: impl IntoIterator<Item = Scope>) -> Self {
        scopes.into_iter().fold(Self::default(), |Self(bits), scope| Self(bits | 1 << scope as u8))
    }

    /// Whether this one is named among them.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// Whether someone who has these may do what any of `needed` allows.
    pub fn allow(self, needed: Self) -> bool {
        self.has(Scope::Admin) || self.0 & needed.0 != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// One after another.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }
}

impl From<Scope> for Scopes {
    fn from(scope: Scope) -> Self {
        Self::of([scope])
    }
}

impl From<Vec<Scope>> for Scopes {
    fn from(scopes: Vec<Scope>) -> Self {
        Self::of(scopes)
    }
}

impl<const N: usize> From<[Scope; N]> for Scopes {
    fn from(scopes: [Scope; N]) -> Self {
        Self::of(scopes)
    }
}

impl From<Scopes> for Vec<Scope> {
    fn from(scopes: Scopes) -> Self {
        scopes.iter().collect()
    }
}

/// As people write them: `submit,read`.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, scope) in self.iter().enumerate() {
            write!(f, "{}{scope}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Scopes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(|word| word.trim().parse::<Scope>())
            .collect::<Result<Vec<_>, _>>()
            .map(Self::of)
    }
}

/// What is told of a token; never its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenView {
    /// What people call it.
    pub name: Name,
    /// What it allows.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is refused; never, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was shown last since the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Scopes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scopes".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = Vec::<Scope>::json_schema(generator);
        schema.insert("minItems".to_owned(), 1.into());
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_may_do_everything_and_the_others_only_what_they_name() {
        let needed = Scopes::of([Scope::Read, Scope::Work]);
        for (have, may) in [("read", true), ("work", true), ("admin", true), ("submit", false)] {
            assert_eq!(have.parse::<Scopes>().unwrap().allow(needed), may, "{have}");
        }
        assert!(!Scopes::default().allow(needed));
        assert!(!Scopes::of([Scope::Read, Scope::Submit, Scope::Work]).allow(Scopes::ADMIN));
    }

    #[test]
    fn scopes_are_written_as_they_are_read() {
        let scopes: Scopes = "submit, read".parse().unwrap();
        assert_eq!(scopes.to_string(), "read,submit");
        assert_eq!(serde_json::to_string(&scopes).unwrap(), r#"["read","submit"]"#);
        assert_eq!(serde_json::from_str::<Scopes>(r#"["submit","read"]"#).unwrap(), scopes);
        for wrong in ["", "root", "read,", "Read"] {
            assert!(wrong.parse::<Scopes>().unwrap_err().contains("is not a scope"), "{wrong}");
        }
    }
}
