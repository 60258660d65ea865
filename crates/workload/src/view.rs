//! Things that people start, watch and end by a command, such as crawls: which one is meant, lists of them, waiting for
//! the end of one with live figures, and wishes. All of it goes over the API of a server.
//!
//! Says nothing about what the things are; a workload implements [`View`] for what its API shows of one.

use anyhow::Result;
use divvy::api::{Api, Reply, parse_rows};
use divvy_console::exit::{Code, Failure};
use divvy_console::output::Output;
use divvy_console::output::line::Line;
use divvy_console::output::table::Table;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::files::ID_LEN;
use crate::follow::until_final;

/// Things of one list.
const LIST_MAX: usize = 100;
/// What becomes of work that is waited for if somebody presses Ctrl-C.
pub const GOES_ON: &str = "; the work goes on without this command";
/// Ids that are named when several fit.
const NAMED_MAX: usize = 5;

/// What the API shows of one thing.
pub trait View: Serialize + DeserializeOwned {
    /// Where the things are in the API and among the pages, such as `crawls`.
    const PLACE: &'static str;
    /// What one is called, such as `crawl`.
    const NOUN: &'static str;
    /// The command for them, such as `divvy crawl`.
    const COMMAND: &'static str;
    /// A command that starts one.
    const START: &'static str;
    /// What an event of one carries.
    type Event: DeserializeOwned + Into<Self>;

    /// Its id.
    fn id(&self) -> &str;

    /// Its state in a word.
    fn state(&self) -> &'static str;

    /// Whether it has ended.
    fn is_final(&self) -> bool;

    /// Whether it ended as it was meant to.
    fn is_good(&self) -> bool;

    /// How far it is, on one line.
    fn line(&self) -> String;

    /// What of it is done, a line each, in the order in which it happened.
    fn steps(&self) -> Vec<String> {
        Vec::new()
    }

    /// Prints everything about it on one screen.
    ///
    /// # Errors
    /// If nobody reads.
    fn summary(&self, output: &Output) -> Result<()>;

    /// A table of some.
    fn table(views: &[Self]) -> Table;
}

/// The whole id of the thing that is named by it or by a start of it.
///
/// # Errors
/// If none is meant, or more than one.
pub async fn resolve<V: View>(api: &Api, text: &str) -> Result<String> {
    if text.len() == ID_LEN {
        return Ok(text.to_owned());
    }
    let query = [("id", text.to_owned()), ("limit", LIST_MAX.to_string())];
    let found: Vec<V> = parse_rows(&api.get(&[V::PLACE], &query).await?.rows()?.items)?;
    match found.as_slice() {
        [one] => Ok(one.id().to_owned()),
        [] => {
            let text = format!("no {} has an id that starts with `{text}`", V::NOUN);
            let failure = Failure::new(Code::NotFound, text);
            Err(failure.cure(format!("{} list shows which there are", V::COMMAND)).into())
        }
        several => {
            let ids: Vec<&str> = several.iter().take(NAMED_MAX).map(View::id).collect();
            let (count, noun) = (several.len(), V::NOUN);
            let text = format!("`{text}` fits {count} {noun}s: {}", ids.join(", "));
            Err(Failure::usage(text).cure("write more of the id").into())
        }
    }
}

/// The whole id of the thing that is named, or of the latest.
///
/// # Errors
/// If there is none.
pub async fn resolve_or_latest<V: View>(api: &Api, text: Option<&str>) -> Result<String> {
    if let Some(text) = text {
        return resolve::<V>(api, text).await;
    }
    let page = api.get(&[V::PLACE], &[("limit", "1".to_owned())]).await?.rows()?;
    let views: Vec<V> = parse_rows(&page.items)?;
    let latest = views.first().map(|view| view.id().to_owned());
    Ok(latest.ok_or_else(|| {
        Failure::new(Code::NotFound, format!("there are no {}s", V::NOUN)).cure(V::START)
    })?)
}

/// Lists all, latest first.
///
/// # Errors
/// If the server does not answer.
pub async fn list<V: View>(context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let page = api.get(&[V::PLACE], &[("limit", LIST_MAX.to_string())]).await?.rows()?;
    let views: Vec<V> = parse_rows(&page.items)?;
    if output.is_json() {
        views.iter().try_for_each(|view| output.object(view))?;
    } else if output.is_quiet() {
        views.iter().try_for_each(|view| output.data(view.id()))?;
    } else if views.is_empty() {
        output.note(format_args!("no {}s; start one with: {}", V::NOUN, V::START));
    } else {
        V::table(&views).print(output)?;
    }
    Ok(Code::Done)
}

/// Says that one was started: its id, and where to watch it.
///
/// # Errors
/// If nobody reads.
pub fn tell_started<V: View>(reply: &Reply, waits: bool, api: &Api, output: &Output) -> Result<V> {
    let view: V = reply.parse()?;
    if output.is_quiet() || (!output.is_json() && !waits) {
        output.data(view.id())?;
    } else if output.is_json() && !waits {
        output.raw(reply.text())?;
    }
    tell_page::<V>(api, view.id(), output);
    Ok(view)
}

/// Says where to watch one.
pub fn tell_page<V: View>(api: &Api, id: &str, output: &Output) {
    output.note(format_args!("watch it: {}/{}/{id}", api.server(), V::PLACE));
}

/// Waits until it has ended, with live figures, and says how.
///
/// # Errors
/// If the server does not answer.
pub async fn wait_for<V: View>(api: &Api, id: &str, context: &Context) -> Result<Code> {
    wait_telling::<V>(api, id, GOES_ON, context).await
}

/// The same; `meanwhile` is what becomes of it if somebody presses Ctrl-C.
///
/// # Errors
/// If the server does not answer.
pub async fn wait_telling<V: View>(
    api: &Api,
    id: &str,
    meanwhile: &'static str,
    context: &Context,
) -> Result<Code> {
    let cure = format!("come back with: {} status {id} --wait", V::COMMAND);
    context.on_interrupt(meanwhile, Some(cure));
    let (mut line, mut told) = (Line::new(&context.output), 0);
    let show = |view: &V| {
        for step in view.steps().iter().skip(told) {
            told += 1;
            line.note(step);
        }
        if !view.is_final() {
            line.update(&view.line());
        }
        view.is_final()
    };
    let view: V = until_final::<V, V::Event>(api, V::PLACE, id, show).await?;
    drop(line);
    context.on_interrupt("", None);
    if context.output.is_json() {
        context.output.object(&view)?;
    } else if !context.output.is_quiet() {
        view.summary(&context.output)?;
    }
    Ok(if view.is_good() { Code::Done } else { Code::Failed })
}

/// Asks for something to be done with it.
///
/// # Errors
/// If the server refuses.
pub async fn wish<V: View>(
    id: &str,
    verb: &str,
    body: &impl Serialize,
    context: &Context,
) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve::<V>(&api, id).await?;
    let reply = api.post(&[V::PLACE, &id, verb], body).await?;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(&id)?;
    } else {
        output.data(format_args!("{id}  {}", reply.parse::<V>()?.state()))?;
    }
    Ok(Code::Done)
}

/// Removes it.
///
/// # Errors
/// If it has not ended.
pub async fn remove<V: View>(id: &str, context: &Context) -> Result<Code> {
    let api = context.api()?;
    let id = resolve::<V>(&api, id).await?;
    let reply = api.delete(&[V::PLACE, &id]).await?;
    if context.output.is_json() {
        context.output.raw(reply.text())?;
    } else {
        context.output.data(format_args!("{id}  removed"))?;
    }
    Ok(Code::Done)
}
