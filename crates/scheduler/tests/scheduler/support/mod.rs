//! A small world around the scheduler: a clock, workers by number, and what was done.

pub(crate) mod excuses;
pub(crate) mod operations;
pub(crate) mod thefts;

use std::sync::Arc;

use divvy_scheduler::*;
use divvy_types::fact::Replay;
use divvy_types::view::WorkerView;
use divvy_types::{
    AttemptOutcome, Dependency, ErrorClass, Fact, Failure, FailureVerdict, Machine, Name, OpenTask,
    Payload, Seq, Settings, TaskError, TaskId, TaskSpec, TaskState, Timestamp, Token, WorkerHello,
    WorkerKey,
};

pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) now: Timestamp,
    pub(crate) actions: Vec<Action>,
}

/// A spec whose id is its number.
pub(crate) fn spec(number: u64) -> TaskSpec {
    TaskSpec::new(TaskId(u128::from(number)), "noop")
}

pub(crate) fn after(mut spec: TaskSpec, parents: &[(u64, bool)]) -> TaskSpec {
    let edges = parents
        .iter()
        .map(|(n, optional)| Dependency { task: TaskId(u128::from(*n)), optional: *optional });
    spec.after = edges.collect();
    spec
}

/// A task of the store with the number of its id.
pub(crate) fn recovered(spec: TaskSpec) -> RecoveredTask {
    let Submission { seq, spec, parents } = submission(spec);
    RecoveredTask { open: OpenTask::new(seq, spec, Timestamp(1)), parents }
}

/// A task that nothing spawned is put back alone.
pub(crate) fn put_back_alone(task: RecoveredTask) -> Input {
    Input::TaskReplayed { spawners: Vec::new(), task: Box::new(task), replay: Replay::default() }
}

/// The number of a task is its id; all its parents are open.
pub(crate) fn submission(spec: TaskSpec) -> Submission {
    let parents = spec.after.iter().map(|edge| Parent {
        seq: Seq(edge.task.0 as u64),
        optional: edge.optional,
        state: ParentState::Open,
    });
    Submission { seq: Seq(spec.id.0 as u64), parents: parents.collect(), spec: Arc::new(spec) }
}

pub(crate) fn failure(verdict: FailureVerdict) -> AttemptEnd {
    let error = TaskError::new(ErrorClass::Failed, "boom");
    AttemptEnd::Other(AttemptOutcome::Failed(Failure { verdict, error }))
}

pub(crate) fn released() -> AttemptEnd {
    AttemptEnd::Other(AttemptOutcome::Released)
}

pub(crate) fn finished() -> AttemptEnd {
    AttemptEnd::Finished { result: Payload::null(), spawned: Vec::new() }
}

