//! `divvy video list`: a table of videos.

use crate::library::{VideoState, VideoView};
use anyhow::Result;
use divvy::types::Timestamp;

use super::some;
use crate::command::args::VideoList;
use crate::command::words;
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use divvy_workload::console::output::table::{Cell, Table};
use divvy_workload::console::output::words::{bytes, now, relative};

/// Lists.
pub(super) async fn run(args: &VideoList, context: &Context) -> Result<Code> {
    let output = &context.output;
    let states = args.state.iter().map(|state| VideoState::from(*state).as_str());
    let states: Vec<&str> = states.collect();
    let filter = (!states.is_empty()).then(|| ("state", states.join(",")));
    let filter: Vec<_> = filter.into_iter().collect();
    let views = some(&context.api()?, &filter, args.limit as usize).await?;
    if output.is_json() {
        views.iter().try_for_each(|view| output.object(view))?;
    } else if output.is_quiet() {
        views.iter().try_for_each(|view| output.data(&view.video.id.0))?;
    } else if views.is_empty() {
        output.note("no videos; add one with: divvy video add FILE");
    } else {
        table(&views, now()).print(output)?;
    }
    Ok(Code::Done)
}

fn table(views: &[VideoView], now: Timestamp) -> Table {
    let mut table =
        Table::new(&["=ID", "TITLE", "=STATE", ">DONE", ">LENGTH", ">SOURCE", "=ADDED"]);
    for view in views {
        let video = &view.video;
        table.row([
            video.id.0.as_str().into(),
            video.title.as_str().into(),
            Cell::colored(video.state.as_str(), words::color(video.state)),
            format!("{}%", words::percent(view.progress)).into(),
            view.duration_ms.map(words::length).unwrap_or_default().into(),
            video.source.map(|source| bytes(source.size)).unwrap_or_default().into(),
            relative(Timestamp(video.added_at), now).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::words::tests::view;

    #[test]
    fn a_long_title_is_cut_so_that_rows_fit() {
        let mut long = view(VideoState::NeedsReview);
        long.video.title = "A very long title ".repeat(20);
        let text = table(&[long, view(VideoState::Ready)], Timestamp(61_000_000)).rendered(80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("7k2m4q8xw1zd") && text.contains("needs_review"), "{text}");
        assert!(
            text.contains("60s ago") && text.contains("1:00") && text.contains("42%"),
            "{text}"
        );
    }
}
