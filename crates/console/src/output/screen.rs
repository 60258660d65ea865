//! Bars that move on stderr, and lines that are written above them. Whoever writes to stderr while bars are there, logs
//! included, does it through here; otherwise a line would end up in a bar, and the next picture one line too low.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
        *shown() = Some(bars.clone());
        Self(bars)
    }

    /// The bars; more can be added.
    pub fn bars(&self) -> &MultiProgress {
        &self.0
    }

    /// Leaves the bars as they were drawn last. What is written next begins on a line of its own.
    pub fn leave(self) {
        // Drawn bars fill their last line and do not end it. Nobody to read it is no reason to stop.
        self.end(|_| drop(io::stderr().lock().write_all(b"\n")));
    }

    /// Does the last thing to the bars. No line comes between that and the moment when lines go straight to stderr.
    fn end(&self, last: impl FnOnce(&MultiProgress)) {
        let mut shown = shown();
        last(&self.0);
        self.0.set_draw_target(ProgressDrawTarget::hidden());
        *shown = None;
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Another text follows; a half drawn bar above it would only confuse. A failed clear changes nothing.
        self.end(|bars| drop(bars.clear()));
    }
}

fn shown() -> MutexGuard<'static, Option<MultiProgress>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard error above the bars. Each write is to be a whole line.
#[derive(Clone, Copy, Debug)]
pub struct Above;

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = || io::stderr().lock().write_all(bytes);
        // The bars stay the ones that are shown until the line is written.
        match &*shown() {
            Some(bars) => bars.suspend(line)?,
            None => line()?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}
