//! `divvy config`: shows, checks and creates settings.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use anyhow::Result;
use divvy_workload::{Origin, Row};
use serde_json::json;

use super::Context;
use crate::args::local::Config;
use crate::config::file::FILE_NAME;
use crate::config::template;
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::workloads::Workloads;

/// Columns that nearly all keys, and nearly all values, fit.
const KEY_WIDTH: usize = 30;
const VALUE_WIDTH: usize = 24;

/// Shows or checks. That the settings could be read at all is the check.
pub(super) fn run(args: &Config, context: &Context) -> Result<Code> {
    match args {
        Config::Show { origin } => show(*origin, context),
        Config::Check => {
            let name = match &context.settings.file {
                Some(path) => path.display().to_string(),
                None => format!("no {FILE_NAME} here or above"),
            };
            if context.output.is_json() {
                context.output.object(&json!({ "file": context.settings.file, "valid": true }))?;
            } else {
                context.output.data(format_args!("{name}: the settings are valid"))?;
            }
            Ok(Code::Done)
        }
        Config::Init { force } => init(*force, &context.output, &context.workloads),
    }
}

fn show(with_origin: bool, context: &Context) -> Result<Code> {
    let output = &context.output;
    let rows = context.settings.rows();
    if output.is_json() {
        for Row { key, value, origin } in rows {
            output.object(&json!({ "key": key, "value": value, "origin": origin.to_string() }))?;
        }
        return Ok(Code::Done);
    }
    // Not a table: the few long keys would take the room of all values, and a setting that is cut is of no use.
    let line = |key: &str, value: &str, origin: &str| {
        let origin = if with_origin { origin } else { "" };
        let line = format!("{key:<KEY_WIDTH$}  {value:<VALUE_WIDTH$}  {origin}");
        output.data(line.trim_end())
    };
    line("KEY", "VALUE", "ORIGIN")?;
    for Row { key, value, origin } in rows {
        line(&key, &value, &short(&origin))?;
    }
    if let Some(path) = context.settings.file.as_ref().filter(|_| with_origin) {
        output.note(format_args!("the file is {}", path.display()));
    }
    Ok(Code::Done)
}

/// An origin that fits a line: a file without its folder.
fn short(origin: &Origin) -> String {
    match origin {
        Origin::File(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into(),
        other => other.to_string(),
    }
}

/// Writes the commented file.
pub(super) fn init(force: bool, output: &Output, workloads: &Workloads) -> Result<Code> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(!force).create(force).truncate(force);
    let mut file = options.open(FILE_NAME).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::refused(format!("{FILE_NAME} is here already")).cure("replace it with --force")
        }
        _ => Failure::refused(format!("cannot write {FILE_NAME}: {error}")),
    })?;
    file.write_all(template::text(workloads).as_bytes())?;
    if output.is_json() {
        output.object(&json!({ "file": FILE_NAME }))?;
    } else {
        output.data(FILE_NAME)?;
        output.note(
            "every setting is in it, commented out; check your changes with: divvy config check",
        );
    }
    Ok(Code::Done)
}
