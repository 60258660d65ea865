//! Bars that move on stderr, and lines that are written above them. Whoever writes to stderr while bars are there, logs
//! included, does it through here; otherwise a line would end up in a bar, and the next picture one line too low.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressDrawTarget};

/// The bars that are on stderr now.
static SHOWN: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Room for bars on stderr, until it is dropped. The latest is the one above which lines are written.
#[derive(Debug)]
pub struct Screen(MultiProgress);

impl Screen {
    /// Room without a bar yet.
    #[expect(clippy::new_without_default, reason = "it changes what stderr does")]
    pub fn new() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        show(Some(bars.clone()));
        Self(bars)
    }

    /// The bars; more can be added.
    pub fn bars(&self) -> &MultiProgress {
        &self.0
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        show(None);
    }
}

fn show(bars: Option<MultiProgress>) {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = bars;
}

/// Standard error above the bars. Each write is to be a whole line.
#[derive(Clone, Copy, Debug)]
pub struct Above;

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bars = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let line = || io::stderr().lock().write_all(bytes);
        match bars {
            Some(bars) => bars.suspend(line)?,
            None => line()?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}
