//! One pass over a page.

use super::{Options, Page, Source};

/// Takes pages apart. Made once, used for every page, by any thread.
#[derive(Debug)]
pub struct Extractor {
    options: Options,
}

impl Extractor {
    /// Prepares the rules.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// What is in a page. Text that is no HTML has nothing in it, which is not an error.
    pub fn extract(&self, source: Source<'_>) -> Page {
        unimplemented!("{:?} {:?}", self.options, source)
    }
}
