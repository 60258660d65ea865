//! A server with its engine, and clients to try it with.

use std::net::SocketAddr;
use std::time::Duration;

use divvy_client::Channel;
use divvy_engine::{Engine, Handle, Stopper};
use divvy_proto::v1;
use divvy_proto::v1::submit_client::SubmitClient;
use divvy_proto::v1::work_client::WorkClient;
use divvy_server::{Options, Server};
use divvy_store::MemoryStore;
use divvy_types::TaskId;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

/// How long anything may take before a test is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for something that must come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} did not come"))
}

/// A running server.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
    pub(crate) client: reqwest::Client,
    pub(crate) shutdown: CancellationToken,
    pub(crate) running: JoinHandle<Result<(), divvy_server::Error>>,
    stopper: Stopper,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Checks that it is a refusal in the one shape, with this status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        let error = self.json()["error"].clone();
        assert_eq!(error["code"], code, "{}", self.text);
        assert!(
            error["message"].as_str().is_some_and(|message| message.len() > 5),
            "{}",
            self.text
        );
        error
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.text);
        self.json()
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}, divvy_engine::Options::default()).await
    }

    pub(crate) async fn with(
        change: impl FnOnce(&mut Options),
        engine: divvy_engine::Options,
    ) -> Self {
        let (handle, engine) = Engine::start(Box::new(MemoryStore::new()), engine).unwrap();
        let mut options = Options::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(&mut options);
        let server = Server::bind(options, handle.clone()).await.unwrap();
        let address = server.address();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(server.run(shutdown.clone()));
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { address, handle, client, shutdown, running, stopper: engine.stopper() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn stop_engine(&self) {
        self.stopper.stop();
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        read(self.client.get(self.url(path))).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        read(self.client.post(self.url(path)).json(body)).await
    }

    /// Posts a text as JSON, whatever it is.
    pub(crate) async fn post_text(&self, path: &str, body: impl Into<String>) -> Answer {
        let request = self.client.post(self.url(path)).header("content-type", "application/json");
        read(request.body(body.into())).await
    }

    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let request = self.client.request(method, self.url(path));
        read(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
            .await
    }

    pub(crate) async fn task(&self, id: &str) -> Value {
        self.get(&format!("/api/v1/tasks/{id}")).await.ok()
    }

    pub(crate) async fn submitter(&self) -> SubmitClient<Channel> {
        let channel = self.channel();
        SubmitClient::with_origin(channel.clone(), channel.origin())
    }

    pub(crate) async fn worker(&self, hello: v1::Hello) -> Result<Worker, Status> {
        Worker::connect(self.workers(), hello).await
    }

    /// A worker whose connection goes through a wire that can be cut: the task that passes its bytes on.
    pub(crate) async fn wired_worker(&self, hello: v1::Hello) -> (Worker, AbortHandle) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (url, server) = (format!("http://{}", listener.local_addr().unwrap()), self.address);
        let wire = tokio::spawn(async move {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = TcpStream::connect(server).await.unwrap();
            // Whichever end closes first closes the other.
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        });
        let channel = Channel::to(url).unwrap();
        let client = WorkClient::with_origin(channel.clone(), channel.origin());
        (Worker::connect(client, hello).await.unwrap(), wire.abort_handle())
    }

    /// For workers that share a connection.
    pub(crate) fn workers(&self) -> WorkClient<Channel> {
        let channel = self.channel();
        WorkClient::with_origin(channel.clone(), channel.origin())
    }

    fn channel(&self) -> Channel {
        Channel::to(self.url("")).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stopper.stop();
        self.shutdown.cancel();
    }
}

pub(crate) async fn read(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Answer { status, headers, text: response.text().await.unwrap() }
}

/// The other end of a `Work` stream.
pub(crate) struct Worker {
    pub(crate) say: Option<mpsc::Sender<v1::FromWorker>>,
    pub(crate) heard: Streaming<v1::ToWorker>,
}

impl Worker {
    /// Opens a stream, which may share its connection with others.
    pub(crate) async fn connect(
        mut client: WorkClient<Channel>,
        hello: v1::Hello,
    ) -> Result<Self, Status> {
        let (say, said) = mpsc::channel(64);
        say.send(from_worker(v1::from_worker::Message::Hello(hello))).await.unwrap();
        let heard = client.work(ReceiverStream::new(said)).await?.into_inner();
        Ok(Self { say: Some(say), heard })
    }

    pub(crate) async fn say(&self, message: v1::from_worker::Message) {
        let say = self.say.as_ref().expect("still open");
        say.send(from_worker(message)).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> Result<Option<v1::to_worker::Message>, Status> {
        let message = soon("a message to the worker", self.heard.message()).await?;
        Ok(message.map(|message| message.message.expect("never empty")))
    }

    /// The next grant, whatever else comes before it.
    pub(crate) async fn granted(&mut self) -> v1::Grant {
        loop {
            if let Some(v1::to_worker::Message::Grants(mut grants)) = self.hear().await.unwrap() {
                assert_eq!(grants.grants.len(), 1);
                return grants.grants.remove(0);
            }
        }
    }

    /// Whether the next answer says that a report was recorded.
    pub(crate) async fn answered(&mut self) -> bool {
        loop {
            if let Some(v1::to_worker::Message::Answers(answers)) = self.hear().await.unwrap() {
                assert_eq!(answers.answers.len(), 1);
                return answers.answers[0].recorded;
            }
        }
    }

    pub(crate) async fn report(&self, task: bytes::Bytes, token: u64, end: v1::report::End) {
        let report = v1::Report { task, token, end: Some(end), log: "a line of its log\n".into() };
        self.say(v1::from_worker::Message::Reports(v1::Reports { reports: vec![report] })).await;
    }
}

pub(crate) fn from_worker(message: v1::from_worker::Message) -> v1::FromWorker {
    v1::FromWorker { message: Some(message) }
}

pub(crate) fn hello(name: &str, kinds: &[&str]) -> v1::Hello {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    v1::Hello { name: name.into(), kinds, credit: 8, ..v1::Hello::default() }
}

pub(crate) fn finished(result: &str) -> v1::report::End {
    v1::report::End::Finished(v1::Finished {
        result: result.to_owned().into(),
        ..v1::Finished::default()
    })
}

pub(crate) fn failed(message: &str, verdict: v1::FailureVerdict) -> v1::report::End {
    v1::report::End::Failed(v1::Failed {
        message: message.into(),
        verdict: verdict.into(),
        ..v1::Failed::default()
    })
}

/// An id that is alike in every run.
pub(crate) fn id(number: u128) -> String {
    TaskId(number).to_string()
}
