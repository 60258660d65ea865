//! Many idle workers: one task must make one message, and waiting must cost nothing.

use std::time::Duration;

use anyhow::{Context as _, bail};
use divvy::api::Channel;
use divvy_console::output::Output;
use divvy_proto::v1;
use divvy_proto::v1::from_worker::Message as From;
use divvy_proto::v1::to_worker::Message as To;
use divvy_proto::v1::work_client::WorkClient;
use divvy_workload::private::{Place, Process, rounded};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::submitter;

/// Workers that share a connection.
const STREAMS_PER_CONNECTION: usize = 1_000;
/// How long stray messages are waited for.
const QUIET: Duration = Duration::from_secs(2);

/// How many workers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Idle workers
    #[arg(long, default_value_t = 10_000)]
    workers: usize,
    /// Seconds over which the server's CPU is measured
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    #[command(flatten)]
    place: Place,
}

/// The figures.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    workers: usize,
    grant_messages: usize,
    idle_cpu_percent: f64,
    server_rss_mb: u64,
}

/// Measures.
pub(crate) async fn run(args: &Args, output: &Output) -> anyhow::Result<Figures> {
    let folder = args.place.folder()?;
    let (server, url) = Process::server(folder.path())?;
    output.note(format_args!("connecting {} workers …", args.workers));
    let (grants, mut granted) = mpsc::unbounded_channel();
    let mut open = Vec::with_capacity(args.workers);
    let mut channel: Option<Channel> = None;
    for number in 0..args.workers {
        if number % STREAMS_PER_CONNECTION == 0 {
            channel = Some(Channel::to(&url)?);
        }
        let channel = channel.clone().context("no connection")?;
        open.push(join(channel, number, grants.clone()).await?);
    }
    output.note(format_args!("measuring the idle server for {} s …", args.seconds));
    let before = server.cpu_s()?;
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let idle_cpu_percent = (server.cpu_s()? - before) / args.seconds as f64 * 100.0;

    let tasks = submitter::specs(1, "noop").iter().map(divvy_proto::spec_to_wire).collect();
    submitter::connect(&url)?.submit(v1::SubmitRequest { tasks, strict: false }).await?;
    let mut grant_messages = 0;
    while let Ok(Some(())) = tokio::time::timeout(QUIET, granted.recv()).await {
        grant_messages += 1;
    }
    let server_rss_mb = server.rss_mb()?.0;
    drop(open);
    Ok(Figures {
        workers: args.workers,
        grant_messages,
        idle_cpu_percent: rounded(idle_cpu_percent),
        server_rss_mb,
    })
}

/// Connects one worker; each grants message that it gets is told on `grants`. It lives until the sender is dropped.
async fn join(
    channel: Channel,
    number: usize,
    grants: mpsc::UnboundedSender<()>,
) -> anyhow::Result<mpsc::Sender<v1::FromWorker>> {
    let (send, receive) = mpsc::channel(4);
    let hello = v1::Hello {
        name: format!("idle-{number}"),
        kinds: vec!["noop".into()],
        credit: 1,
        version: env!("CARGO_PKG_VERSION").into(),
        ..v1::Hello::default()
    };
    send.send(v1::FromWorker { message: Some(From::Hello(hello)) }).await?;
    let mut messages = WorkClient::with_origin(channel.clone(), channel.origin())
        .work(ReceiverStream::new(receive))
        .await?
        .into_inner();
    match messages.message().await?.and_then(|m| m.message) {
        Some(To::Welcome(_)) => {}
        other => bail!("worker {number} was not welcomed: {other:?}"),
    }
    tokio::spawn(async move {
        while let Ok(Some(message)) = messages.message().await {
            if let Some(To::Grants(_)) = message.message {
                // The measurement may be over.
                let _ = grants.send(());
            }
        }
    });
    Ok(send)
}
