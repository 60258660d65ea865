//! Local worker processes: started, restarted when they crash, more or fewer as pools want them, drained at the end.
//!
//! Each worker is this very binary with the command `work`, in a process group of its own, so that Ctrl-C reaches
//! the parent only, which then stops the workers in order. Its standard input is a pipe that closes when the parent
//! dies, however that happens; the worker stops then, so none is left behind. Over the same pipe a worker is told that
//! it is not needed any more: it ends what it runs, however long that takes, and leaves.
//!
//! A worker that leaves takes no tasks again. If it is needed meanwhile after all, another one is started.

mod crew;
mod guard;
mod restarts;

use std::path::PathBuf;

use divvy_server::LocalWorkers;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::exit::{Code, Failure};
use crate::values::SlotCounts;
use crew::Crew;
pub(crate) use crew::slots_of;

/// What tells a worker over its pipe to leave.
pub(crate) const LEAVE: u8 = b'l';

/// How the workers are started.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// This binary.
    pub(crate) program: PathBuf,
    /// Arguments after `work`, without the name, the slots, the kinds, the queues and the capabilities.
    pub(crate) arguments: Vec<String>,
    /// What they run at once, as people asked for it.
    pub(crate) asked_slots: SlotCounts,
    /// What they run at once where nobody asked for anything.
    pub(crate) usual_slots: SlotCounts,
    /// Kinds that they run; none means every kind.
    pub(crate) kinds: Vec<String>,
    /// Queues that they serve; none means all.
    pub(crate) queues: Vec<String>,
    /// What they have.
    pub(crate) capabilities: Vec<String>,
    /// Variables that would change what the parent decided for its workers.
    pub(crate) hidden: Vec<&'static str>,
    /// The token, which does not belong on a command line that others can read.
    pub(crate) token: Option<String>,
    /// The log filter, unless the user has set one.
    pub(crate) log: Option<&'static str>,
}

/// What is asked of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    GoOn,
    Leave,
    Drain,
    Now,
}

/// The running workers.
pub(crate) struct Supervisor {
    wish: watch::Sender<Wish>,
    crew: JoinHandle<()>,
    given_up: mpsc::Receiver<String>,
}

impl Supervisor {
    /// Starts `count` workers that stay, named `local-1` and so on, and from then on as many as pools want.
    pub(crate) fn start(plan: Plan, count: u32, local: LocalWorkers) -> Self {
        let wish = watch::Sender::new(Wish::GoOn);
        let (give_up, given_up) = mpsc::channel(1);
        let crew = Crew::new(plan, local, give_up);
        let crew = tokio::spawn(crew.run(count, wish.subscribe()));
        Self { wish, crew, given_up }
    }

    /// Waits until a worker cannot be started at all, and says why. May be dropped while it waits.
    pub(crate) async fn broken(&mut self) -> anyhow::Error {
        match self.given_up.recv().await {
            Some(message) => Failure::new(Code::Failed, message).into(),
            None => std::future::pending().await,
        }
    }

    /// Asks all workers to finish what they run.
    pub(crate) fn drain(&self) {
        ask(&self.wish, Wish::Drain);
    }

    /// Asks all workers to stop what they run.
    pub(crate) fn now(&self) {
        ask(&self.wish, Wish::Now);
    }

    /// Waits until all have ended, once they were asked to. May be dropped while it waits.
    pub(crate) async fn ended(&mut self) {
        // A crew that failed has no workers left: they end with their pipes.
        let _ = (&mut self.crew).await;
    }
}

/// Waits until more is asked for than this, and says what.
async fn further(wish: &mut watch::Receiver<Wish>, than: Wish) -> Wish {
    // Nobody is left to ask: nobody is left to wait for either.
    wish.wait_for(|wish| *wish > than).await.map_or(Wish::Now, |wish| *wish)
}

/// Asks for something that goes further than what was asked before.
fn ask(asked: &watch::Sender<Wish>, wish: Wish) {
    asked.send_if_modified(|current| {
        let further = wish > *current;
        *current = wish.max(*current);
        further
    });
}
