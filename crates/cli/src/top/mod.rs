//! `divvy top`: the server at a glance in a terminal, with keys to act.
//!
//! Reading order: `look` (what is asked of the server), `model` (what is shown and what a key means: pure), `draw` (the
//! screen), `terminal` (taken over and given back), this file (the loop around them).
//!
//! **Invariant:** the terminal is given back as it was, at the end, at an error, at a panic and at a signal.

mod draw;
mod look;
mod model;
mod terminal;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Context as _, Result};
use divvy::api::Api;
use serde_json::json;

use crate::args::top::Top;
use crate::commands::Context;
use crate::exit::{Code, Failure};
use crate::output::Output;
use look::Look;
use model::{Act, Model, Wish};
use terminal::{Input, Terminal};

/// How wide plain text is drawn.
const PLAIN_WIDTH: u16 = 80;

/// Shows the server until somebody quits, or once as plain text.
pub(crate) async fn run(args: &Top, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    if args.once {
        return once(&api, output).await;
    }
    if output.is_json() {
        return Err(Failure::usage("top draws a screen, which is no JSON")
            .cure("add --once")
            .into());
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let failure = Failure::usage("top needs a terminal to draw on");
        return Err(failure.cure("print it once instead: divvy top --once").into());
    }
    let every = Duration::from_millis(args.every.map_or(1_000, |span| span.as_ms().max(100)));
    // Whoever has no server hears that in plain words, before the screen is taken.
    let first = Look::take(&api).await?;
    let mut terminal = Terminal::take().context("cannot draw on this terminal")?;
    let ended = follow(&api, first, every, output.has_color(), &mut terminal).await;
    drop(terminal);
    ended
}

async fn once(api: &Api, output: &Output) -> Result<Code> {
    let look = Look::take(api).await?;
    if output.is_json() {
        output.object(&look.json())?;
        return Ok(Code::Done);
    }
    let mut model = Model::new(api.server());
    model.take(look);
    for line in draw::plain(&model, PLAIN_WIDTH) {
        output.data(line)?;
    }
    Ok(Code::Done)
}

async fn follow(
    api: &Api,
    first: Look,
    every: Duration,
    has_color: bool,
    terminal: &mut Terminal,
) -> Result<Code> {
    let mut model = Model::new(api.server());
    model.take(first);
    let mut looks = tokio::time::interval(every);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| draw::screen(&model, has_color, frame))?;
        tokio::select! {
            input = terminal.next() => match input {
                Input::Key(key) => match model.press(key) {
                    Act::Nothing => {}
                    Act::Quit => return Ok(Code::Done),
                    Act::Do(wish) => {
                        let said = carry_out(api, &wish).await;
                        model.say(said);
                        refresh(api, &mut model).await?;
                    }
                },
                Input::Resized => {}
                Input::Ended => return Ok(Code::Interrupted),
                Input::Gone(problem) => return Err(anyhow::anyhow!("the terminal cannot be read: {problem}")),
            },
            _ = looks.tick(), if !model.is_frozen() => refresh(api, &mut model).await?,
        }
    }
}

/// Looks anew. A server that starts anew is waited for; one that refuses is not.
async fn refresh(api: &Api, model: &mut Model) -> Result<()> {
    match Look::take(api).await {
        Ok(look) => model.take(look),
        Err(error) if error.is_temporary() => model.lose(error.to_string()),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Does what was asked, and says what came of it. A refusal is told and changes nothing.
async fn carry_out(api: &Api, wish: &Wish) -> String {
    let nothing = json!({});
    let done = match wish {
        Wish::PauseQueue { name, pause } => {
            let word = if *pause { "pause" } else { "resume" };
            api.post(&["queues", name, word], &nothing).await
        }
        Wish::PauseWorker { name, pause } => {
            let word = if *pause { "pause" } else { "resume" };
            api.post(&["workers", name, word], &nothing).await
        }
        Wish::DrainWorker { name } => api.post(&["workers", name, "drain"], &nothing).await,
        Wish::RetryDead { kind, class, error, .. } => {
            let body = json!({ "kind": kind, "class": class, "error": error });
            api.post(&["dead", "replay"], &body).await
        }
        Wish::Silence { name, end: false } => {
            api.post(&["alerts", name, "silence"], &json!({ "for_sec": 3_600 })).await
        }
        Wish::Silence { name, end: true } => api.delete(&["alerts", name, "silence"]).await,
    };
    match done {
        Ok(_) => format!("done: {}", wish.command()),
        Err(error) => error.to_string(),
    }
}
