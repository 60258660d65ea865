//! The tools of this machine for tests that use them and do not test them: tried once per build folder.
//!
//! Every test is a process of its own, and to try the tools takes longer than most tests. What was found out is kept
//! beside the tests, under a name that changes with the programs.

use super::trial::programs;
use super::{ToolOptions, Tools, Trial};

/// Finds the tools; what was tried before with the very same programs is not tried again.
pub(crate) async fn find(options: &ToolOptions) -> Tools {
    let name = programs(&Tools::untried(options).unwrap(), options);
    let file = std::env::current_exe().unwrap().with_file_name(format!("tools-{name}.json"));
    let tried = std::fs::read_to_string(&file).ok().map(|text| text.parse().unwrap());
    let is_new = tried.is_none();
    let tools = Tools::find(&ToolOptions { tried, ..options.clone() }).await.unwrap();
    if is_new {
        // Whole or not at all: many tests begin at once.
        let draft = tempfile::NamedTempFile::new_in(file.parent().unwrap()).unwrap();
        std::fs::write(&draft, Trial::of(&tools, options).to_argument()).unwrap();
        draft.persist(file).unwrap();
    }
    tools
}
