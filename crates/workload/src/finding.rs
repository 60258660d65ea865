//! What a check of `divvy doctor` found, and what to do about it.

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// All is well.
    Good,
    /// Worth knowing; things work.
    Note,
    /// Something does not work.
    Fault,
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was looked at, in one word.
    pub check: &'static str,
    /// How it went.
    pub grade: Grade,
    /// What was found.
    pub text: String,
    /// What to do about it.
    pub cure: Option<String>,
}

impl Finding {
    /// A finding without a cure.
    pub fn new(check: &'static str, grade: Grade, text: impl Into<String>) -> Self {
        Self { check, grade, text: text.into(), cure: None }
    }

    /// The same with a cure.
    #[must_use]
    pub fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }
}
