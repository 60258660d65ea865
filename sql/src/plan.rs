//! From a text of SQL to a plan that a cluster can run; every error says where in the text it is.
//!
//! A text may have several statements: those before the last one make tables and views known, and the last one is the
//! query. Statements that change data are refused, because a query that is run again after a crash would change it twice.

use std::collections::VecDeque;

use ballista::prelude::{SessionConfigExt as _, SessionContextExt as _};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParser, Statement};

use crate::args::Table;
use crate::cluster::Address;
use crate::query::Fault;
use crate::tables;

/// Statements of a text.
const STATEMENTS_MAX: usize = 100;

/// A text and what people call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) sql: &'a str,
}

/// Checks the grammar of a text, which needs neither tables nor a cluster.
pub(crate) fn parse(source: Source<'_>) -> Result<VecDeque<Statement>, Fault> {
    let statements =
        DFParser::parse_sql(source.sql).map_err(|error| explain(source, &error, &[]))?;
    match statements.len() {
        0 => Err(Fault::Sql(format!("{}: has no statement", source.name))),
        count if count > STATEMENTS_MAX => Err(Fault::Sql(format!(
            "{}: has {count} statements, at most {STATEMENTS_MAX}",
            source.name
        ))),
        _ => Ok(statements),
    }
}

/// Plans a text against these tables. Runs what stands before the query.
pub(crate) async fn prepare(
    cluster: &Address,
    source: Source<'_>,
    tables: &[Table],
) -> Result<DataFrame, Fault> {
    let mut statements = parse(source)?;
    let session = session(cluster).await?;
    for table in tables {
        tables::register(&session, table).await?;
    }
    let told = |error: DataFusionError| explain(source, &error, tables);
    let query = statements.pop_back().ok_or_else(|| Fault::Sql("no statement".to_owned()))?;
    for statement in statements {
        frame(&session, statement).await.map_err(told)?;
    }
    frame(&session, query).await.map_err(told)
}

async fn frame(
    session: &SessionContext,
    statement: Statement,
) -> Result<DataFrame, DataFusionError> {
    let plan = session.state().statement_to_plan(statement).await?;
    SQLOptions::new().with_allow_dml(false).with_allow_statements(false).verify_plan(&plan)?;
    session.execute_logical_plan(plan).await
}

/// A session whose queries run on a cluster.
async fn session(cluster: &Address) -> Result<SessionContext, Fault> {
    let mut config = SessionConfig::new_with_ballista();
    // Errors say where in the text they are.
    config.options_mut().sql_parser.collect_spans = true;
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let session = SessionContext::remote_with_state(&cluster.to_string(), state).await;
    session.map_err(|error| Fault::Cluster(format!("{cluster} cannot be used: {error}")))
}

/// An error of grammar or meaning, with its place and, for a table that is missing, the cure.
fn explain(source: Source<'_>, error: &DataFusionError, tables: &[Table]) -> Fault {
    let root = error.find_root();
    let mut text = match root {
        DataFusionError::SQL(problem, _) => problem.to_string(),
        other => other.message().into_owned(),
    };
    let place = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(|span| span.start);
    let mut place = place.map(|start| (start.line, start.column));
    if let Some((message, written)) = written_place(&text) {
        (place, text) = (Some(written), message);
    } else if text.ends_with("found: EOF") {
        place = Some(end_of(source.sql));
    }
    let place = match place {
        Some((line, column)) => format!("{}:{line}:{column}", source.name),
        None => source.name.to_owned(),
    };
    let text = text.trim_start_matches("sql parser error: ").trim();
    match missing_table(text) {
        Some(name) => {
            let known: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            let known = match known.is_empty() {
                true => String::new(),
                false => format!(" (there are: {})", known.join(", ")),
            };
            let cure = format!("say where its data is with --table {name}=PATH");
            Fault::Missing(format!("{place}: there is no table `{name}`{known}; {cure}"))
        }
        None if text.starts_with("DML not supported") => Fault::Sql(format!(
            "{place}: a query that may be run again must not change data; select the rows and use --out"
        )),
        None => Fault::Sql(format!("{place}: {text}")),
    }
}

/// The place at the end of what a parser says: `… at Line: 1, Column: 8`.
fn written_place(text: &str) -> Option<(String, (u64, u64))> {
    let (message, place) = text.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let column: String = column.chars().take_while(char::is_ascii_digit).collect();
    Some((message.to_owned(), (line.parse().ok()?, column.parse().ok()?)))
}

/// Where a text ends, line and column.
fn end_of(sql: &str) -> (u64, u64) {
    let sql = sql.trim_end();
    let last = sql.lines().next_back().unwrap_or_default();
    (sql.lines().count().max(1) as u64, last.chars().count() as u64 + 1)
}

/// The name in `table 'datafusion.public.orders' not found`.
fn missing_table(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("table '")?;
    let (name, rest) = rest.split_once('\'')?;
    let last = name.rsplit('.').next()?;
    rest.trim_start().starts_with("not found").then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(sql: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let nobody: Address = "df://127.0.0.1:1".parse().unwrap();
        let source = Source { name: "q.sql", sql };
        match runtime.block_on(prepare(&nobody, source, &[])) {
            Ok(_) => "planned".to_owned(),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn an_error_says_where_it_is() {
        assert_eq!(told("select 1,\n  from"), "q.sql:2:7: Expected: identifier, found: EOF");
        let middle = told("select 1\nfrom a b c");
        assert!(middle.starts_with("q.sql:2:10: "), "{middle}");
        assert!(told("selct 1").starts_with("q.sql:1:1: Expected"), "{}", told("selct 1"));
        let column = told("select a\nfrom (select 1 as b) x");
        assert!(column.starts_with("q.sql:1:8: ") && column.contains('a'), "{column}");
        assert_eq!(told(" -- nothing\n"), "q.sql: has no statement");
    }

    #[test]
    fn a_missing_table_is_told_with_the_cure() {
        assert_eq!(
            told("select 1\nfrom orders"),
            "q.sql:2:6: there is no table `orders`; say where its data is with --table orders=PATH"
        );
    }

    #[test]
    fn what_changes_data_is_refused_and_views_are_not() {
        assert!(told("copy (select 1) to 'a.csv'").contains("must not change data"));
        assert!(told("set a.b = 1").starts_with("q.sql"));
        assert_eq!(told("create view v as select 1 as a; select a from v"), "planned");
    }
}
