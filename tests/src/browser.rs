//! A headless Chromium, driven over the DevTools protocol as a person would use it: mouse, keys, files.
//!
//! Everything that a page complains about is kept, and so is what it asks of its server. Knows nothing of the pages.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::api::PATIENCE;

/// Bytes of one message.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// When a question counts as lost: its document was left.
const LOST_AFTER: Duration = Duration::from_secs(3);

/// A browser with one page. It ends with the test.
pub struct Browser {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session: Option<String>,
    last: u64,
    complaints: Vec<String>,
    requests: Vec<Value>,
    dialogs: Vec<String>,
    process: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with an empty page.
    pub async fn start() -> Result<Self> {
        let profile = tempfile::tempdir()?;
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
            .context("chromium is missing; install it: apt-get install chromium")?;
        let mut lines =
            BufReader::new(process.stderr.take().context("chromium has no output")?).lines();
        let listening = async {
            while let Some(line) = lines.next_line().await? {
                if let Some((_, address)) = line.split_once("DevTools listening on ") {
                    return Ok(address.trim().to_owned());
                }
            }
            bail!("chromium ended before it listened")
        };
        let address = soon("the address of chromium", listening).await??;
        // Whatever else it writes is read, so that it never waits for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let connecting = tokio_tungstenite::connect_async_with_config(address, Some(config), true);
        let (socket, _) = soon("a connection to chromium", connecting).await??;
        let mut browser = Self {
            socket,
            session: None,
            last: 0,
            complaints: Vec::new(),
            requests: Vec::new(),
            dialogs: Vec::new(),
            process,
            _profile: profile,
        };
        browser.attach().await?;
        Ok(browser)
    }

