//! Dead letters: seen in groups, replayed or given up by selection.
//!
//! A selection is carried out in pages, so that a million dead letters need no more memory than a few thousand. What
//! is no dead letter any more when its turn comes is left alone and counts as matched but not done.

use axum::Json;
use axum::extract::State;
use divvy_engine::{Error, TaskFilter};
use divvy_types::limits::{ERROR_BYTES_MAX, KIND_LEN_MAX, PAGE_ROWS_MAX};
use divvy_types::spec::check_name;
use divvy_types::view::{DeadGroup, Page, TaskSummary};
use divvy_types::{Name, TaskId, TaskState};
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::http::whole;

/// Ids in one request.
const IDS_MAX: usize = 10_000;
/// Dead letters that are treated at once; they share commits.
const AT_ONCE: usize = 256;

/// Which dead letters. At least one part must be given; several parts must all fit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Selection {
    /// Only this kind; a trailing `*` matches any rest.
    kind: Option<Name>,
    /// Only errors that contain this text, or that belong to the group with this `error`.
    error: Option<String>,
    /// Only these, by id or the beginning of one.
    ids: Option<Vec<String>>,
    /// All of them; must be said, so that an empty request does nothing.
    all: bool,
    /// Only count.
    dry_run: bool,
}

/// What became of a selection.
#[derive(Serialize)]
pub(crate) struct Treated {
    matched: u64,
    done: u64,
}

#[derive(Clone, Copy)]
enum Treatment {
    Replay,
    Drop,
}

/// All groups, largest first.
pub(crate) async fn list(State(app): State<App>) -> Result<Json<Page<DeadGroup>>, ApiError> {
    Ok(whole(app.handle.dead_groups().await?))
}

/// Runs dead letters again.
pub(crate) async fn replay(
    State(app): State<App>,
    JsonBody(selection): JsonBody<Selection>,
) -> Result<Json<Treated>, ApiError> {
    treat(&app, selection, Treatment::Replay).await
}

/// Gives dead letters up.
pub(crate) async fn give_up(
    State(app): State<App>,
    JsonBody(selection): JsonBody<Selection>,
) -> Result<Json<Treated>, ApiError> {
    treat(&app, selection, Treatment::Drop).await
}

async fn treat(
    app: &App,
    selection: Selection,
    treatment: Treatment,
) -> Result<Json<Treated>, ApiError> {
    selection.check()?;
    let mut treated = Treated { matched: 0, done: 0 };
    if let Some(named) = &selection.ids {
        let ids = named_dead(app, named, &selection).await?;
        carry_out(app, ids, &selection, treatment, &mut treated).await?;
        return Ok(Json(treated));
    }
    let mut after = None;
    loop {
        let filter = TaskFilter {
            states: vec![TaskState::Dead],
            kind: selection.kind.clone(),
            limit: PAGE_ROWS_MAX,
            after,
            ..TaskFilter::default()
        };
        // Pages go by the tasks' numbers, which treating does not change: none is seen twice and none is missed.
        let page = app.handle.tasks(filter).await?;
        let ids =
            page.items.iter().filter(|task| selection.fits(task)).map(|task| task.id).collect();
        carry_out(app, ids, &selection, treatment, &mut treated).await?;
        after = page.next;
        if after.is_none() {
            return Ok(Json(treated));
        }
    }
}

async fn named_dead(
    app: &App,
    named: &[String],
    selection: &Selection,
) -> Result<Vec<TaskId>, ApiError> {
    let mut ids = Vec::with_capacity(named.len());
    for text in named {
        let id = app.handle.resolve(text).await?;
        let task = app.handle.task(id).await?.summary;
        if task.state == TaskState::Dead && selection.fits(&task) && !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

async fn carry_out(
    app: &App,
    ids: Vec<TaskId>,
    selection: &Selection,
    treatment: Treatment,
    treated: &mut Treated,
) -> Result<(), ApiError> {
    treated.matched += ids.len() as u64;
    if selection.dry_run {
        return Ok(());
    }
    let ends = ids.into_iter().map(|id| async move {
        match treatment {
            Treatment::Replay => app.handle.retry(id).await,
            Treatment::Drop => app.handle.drop_dead(id).await,
        }
    });
    let mut ends = stream::iter(ends).buffer_unordered(AT_ONCE);
    while let Some(end) = ends.next().await {
        match end {
            Ok(_) => treated.done += 1,
            Err(Error::Conflict { .. } | Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Selection {
    fn check(&self) -> Result<(), ApiError> {
        if let Some(kind) = &self.kind {
            check_name("kind", kind, KIND_LEN_MAX)?;
        }
        if self
            .error
            .as_ref()
            .is_some_and(|error| error.is_empty() || error.len() > ERROR_BYTES_MAX)
        {
            return Err(ApiError::field(
                "error",
                format!("is empty or longer than {ERROR_BYTES_MAX} bytes"),
            ));
        }
        if let Some(count) = self.ids.as_ref().map(Vec::len).filter(|count| *count > IDS_MAX) {
            return Err(ApiError::field(
                "ids",
                format!("lists {count}, at most {IDS_MAX}; send several requests"),
            ));
        }
        if self.kind.is_none() && self.error.is_none() && self.ids.is_none() && !self.all {
            let message =
                "nothing is selected; give `kind`, `error` or `ids`, or say \"all\": true";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "nothing_selected", message)
                .with_field("all"));
        }
        Ok(())
    }

    fn fits(&self, task: &TaskSummary) -> bool {
        let kind = self.kind.as_ref().is_none_or(|kind| match kind.strip_suffix('*') {
            Some(start) => task.kind.starts_with(start),
            None => *kind == task.kind,
        });
        let message = task.error.as_ref().map_or("", |error| error.message.as_str());
        kind && self
            .error
            .as_ref()
            .is_none_or(|wanted| message.contains(wanted.as_str()) || in_group(wanted, message))
    }
}

/// Whether a message belongs to the group with this error, in which `#` stands for a number or a long hexadecimal
/// word and which may be cut off.
fn in_group(group: &str, message: &str) -> bool {
    let mut parts = group.split('#');
    let Some(mut rest) = parts.next().and_then(|start| message.strip_prefix(start)) else {
        return false;
    };
    for part in parts {
        let blank = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let Some(after) = rest[blank..].strip_prefix(part).filter(|_| blank > 0) else {
            return false;
        };
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_holds_messages_that_differ_in_numbers_only() {
        let group = "timeout after # s on #";
        assert!(in_group(group, "timeout after 30 s on 0198c0de7a3b"));
        assert!(in_group(group, "timeout after 7 s on 0fffffffffff\nmore"));
        assert!(!in_group(group, "timeout after s on 1"));
        assert!(!in_group(group, "refused"));
        assert!(in_group("refused", "refused by peer"));
    }

    #[test]
    fn an_empty_selection_is_refused() {
        assert!(Selection::default().check().is_err());
        assert!(Selection { all: true, ..Selection::default() }.check().is_ok());
        assert!(Selection { error: Some("x".into()), ..Selection::default() }.check().is_ok());
        assert!(
            Selection { error: Some(String::new()), all: true, ..Selection::default() }
                .check()
                .is_err()
        );
    }
}
