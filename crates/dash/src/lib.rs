//! The dashboard: its pages as they were built from `ui`, embedded, and the addresses that serve them.
//!
//! Every page is the same small document; the script in it shows what the address says, from the API alone. It is built by
//! `npm run build` in `ui` into `dist`, which is kept, so that no build of divvy needs Node; `scripts/dash` checks that the
//! two belong together.
//!
//! **Invariant**: nothing here knows a task, a queue or the engine; what the pages show comes from the API.

mod pages;

pub use pages::{PAGES, routes};
