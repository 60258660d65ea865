//! `divvy thumbnails`: adds the pictures of a folder, and lists the thumbnails that are there.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use divvy::objects::{Objects, Reach};
use divvy::types::TaskId;
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::output::table::Table;
use serde_json::json;

use crate::web::{Added, NewPicture, Shown};

/// Make thumbnails of pictures, and list them
#[derive(Debug, Parser)]
#[command(name = "thumbnails")]
pub(crate) struct ThumbnailsCommand {
    #[command(subcommand)]
    verb: Verb,
}

/// Verbs of thumbnails.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Add every picture of a folder
    Add {
        /// The folder
        folder: PathBuf,
        /// Wait until the thumbnails are there
        #[arg(long)]
        wait: bool,
    },
    /// List the thumbnails that are there
    List,
}

/// Does what is asked.
pub(crate) async fn run(command: ThumbnailsCommand, context: &Context) -> Result<Code> {
    match command.verb {
        Verb::Add { folder, wait } => add(&folder, wait, context).await,
        Verb::List => list(context).await,
    }
}

async fn add(folder: &Path, wait: bool, context: &Context) -> Result<Code> {
    let pictures = pictures(folder)?;
    let (client, output) = (context.client()?, &context.output);
    let cache = std::env::temp_dir().join("divvy-thumbnails");
    let objects = Objects::at_server(&client, Reach { folder: None, cache, cache_bytes: 0 });
    let mut tasks: Vec<TaskId> = Vec::new();
    for path in &pictures {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let picture = objects.put_file(path).await?.id;
        let reply = client.api().post(&["thumbnails"], &NewPicture { name, picture }).await?;
        tasks.push(reply.parse::<Added>()?.task.parse()?);
    }
    if wait {
        context.on_interrupt("; the work goes on without this command", None);
        for task in &tasks {
            client.task(*task).wait().await?;
        }
    }
    if output.is_json() {
        output.object(&json!({ "added": tasks.len() }))?;
    } else {
        output.data(format_args!("{} pictures", tasks.len()))?;
        output.note(format_args!("look at them: {}/thumbnails", context.target.server));
    }
    Ok(Code::Done)
}

/// The pictures of a folder, by their names.
fn pictures(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut pictures = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if ["png", "jpg", "jpeg"].contains(&ending.as_str()) {
            pictures.push(path);
        }
    }
    if pictures.is_empty() {
        return Err(Failure::usage(format!("{} has no pictures", folder.display()))
            .cure("name a folder with .png or .jpg files")
            .into());
    }
    pictures.sort();
    Ok(pictures)
}

async fn list(context: &Context) -> Result<Code> {
    let shown: Vec<Shown> = context.api()?.get(&["thumbnails"], &[]).await?.parse()?;
    let mut table = Table::new(&["NAME", "=PATH"]);
    for thumbnail in shown {
        if context.output.is_json() {
            context.output.object(&thumbnail)?;
        } else {
            table.row([thumbnail.name.into(), thumbnail.path.into()]);
        }
    }
    table.print(&context.output)?;
    Ok(Code::Done)
}