pub(crate) fn spawning(children: Vec<TaskSpec>) -> AttemptEnd {
    AttemptEnd::Finished {
        result: Payload::null(),
        spawned: children.into_iter().map(submission).collect(),
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let mut world = Self::recovering(options);
        world.feed(Input::RecoveryEnded);
        world
    }

    pub(crate) fn recovering(options: Options) -> Self {
        let now = Timestamp(1_700_000_000_000_000);
        Self { scheduler: Scheduler::new(options), now, actions: Vec::new() }
    }

    /// Hands in one input and keeps what is to be done; what was kept before is dropped.
    pub(crate) fn feed(&mut self, input: Input) -> &[Action] {
        self.actions.clear();
        self.scheduler.handle(self.now, input);
        while let Some(action) = self.scheduler.poll_action() {
            self.actions.push(action);
        }
        &self.actions
    }

    pub(crate) fn submit(&mut self, specs: Vec<TaskSpec>) -> &[Action] {
        self.feed(Input::TasksSubmitted(specs.into_iter().map(submission).collect()))
    }

    pub(crate) fn join(&mut self, key: u64, credit: u32) -> &[Action] {
        self.join_with(key, credit, |_| {})
    }

    pub(crate) fn join_with(
        &mut self,
        key: u64,
        credit: u32,
        change: impl FnOnce(&mut WorkerHello<Seq>),
    ) -> &[Action] {
        let mut hello = WorkerHello {
            name: Name::from(format!("worker-{key}")),
            kinds: vec!["noop".into()],
            credit,
            slots: credit,
            ..WorkerHello::default()
        };
        change(&mut hello);
        self.feed(Input::WorkerJoined(WorkerKey(key), hello))
    }

    pub(crate) fn report(
        &mut self,
        worker: u64,
        seq: u64,
        token: Token,
        end: AttemptEnd,
    ) -> &[Action] {
        let worker = WorkerKey(worker);
        self.feed(Input::AttemptEnded(AttemptEnded {
            worker,
            seq: Seq(seq),
            token,
            end,
            log: None,
        }))
    }

    /// Reports for the present holder under the present token.
    pub(crate) fn end(&mut self, worker: u64, seq: u64, end: AttemptEnd) -> &[Action] {
        let token = self.scheduler.lease_token(Seq(seq)).expect("the task is leased");
        self.report(worker, seq, token, end)
    }

    /// Moves the clock on, and says so.
    pub(crate) fn pass_ms(&mut self, ms: u64) -> &[Action] {
        self.now = self.now.plus_ms(ms);
        self.feed(Input::TimePassed)
    }

    pub(crate) fn state(&self, seq: u64) -> Option<TaskState> {
        self.scheduler.state(Seq(seq))
    }

    pub(crate) fn grants(&self) -> Vec<(u64, u64)> {
        let grants = self.actions.iter().filter_map(|action| match action {
            Action::Grant(grant) => Some((grant.worker.0, grant.seq.0)),
            _ => None,
        });
        grants.collect()
    }

    pub(crate) fn facts(&self) -> Vec<&Fact> {
        let facts = self.actions.iter().filter_map(|action| match action {
            Action::Record(fact) => Some(fact),
            _ => None,
        });
        facts.collect()
    }

    /// Names of the facts with the numbers of their tasks.
    pub(crate) fn fact_names(&self) -> Vec<String> {
        let name = |fact: &&Fact| {
            let text = format!("{fact:?}");
            let word = text.split([' ', '{']).next().unwrap_or_default().to_owned();
            fact.seq().map_or_else(|| word.clone(), |seq| format!("{word} {}", seq.0))
        };
        self.facts().iter().map(name).collect()
    }

    pub(crate) fn answers(&self) -> Vec<ReportAnswer> {
        let answers = self.actions.iter().filter_map(|action| match action {
            Action::AnswerReport { answer, .. } => Some(*answer),
            _ => None,
        });
        answers.collect()
    }

    /// Tasks that workers were asked to give back: worker, task, whether even if it has begun.
    pub(crate) fn recalls(&self) -> Vec<(u64, u64, bool)> {
        let recalls = self.actions.iter().filter_map(|action| match action {
            Action::Recall { worker, seq, begun_too, .. } => Some((worker.0, seq.0, *begun_too)),
            _ => None,
        });
        recalls.collect()
    }

    /// Changes the settings that hold.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Settings)) -> &[Action] {
        let mut settings = self.scheduler.settings().clone();
        change(&mut settings);
        settings.check().expect("settings that make sense");
        self.feed(Input::SettingsChanged(Box::new(settings)))
    }

    pub(crate) fn leave(&mut self, worker: u64) -> &[Action] {
        self.feed(Input::WorkerLeft { worker: WorkerKey(worker) })
    }

    pub(crate) fn cut(&mut self, worker: u64) -> &[Action] {
        self.feed(Input::WorkerCut { worker: WorkerKey(worker) })
    }

    /// Who holds a task.
    pub(crate) fn holder(&self, seq: u64) -> Option<String> {
        self.scheduler.status(Seq(seq))?.worker.map(|name| name.to_string())
    }

    /// What is known of a worker.
    pub(crate) fn worker(&self, key: u64) -> WorkerView {
        let found = self.scheduler.workers().into_iter().find(|worker| worker.key == key);
        found.expect("a connected worker")
    }

    /// Attempts that workers were told to stop: worker, task, token, reason.
    pub(crate) fn stops(&self) -> Vec<(u64, u64, Token, String)> {
        let stops = self.actions.iter().filter_map(|action| match action {
            Action::StopAttempt { worker, seq, token, reason, .. } => {
                Some((worker.0, seq.0, *token, reason.to_string()))
            }
            _ => None,
        });
        stops.collect()
    }

    pub(crate) fn forgotten(&self) -> Vec<u64> {
        let forgotten = self.actions.iter().filter_map(|action| match action {
            Action::Forget { seq, .. } => Some(seq.0),
            _ => None,
        });
        forgotten.collect()
    }

    pub(crate) fn cancel_reason(&self, seq: u64) -> Option<String> {
        self.facts().iter().find_map(|fact| match fact {
            Fact::Cancelled { seq: of, reason, .. } if of.0 == seq => Some(reason.to_string()),
            _ => None,
        })
    }
}
