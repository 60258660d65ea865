//! Progress of many tasks in stages: bars on a terminal, otherwise a line every few seconds. Always on stderr.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::Output;
use super::screen::Screen;
use super::visible::on_one_line;

/// Between two lines when nobody watches.
const LINE_EVERY: Duration = Duration::from_secs(3);
/// More stages than this share one bar.
const STAGES_MAX: usize = 12;

/// What is to be seen of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// What people call it.
    pub name: String,
    /// Tasks in it.
    pub total: u64,
    /// Tasks that run.
    pub running: u64,
    /// Tasks that are done.
    pub done: u64,
    /// Tasks that are dead or cancelled.
    pub failed: u64,
}

/// Shows stages until it is dropped.
pub struct Bars {
    output: Output,
    drawn: Option<(Screen, Vec<ProgressBar>)>,
    shown: Vec<Stage>,
    last_line: Instant,
}

impl Bars {
    /// Starts to show these stages.
    pub fn new(output: &Output, stages: &[Stage]) -> Self {
        let drawn = output.is_live().then(|| Self::draw(stages));
        Self { output: *output, drawn, shown: Vec::new(), last_line: Instant::now() }
    }

    fn draw(stages: &[Stage]) -> (Screen, Vec<ProgressBar>) {
        let screen = Screen::new();
        let style = ProgressStyle::with_template("{prefix:>16} {bar:32} {pos}/{len} {msg}")
            .expect("the template is constant and valid")
            .progress_chars("=> ");
        let bars = merged(stages)
            .iter()
            .map(|stage| {
                let bar =
                    screen.bars().add(ProgressBar::new(stage.total).with_style(style.clone()));
                bar.set_prefix(on_one_line(&stage.name));
                bar
            })
            .collect();
        (screen, bars)
    }

    /// Shows the stages as they are now.
    pub fn update(&mut self, stages: &[Stage]) {
        let stages = merged(stages);
        if stages == self.shown {
            return;
        }
        if let Some((_, bars)) = &self.drawn {
            for (bar, stage) in bars.iter().zip(&stages) {
                bar.set_position(stage.done + stage.failed);
                bar.set_message(remarks(stage));
            }
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.line(&stages);
        } else {
            // The state is kept as not shown, so that the next call prints it.
            return;
        }
        self.shown = stages;
    }

    /// A remark for people, above the bars.
    pub fn note(&self, text: &str) {
        self.output.note(text);
    }

    /// Shows the last state for good.
    pub fn finish(mut self, stages: &[Stage]) {
        let stages = merged(stages);
        self.update(&stages);
        match self.drawn.take() {
            Some((screen, bars)) if !bars.is_empty() => {
                bars.iter().for_each(ProgressBar::abandon);
                screen.leave();
            }
            None if stages != self.shown => self.line(&stages),
            _ => {}
        }
    }

    fn line(&mut self, stages: &[Stage]) {
        self.last_line = Instant::now();
        let texts: Vec<String> = stages
            .iter()
            .map(|stage| {
                format!(
                    "{} {}/{} {}",
                    stage.name,
                    stage.done + stage.failed,
                    stage.total,
                    remarks(stage)
                )
            })
            .map(|text| text.trim_end().to_owned())
            .collect();
        self.output.note(texts.join(" | "));
    }
}

fn remarks(stage: &Stage) -> String {
    match (stage.running, stage.failed) {
        (0, 0) => String::new(),
        (running, 0) => format!("({running} running)"),
        (0, failed) => format!("({failed} failed)"),
        (running, failed) => format!("({running} running, {failed} failed)"),
    }
}

fn merged(stages: &[Stage]) -> Vec<Stage> {
    if stages.len() <= STAGES_MAX {
        return stages.to_vec();
    }
    let mut all = Stage { name: "tasks".to_owned(), ..Stage::default() };
    for stage in stages {
        all.total += stage.total;
        all.running += stage.running;
        all.done += stage.done;
        all.failed += stage.failed;
    }
    vec![all]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_stages_share_one_bar() {
        let stage = Stage { name: "a".into(), total: 3, running: 1, done: 1, failed: 1 };
        assert_eq!(merged(&[stage.clone(), stage.clone()]).len(), 2);
        let one = merged(&vec![stage; STAGES_MAX + 1]);
        assert_eq!(
            (one.len(), one[0].total, remarks(&one[0]).as_str()),
            (1, 39, "(13 running, 13 failed)")
        );
    }
}
