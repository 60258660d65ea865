//! Lists of a server that arguments of commands take their values from, for completions.

/// A list of the API, and what of its rows is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its address below `/api/v1/`, of one part.
    pub path: &'static str,
    /// What else the address asks for.
    pub query: Option<(&'static str, &'static str)>,
    /// The field with the name, or with a list of names.
    pub field: &'static str,
}

impl Listing {
    /// This field of the rows at this address.
    pub const fn new(path: &'static str, field: &'static str) -> Self {
        Self { path, query: None, field }
    }

    /// Only rows of which this holds.
    #[must_use]
    pub const fn only(self, name: &'static str, value: &'static str) -> Self {
        Self { query: Some((name, value)), ..self }
    }
}
