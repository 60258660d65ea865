//! Changes of the settings that hold: read, changed and checked in one step of the loop, so that two changes at once
//! cannot undo each other. What holds is recorded before it is answered.

use divvy_scheduler::Input;
use divvy_types::{Fact, Settings};

use crate::core::Core;
use crate::request::{Error, Reply, SettingsChange};
use crate::settings;

impl Core {
    /// Lets these settings hold from now on, over restarts too.
    pub(crate) fn use_settings(&mut self, settings: Box<Settings>) -> Result<(), Error> {
        let (key, value) = (settings::KEY.into(), Some(settings::to_text(&settings)?));
        self.group.facts.push(Fact::Setting { key, value });
        self.feed(Input::SettingsChanged(settings));
        Ok(())
    }

    pub(crate) fn change_settings(
        &mut self,
        change: SettingsChange,
        reply: Reply<Settings>,
    ) -> Result<(), Error> {
        let mut settings = self.scheduler.settings().clone();
        // What an earlier version let pass must not keep every other change out.
        let was_sound = settings.check_names().is_ok();
        let checked = change(&mut settings).and_then(|()| {
            settings.check()?;
            if was_sound { Ok(settings.check_names()?) } else { Ok(()) }
        });
        if let Err(error) = checked {
            self.park(reply, Err(error));
            return Ok(());
        }
        // What is equal needs no step, and wakes nobody.
        if settings != *self.scheduler.settings() {
            self.use_settings(Box::new(settings.clone()))?;
        }
        self.park(reply, Ok(settings));
        Ok(())
    }
}
