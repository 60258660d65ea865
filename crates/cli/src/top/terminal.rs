//! The terminal: taken over as a whole, given back as it was, at the end, at an error, at a panic and at a signal.
//!
//! Keys are read on a thread of their own, which looks now and then whether anyone still wants them.

use std::io::{self, Stdout, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// How long a read for keys waits before it looks whether it is still wanted.
const POLL: Duration = Duration::from_millis(100);
/// Keys that may wait.
const KEYS_MAX: usize = 64;

/// What came from the terminal.
pub(super) enum Input {
    Key(KeyEvent),
    Resized,
    /// Somebody ends this process.
    Ended,
    /// It cannot be read any more.
    Gone(String),
}

/// A terminal that is drawn on.
pub(super) struct Terminal {
    screen: ratatui::Terminal<CrosstermBackend<Stdout>>,
    inputs: mpsc::Receiver<Input>,
    /// What would end the process with the terminal as it is: that of Ctrl-C is heard elsewhere.
    signals: [Signal; 3],
    done: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Takes the terminal over.
    pub(super) fn take() -> io::Result<Self> {
        let signals = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::quit())?,
        ];
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        let taken = enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen))
            .and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(stdout())));
        let screen = taken.inspect_err(|_| give_back())?;
        let (sender, inputs) = mpsc::channel(KEYS_MAX);
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let reader = std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || read(&sender, &stop))
            .inspect_err(|_| give_back())?;
        Ok(Self { screen, inputs, signals, done, reader: Some(reader) })
    }

    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.screen.draw(picture).map(drop)
    }

    /// What comes next from the terminal. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> Input {
        let gone = || Input::Gone("it was closed".to_owned());
        let [terminate, hangup, quit] = &mut self.signals;
        tokio::select! {
            input = self.inputs.recv() => input.unwrap_or_else(gone),
            _ = terminate.recv() => Input::Ended,
            _ = hangup.recv() => Input::Ended,
            _ = quit.recv() => Input::Ended,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.done.store(true, Relaxed);
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has nothing more to say.
            let _ = reader.join();
        }
        give_back();
    }
}

/// Gives the terminal back. Twice does no harm, and nothing can be done if it fails.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, ratatui::crossterm::cursor::Show);
    let _ = disable_raw_mode();
}

fn read(sender: &mpsc::Sender<Input>, done: &AtomicBool) {
    while !done.load(Relaxed) {
        let input = match event::poll(POLL) {
            Ok(false) => continue,
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Input::Key(key),
                Ok(Event::Resize(..)) => Input::Resized,
                Ok(_) => continue,
                Err(error) => Input::Gone(error.to_string()),
            },
            Err(error) => Input::Gone(error.to_string()),
        };
        let gone = matches!(input, Input::Gone(_));
        if sender.blocking_send(input).is_err() || gone {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Tells this test that it runs on a terminal of its own.
    const ON_A_TERMINAL: &str = "DIVVY_TEST_ON_A_TERMINAL";

    #[tokio::test]
    async fn a_panic_is_told_on_a_terminal_that_was_given_back() {
        if std::env::var_os(ON_A_TERMINAL).is_some() {
            let terminal = Terminal::take().unwrap();
            std::thread::spawn(|| panic!("provoked")).join().unwrap_err();
            // Only the panic can have given it back.
            std::mem::forget(terminal);
            std::process::exit(7);
        }
        let test = std::env::current_exe().unwrap();
        let name = std::thread::current().name().unwrap().to_owned();
        let run = format!(
            "stty rows 24 cols 80; '{}' --exact {name} --nocapture; ended=$?; stty -a; exit $ended",
            test.display()
        );
        let mut command = Command::new("script");
        command.args(["-qec", &run, "/dev/null"]).env(ON_A_TERMINAL, "1").env("TERM", "xterm");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let seen = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(7), "{seen}");
        let (taken, back) = seen.split_once("\u{1b}[?1049l").expect("the usual screen is back");
        assert!(taken.contains("\u{1b}[?1049h"), "it was taken: {seen}");
        assert!(!taken.contains("provoked") && back.contains("provoked"), "{seen}");
        assert!(back.contains(" icanon") && back.contains(" echo "), "lines and echo: {back}");
    }
}
