//! `divvy flow provider`: lists and installs what reads Parquet.

use anyhow::Result;
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::provider::command::{Installable, ProviderVerb, find, list, tell_installed};

use crate::duckdb::{self, READY};
use crate::settings::NAME;

pub(crate) const EXAMPLES: &str = "\
Examples:
  divvy flow provider list
  divvy flow provider install duckdb      then start the workers again";

/// Those that can be installed.
const PROVIDERS: [Installable; 1] = [Installable { ready: READY, used_by: "divvy flow aggregate" }];

/// Lists and installs providers.
pub(super) async fn run(verb: ProviderVerb, context: &Context) -> Result<Code> {
    match verb {
        ProviderVerb::List => list(&PROVIDERS, context),
        ProviderVerb::Install { name } => {
            let provider = find(&PROVIDERS, &name, NAME)?;
            let installed = duckdb::install(|step| context.output.note(step)).await;
            installed.map_err(|error| Failure::new(Code::Failed, error.to_string()))?;
            tell_installed(provider, context)
        }
    }
}
