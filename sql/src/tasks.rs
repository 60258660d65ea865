//! What the divvy server is given: the processes of a cluster as tasks that never end by themselves, and queries.
//!
//! Keys are unique, so that a cluster that is brought up twice is one cluster. The task of the scheduler holds the
//! address; everybody else asks for it, so there is one place where it stands and a scheduler that died comes back where
//! it was.

use std::path::PathBuf;

use divvy::prelude::*;
use divvy::types::view::{Page, TaskDetail, TaskSummary};
use divvy::types::{RetryPolicy, RetryRule, TaskId};

use crate::args::Table;
use crate::cluster::Address;
use crate::format::Format;

/// The queue of all of them.
pub(crate) const QUEUE: &str = "sql";
/// What an error begins with when the cluster itself says that a query failed.
pub(crate) const QUERY_FAILED: &str = "the query failed";
/// Attempts after the first for a query that the cluster says failed: an executor may have died at the wrong moment.
const FAILED_RETRIES: u32 = 2;
/// States in which a task may still run.
const OPEN: &str = "blocked,scheduled,ready,leased";

/// The scheduler of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeepScheduler {
    pub(crate) cluster: String,
    pub(crate) address: Address,
}

/// One executor of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeepExecutor {
    pub(crate) cluster: String,
    pub(crate) number: u32,
    /// Cores that it uses.
    pub(crate) cores: u32,
    /// How many executors share the memory of a machine.
    pub(crate) share: u32,
}

/// A query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) cluster: String,
    pub(crate) sql: String,
    /// What errors call the text.
    pub(crate) source: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) format: Format,
    /// The file of the result; without one the result is in the answer.
    pub(crate) out: Option<PathBuf>,
}

/// What became of a query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Rows of the result, unless an attempt before wrote it.
    pub(crate) rows: Option<u64>,
    /// Bytes of the result.
    pub(crate) bytes: u64,
    /// The result itself, if it was not written to a file.
    pub(crate) text: Option<String>,
}

impl Task for KeepScheduler {
    const KIND: &'static str = "sql.scheduler";
    type Output = ();
}

impl Task for KeepExecutor {
    const KIND: &'static str = "sql.executor";
    type Output = ();
}

impl Task for Ask {
    const KIND: &'static str = "sql.query";
    type Output = Answer;
}

/// The options of a task that keeps a process: it is started again after a moment, as often as can be said.
pub(crate) fn keeping(options: TaskOptions, cluster: &str, part: &str) -> TaskOptions {
    let limit = divvy::types::limits::RETRY_LIMIT_MAX;
    let policy = RetryPolicy { limit, base_ms: 250, cap_ms: 5_000, ..RetryPolicy::default() };
    options
        .queue(QUEUE)
        .priority(5)
        .retry(policy)
        .unique(format!("sql/{cluster}/{part}"))
        .tags([tag(cluster)])
        .matching(Matching::Exact)
}

/// The options of a query. A lost scheduler is met with patience, a query that fails by itself is not.
pub(crate) fn asking(options: TaskOptions, cluster: &str) -> TaskOptions {
    let policy = RetryPolicy { limit: 100, base_ms: 500, cap_ms: 10_000, ..RetryPolicy::default() };
    let contains = Some(QUERY_FAILED.into());
    let rule = RetryRule { contains, limit: Some(FAILED_RETRIES), ..RetryRule::default() };
    options
        .queue(QUEUE)
        .retry(policy)
        .retry_rule(rule)
        .needs([member(cluster)])
        .matching(Matching::Exact)
}

/// The capability of workers that look after this cluster.
pub(crate) fn member(cluster: &str) -> String {
    format!("sql={cluster}")
}

/// The capability of workers on this machine: a scheduler can come back only where its address is.
pub(crate) fn at(host: &str) -> String {
    format!("sql.host={host}")
}

/// The tag of the processes of a cluster.
fn tag(cluster: &str) -> String {
    format!("sql:{cluster}")
}

/// The processes of a cluster that are not final.
pub(crate) async fn open(client: &Client, cluster: &str) -> Result<Vec<TaskSummary>, divvy::Error> {
    let query = [("tag", tag(cluster)), ("state", OPEN.to_owned()), ("limit", "1000".to_owned())];
    let page: Page<TaskSummary> = client.api().get(&["tasks"], &query).await?.parse()?;
    Ok(page.items)
}

/// The scheduler of a cluster and where it is; nothing if the cluster is not up.
pub(crate) async fn locate(
    client: &Client,
    cluster: &str,
) -> Result<Option<(TaskId, Address)>, divvy::Error> {
    let open = open(client, cluster).await?;
    let Some(scheduler) = open.iter().find(|task| task.kind.as_str() == KeepScheduler::KIND) else {
        return Ok(None);
    };
    let path = ["tasks", &scheduler.id.to_string()];
    let detail: TaskDetail = client.api().get(&path, &[]).await?.parse()?;
    let task: KeepScheduler = detail.payload.parse().map_err(divvy::Error::protocol)?;
    Ok(Some((scheduler.id, task.address)))
}
