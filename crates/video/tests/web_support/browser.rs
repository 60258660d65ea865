//! A headless Chromium, driven over the DevTools protocol. Everything that a page complains about is kept.

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::PATIENCE;

/// Bytes of one message: a screenshot is the largest.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// When a question counts as lost: its document was left.
const LOST_AFTER: Duration = Duration::from_secs(3);

/// A browser with one page. It ends with the test.
pub(crate) struct Browser {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session: Option<String>,
    last: u64,
    complaints: Vec<String>,
    process: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with an empty page.
    pub(crate) async fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut process = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking", "--mute-audio"])
            .args(["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-port=0", "--no-proxy-server", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("chromium is installed");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = soon("the address of chromium", async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, address)) = line.split_once("DevTools listening on ") {
                    return address.trim().to_owned();
                }
            }
            panic!("chromium ended before it listened")
        })
        .await;
        // Whatever else it writes is read, so that it never waits for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let connecting = tokio_tungstenite::connect_async_with_config(address, Some(config), true);
        let (socket, _) = soon("a connection to chromium", connecting).await.unwrap();
        let mut browser = Self {
            socket,
            session: None,
            last: 0,
            complaints: Vec::new(),
            process,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach).await;
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser
    }

    /// Goes to an address and waits until the page is loaded.
    pub(crate) async fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url })).await;
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'").await;
    }

    /// The value of an expression in the page.
    pub(crate) async fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", parameters).await;
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression in the page holds, in this document or the one that it leads to.
    pub(crate) async fn until(&mut self, condition: &str) {
        // Each question waits a little inside the page; one that is lost with its document is asked again.
        let expression = format!(
            "new Promise((resolve) => {{ const end = Date.now() + 500; const look = () => ({condition}) ? resolve(true) : Date.now() > end ? resolve(false) : setTimeout(look, 20); look(); }})"
        );
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let asking = self.ask("Runtime.evaluate", parameters.clone());
            let answer = tokio::time::timeout(LOST_AFTER, asking).await;
            if answer.is_ok_and(|answer| answer["result"]["result"]["value"] == true) {
                return;
            }
        }
        panic!("`{condition}` did not come true; complaints: {:#?}", self.complaints);
    }

    /// Presses the mouse button on the first element that matches.
    pub(crate) async fn click(&mut self, selector: &str) {
        let at = self.hover(selector, 0.5).await;
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": at.0, "y": at.1, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Moves the mouse to a fraction of the width of the first element that matches.
    pub(crate) async fn hover(&mut self, selector: &str, fraction: f64) -> (f64, f64) {
        let text = serde_json::to_string(selector).unwrap();
        let visible = format!(
            "(() => {{ const e = document.querySelector({text}); return e && e.getBoundingClientRect().width > 0; }})()"
        );
        self.until(&visible).await;
        let place = self
            .value(&format!("(() => {{ const e = document.querySelector({text}); e.scrollIntoViewIfNeeded(); const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()"))
            .await;
        let number = |at: usize| place[at].as_f64().unwrap();
        let at = (number(0) + number(2) * fraction, number(1) + number(3) / 2.0);
        let event = json!({ "type": "mouseMoved", "x": at.0, "y": at.1 });
        self.call("Input.dispatchMouseEvent", event).await;
        at
    }

    /// Presses a key.
    pub(crate) async fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "text": if key.len() == 1 { key } else { "" } });
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// A picture of the page as PNG, in base64.
    pub(crate) async fn screenshot(&mut self) -> String {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        answer["data"].as_str().unwrap().to_owned()
    }

    /// What pages complained about so far: errors of scripts, of the console, and of the policy.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Ends the browser.
    pub(crate) async fn close(mut self) {
        self.session = None;
        self.call("Browser.close", json!({})).await;
        let ended = tokio::time::timeout(Duration::from_secs(10), self.process.wait()).await;
        if ended.is_err() {
            self.process.kill().await.unwrap();
        }
    }

    /// Calls a method of the protocol.
    pub(crate) async fn call(&mut self, method: &str, parameters: Value) -> Value {
        let answer = soon(method, self.ask(method, parameters)).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(message.to_string())).await.unwrap();
        loop {
            let message = self.socket.next().await.expect("chromium answers").unwrap();
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == self.last {
                return message;
            }
            if let Some(complaint) = complaint(&message) {
                self.complaints.push(complaint);
            }
        }
    }
}

fn complaint(message: &Value) -> Option<String> {
    let parameters = &message["params"];
    let is_complaint = match message["method"].as_str()? {
        "Runtime.exceptionThrown" => true,
        "Runtime.consoleAPICalled" => {
            matches!(parameters["type"].as_str(), Some("error" | "warning" | "assert"))
        }
        "Log.entryAdded" => {
            matches!(parameters["entry"]["level"].as_str(), Some("error" | "warning"))
        }
        _ => false,
    };
    is_complaint.then(|| parameters.to_string())
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} did not come"))
}
