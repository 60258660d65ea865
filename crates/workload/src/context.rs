//! What a command of a workload works with: where it prints, what is set, which server it talks to.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use divvy::api::Api;
use divvy::{Client, Target};
use divvy_console::exit::{Code, Failure};
use divvy_console::output::Output;

use crate::settings::Sources;

/// What a command works with.
#[derive(Debug)]
pub struct Context {
    /// Where its output goes.
    pub output: Output,
    /// Where its settings come from.
    pub sources: Sources,
    /// The server to talk to.
    pub target: Target,
    interruption: Mutex<Interruption>,
}

#[derive(Debug, Default)]
struct Interruption {
    more: &'static str,
    cure: Option<String>,
}

impl Context {
    /// A command that prints here, with these settings, for this server.
    pub fn new(output: Output, sources: Sources, target: Target) -> Self {
        Self { output, sources, target, interruption: Mutex::default() }
    }

    /// The server to talk to, in the words of the SDK.
    ///
    /// # Errors
    /// If its address makes no sense.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::new(self.target.clone())?)
    }

    /// The same as plain requests.
    ///
    /// # Errors
    /// If its address makes no sense.
    pub fn api(&self) -> Result<Api> {
        Ok(self.client()?.api().clone())
    }

    /// What a person who presses Ctrl-C now is told besides: what becomes of the work, and how to come back to it.
    pub fn on_interrupt(&self, more: &'static str, cure: Option<String>) {
        *self.interruption.lock().unwrap_or_else(PoisonError::into_inner) =
            Interruption { more, cure };
    }

    /// How a command ends that was interrupted.
    pub fn interrupted(&self) -> Failure {
        let told = self.interruption.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = Failure::new(Code::Interrupted, format!("interrupted{}", told.more));
        match &told.cure {
            Some(cure) => failure.cure(cure.clone()),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_console::output::Color;

    #[test]
    fn an_interruption_says_what_goes_on_and_how_to_come_back() {
        let output = Output::new(false, false, Color::Never);
        let sources = Sources::new(None, |_| None);
        let context = Context::new(output, sources, Target::new("http://127.0.0.1:1"));
        let plain = context.interrupted();
        assert_eq!((plain.message.as_str(), plain.cure), ("interrupted", None));
        context.on_interrupt("; the work goes on", Some("divvy bake wait 7".into()));
        let told = context.interrupted();
        assert_eq!(told.code, Code::Interrupted);
        assert_eq!(told.message, "interrupted; the work goes on");
        assert_eq!(told.cure.as_deref(), Some("divvy bake wait 7"));
    }
}
