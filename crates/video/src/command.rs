//! `divvy video`: adds videos, shows them, writes their files, removes them.
//!
//! Everything goes over the API of a server. Ctrl-C while it waits ends this command only; the work goes on.

pub(crate) mod add;
pub(crate) mod args;
mod bars;
mod export;
mod list;
pub(crate) mod local;
pub(crate) mod objects;
mod remove;
mod show;
pub(crate) mod showcase;
pub(crate) mod sweep;
pub(crate) mod values;
pub(crate) mod words;

use std::path::Path;

use crate::Recipe;
use crate::library::{Added, NewVideo, Video as Record, VideoId, VideoState, VideoView};
use anyhow::{Context as _, Result};
use divvy::types::WorkflowId;
use serde_json::Value;

use crate::command::args::{SomeVideos, Video};
use divvy::api::{Api, parse_rows};
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};

/// How long a whole id is.
const ID_LEN: usize = 12;
/// Ids that are named when a start fits several.
const NAMED_MAX: usize = 5;
/// Rows that are asked for at once.
const PAGE: usize = 200;

/// Does what is asked.
pub(crate) async fn run(args: Video, context: &Context) -> Result<Code> {
    match args {
        Video::Add(args) => add::run(&args, context).await,
        Video::List(args) => list::run(&args, context).await,
        Video::Show(args) => show::run(&args, context).await,
        Video::Wait(args) => wait(&args, context).await,
        Video::Open(args) => local::open(&args, context).await,
        Video::Export(args) => export::run(&args, context).await,
        Video::Remove(args) => remove::run(&args, context).await,
        Video::Sweep(args) => sweep::run(&args, context).await,
        Video::Cancel(args) => change(&args, context, "cancel").await,
        Video::Approve(args) => change(&args, context, "approve").await,
        Video::Provider(args) => local::providers(args, context).await,
        Video::Sample(args) => local::sample(&args, context).await,
    }
}

/// Adds a file with the usual recipe, and says which workflow makes it.
pub(crate) async fn try_out(file: &Path, context: &Context) -> Result<WorkflowId> {
    let source = add::Source::new(&file.to_string_lossy())?;
    let new = NewVideo {
        source: None,
        url: None,
        title: source.title(),
        recipe: Recipe::default(),
        priority: None,
        deadline_ms: None,
    };
    let reply = add::add(&source, new, &context.api()?, &add::objects(context)?, context).await?;
    let added: Added = reply.parse()?;
    added.video.workflow_id().with_context(|| format!("{} has no workflow", file.display()))
}

/// Says what an interruption would leave running: these videos.
fn name_open(ids: &[VideoId], context: &Context) {
    let ids: Vec<&str> = ids.iter().map(|id| id.0.as_str()).collect();
    match ids.is_empty() {
        true => context.on_interrupt("", None),
        false => context.on_interrupt(
            "; the work goes on without this command",
            Some(format!("come back with: divvy video wait {}", ids.join(" "))),
        ),
    }
}

/// Waits for each of these, tells how they ended, and judges.
pub(crate) async fn wait_for(ids: &[VideoId], api: &Api, context: &Context) -> Result<Code> {
    let mut code = Code::Done;
    for (number, id) in ids.iter().enumerate() {
        name_open(&ids[number..], context);
        let view = bars::until_final(api, &context.output, id).await?;
        name_open(&ids[number + 1..], context);
        if matches!(view.video.state, VideoState::Failed | VideoState::Cancelled) {
            code = Code::Failed;
        }
        show::end(&view, api, context).await?;
    }
    Ok(code)
}

async fn wait(args: &SomeVideos, context: &Context) -> Result<Code> {
    let api = context.api()?;
    let ids = resolve_all(&api, &args.ids).await?;
    wait_for(&ids, &api, context).await
}

