//! Pages that are made by their scripts, rendered by Chromium.
//!
//! A browser reaches nothing but the crawler's own proxy on loopback, which decides by the same address rule as every
//! other fetch. Each page has a browser context of its own, loads no images, fonts and media, and has [`BUDGET`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use divvy_frontier::address::Address;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::page::Page;

/// How long one page may take, from its first request to its text.
pub const BUDGET: Duration = Duration::from_secs(15);
/// Pages after which a browser is replaced.
pub const PAGES_MAX: u32 = 200;
/// The capability of a worker that has a browser.
pub const CAPABILITY: &str = "chromium";

/// Which pages are rendered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// None.
    #[default]
    Off,
    /// Those of hosts whose pages are empty without their scripts.
    Auto,
    /// All.
    Always,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            _ => Err(format!(
                "the mode `{text}` of rendering is not known; it is one of off, auto, always"
            )),
        }
    }
}

/// How browsers are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The browser, see [`find`].
    pub program: PathBuf,
    /// The proxy on loopback through which everything goes.
    pub proxy: SocketAddr,
    /// The user agent.
    pub agent: String,
}

/// A page after its scripts.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// Where the browser ended.
    pub address: Address,
    /// The status of the page there.
    pub status: u16,
    /// The text of the document.
    pub html: String,
    /// How long it took.
    pub took: Duration,
}

/// Why a page was not rendered.
#[derive(Debug, Error)]
pub enum RenderError {
    /// There is no browser.
    #[error("chromium cannot be started: {0}; install it, or crawl with --render off")]
    Start(String),
    /// The page did not load.
    #[error("the page did not load in the browser: {0}")]
    Page(String),
    /// The page took longer than [`BUDGET`].
    #[error("the page took longer than 15 s in the browser")]
    Slow,
    /// The browser ended or answered nonsense; the next page gets a new one.
    #[error("the browser failed: {0}")]
    Browser(String),
}

/// Renders pages, one at a time, and replaces its browser when it must.
#[derive(Debug)]
pub struct Renderer {
    options: Options,
}

impl Renderer {
    /// A renderer; its browser is started with the first page.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// The page after its scripts.
    ///
    /// # Errors
    ///
    /// Says why there is none; the renderer can be used again in any case.
    pub async fn render(&mut self, address: &Address) -> Result<Rendered, RenderError> {
        unimplemented!("{:?} {address}", self.options)
    }

    /// Ends the browser.
    pub async fn close(&mut self) {
        unimplemented!()
    }
}

/// The browser of this machine: `DIVVY_CHROMIUM`, or `chromium` on the path.
pub fn find() -> Option<PathBuf> {
    None
}

/// Whether a page that was fetched looks as if its scripts made it: almost no text, and an element to be filled, a notice
/// that scripts are needed, or nothing but scripts.
pub fn needs_rendering(page: &Page) -> bool {
    let _ = page;
    false
}
