//! One page after the other, in a browser that is replaced when it fails, when it is slow, and after [`PAGES_MAX`] pages.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::browser::Browser;
use super::page::render;
use super::{BUDGET, Document, Options, PAGES_MAX, RenderError, Rendered};

/// Renders pages, one at a time, and replaces its browser when it must.
#[derive(Debug)]
pub struct Renderer {
    options: Options,
    browser: Option<Browser>,
    /// Pages that the browser has rendered, and how many it may.
    pages: u32,
    pub(super) pages_max: u32,
    /// How long one page may take.
    pub(super) budget: Duration,
}

impl Renderer {
    /// A renderer; its browser is started with the first page.
    pub fn new(options: Options) -> Self {
        Self { options, browser: None, pages: 0, pages_max: PAGES_MAX, budget: BUDGET }
    }

    /// The page after its scripts.
    ///
    /// # Errors
    ///
    /// Says why there is none; the renderer can be used again in any case. If the call is given up, the browser ends.
    pub fn render<'a>(
        &'a mut self,
        document: Document<'a>,
    ) -> BoxFuture<'a, Result<Rendered, RenderError>> {
        self.rendered(document).boxed()
    }

    async fn rendered(&mut self, document: Document<'_>) -> Result<Rendered, RenderError> {
        // Taken out: whatever happens in between, a browser in an unknown state is not used again.
        let mut browser = match self.browser.take() {
            Some(browser) => browser,
            None => {
                self.pages = 0;
                Browser::start(&self.options)?
            }
        };
        let rendering = timeout(self.budget, render(&mut browser.pipe, document)).await;
        let rendered = rendering.unwrap_or(Err(RenderError::Slow(self.budget)));
        self.pages += 1;
        let is_sound = matches!(rendered, Ok(_) | Err(RenderError::Page(_)));
        if is_sound && self.pages < self.pages_max {
            self.browser = Some(browser);
        } else {
            browser.end().await;
        }
        rendered
    }

    /// Ends the browser.
    pub fn close(&mut self) -> BoxFuture<'_, ()> {
        async {
            if let Some(browser) = self.browser.take() {
                browser.end().await;
            }
        }
        .boxed()
    }

    /// The number of the process of the browser, while there is one.
    pub fn process(&self) -> Option<u32> {
        self.browser.as_ref().and_then(Browser::id)
    }
}
