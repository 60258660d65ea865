//! `divvy WORKLOAD provider`: lists and installs the providers of a workload.

use anyhow::Result;
use clap::{Command, Subcommand};
use divvy_console::exit::{Code, Failure};
use divvy_console::output::table::Table;
use divvy_console::suggest::hint;
use serde_json::json;

use super::{Ready, folder};
use crate::Context;

/// Verbs of providers.
#[derive(Debug, Subcommand)]
pub enum ProviderVerb {
    /// Which there are, and which are installed here
    List,
    /// Install one for this user, from its package registry
    Install {
        /// Its name
        name: String,
    },
}

/// A provider that people can install.
#[derive(Clone, Copy, Debug)]
pub struct Installable {
    /// The provider.
    pub ready: Ready,
    /// The command that uses it once it is installed.
    pub used_by: &'static str,
}

/// The command of a workload, whose subcommand `provider` has these verbs, with examples in the help of each.
pub fn with_examples(command: Command, examples: &'static str) -> Command {
    command.mut_subcommand("provider", |provider| {
        provider.mut_subcommands(|verb| verb.after_help(examples))
    })
}

/// Lists the providers of a workload, and which are installed.
///
/// # Errors
/// If nothing can be written.
pub fn list(providers: &[Installable], context: &Context) -> Result<Code> {
    let output = &context.output;
    let mut table = Table::new(&["=NAME", "=INSTALLED", "WHAT IT DOES", "=USE IT WITH"]);
    for Installable { ready, used_by } in providers {
        let installed = ready.is_in(&folder(ready.name));
        if output.is_json() {
            let (name, what) = (ready.name, ready.about);
            output.object(&json!({ "name": name, "installed": installed, "what": what }))?;
            continue;
        }
        table.row([
            ready.name.into(),
            if installed { "yes" } else { "no" }.into(),
            ready.about.into(),
            (*used_by).into(),
        ]);
    }
    table.print(output)?;
    Ok(Code::Done)
}

/// The provider of this name.
///
/// # Errors
/// If there is none; says which was meant, perhaps.
pub fn find<'a>(
    providers: &'a [Installable],
    name: &str,
    workload: &str,
) -> Result<&'a Installable, Failure> {
    providers.iter().find(|provider| provider.ready.name == name).ok_or_else(|| {
        let hint = hint(name, providers.iter().map(|provider| provider.ready.name));
        Failure::usage(format!("there is no provider `{name}`{hint}"))
            .cure(format!("divvy {workload} provider list shows which there are"))
    })
}

/// Says that it is installed.
///
/// # Errors
/// If nothing can be written.
pub fn tell_installed(provider: &Installable, context: &Context) -> Result<Code> {
    let (name, used_by) = (provider.ready.name, provider.used_by);
    if context.output.is_json() {
        context.output.object(&json!({ "name": name, "installed": true }))?;
    } else {
        context.output.data(format_args!("{name} is installed; use it with: {used_by}"))?;
    }
    Ok(Code::Done)
}
