//! What is asked of a browser for one page.
//!
//! A page is taken when its network has been quiet, or when most of its time is over, whichever comes first: pages that
//! never rest are taken as they are.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::devtools::{Event, Pipe};
use super::{RenderError, Rendered};

/// How long a page may load before it is taken as it is.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// Characters of a document that are kept.
const TEXT_MAX: usize = 10 << 20;
/// What a page does without.
const BLOCKED: [&str; 3] = ["Image", "Font", "Media"];

/// Renders one page in a context of its own, which is gone afterwards.
pub(super) async fn render(pipe: &mut Pipe, url: &str) -> Result<Rendered, RenderError> {
    let began = Instant::now();
    pipe.forget_events();
    let context =
        pipe.call(None, "Target.createBrowserContext", json!({ "disposeOnDetach": true })).await?;
    let context = text_of(&context, "browserContextId")?;
    let deny = json!({ "behavior": "deny", "browserContextId": context });
    pipe.call(None, "Browser.setDownloadBehavior", deny).await?;
    let target = json!({ "url": "about:blank", "browserContextId": context });
    let target = text_of(&pipe.call(None, "Target.createTarget", target).await?, "targetId")?;
    let attach = json!({ "targetId": target, "flatten": true });
    let session = text_of(&pipe.call(None, "Target.attachToTarget", attach).await?, "sessionId")?;
    let mut visit =
        Visit { pipe, session: &session, status: 0, is_quiet: false, failure: None, loader: None };
    visit.prepare().await?;
    let rendered = visit.load(url, began).await;
    // If this fails the browser is not used again.
    pipe.call(None, "Target.disposeBrowserContext", json!({ "browserContextId": context })).await?;
    rendered
}

/// A page while it loads.
struct Visit<'a> {
    pipe: &'a mut Pipe,
    session: &'a str,
    /// Of the last document.
    status: u16,
    is_quiet: bool,
    /// Why the document did not come.
    failure: Option<String>,
    /// Which of the documents that the page went through is the last.
    loader: Option<String>,
}

impl Visit<'_> {
    async fn prepare(&mut self) -> Result<(), RenderError> {
        let blocked: Vec<Value> =
            BLOCKED.iter().map(|kind| json!({ "resourceType": kind })).collect();
        for (method, parameters) in [
            ("Page.enable", json!({})),
            ("Page.setLifecycleEventsEnabled", json!({ "enabled": true })),
            ("Network.enable", json!({ "maxTotalBufferSize": 0, "maxResourceBufferSize": 0 })),
            ("Fetch.enable", json!({ "patterns": blocked })),
        ] {
            self.call(method, parameters).await?;
        }
        Ok(())
    }

    async fn load(&mut self, url: &str, began: Instant) -> Result<Rendered, RenderError> {
        let answer = self.call("Page.navigate", json!({ "url": url })).await?;
        if let Some(error) = answer["errorText"].as_str() {
            return Err(RenderError::Page(error.to_owned()));
        }
        self.loader = answer["loaderId"].as_str().map(str::to_owned);
        // A page that never rests is taken as it is.
        if let Ok(waited) = timeout(QUIET_MAX.saturating_sub(began.elapsed()), self.wait()).await {
            waited?;
        }
        if let Some(failure) = self.failure.take() {
            return Err(RenderError::Page(failure));
        }
        let expression = format!(
            "(() => {{ const text = document.documentElement?.outerHTML ?? ''; return [location.href, text.slice(0, {TEXT_MAX}), text.length > {TEXT_MAX}]; }})()"
        );
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", parameters).await?;
        let value = &answer["result"]["value"];
        let (Some(place), Some(html)) = (value[0].as_str(), value[1].as_str()) else {
            return Err(RenderError::Page("it has no document".to_owned()));
        };
        let address = place
            .parse()
            .map_err(|refusal| RenderError::Page(format!("it went to {place}: {refusal}")))?;
        Ok(Rendered {
            address,
            status: self.status,
            html: html.to_owned(),
            truncated: value[2] == true,
            took: began.elapsed(),
        })
    }

    /// Until the network is quiet or the document has failed.
    async fn wait(&mut self) -> Result<(), RenderError> {
        while !self.is_quiet && self.failure.is_none() {
            let event = self.pipe.event().await?;
            if event.session.as_deref() == Some(self.session) {
                self.see(&event).await?;
            }
        }
        Ok(())
    }

    async fn see(&mut self, event: &Event) -> Result<(), RenderError> {
        let said = &event.parameters;
        let is_ours =
            |loader: &Value| loader.as_str().is_some() && loader.as_str() == self.loader.as_deref();
        match event.method.as_str() {
            "Fetch.requestPaused" => {
                let refuse =
                    json!({ "requestId": said["requestId"], "errorReason": "BlockedByClient" });
                self.pipe.send(Some(self.session), "Fetch.failRequest", refuse).await?;
            }
            // Questions that a page asks in a box would hold it up.
            "Page.javascriptDialogOpening" => {
                let answer = json!({ "accept": false });
                self.pipe.send(Some(self.session), "Page.handleJavaScriptDialog", answer).await?;
            }
            // Scripts may lead on to another document.
            "Page.frameNavigated" if said["frame"]["parentId"].is_null() => {
                self.loader = said["frame"]["loaderId"].as_str().map(str::to_owned);
            }
            "Network.responseReceived"
                if said["type"] == "Document" && is_ours(&said["loaderId"]) =>
            {
                self.status = said["response"]["status"]
                    .as_u64()
                    .and_then(|status| u16::try_from(status).ok())
                    .unwrap_or_default();
            }
            "Network.loadingFailed"
                if said["type"] == "Document" && is_ours(&said["requestId"]) =>
            {
                self.failure =
                    Some(said["errorText"].as_str().unwrap_or("it was cut off").to_owned());
            }
            "Page.lifecycleEvent"
                if said["name"] == "networkIdle" && is_ours(&said["loaderId"]) =>
            {
                self.is_quiet = true;
            }
            "Inspector.targetCrashed" => {
                return Err(RenderError::Browser("the page crashed it".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    async fn call(&mut self, method: &str, parameters: Value) -> Result<Value, RenderError> {
        self.pipe.call(Some(self.session), method, parameters).await
    }
}

fn text_of(answer: &Value, field: &str) -> Result<String, RenderError> {
    let text = answer[field].as_str().map(str::to_owned);
    text.ok_or_else(|| RenderError::Browser(format!("its answer lacks {field}")))
}