/// Cancels or approves.
async fn change(args: &SomeVideos, context: &Context, verb: &str) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    for id in resolve_all(&api, &args.ids).await? {
        let reply = api.post(&["videos", &id.0, verb], &Value::Null).await?;
        if output.is_json() {
            output.raw(reply.text())?;
        } else if output.is_quiet() {
            output.data(&id.0)?;
        } else {
            let video: Record = reply.parse()?;
            output.data(format_args!("{}  {}", id.0, video.state.as_str()))?;
        }
    }
    Ok(Code::Done)
}

/// The whole ids of videos that are named by their ids or starts of them. None is good if one is not.
async fn resolve_all(api: &Api, texts: &[String]) -> Result<Vec<VideoId>> {
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        ids.push(resolve(api, text).await?);
    }
    Ok(ids)
}

/// The whole id of a video.
async fn resolve(api: &Api, text: &str) -> Result<VideoId> {
    if text.len() == ID_LEN {
        return Ok(VideoId(text.to_owned()));
    }
    let found = some(api, &[("id", text.to_owned())], PAGE).await?;
    Ok(only(text, found.into_iter().map(|view| view.video.id).collect())?)
}

fn only(text: &str, mut found: Vec<VideoId>) -> Result<VideoId, Failure> {
    match found.len() {
        0 => Err(Failure::new(
            Code::NotFound,
            format!("no video has an id that starts with `{text}`"),
        )
        .cure("divvy video list shows which there are")),
        1 => Ok(found.remove(0)),
        count => {
            let named: Vec<&str> = found.iter().take(NAMED_MAX).map(|id| id.0.as_str()).collect();
            let text = format!("`{text}` fits {count} videos: {}", named.join(", "));
            Err(Failure::usage(text).cure("write more of the id"))
        }
    }
}

/// The latest videos that fit, up to so many.
async fn some(api: &Api, filter: &[(&str, String)], limit: usize) -> Result<Vec<VideoView>> {
    let mut views: Vec<VideoView> = Vec::new();
    let mut after = None;
    loop {
        let rows = PAGE.min(limit - views.len());
        let mut query = filter.to_vec();
        query.push(("limit", rows.to_string()));
        query.extend(after.map(|cursor| ("after", cursor)));
        let page = api.get(&["videos"], &query).await?.rows()?;
        views.extend(parse_rows::<VideoView>(&page.items)?);
        after = page.next;
        if after.is_none() || views.len() >= limit {
            views.truncate(limit);
            return Ok(views);
        }
    }
}

/// Where people watch a video.
pub(crate) fn player(api: &Api, id: &VideoId) -> String {
    format!("{}/videos/{}", api.server(), id.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy::Target;
    use divvy_workload::Sources;
    use divvy_workload::console::output::{Color, Output};

    #[test]
    fn a_start_must_fit_one_video() {
        let ids = |texts: &[&str]| texts.iter().map(|text| VideoId((*text).to_owned())).collect();
        assert_eq!(only("a", ids(&["ab"])).unwrap().0, "ab");
        assert_eq!(only("a", ids(&[])).unwrap_err().code, Code::NotFound);
        let failure = only("a", ids(&["ab", "ac"])).unwrap_err();
        assert_eq!(failure.code, Code::Usage);
        assert!(failure.message.contains("ab, ac"), "{failure}");
    }

    #[test]
    fn an_interruption_names_what_goes_on() {
        let output = Output::new(false, false, Color::Never);
        let context =
            Context::new(output, Sources::new(None, |_| None), Target::new("http://127.0.0.1:1"));
        let ids = ["a", "b"].map(|id| VideoId(id.to_owned()));
        name_open(&ids[1..], &context);
        let failure = context.interrupted();
        assert_eq!(failure.code, Code::Interrupted);
        assert_eq!(failure.cure.as_deref(), Some("come back with: divvy video wait b"));
        name_open(&[], &context);
        assert_eq!(context.interrupted().cure, None);
    }
}
