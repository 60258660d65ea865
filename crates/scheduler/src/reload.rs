//! New settings while tasks wait and run.

use divvy_types::{Settings, Timestamp};

use crate::Scheduler;

impl Scheduler {
    /// The settings that hold.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn settings_changed(&mut self, _now: Timestamp, settings: Settings) {
        self.settings = settings;
        self.load_settings_changed();
    }
}
