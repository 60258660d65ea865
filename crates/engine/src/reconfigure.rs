//! Changes of the settings that hold: read, changed and checked in one step of the loop, so that two changes at once
//! cannot undo each other.

use divvy_scheduler::Input;
use divvy_types::Settings;

use crate::core::Core;
use crate::request::{Error, Reply, SettingsChange};

impl Core {
    pub(crate) fn change_settings(&mut self, change: SettingsChange, reply: Reply<Settings>) {
        let mut settings = self.scheduler.settings().clone();
        let checked = change(&mut settings).and_then(|()| settings.check().map_err(Error::Setting));
        if let Err(error) = checked {
            return self.park(reply, Err(error));
        }
        // What is equal needs no step, and wakes nobody.
        if settings != *self.scheduler.settings() {
            self.feed(Input::SettingsChanged(Box::new(settings.clone())));
        }
        self.park(reply, Ok(settings));
    }
}
