//! A short text: kinds, queues, workers, keys and other words that people choose. Most are kept without an allocation.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// A short text.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(CompactString);

impl Name {
    /// A text that is known when the program is built.
    #[inline]
    pub const fn const_new(text: &'static str) -> Self {
        Self(CompactString::const_new(text))
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Adds a text at the end.
    pub fn push_str(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Deref for Name {
    type Target = str;
    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Name {
    #[inline]
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Name {
    #[inline]
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for Name {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.into())
    }
}

macro_rules! from {
    ($($text:ty),*) => {$(
        impl From<$text> for Name {
            #[inline]
            fn from(text: $text) -> Self {
                Self(text.into())
            }
        }
    )*};
}
from!(&str, String, &String, Cow<'_, str>, Box<str>);

impl From<&Self> for Name {
    #[inline]
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl From<Name> for String {
    #[inline]
    fn from(name: Name) -> Self {
        name.0.into()
    }
}

impl FromIterator<char> for Name {
    fn from_iter<I: IntoIterator<Item = char>>(letters: I) -> Self {
        Self(letters.into_iter().collect())
    }
}

macro_rules! equal {
    ($($text:ty),*) => {$(
        impl PartialEq<$text> for Name {
            #[inline]
            fn eq(&self, other: &$text) -> bool {
                let other: &str = other.as_ref();
                self.as_str() == other
            }
        }
        impl PartialEq<Name> for $text {
            #[inline]
            fn eq(&self, other: &Name) -> bool {
                other == self
            }
        }
    )*};
}
equal!(str, &str, String);