    async fn attach(&mut self) -> Result<()> {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" })).await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", attach).await?;
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(())
    }

    /// Goes to an address and waits until the page is loaded.
    pub async fn open(&mut self, url: &str) -> Result<()> {
        self.call("Page.navigate", json!({ "url": url })).await?;
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'").await
    }

    /// Loads the page again, whatever it asks before it goes, and waits until another document is there.
    pub async fn reload(&mut self) -> Result<()> {
        self.value("window.isOld = true").await?;
        self.call("Page.reload", json!({})).await?;
        self.until("!window.isOld && document.readyState === 'complete'").await
    }

    /// The value of an expression in the page.
    pub async fn value(&mut self, expression: &str) -> Result<Value> {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", parameters).await?;
        ensure!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression in the page holds, in this document or the one that it leads to.
    pub async fn until(&mut self, condition: &str) -> Result<()> {
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
            if answer.is_ok_and(|answer| {
                answer.is_ok_and(|answer| answer["result"]["result"]["value"] == true)
            }) {
                return Ok(());
            }
        }
        let page = self.value("document.body.innerText.slice(0, 1500)").await?;
        bail!(
            "`{condition}` did not come true; complaints: {:#?}; the page says: {page}",
            self.complaints
        )
    }

    /// Presses the mouse button on the first element that matches.
    pub async fn click(&mut self, selector: &str) -> Result<()> {
        let at = self.hover(selector, 0.5).await?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": at.0, "y": at.1, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event).await?;
        }
        Ok(())
    }

    /// Moves the mouse to a fraction of the width of the first element that matches.
    pub async fn hover(&mut self, selector: &str, fraction: f64) -> Result<(f64, f64)> {
        let at = self.place(selector, fraction).await?;
        let event = json!({ "type": "mouseMoved", "x": at.0, "y": at.1 });
        self.call("Input.dispatchMouseEvent", event).await?;
        Ok(at)
    }

    /// Drops a file of this machine on the first element that matches.
    pub async fn drop_file(&mut self, selector: &str, path: &Path) -> Result<()> {
        let at = self.place(selector, 0.5).await?;
        let data = json!({ "items": [], "files": [path], "dragOperationsMask": 1 });
        for kind in ["dragEnter", "dragOver", "drop"] {
            let event = json!({ "type": kind, "x": at.0, "y": at.1, "data": data });
            self.call("Input.dispatchDragEvent", event).await?;
        }
        Ok(())
    }

    /// Chooses a file of this machine in a field for files.
    pub async fn choose_file(&mut self, selector: &str, path: &Path) -> Result<()> {
        let expression = format!("document.querySelector({})", json!(selector));
        let field = self.call("Runtime.evaluate", json!({ "expression": expression })).await?;
        let choice = json!({ "files": [path], "objectId": field["result"]["objectId"] });
        self.call("DOM.setFileInputFiles", choice).await?;
        Ok(())
    }

    /// Presses a key.
    pub async fn press(&mut self, key: &str) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "text": if key.len() == 1 { key } else { "" } });
            self.call("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    /// Writes text where the focus is.
    pub async fn write(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", json!({ "text": text })).await?;
        Ok(())
    }

    /// Lets so many bytes a second out, or as many as there are.
    pub async fn limit_uploads(&mut self, bytes_per_second: Option<u32>) -> Result<()> {
        let upload = bytes_per_second.map_or(-1, i64::from);
        let conditions = json!({ "offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": upload });
        self.call("Network.emulateNetworkConditions", conditions).await?;
        Ok(())
    }

    /// Makes the page so wide and high, in pixels of its style sheet; a narrow one is that of a phone.
    pub async fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size).await?;
        Ok(())
    }

    /// Lets the system ask for light or dark pages, without movement.
    pub async fn prefer(&mut self, scheme: &str) -> Result<()> {
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).await?;
        // The colours are those of the scheme when the page has been drawn again, and none is on its way any more.
        let drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => Promise.allSettled(document.getAnimations().filter((one) => one instanceof CSSTransition).map((one) => one.finished))).then(() => 0)";
        self.value(drawn).await?;
        Ok(())
    }

    /// What pages complained about so far: errors of scripts, of the console, and of the policy.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// What pages asked of servers so far: `method`, `url` and `headers` of each request.
    pub fn requests(&self) -> &[Value] {
        &self.requests
    }

    /// The kinds of questions that pages asked in a box, which are all answered with yes.
    pub fn dialogs(&self) -> &[String] {
        &self.dialogs
    }

    /// Ends the browser.
    pub async fn close(mut self) -> Result<()> {
        self.session = None;
        self.call("Browser.close", json!({})).await?;
        let ended = tokio::time::timeout(Duration::from_secs(10), self.process.wait()).await;
        if ended.is_err() {
            self.process.kill().await?;
        }
        Ok(())
    }

    /// Where the first element that matches is, as soon as it can be seen.
    async fn place(&mut self, selector: &str, fraction: f64) -> Result<(f64, f64)> {
        let element = format!("document.querySelector({})", json!(selector));
        self.until(&format!("{element}?.getBoundingClientRect().width > 0")).await?;
        let place = self
            .value(&format!("(() => {{ const e = {element}; e.scrollIntoViewIfNeeded(); const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()"))
            .await?;
        let number = |at: usize| place[at].as_f64().with_context(|| format!("{place} is no place"));
        Ok((number(0)? + number(2)? * fraction, number(1)? + number(3)? / 2.0))
    }

    async fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        let answer = soon(method, self.ask(method, parameters)).await??;
        ensure!(answer.get("error").is_none(), "{method}: {answer}");
        Ok(answer["result"].clone())
    }

    async fn ask(&mut self, method: &str, parameters: Value) -> Result<Value> {
        let id = self.send(method, parameters).await?;
        loop {
            let message = self.socket.next().await.context("chromium has gone")??;
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text)?;
            if message["id"] == id {
                return Ok(message);
            }
            self.note(&message).await?;
        }
    }

    async fn send(&mut self, method: &str, parameters: Value) -> Result<u64> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(message.to_string())).await?;
        Ok(self.last)
    }

    /// Keeps what happened in the page.
    async fn note(&mut self, message: &Value) -> Result<()> {
        let parameters = &message["params"];
        let is_complaint = match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => true,
            "Runtime.consoleAPICalled" => {
                matches!(parameters["type"].as_str(), Some("error" | "warning" | "assert"))
            }
            "Log.entryAdded" => {
                matches!(parameters["entry"]["level"].as_str(), Some("error" | "warning"))
            }
            "Network.requestWillBeSent" => {
                self.requests.push(parameters["request"].clone());
                false
            }
            "Page.javascriptDialogOpening" => {
                self.dialogs.push(parameters["type"].as_str().unwrap_or_default().to_owned());
                self.send("Page.handleJavaScriptDialog", json!({ "accept": true })).await?;
                false
            }
            _ => false,
        };
        if is_complaint {
            self.complaints.push(parameters.to_string());
        }
        Ok(())
    }
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(PATIENCE, future).await.with_context(|| format!("{what} did not come"))
}
