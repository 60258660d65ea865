//! What is asked of a browser for one page.
//!
//! Every request of the page is held until `gate` has decided about it. What could go out without being held, which workers
//! and web sockets do, the page is told not to use.
//!
//! A page is taken when its network has been quiet, or when most of its time is over, whichever comes first: pages that
//! never rest are taken as they are.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::devtools::{Event, Pipe};
use super::gate::{Gate, Held, Verdict};
use super::{Document, RenderError, Rendered};

/// How long a page may load before it is taken as it is.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// Characters of a document that are kept.
const TEXT_MAX: usize = 10 << 20;
/// Headers of an answer that speak of how it came, and one that would make a file of it.
const NOT_GIVEN: [&str; 5] = [
    "connection",
    "content-disposition",
    "content-encoding",
    "content-length",
    "transfer-encoding",
];

/// What a document may not use, besides what it forbids itself.
const POLICY: &str = "connect-src http: https: data: blob:; worker-src 'none'";

/// Renders one page in a context of its own, which is gone afterwards.
pub(super) async fn render(
    pipe: &mut Pipe,
    document: Document<'_>,
) -> Result<Rendered, RenderError> {
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
    let mut visit = Visit {
        pipe,
        session: &session,
        document,
        gate: Gate::new(document),
        is_quiet: false,
        failure: None,
        loader: None,
    };
    visit.prepare().await?;
    let rendered = visit.load(began).await;
    // If this fails the browser is not used again.
    pipe.call(None, "Target.disposeBrowserContext", json!({ "browserContextId": context })).await?;
    rendered
}

/// A page while it loads.
struct Visit<'a> {
    pipe: &'a mut Pipe,
    session: &'a str,
    document: Document<'a>,
    gate: Gate<'a>,
    is_quiet: bool,
    /// Why the document did not come.
    failure: Option<String>,
    /// Which of the documents that the page went through is the last.
    loader: Option<String>,
}

impl Visit<'_> {
    async fn prepare(&mut self) -> Result<(), RenderError> {
        for (method, parameters) in [
            ("Page.enable", json!({})),
            ("Page.setLifecycleEventsEnabled", json!({ "enabled": true })),
            ("Network.enable", json!({ "maxTotalBufferSize": 0, "maxResourceBufferSize": 0 })),
            ("Fetch.enable", json!({ "patterns": [{ "urlPattern": "*" }] })),
        ] {
            self.call(method, parameters).await?;
        }
        Ok(())
    }

    async fn load(mut self, began: Instant) -> Result<Rendered, RenderError> {
        // Its answer would come only when the document, which is asked of us, has come.
        let place = json!({ "url": self.document.address.as_str() });
        self.pipe.send(Some(self.session), "Page.navigate", place).await?;
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
            html: html.to_owned(),
            truncated: value[2] == true,
            led_on: self.gate.led_on(),
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
            "Fetch.requestPaused" => return self.decide(said).await,
            // Questions that a page asks in a box would hold it up.
            "Page.javascriptDialogOpening" => {
                let answer = json!({ "accept": false });
                self.pipe.send(Some(self.session), "Page.handleJavaScriptDialog", answer).await?;
            }
            // Scripts may lead on to another document.
            "Page.frameNavigated" if said["frame"]["parentId"].is_null() => {
                self.loader = said["frame"]["loaderId"].as_str().map(str::to_owned);
            }
            "Network.loadingFailed"
                if said["type"] == "Document" && is_ours(&said["requestId"]) =>
            {
                self.failure =
                    Some(said["errorText"].as_str().unwrap_or("it was cut off").to_owned());
            }
            "Network.loadingFailed" | "Network.loadingFinished" => {
                self.gate.ended(&string(&said["requestId"]));
                self.pass_waiting().await?;
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

    /// Decides about a request that is held.
    async fn decide(&mut self, said: &Value) -> Result<(), RenderError> {
        let held = Held {
            id: string(&said["requestId"]),
            network_id: string(&said["networkId"]),
            kind: string(&said["resourceType"]),
            frame: string(&said["frameId"]),
            method: string(&said["request"]["method"]),
            url: string(&said["request"]["url"]),
        };
        let (id, network_id) = (held.id.clone(), held.network_id.clone());
        if let Some(address) = self.gate.asks_of(&held) {
            let permission = self.document.others.permission(&address).await;
            self.gate.know(address.origin(), permission);
        }
        match self.gate.decide(held) {
            Verdict::Give => {
                self.loader = Some(network_id);
                self.give(&id).await
            }
            Verdict::Pass => {
                self.pass(&id).await?;
                // A redirect to another host ends what was under way at the first.
                self.pass_waiting().await
            }
            Verdict::Wait => Ok(()),
            Verdict::Refuse => self.refuse(&id, "BlockedByClient").await,
            // With any other reason the browser would show a page that tells it.
            Verdict::Stay => self.refuse(&id, "Aborted").await,
        }
    }

    /// Answers with the document.
    async fn give(&mut self, id: &str) -> Result<(), RenderError> {
        let given = self.document.headers.iter().filter_map(|(name, value)| {
            let is_given = !NOT_GIVEN.contains(&name.as_str());
            is_given.then_some((name.as_str(), value.to_str().ok()?))
        });
        let headers: Vec<Value> = given
            .chain([("content-security-policy", POLICY)])
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        let answer = json!({
            "requestId": id,
            "responseCode": self.document.status,
            "responseHeaders": headers,
            "body": BASE64.encode(self.document.body),
        });
        self.pipe.send(Some(self.session), "Fetch.fulfillRequest", answer).await.map(drop)
    }

    async fn pass(&mut self, id: &str) -> Result<(), RenderError> {
        let request = json!({ "requestId": id });
        self.pipe.send(Some(self.session), "Fetch.continueRequest", request).await.map(drop)
    }

    async fn pass_waiting(&mut self) -> Result<(), RenderError> {
        while let Some(next) = self.gate.next() {
            self.pass(&next.id).await?;
        }
        Ok(())
    }

    async fn refuse(&mut self, id: &str, reason: &str) -> Result<(), RenderError> {
        let refusal = json!({ "requestId": id, "errorReason": reason });
        self.pipe.send(Some(self.session), "Fetch.failRequest", refusal).await.map(drop)
    }

    async fn call(&mut self, method: &str, parameters: Value) -> Result<Value, RenderError> {
        self.pipe.call(Some(self.session), method, parameters).await
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn text_of(answer: &Value, field: &str) -> Result<String, RenderError> {
    let text = answer[field].as_str().map(str::to_owned);
    text.ok_or_else(|| RenderError::Browser(format!("its answer lacks {field}")))
}
