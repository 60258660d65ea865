//! What tells a page that is made by its scripts from one that is just short.
//!
//! It is asked for pages with few words only, and may be wrong: then a page is rendered for nothing.

use super::text::until_end_tag;

/// Names that frameworks give to the element that they fill.
const ROOTS: [&str; 8] =
    ["root", "app", "__next", "__nuxt", "___gatsby", "svelte", "main-app", "react-root"];

/// Signs in the text of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Scripts in the page.
    pub scripts: usize,
    /// Whether an element that frameworks fill is there: `id` of `root`, `app`, `__next` and the like.
    pub has_root: bool,
    /// Whether a `noscript` says that scripts are needed.
    pub has_notice: bool,
}

impl Signs {
    pub(super) fn of(html: &str) -> Self {
        let small = html.to_ascii_lowercase();
        let after = |tag: &'static str| small.match_indices(tag).map(move |(at, _)| at + tag.len());
        let is_root = |at: usize| {
            let value = small[at..].trim_start_matches(['"', '\'']);
            let end = value.find(['"', '\'', ' ', '>']).unwrap_or(value.len());
            ROOTS.contains(&&value[..end])
        };
        let is_notice = |at: usize| {
            let said = until_end_tag(&small[at..], "noscript");
            said.contains("javascript") || said.contains("enable scripts")
        };
        Self {
            scripts: after("<script").count(),
            has_root: after(" id=").any(is_root),
            has_notice: after("<noscript").any(is_notice),
        }
    }
}
