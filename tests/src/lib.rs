//! End to end: real processes of the real binary, real kills, nothing shared between tests.
//!
//! [`process`] starts servers and workers and ends them with the test; [`api`] speaks the HTTP API as any client
//! would; [`journal`] reads what the `recorder` worker wrote down while it ran tasks; [`video`] makes clips and adds them;
//! [`web`] is what is crawled;
//! [`browser`] is a person at a screen; [`axe`] is one who sees or hears it otherwise; [`proxy`] breaks connections.

pub mod api;
pub mod axe;
pub mod browser;
pub mod journal;
pub mod process;
pub mod proxy;
pub mod random;
pub mod video;
pub mod web;
