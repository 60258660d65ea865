//! `divvy-sql run`: a query at once on an existing cluster, or as a durable task.

use std::convert::Infallible;
use std::io::{BufWriter, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use divvy::WaitError;
use divvy::prelude::*;
use divvy::types::TaskState;
use divvy::types::view::TaskDetail;
use divvy_console::{Code, Output};

use crate::args::{self, Table};
use crate::cluster::{Address, Health};
use crate::format::Format;
use crate::plan::{self, Source};
use crate::publish::Publication;
use crate::query;
use crate::tasks::{self, Answer, Ask};

/// The largest text of a query.
const SQL_BYTES_MAX: u64 = 512 << 10;
/// How long an existing cluster may take to be there.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// How often the progress of a task is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Runs a query in whichever way was asked for.
pub(crate) async fn run(wish: args::Run, output: &Output) -> anyhow::Result<Code> {
    let (name, sql) = read(wish.file.as_deref(), wish.execute)?;
    let source = Source { name: &name, sql: &sql };
    plan::parse(source).map_err(query::Fault::failure)?;
    let form = wish.format.or_else(|| wish.out.as_deref().and_then(Format::of));
    let format = form.unwrap_or(Format::Table);
    if format == Format::Parquet && wish.out.is_none() {
        let refused = divvy_console::Failure::usage("Parquet is not for a terminal or a pipe");
        return Err(refused.cure("name a file with --out FILE").into());
    }
    let out = wish.out.map(std::path::absolute).transpose();
    let out = out.context("the file of --out has no absolute path")?;
    if let Some(out) = &out {
        refuse_existing(out)?;
    }
    match wish.cluster {
        Some(cluster) => at_once(&cluster, source, &wish.tables, format, out, output).await,
        None => {
            let cluster = wish.owner.name;
            let tables = wish.tables.into_iter().map(rooted).collect::<Result<_, _>>()?;
            let ask = Ask { cluster, source: name, sql, tables, format, out };
            as_task(ask, &wish.target, output).await
        }
    }
}

/// The text of a query, and what errors call it.
fn read(file: Option<&Path>, typed: Option<String>) -> anyhow::Result<(String, String)> {
    let Some(file) = file else { return Ok(("query".to_owned(), typed.unwrap_or_default())) };
    let mut sql = String::new();
    let (name, read) = if file == Path::new("-") {
        (
            "stdin".to_owned(),
            std::io::stdin().lock().take(SQL_BYTES_MAX + 1).read_to_string(&mut sql),
        )
    } else {
        let open = std::fs::File::open(file);
        let name = file.display().to_string();
        (name, open.and_then(|file| file.take(SQL_BYTES_MAX + 1).read_to_string(&mut sql)))
    };
    match read {
        Ok(bytes) if bytes as u64 > SQL_BYTES_MAX => {
            let message = format!("{name} has more than {} KiB of SQL", SQL_BYTES_MAX >> 10);
            Err(divvy_console::Failure::usage(message).into())
        }
        Ok(_) => Ok((name, sql)),
        Err(error) => {
            let code = if error.kind() == std::io::ErrorKind::NotFound {
                Code::NotFound
            } else {
                Code::Usage
            };
            Err(divvy_console::Failure::new(code, format!("cannot read the query {name}: {error}"))
                .into())
        }
    }
}

fn refuse_existing(out: &Path) -> anyhow::Result<()> {
    if out.symlink_metadata().is_ok() {
        let refused = divvy_console::Failure::refused(format!("{} exists", out.display()));
        return Err(refused.cure("remove it, or name another file with --out").into());
    }
    Ok(())
}

/// The table with a path that means the same for a worker.
fn rooted(table: Table) -> std::io::Result<Table> {
    if table.path.contains("://") {
        return Ok(table);
    }
    let path = std::path::absolute(&table.path)?.to_string_lossy().into_owned();
    Ok(Table { path, ..table })
}

async fn at_once(
    cluster: &Address,
    source: Source<'_>,
    tables: &[Table],
    format: Format,
    out: Option<PathBuf>,
    output: &Output,
) -> anyhow::Result<Code> {
    if let Err(health) = cluster.wait_for(1, ANSWERS_WITHIN).await {
        let cure = match health {
            Health::Away(_) => "check the address, or start a cluster with `divvy-sql up`",
            _ => "start executors, or wait until they are there",
        };
        let message = format!("the cluster {cluster} cannot take the query: {health}");
        return Err(divvy_console::Failure::new(Code::Unreachable, message).cure(cure).into());
    }
    let told = |fault: query::Fault| anyhow::Error::from(fault.failure());
    let frame = plan::prepare(cluster, source, tables).await.map_err(told)?;
    let Some(out) = out else {
        let (_, written) = query::write(frame, format, Vec::new()).await.map_err(told)?;
        output.bytes(&written)?;
        return Ok(Code::Done);
    };
    let publication = Publication::new(&out, &format!("run-{}", std::process::id()), 1);
    let part = publication.begin()?;
    let written = query::write(frame, format, BufWriter::new(part)).await;
    let (rows, part) = written.inspect_err(|_| publication.abandon()).map_err(told)?;
    publication.choose(&part.into_inner()?)?;
    let bytes = publication.publish()?;
    publication.settle();
    output.note(format_args!("wrote {rows} rows, {bytes} bytes, to {}", out.display()));
    Ok(Code::Done)
}

async fn as_task(ask: Ask, server: &args::Server, output: &Output) -> anyhow::Result<Code> {
    let client = Client::connect(server.target()).await?;
    if tasks::locate(&client, &ask.cluster).await?.is_none() {
        output.note(format_args!(
            "cluster `{0}` is not up: the query waits until `divvy-sql up --name {0}` is run",
            ask.cluster
        ));
    }
    let (cluster, out) = (ask.cluster.clone(), ask.out.clone());
    let handle = client.submit_with(ask, |options| tasks::asking(options, &cluster)).await?;
    let id = handle.id();
    output.note(format_args!("task {id}"));
    let ended = tokio::select! {
        ended = handle.wait() => ended,
        never = tell(&handle, output) => match never {},
        signal = tokio::signal::ctrl_c() => {
            signal?;
            output.say(format_args!(
                "the query goes on: `divvy task show {id}` looks at it, `divvy wait {id}` waits, `divvy task cancel {id}` stops it"
            ));
            return Ok(Code::Interrupted);
        }
    };
    match ended {
        Ok(answer) => show(answer, out, output),
        Err(WaitError::Client(error)) => Err(error.into()),
        Err(WaitError::Dead { error, .. }) => {
            let failure = divvy_console::Failure::new(Code::Failed, error.message.to_string());
            Err(failure.cure(format!("`divvy task show {id}` has every attempt")).into())
        }
        Err(error) => Err(divvy_console::Failure::new(Code::Failed, error.to_string()).into()),
    }
}

fn show(answer: Answer, out: Option<PathBuf>, output: &Output) -> anyhow::Result<Code> {
    if let Some(text) = answer.text {
        output.bytes(text.as_bytes())?;
    }
    if let Some(out) = out {
        let rows = answer.rows.map_or_else(String::new, |rows| format!("{rows} rows, "));
        output.note(format_args!("wrote {rows}{} bytes, to {}", answer.bytes, out.display()));
    }
    Ok(Code::Done)
}

/// Tells what the task does whenever that has changed, for ever.
async fn tell(handle: &TaskHandle<Answer>, output: &Output) -> Infallible {
    let mut before = String::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // A server that is away is waited for elsewhere.
        let Ok(detail) = handle.detail().await else { continue };
        let now = doing(&detail);
        if now != before {
            output.note(&now);
            before = now;
        }
    }
}

fn doing(detail: &TaskDetail) -> String {
    let task = &detail.summary;
    let message =
        task.progress.as_ref().map(|progress| progress.message.as_str()).filter(|m| !m.is_empty());
    match (task.state, message) {
        (TaskState::Leased, message) => {
            let message = message.unwrap_or("begins");
            format!("attempt {}: {message}", task.attempts.max(1))
        }
        (TaskState::Scheduled, _) => match &task.error {
            Some(error) => format!("tries again: {}", error.message),
            None => "waits".to_owned(),
        },
        (state, _) => task.wait_text.clone().unwrap_or_else(|| state.to_string()),
    }
}
