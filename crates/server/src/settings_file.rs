//! The settings file that a server follows, as the API knows it: which sections it sets, and what was wrong with it.
//!
//! **Precedence.** A section that the file has is exactly what the file says: what the API set there before is
//! replaced, and the API is refused to change it. A section that the file does not have is the API's. A section that
//! is taken out of the file keeps its last values, and is the API's from then on.
//!
//! What it says about alerts is not among the settings: see [`AlertOptions`].
//!
//! Does not read files. Whoever watches one calls [`SettingsFile::apply`] with what it says, or
//! [`SettingsFile::failed`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use divvy_engine::{Error, Handle};
use divvy_types::overview::SettingsView;
use divvy_types::pools::Pool;
use divvy_types::settings::{
    KindSettings, Limit, LoadBalancing, Ordering, PoisonAfter, QueueSettings,
};
use divvy_types::{Name, Settings, Timestamp};
use tokio::sync::Notify;

use crate::alerts::AlertOptions;

/// What a file says about scheduling, section by section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileSections {
    /// How tasks get to workers and move between them.
    pub load_balancing: Option<LoadBalancing>,
    /// Whose turn it is.
    pub ordering: Option<Ordering>,
    /// Limits by name.
    pub limits: Option<BTreeMap<Name, Limit>>,
    /// What is special about queues.
    pub queues: Option<BTreeMap<Name, QueueSettings>>,
    /// What is special about kinds.
    pub kinds: Option<BTreeMap<Name, KindSettings>>,
    /// Pools of workers.
    pub pools: Option<BTreeMap<Name, Pool>>,
    /// How many lost workers make a task a dead letter.
    pub poison_after: Option<PoisonAfter>,
    /// The rules about the health of the server, and who is told. Only a file says this.
    pub alerts: Option<AlertOptions>,
}

impl FileSections {
    /// The names of the sections that are there.
    pub fn names(&self) -> Vec<&'static str> {
        let sections = [
            ("load_balancing", self.load_balancing.is_some()),
            ("ordering", self.ordering.is_some()),
            ("limits", self.limits.is_some()),
            ("queues", self.queues.is_some()),
            ("kinds", self.kinds.is_some()),
            ("pools", self.pools.is_some()),
            ("poison_after", self.poison_after.is_some()),
            ("alerts", self.alerts.is_some()),
        ];
        sections.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect()
    }

    /// Puts the sections that are there in the place of those in `settings`.
    pub fn lay_over(&self, settings: &mut Settings) {
        fn put<T: Clone>(section: &Option<T>, place: &mut T) {
            if let Some(section) = section {
                place.clone_from(section);
            }
        }
        put(&self.load_balancing, &mut settings.load_balancing);
        put(&self.ordering, &mut settings.ordering);
        put(&self.limits, &mut settings.limits);
        put(&self.queues, &mut settings.queues);
        put(&self.kinds, &mut settings.kinds);
        put(&self.pools, &mut settings.pools);
        put(&self.poison_after, &mut settings.poison_after);
    }
}

/// A cheap clone of what is known of the file. The default is that there is none.
#[derive(Clone, Debug, Default)]
pub struct SettingsFile {
    state: Arc<Mutex<State>>,
    /// Told when settings were changed, here or by the API.
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    path: Option<String>,
    sections: FileSections,
    reloaded_at: Option<Timestamp>,
    reload_error: Option<String>,
}

impl SettingsFile {
    /// A file at `path`, not read yet.
    pub fn new(path: String) -> Self {
        let state = State { path: Some(path), ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::default() }
    }

    /// Makes what the file says hold. If that is refused, what held before holds, and the refusal is remembered.
    ///
    /// # Errors
    /// If a setting makes no sense, or the engine stops.
    pub async fn apply(
        &self,
        handle: &Handle,
        sections: FileSections,
        now: Timestamp,
    ) -> Result<Settings, Error> {
        let state = self.clone();
        let applied = handle
            .change_settings(move |settings| {
                if let Some(alerts) = &sections.alerts {
                    alerts.check()?;
                }
                let was_sound = settings.check_names().is_ok();
                sections.lay_over(settings);
                settings.check()?;
                if was_sound {
                    settings.check_names()?;
                }
                // Here and not later: no change by the API may fall between.
                let mut state = state.state();
                state.sections = sections;
                state.reloaded_at = Some(now);
                state.reload_error = None;
                Ok(())
            })
            .await;
        match &applied {
            Ok(_) => self.note_change(),
            Err(error) => self.failed(error.to_string()),
        }
        applied
    }

    /// Settings have been changed.
    pub(crate) fn note_change(&self) {
        self.changed.notify_one();
    }

    /// Waits until settings have been changed; for one listener.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Remembers that the file could not be read or made no sense.
    pub fn failed(&self, error: String) {
        self.state().reload_error = Some(error);
    }

    /// What was wrong with the file when it was read last.
    pub fn reload_error(&self) -> Option<String> {
        self.state().reload_error.clone()
    }

    /// What the file says about alerts.
    pub(crate) fn alerts(&self) -> AlertOptions {
        self.state().sections.alerts.clone().unwrap_or_default()
    }

    /// Refuses a change of a section that the file sets.
    pub(crate) fn allow(&self, wanted: &Settings) -> Result<(), Error> {
        let state = self.state();
        let mut kept = wanted.clone();
        state.sections.lay_over(&mut kept);
        let changed = [
            ("load_balancing", kept.load_balancing != wanted.load_balancing),
            ("ordering", kept.ordering != wanted.ordering),
            ("limits", kept.limits != wanted.limits),
            ("queues", kept.queues != wanted.queues),
            ("kinds", kept.kinds != wanted.kinds),
            ("pools", kept.pools != wanted.pools),
            ("poison_after", kept.poison_after != wanted.poison_after),
        ];
        let Some((section, _)) = changed.iter().find(|(_, changed)| *changed) else {
            return Ok(());
        };
        let owner = state.path.clone().unwrap_or_else(|| "the settings file".to_owned());
        Err(Error::SettingOwned { section: (*section).to_owned(), owner })
    }

    /// The settings together with what is known of the file.
    pub(crate) fn view(&self, settings: Settings) -> SettingsView {
        let state = self.state();
        SettingsView {
            settings,
            file: state.path.clone(),
            file_sections: state.sections.names().into_iter().map(Name::const_new).collect(),
            reloaded_at: state.reloaded_at,
            reload_error: state.reload_error.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_of_the_file_is_laid_over_and_cannot_be_changed_elsewhere() {
        let sections = FileSections { poison_after: Some(PoisonAfter(7)), ..Default::default() };
        let file = SettingsFile::new("divvy.yaml".into());
        file.state().sections = sections.clone();
        let mut before = Settings::default();
        sections.lay_over(&mut before);
        assert_eq!(before.poison_after, PoisonAfter(7));
        let mut after = before;
        after.ordering.ageing_sec = 5.0;
        assert!(file.allow(&after).is_ok(), "not a section of the file");
        after.poison_after = PoisonAfter(2);
        let refusal = file.allow(&after).unwrap_err().to_string();
        assert_eq!(refusal, "poison_after is set by divvy.yaml; change it there");
    }
}
