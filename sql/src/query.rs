//! From a plan to rows that are written, and what can go wrong on the way, cut by what the one who asked can do.

use std::fmt;
use std::io::Write;

use datafusion::error::DataFusionError;
use datafusion::prelude::DataFrame;
use divvy_console::{Code, Failure};
use futures_util::StreamExt as _;

use crate::format::{Format, Sink};
use crate::tasks::QUERY_FAILED;

/// Why a query has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The text makes no sense, or asks for what is not allowed.
    Sql(String),
    /// A table or a file is not there, or cannot be read.
    Missing(String),
    /// The cluster is away, or was lost on the way: the same may work later.
    Cluster(String),
    /// The cluster says that it failed.
    Failed(String),
    /// The result could not be written.
    Output(String),
}

impl Fault {
    /// The error of a command that ends with it.
    pub(crate) fn failure(self) -> Failure {
        let (code, message) = match self {
            Self::Sql(message) => (Code::Usage, message),
            Self::Missing(message) => (Code::NotFound, message),
            Self::Cluster(message) => (Code::Unreachable, message),
            Self::Failed(message) | Self::Output(message) => (Code::Failed, message),
        };
        Failure::new(code, message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(message)
            | Self::Missing(message)
            | Self::Cluster(message)
            | Self::Failed(message)
            | Self::Output(message) => f.write_str(message),
        }
    }
}

/// Lets the cluster run the query and writes its rows; says how many there were.
pub(crate) async fn write<W: Write + Send>(
    frame: DataFrame,
    format: Format,
    to: W,
) -> Result<(u64, W), Fault> {
    let unwritten = |error: anyhow::Error| Fault::Output(format!("{error:#}"));
    let mut rows = 0;
    let mut stream = frame.execute_stream().await.map_err(|error| lost(&error))?;
    let mut sink = Sink::new(format, stream.schema(), to).map_err(unwritten)?;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| lost(&error))?;
        rows += batch.num_rows() as u64;
        sink.write(batch).map_err(unwritten)?;
    }
    Ok((rows, sink.finish().map_err(unwritten)?))
}

/// What an error of a running query means. Ballista says all of it in words, and only a query that the scheduler gave up
/// begins like this; everything else is a connection that broke, or an executor that died with its part of the result.
fn lost(error: &DataFusionError) -> Fault {
    let text = error.find_root().strip_backtrace();
    let text = text.trim_start_matches("Execution error: ").trim();
    match text.strip_prefix("Job ").and_then(|rest| rest.split_once(" failed: ")) {
        Some((_, reason)) => Fault::Failed(format!("{QUERY_FAILED}: {}", reason.trim())),
        None => Fault::Cluster(format!("the cluster was lost: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_was_given_up_is_told_from_a_cluster_that_is_gone() {
        let fault = |text: &str| lost(&DataFusionError::Execution(text.to_owned()));
        let failed = fault("Job a1B2c3d failed: Arrow error: Divide by zero error");
        assert_eq!(failed.to_string(), "the query failed: Arrow error: Divide by zero error");
        assert_eq!(failed.failure().code, Code::Failed);
        let gone = fault("Stream closed without job completing");
        assert!(matches!(gone, Fault::Cluster(_)), "{gone:?}");
        assert_eq!(gone.failure().code, Code::Unreachable);
    }
}
