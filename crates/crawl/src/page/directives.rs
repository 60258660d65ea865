//! What a page asks of robots.

use serde::{Deserialize, Serialize};

/// What a page asks of robots, by `meta name=robots` and the header `X-Robots-Tag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directives {
    /// Its text is not to be kept.
    pub noindex: bool,
    /// Its links are not to be followed.
    pub nofollow: bool,
}
