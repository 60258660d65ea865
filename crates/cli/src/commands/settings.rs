//! `divvy settings`: how a server schedules and where that comes from, and a check of a file for it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use divvy_types::overview::SettingsView;
use serde_json::json;

use super::Context;
use crate::args::scheduling::Settings;
use crate::config::{file, leaves};
use crate::exit::Code;
use crate::output::Output;
use crate::output::table::Table;
use crate::output::words;
use crate::workloads::Workloads;

/// Does what is asked.
pub(super) async fn run(args: &Settings, context: &Context) -> Result<Code> {
    match args {
        Settings::Show => show(context).await,
        Settings::Check { file } => check(file, &context.output, &context.workloads),
    }
}

async fn show(context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.get(&["settings"], &[]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let view: SettingsView = reply.parse()?;
    let defaults = serde_json::to_value(divvy_types::Settings::default())?;
    let holds = serde_json::to_value(&view.settings)?;
    let mut table = Table::new(&["KEY", "VALUE", "=FROM"]);
    for (name, section) in holds.as_object().into_iter().flatten() {
        let mut usual = BTreeMap::new();
        leaves(name, &defaults[name], &mut |key, value| {
            usual.insert(key.to_owned(), value);
        });
        let in_file = view.file_sections.iter().any(|in_file| in_file == name);
        leaves(name, section, &mut |key, value| {
            let from = origin(usual.get(key) == Some(&value), in_file);
            table.row([key.into(), value.into(), from.into()]);
        });
    }
    table.print(output)?;
    if let Some(file) = &view.file {
        let when = view.reloaded_at.map(|at| words::relative(at, words::now()));
        output.note(format_args!("file {file}, read {}", when.unwrap_or_else(|| "never".into())));
    }
    if let Some(error) = &view.reload_error {
        output.data(format_args!("problem: the file could not be used, the old settings hold"))?;
        output.data(format_args!("  {error}"))?;
        return Ok(Code::Failed);
    }
    Ok(Code::Done)
}

/// Where a value comes from. A section is of the file or of the API; what it does not say has its default.
fn origin(is_usual: bool, in_file: bool) -> &'static str {
    match (is_usual, in_file) {
        (true, _) => "default",
        (false, true) => "file",
        (false, false) => "API",
    }
}

/// Reads a file as a server would. That it could be read is the check.
pub(super) fn check(path: &Path, output: &Output, workloads: &Workloads) -> Result<Code> {
    let sections = file::scheduling(path, workloads)?.names();
    if output.is_json() {
        output.object(&json!({ "file": path, "valid": true, "sections": sections }))?;
        return Ok(Code::Done);
    }
    let named = if sections.is_empty() { "none".to_owned() } else { sections.join(", ") };
    output.data(format_args!("{}: the settings are valid", path.display()))?;
    output.note(format_args!("sections about scheduling: {named}"));
    Ok(Code::Done)
}
