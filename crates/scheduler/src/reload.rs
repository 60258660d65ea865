//! New settings while tasks wait and run.

use divvy_types::{Settings, Timestamp};

use crate::Scheduler;

impl Scheduler {
    /// The settings that hold.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes what was recorded of a limit before the start; says whether it is that. Before the settings that hold.
    pub fn recover_limit(&mut self, key: &str, value: &str) -> bool {
        self.limits.recover(key, value)
    }

    /// Everything that rests on settings follows at once: weights, limits, and whoever waited for a limit.
    pub(crate) fn settings_changed(&mut self, now: Timestamp, settings: Settings) {
        self.settings = settings;
        self.turns.redefine(&self.settings.ordering);
        let classes: Vec<u32> = self.classes.iter().map(|(index, _)| index).collect();
        for class in classes {
            (0..5)
                .for_each(|band| self.classes.urgency_changed(class, band, self.turns.patience_us));
        }
        self.queues.redefine(&self.settings.queues);
        let queues = &self.queues;
        self.shares.reweigh(|queue, key| queues.key_weight(queue, key));
        for stream in self.limits.redefine(&self.settings, self.recovering, now) {
            self.unblock_stream(stream, now);
        }
        self.load_settings_changed();
    }
}
