//! How far one thing is: a line that changes on a terminal, otherwise a new one every few seconds. Always on stderr.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::Output;
use super::screen::Screen;
use super::visible::on_one_line;

/// Between two lines when nobody watches.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows a line until it is dropped.
#[derive(Debug)]
pub struct Line {
    output: Output,
    drawn: Option<(Screen, ProgressBar)>,
    last: Option<Instant>,
}

impl Line {
    /// A line without text yet.
    pub fn new(output: &Output) -> Self {
        let drawn = output.is_live().then(|| {
            let screen = Screen::new();
            let bar = screen.bars().add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("{spinner} {msg}");
            bar.set_style(style.expect("the template is constant and valid"));
            bar.enable_steady_tick(Duration::from_millis(200));
            (screen, bar)
        });
        Self { output: *output, drawn, last: None }
    }

    /// Shows this text from now on.
    pub fn update(&mut self, text: &str) {
        match &self.drawn {
            Some((_, bar)) => bar.set_message(on_one_line(text)),
            None if self.last.is_none_or(|last| last.elapsed() >= LINE_EVERY) => {
                self.output.note(text);
                self.last = Some(Instant::now());
            }
            None => {}
        }
    }

    /// A remark that stays, above the line.
    pub fn note(&self, text: &str) {
        self.output.note(text);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some((_, bar)) = &self.drawn {
            bar.finish_and_clear();
        }
    }
}
