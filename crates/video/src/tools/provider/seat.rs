//! Who was chosen on this machine for speech and for scans, and whether that works.
//!
//! A provider that does not work does not keep a worker from making videos. The worker still offers the capability, as
//! `unusable`: where nobody else does better, tasks come here, fail at once and say why, so that the video is degraded
//! with the reason and not silently without its subtitles.

use super::{Choice, Provider, ProviderError};
use crate::tools::{ToolOptions, Tools};

/// The value of the capability of a worker whose provider does not work. No provider is called so: what identifies one
/// has two hyphens.
pub(crate) const UNUSABLE: &str = "unusable";

/// The providers of this machine.
#[derive(Clone, Debug, Default)]
pub(in crate::tools) struct Providers {
    speech: Seat,
    scanner: Seat,
}

/// Who was chosen.
#[derive(Clone, Debug, Default)]
enum Seat {
    #[default]
    Nobody,
    Works(Box<Provider>),
    /// In words that name the provider and the cure.
    Fails(String),
}

impl Providers {
    /// Opens those that were chosen.
    pub(in crate::tools) async fn open(tools: &Tools, options: &ToolOptions) -> Self {
        Self {
            speech: Seat::open(tools, &options.speech).await,
            scanner: Seat::open(tools, &options.scanner).await,
        }
    }

    /// What they let a worker offer: `speech=…` and `scan=…`, each with the provider's identity.
    pub(in crate::tools) fn capabilities(&self) -> Vec<String> {
        let offer = |name: &str, seat: &Seat| match seat {
            Seat::Nobody => None,
            Seat::Works(provider) => Some(format!("{name}={}", provider.about().identity())),
            Seat::Fails(_) => Some(format!("{name}={UNUSABLE}")),
        };
        [offer("speech", &self.speech), offer("scan", &self.scanner)]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl Seat {
    async fn open(tools: &Tools, choice: &Choice) -> Self {
        match Provider::open(tools, choice).await {
            Ok(None) => Self::Nobody,
            Ok(Some(provider)) => Self::Works(Box::new(provider)),
            Err(error) => Self::Fails(problem(choice, &error)),
        }
    }

    fn provider(&self) -> Result<Option<&Provider>, &str> {
        match self {
            Self::Nobody => Ok(None),
            Self::Works(provider) => Ok(Some(provider)),
            Self::Fails(problem) => Err(problem),
        }
    }
}

impl Tools {
    /// Who recognises speech here, if anybody does.
    ///
    /// # Errors
    /// If someone was chosen who does not work: why, with the cure.
    pub fn speech(&self) -> Result<Option<&Provider>, &str> {
        self.providers.speech.provider()
    }

    /// Who scans frames here, if anybody does.
    ///
    /// # Errors
    /// If someone was chosen who does not work: why, with the cure.
    pub fn scanner(&self) -> Result<Option<&Provider>, &str> {
        self.providers.scanner.provider()
    }

    /// What does not work of what was chosen, with the cure: providers that could not be asked who they are.
    pub fn problems(&self) -> Vec<&str> {
        [self.speech(), self.scanner()].into_iter().filter_map(Result::err).collect()
    }
}

fn problem(choice: &Choice, error: &ProviderError) -> String {
    format!("the provider `{}` does not work: {error}", String::from(choice.clone()))
}
