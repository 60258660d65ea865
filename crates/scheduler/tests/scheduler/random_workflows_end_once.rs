//! Random workflows with callbacks, groups, children, failures, cancels, replays, resumes, spills and restarts. A model
//! that knows only the facts checks that open members are counted right, and that callbacks and tasks that wait for
//! groups run when, and only when, they should. At the end everything ends, and nothing of any workflow stays behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use divvy_scheduler::*;
use divvy_types::fact::Replay;
use divvy_types::{
    AttemptOutcome, Dependency, ErrorClass, Fact, Failure, FailureVerdict, GroupDependency, Lane,
    Machine, Member, Name, OpenTask, Payload, Seq, TaskError, TaskId, TaskSpec, TaskState,
    Timestamp, Token, WorkerHello, WorkerKey, Workflow, WorkflowId, WorkflowRole,
};
use proptest::prelude::*;

const FLOWS: u8 = 2;
const GROUPS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
struct Shape {
    /// 0 for none.
    workflow: u8,
    role: u8,
    parents: Vec<(u64, bool)>,
    /// One of [`GROUPS`].
    group: Option<usize>,
    /// Groups that it waits for, and whether they are optional.
    awaits: BTreeMap<usize, bool>,
}

#[derive(Clone, Debug)]
enum Op {
    Submit(Vec<Shape>),
    Finish(usize, Vec<Shape>),
    Die(usize),
    Cancel(usize),
    Replay(usize),
    Resume(u8),
    Load,
    Restart,
}

fn shape() -> impl Strategy<Value = Shape> {
    let parents = prop::collection::vec((1u64..8, any::<bool>()), 0..3);
    let role = prop_oneof![6 => Just(0u8), 1 => Just(1u8), 1 => Just(2u8)];
    let group = prop::option::weighted(0.5, 0..GROUPS.len());
    let awaits = prop_oneof![
        2 => Just(BTreeMap::new()),
        1 => prop::collection::btree_map(0..GROUPS.len(), any::<bool>(), 1..3),
    ];
    (0..=FLOWS, role, parents, group, awaits).prop_map(
        |(workflow, role, parents, group, awaits)| Shape { workflow, role, parents, group, awaits },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let shapes = |most| prop::collection::vec(shape(), 1..most);
    prop_oneof![
        4 => shapes(7).prop_map(Op::Submit),
        8 => any::<usize>().prop_map(|which| Op::Finish(which, Vec::new())),
        3 => (any::<usize>(), shapes(4)).prop_map(|(which, children)| Op::Finish(which, children)),
        4 => any::<usize>().prop_map(Op::Die),
        2 => any::<usize>().prop_map(Op::Cancel),
        1 => any::<usize>().prop_map(Op::Replay),
        2 => (1..=FLOWS).prop_map(Op::Resume),
        3 => Just(Op::Load),
        1 => Just(Op::Restart),
    ]
}

struct Stored {
    spec: Arc<TaskSpec>,
    spawned_by: Option<Seq>,
    spilled: Option<Lane>,
    submitted_at: Timestamp,
    put_back_at: Option<Timestamp>,
    outcome: Option<TaskState>,
    reason: String,
    replayed: bool,
    /// Was put back, or was open when the server stopped: it does not mind members that have failed before.
    excused: bool,
    /// Depends on a callback, so nothing may depend on it here: that could be a circle.
    tainted: bool,
}

impl Stored {
    fn role(&self) -> Option<WorkflowRole> {
        self.spec.workflow.as_ref().map(|workflow| workflow.role)
    }

    fn is_member_of(&self, flow: WorkflowId) -> bool {
        let label = self.spec.workflow.as_ref();
        label.is_some_and(|label| label.id == flow && label.role.is_member())
    }

    fn is_in(&self, flow: WorkflowId, group: &Name) -> bool {
        self.is_member_of(flow) && self.spec.group.as_ref() == Some(group)
    }

    fn is_failed(&self) -> bool {
        self.outcome.is_some_and(TaskState::is_failure)
    }
}

struct Model {
    scheduler: Scheduler,
    epoch: u64,
    now: Timestamp,
    tasks: BTreeMap<Seq, Stored>,
    running: BTreeMap<Seq, Token>,
    loads: Vec<(Lane, Option<Seq>, usize)>,
    /// Tasks that are being put back together.
    together: BTreeSet<Seq>,
    /// What tasks that were put back together wait for.
    awaits: BTreeSet<(Seq, Seq)>,
    /// Tasks that have ended once: a dependency that was met stays met, whatever is put back.
    met: BTreeSet<Seq>,
    /// Grants of this step, to be checked when all of its facts are known.
    granted: Vec<Seq>,
}

impl Model {
    fn new() -> Self {
        let mut model = Self {
            scheduler: Scheduler::new(Self::options(1)),
            epoch: 1,
            now: Timestamp(1_700_000_000_000_000),
            tasks: BTreeMap::new(),
            running: BTreeMap::new(),
            loads: Vec::new(),
            together: BTreeSet::new(),
            awaits: BTreeSet::new(),
            met: BTreeSet::new(),
            granted: Vec::new(),
        };
        model.feed(Input::RecoveryEnded);
        model.join();
        model
    }

    fn options(epoch: u64) -> Options {
        let (window_tasks, lane_load_rows, lane_floor_rows) = (2, 2, 1);
        Options { epoch, window_tasks, lane_load_rows, lane_floor_rows, ..Options::default() }
    }

    fn join(&mut self) {
        let hello = WorkerHello {
            name: format!("worker-{}", self.epoch).into(),
            kinds: vec!["noop".into()],
            credit: 10_000,
            ..WorkerHello::default()
        };
        self.feed(Input::WorkerJoined(WorkerKey(self.epoch), hello));
    }

    fn feed(&mut self, input: Input) {
        self.scheduler.handle(self.now, input);
        while let Some(action) = self.scheduler.poll_action() {
            match action {
                Action::Record(fact) => self.record(fact),
                Action::Grant(grant) => {
                    self.running.insert(grant.seq, grant.token);
                    self.granted.push(grant.seq);
                }
                Action::LoadSpilled { lane, after, rows } => self.loads.push((lane, after, rows)),
                _ => {}
            }
        }
        for seq in std::mem::take(&mut self.granted) {
            self.check_grant(seq);
        }
    }

    fn record(&mut self, fact: Fact) {
        let tainted = |spec: &TaskSpec, tasks: &BTreeMap<Seq, Stored>| {
            let parents = spec.after.iter().filter_map(|edge| tasks.get(&Seq(edge.task.0 as u64)));
            let callback = |task: &Stored| task.role().is_some_and(|role| !role.is_member());
            parents.into_iter().any(callback)
        };
        match fact {
            Fact::Submitted { seq, at, spec, spawned_by, spilled } => {
                let tainted = tainted(&spec, &self.tasks);
                let (outcome, reason) = (None, String::new());
                let replayed = false;
                let (submitted_at, put_back_at) = (at, None);
                let task = Stored {
                    spec,
                    spawned_by,
                    spilled,
                    submitted_at,
                    put_back_at,
                    outcome,
                    reason,
                    replayed,
                    excused: false,
                    tainted,
                };
                assert!(self.tasks.insert(seq, task).is_none());
            }
            Fact::Finished { seq, .. } => self.ended(seq, TaskState::Done, ""),
            Fact::Dead { seq, .. } => self.ended(seq, TaskState::Dead, ""),
            Fact::Cancelled { seq, reason, .. } => self.ended(seq, TaskState::Cancelled, &reason),
            Fact::Replayed { seq, at, replay } => {
                let task = self.tasks.get_mut(&seq).unwrap();
                assert!(task.is_failed());
                (task.outcome, task.spilled, task.replayed) = (None, None, !replay.keep_edges);
                (task.put_back_at, task.excused) = (Some(at), true);
            }
            Fact::Unspilled { lane, upto } => {
                let mine = self.tasks.range_mut(..=upto).map(|(_, task)| task);
                mine.filter(|task| task.spilled == Some(lane)).for_each(|task| task.spilled = None);
            }
            _ => {}
        }
    }

    fn ended(&mut self, seq: Seq, state: TaskState, reason: &str) {
        self.running.remove(&seq);
        self.met.insert(seq);
        self.awaits.retain(|(_, parent)| *parent != seq);
        let task = self.tasks.get_mut(&seq).unwrap();
        assert_eq!(task.outcome, None, "{seq:?} ends twice");
        (task.outcome, task.reason) = (Some(state), reason.to_owned());
    }

    fn count_open(&self, is_wanted: impl Fn(&Stored) -> bool) -> u64 {
        let members = self.tasks.iter().filter(|(_, task)| is_wanted(task));
        let open = members.filter(|(seq, task)| {
            let settling = self.scheduler.state(**seq) == Some(TaskState::Done);
            task.outcome.is_none() || settling
        });
        open.count() as u64
    }

    fn open_members(&self, flow: WorkflowId) -> u64 {
        self.count_open(|task| task.is_member_of(flow))
    }

    fn failed_members(&self, flow: WorkflowId) -> Vec<Seq> {
        let members = self.tasks.iter().filter(|(_, task)| task.is_member_of(flow));
        members.filter(|(_, task)| task.is_failed()).map(|(seq, _)| *seq).collect()
    }

    /// Groups that fail with a task: its own, and those of the tasks that spawned it.
    fn groups_failing_with(&self, flow: WorkflowId, seq: Seq) -> Vec<(Name, Seq)> {
        let line = std::iter::once(seq).chain(self.spawners(seq));
        let members = line.filter(|seq| self.tasks[seq].is_member_of(flow));
        members.filter_map(|seq| Some((self.tasks[&seq].spec.group.clone()?, seq))).collect()
    }

    /// The first group that a task waits for, with members that are open; and one that it requires, with one failed.
    fn obstacles(&self, task: &Stored) -> (Option<Name>, Option<Name>) {
        let Some(label) = &task.spec.workflow else { return (None, None) };
        let edges = &task.spec.after_groups;
        let open = |group: &Name| self.count_open(|task| task.is_in(label.id, group)) > 0;
        let failed = |group: &Name| {
            self.tasks.values().any(|task| task.is_in(label.id, group) && task.is_failed())
        };
        let first = edges.iter().find(|edge| open(&edge.group)).map(|edge| edge.group.clone());
        let required = edges.iter().filter(|edge| !edge.optional);
        let broken = required.map(|edge| &edge.group).find(|group| failed(group)).cloned();
        (first, broken)
    }

    /// The worker takes whatever is ready, so a callback is granted in the step in which it is let go.
    fn check_grant(&self, seq: Seq) {
        let task = &self.tasks[&seq];
        for edge in task.spec.after.iter().filter(|_| !task.replayed) {
            let parent = Seq(edge.task.0 as u64);
            assert!(self.met.contains(&parent), "{seq:?} before {parent:?}");
            assert!(!self.awaits.contains(&(seq, parent)), "{seq:?} before {parent:?} again");
        }
        if !task.replayed {
            let (open, failed) = self.obstacles(task);
            assert_eq!(open, None, "{seq:?} runs before a group that it waits for has settled");
            assert!(task.excused || failed.is_none(), "{seq:?} runs in spite of {failed:?}");
        }
        let Some(label) = task.spec.workflow.as_ref().filter(|label| !label.role.is_member())
        else {
            return;
        };
        if task.spawned_by.is_some() || task.replayed {
            return;
        }
        assert_eq!(self.open_members(label.id), 0, "{seq:?} is called while its workflow is open");
        let failed = !self.failed_members(label.id).is_empty();
        assert_eq!(label.role == WorkflowRole::OnFailure, failed, "{seq:?} is of the wrong sort");
    }

    fn family_well(&self, seq: Seq) -> bool {
        let mut children = self.tasks.iter().filter(|(_, task)| task.spawned_by == Some(seq));
        self.tasks[&seq].outcome == Some(TaskState::Done)
            && children.all(|(child, _)| self.family_well(*child))
    }

    fn parent(&self, edge: &Dependency) -> Parent {
        let seq = Seq(edge.task.0 as u64);
        let open = self.tasks.get(&seq).is_none_or(|task| task.outcome.is_none())
            || self.together.contains(&seq)
            || self.scheduler.state(seq).is_some();
        let state = match open {
            true => ParentState::Open,
            false if self.family_well(seq) => ParentState::Done,
            false => ParentState::Failed,
        };
        Parent { seq, optional: edge.optional, state }
    }

    fn submissions(&self, shapes: &[Shape], spawner: Option<Seq>) -> Vec<Submission> {
        let first = self.tasks.keys().last().map_or(0, |seq| seq.0) + 1;
        let own = spawner.and_then(|seq| self.tasks[&seq].spec.workflow.clone());
        let mut tasks = Vec::new();
        for (index, shape) in shapes.iter().enumerate() {
            let number = first + index as u64;
            let mut spec = TaskSpec::new(TaskId(u128::from(number)), "noop");
            spec.retry.limit = 0;
            let roles = [WorkflowRole::Member, WorkflowRole::OnSuccess, WorkflowRole::OnFailure];
            let role = roles[usize::from(shape.role)];
            spec.workflow = match (spawner, shape.workflow) {
                (_, 0) => None,
                // A child belongs where its spawner does, as the SDK has it.
                (Some(_), _) => own.clone(),
                (None, flow) => Some(Box::new(Workflow {
                    id: WorkflowId(flow.into()),
                    name: Default::default(),
                    role,
                })),
            };
            if spec.member().is_some() {
                spec.group = shape.group.map(|group| GROUPS[group].into());
                let awaits = shape.awaits.iter().filter(|(group, _)| shape.group != Some(**group));
                let edge = |(group, optional): (&usize, &bool)| GroupDependency {
                    group: GROUPS[*group].into(),
                    optional: *optional,
                };
                spec.after_groups = awaits.map(edge).collect();
            }
            let free = spec.workflow.is_none() && spawner.is_none();
            let may = |parent: Seq| match self.tasks.get(&parent) {
                // Another one of the batch; whether that is a callback is not looked at.
                None => false,
                Some(task) => {
                    let callback = task.role().is_some_and(|role| !role.is_member());
                    !task.tainted && (free || !callback)
                }
            };
            let parents = shape.parents.iter().filter(|(back, _)| *back < number);
            let parents = parents.map(|(back, optional)| (Seq(number - back), *optional));
            spec.after = parents
                .filter(|(parent, _)| may(*parent))
                .map(|(parent, optional)| Dependency { task: TaskId(parent.0.into()), optional })
                .collect();
            let parents = spec.after.iter().map(|edge| self.parent(edge)).collect();
            tasks.push(Submission { seq: Seq(number), parents, spec: Arc::new(spec) });
        }
        if self.is_refused(&tasks) {
            for task in &mut tasks {
                let spec = Arc::make_mut(&mut task.spec);
                (spec.group, spec.after_groups) = (None, Vec::new());
            }
        }
        tasks
    }

    /// Whether tasks of a batch would wait for themselves; the engine asks the same.
    fn is_refused(&self, tasks: &[Submission]) -> bool {
        let specs: Vec<TaskSpec> = tasks.iter().map(|task| TaskSpec::clone(&task.spec)).collect();
        let joining = tasks.iter().map(|task| Joining {
            seq: task.seq,
            spec: &task.spec,
            parents: &task.parents,
        });
        let joining: Vec<Joining<'_>> = joining.collect();
        admit::check_batch(&specs).is_err() || self.scheduler.circle_of(&joining).is_some()
    }

    fn stored(&self, seq: Seq) -> RecoveredTask {
        let task = &self.tasks[&seq];
        let parents = task.spec.after.iter().map(|edge| self.parent(edge)).collect();
        let open = OpenTask {
            spawned_by: task.spawned_by,
            retry_at: task.put_back_at,
            replayed: task.replayed,
            ..OpenTask::new(seq, task.spec.clone(), task.submitted_at)
        };
        RecoveredTask { open, parents }
    }

    fn look_up(&mut self, workflow: WorkflowId) {
        if !self.scheduler.knows_workflow(workflow) {
            let failed = self
                .failed_members(workflow)
                .into_iter()
                .map(|seq| FailedMember { seq, groups: self.groups_failing_with(workflow, seq) });
            let failed = failed.collect();
            self.feed(Input::WorkflowLookedUp { workflow, failed });
        }
    }

    /// Looks up the workflows whose end new tasks wait for, unless they were spawned, or whose groups.
    fn look_up_for(&mut self, tasks: &[Submission], spawned: bool) {
        let specs = tasks.iter().map(|task| &task.spec);
        let wanted = specs.filter_map(|spec| {
            let label = spec.workflow.as_ref()?;
            let callback = !label.role.is_member() && !spawned;
            (callback || !spec.after_groups.is_empty()).then_some(label.id)
        });
        for workflow in wanted.collect::<BTreeSet<_>>() {
            self.look_up(workflow);
        }
    }

    fn step(&mut self, op: Op) {
        self.now = self.now.plus_ms(1);
        match op {
            Op::Submit(shapes) => {
                let tasks = self.submissions(&shapes, None);
                self.look_up_for(&tasks, false);
                self.feed(Input::TasksSubmitted(tasks));
            }
            Op::Finish(which, children) => {
                if let Some((seq, token)) = self.pick(which) {
                    let spawned = self.submissions(&children, Some(seq));
                    self.look_up_for(&spawned, true);
                    let end = AttemptEnd::Finished { result: Payload::null(), spawned };
                    self.report(seq, token, end);
                }
            }
            Op::Die(which) => {
                if let Some((seq, token)) = self.pick(which) {
                    let error = TaskError::new(ErrorClass::Failed, "boom");
                    let failure = Failure { verdict: FailureVerdict::Dead, error };
                    let end = AttemptEnd::Other(AttemptOutcome::Failed(failure));
                    self.report(seq, token, end);
                }
            }
            Op::Cancel(which) => self.cancel(which),
            Op::Replay(which) => {
                let failed = self.tasks.iter().filter(|(_, task)| task.is_failed());
                let failed: Vec<Seq> = failed.map(|(seq, _)| *seq).collect();
                if !failed.is_empty() {
                    self.replay(failed[which % failed.len()]);
                }
            }
            Op::Resume(flow) => self.resume(WorkflowId(flow.into())),
            Op::Load => self.load(),
            Op::Restart => self.restart(),
        }
    }

    fn pick(&self, which: usize) -> Option<(Seq, Token)> {
        let running: Vec<(Seq, Token)> = self.running.iter().map(|(s, t)| (*s, *t)).collect();
        (!running.is_empty()).then(|| running[which % running.len()])
    }

    fn report(&mut self, seq: Seq, token: Token, end: AttemptEnd) {
        let worker = WorkerKey(self.epoch);
        self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log: None }));
    }

    fn cancel(&mut self, which: usize) {
        if self.tasks.is_empty() {
            return;
        }
        let seq = Seq(1 + (which % self.tasks.len()) as u64);
        let task = &self.tasks[&seq];
        let reason = "asked".into();
        match task.spilled {
            Some(lane) if task.outcome.is_none() => {
                let (member, task) = (task.spec.member(), task.spec.id);
                self.feed(Input::SpilledCancelled { seq, task, lane, member, reason });
            }
            _ => self.feed(Input::CancelRequested { seq, reason }),
        }
    }

    /// As the engine does it.
    fn replay(&mut self, seq: Seq) {
        let (task, above) = (Box::new(self.stored(seq)), self.spawners(seq));
        let settled = above.first().is_some_and(|above| self.scheduler.state(*above).is_none());
        let chosen = BTreeSet::from([seq]);
        let spawners = above.iter().rev().filter(|_| settled);
        let spawners = spawners.map(|above| self.spawner(*above, &chosen)).collect();
        self.feed(Input::TaskReplayed { spawners, task, replay: Replay::default() });
    }

    /// As the engine does it.
    fn resume(&mut self, flow: WorkflowId) {
        let chosen = self.tasks.iter().filter(|(_, task)| {
            let because = task.reason.starts_with("dependency ");
            task.is_member_of(flow) && (task.outcome == Some(TaskState::Dead) || because)
        });
        let chosen = chosen.filter(|(_, task)| task.is_failed()).map(|(seq, _)| *seq);
        let mut chosen: BTreeSet<Seq> = chosen.collect();
        loop {
            let hopeless = |seq: &Seq| {
                let edges = self.tasks[seq].spec.after.iter().filter(|edge| !edge.optional);
                let mut parents = edges.map(|edge| Seq(edge.task.0 as u64));
                let mut groups =
                    self.tasks[seq].spec.after_groups.iter().filter(|edge| !edge.optional);
                let stays_failed = |group: &Name| {
                    let mut members = self.tasks.iter().filter(|(_, task)| task.is_in(flow, group));
                    members.any(|(seq, task)| task.is_failed() && !chosen.contains(seq))
                };
                parents.any(|parent| !self.may_become_well(parent, &chosen))
                    || groups.any(|edge| stays_failed(&edge.group))
            };
            let gone: Vec<Seq> = chosen.iter().copied().filter(hopeless).collect();
            if gone.is_empty() {
                break;
            }
            gone.iter().for_each(|seq| {
                chosen.remove(seq);
            });
        }
        if chosen.is_empty() {
            return;
        }
        let callbacks = self.tasks.iter().filter(|(_, task)| {
            let label = task.spec.workflow.as_ref();
            let mine = label.is_some_and(|label| label.id == flow && !label.role.is_member());
            mine && task.is_failed() && task.reason == "the workflow failed"
        });
        let callbacks: Vec<Seq> = callbacks.map(|(seq, _)| *seq).collect();
        let grouped = chosen.iter().any(|seq| !self.tasks[seq].spec.after_groups.is_empty());
        if !callbacks.is_empty() || grouped {
            self.look_up(flow);
        }
        let spawners: BTreeSet<Seq> = chosen.iter().flat_map(|seq| self.spawners(*seq)).collect();
        self.together = chosen.iter().chain(&callbacks).chain(&spawners).copied().collect();
        for seq in &chosen {
            let parents = self.tasks[seq].spec.after.iter().map(|edge| Seq(edge.task.0 as u64));
            let parents = parents.filter(|parent| chosen.contains(parent));
            self.awaits.extend(parents.map(|parent| (*seq, parent)));
        }
        // A spawner has a smaller number than whom it spawned.
        let spawners = spawners.iter().map(|seq| self.spawner(*seq, &chosen)).collect();
        let tasks = chosen.iter().chain(&callbacks).map(|seq| self.stored(*seq)).collect();
        self.together.clear();
        self.feed(Input::TasksResumed { spawners, tasks });
    }

    fn spawner(&self, seq: Seq, chosen: &BTreeSet<Seq>) -> Spawner {
        let task = &self.tasks[&seq];
        let (member, spawned_by) = (task.spec.member(), task.spawned_by);
        let failed = !self.may_become_well(seq, chosen);
        Spawner { seq, task: task.spec.id, failed, spawned_by, member }
    }

    fn may_become_well(&self, seq: Seq, chosen: &BTreeSet<Seq>) -> bool {
        let task = &self.tasks[&seq];
        let mut children = self.tasks.iter().filter(|(_, task)| task.spawned_by == Some(seq));
        (!task.is_failed() || chosen.contains(&seq))
            && children.all(|(child, _)| self.may_become_well(*child, chosen))
    }

    fn spawners(&self, seq: Seq) -> Vec<Seq> {
        let mut list = Vec::new();
        let mut next = self.tasks[&seq].spawned_by;
        while let Some(seq) = next {
            list.push(seq);
            next = self.tasks[&seq].spawned_by;
        }
        list
    }

    fn load(&mut self) {
        if self.loads.is_empty() {
            return;
        }
        let (lane, after, rows) = self.loads.remove(0);
        let waiting = self.tasks.iter().filter(|(seq, task)| {
            let behind = after.is_none_or(|after| **seq > after);
            task.spilled == Some(lane) && task.outcome.is_none() && behind
        });
        let waiting: Vec<Seq> = waiting.map(|(seq, _)| *seq).collect();
        let tasks = waiting.iter().take(rows).map(|seq| self.stored(*seq)).collect();
        self.feed(Input::SpilledLoaded { lane, tasks, exhausted: waiting.len() <= rows });
    }

    fn restart(&mut self) {
        self.epoch += 1;
        self.loads.clear();
        self.running.clear();
        self.scheduler = Scheduler::new(Self::options(self.epoch));
        self.tasks.values_mut().for_each(|task| task.excused = true);
        self.join();
        let open = |task: &&Stored| task.outcome.is_none();
        let mut spilled: BTreeMap<Member, u64> = BTreeMap::new();
        let mut lanes: BTreeMap<Lane, (u64, Arc<TaskSpec>)> = BTreeMap::new();
        for task in self.tasks.values().filter(open) {
            let Some(lane) = task.spilled else { continue };
            lanes.entry(lane).or_insert_with(|| (0, task.spec.clone())).0 += 1;
            if let Some(member) = task.spec.member() {
                *spilled.entry(member).or_default() += 1;
            }
        }
        let present = self.tasks.iter().filter(|(_, task)| open(task) && task.spilled.is_none());
        let present: Vec<Seq> = present.map(|(seq, _)| *seq).collect();
        let settling: BTreeSet<Seq> = present.iter().flat_map(|seq| self.spawners(*seq)).collect();
        for seq in settling {
            let task = &self.tasks[&seq];
            let failed = self.family_failed(seq);
            let (member, task, spawned_by) = (task.spec.member(), task.spec.id, task.spawned_by);
            self.feed(Input::SettlingRecovered { seq, task, failed, spawned_by, member });
        }
        for (member, count) in spilled {
            self.feed(Input::MembersRecovered { member, count });
        }
        for flow in 1..=FLOWS {
            self.look_up(WorkflowId(flow.into()));
        }
        for seq in present {
            let task = self.stored(seq);
            self.feed(Input::TaskRecovered(task));
        }
        for (lane, (count, sample)) in lanes {
            self.feed(Input::LaneRecovered { lane, count, sample });
        }
        self.feed(Input::RecoveryEnded);
    }

    fn family_failed(&self, seq: Seq) -> bool {
        let mut children = self.tasks.iter().filter(|(_, task)| task.spawned_by == Some(seq));
        children.any(|(child, task)| task.is_failed() || self.family_failed(*child))
    }

    fn check(&self) {
        for flow in 1..=FLOWS {
            let flow = WorkflowId(flow.into());
            assert_eq!(self.scheduler.open_members(flow), self.open_members(flow), "{flow:?}");
            for group in GROUPS.map(Name::from) {
                let open = self.count_open(|task| task.is_in(flow, &group));
                assert_eq!(self.scheduler.open_in_group(flow, &group), open, "{flow:?} {group}");
            }
        }
        let waiting = self.tasks.iter().filter(|(seq, task)| {
            let blocked = self.scheduler.state(**seq) == Some(TaskState::Blocked);
            blocked && !task.spec.after_groups.is_empty()
        });
        for (seq, task) in waiting {
            let (open, failed) = self.obstacles(task);
            let why = open.is_some() || !task.spec.after.is_empty();
            assert!(why, "{seq:?} waits for nothing");
            assert!(task.excused || failed.is_none(), "{seq:?} waits in spite of {failed:?}");
        }
        let open = self.tasks.values().filter(|task| task.outcome.is_none());
        let held = open.filter(|task| task.spilled.is_none()).count();
        assert_eq!(self.scheduler.open_before(None).count(), held, "a task got lost");
    }

    /// Faults stop, and everything that is granted works.
    fn run_out(&mut self) {
        for _ in 0..2_000 {
            if !self.loads.is_empty() {
                self.load();
            } else if !self.running.is_empty() {
                self.step(Op::Finish(0, Vec::new()));
            } else if let Some(at) = self.scheduler.next_deadline() {
                self.now = self.now.max(at);
                self.feed(Input::TimePassed);
            } else {
                break;
            }
            self.check();
        }
        let left = self.scheduler.counts();
        assert!(self.scheduler.is_idle(), "something never ends: {left:?}");
        assert_eq!(self.scheduler.open_workflows(None).next(), None, "a workflow stays behind");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, max_shrink_iters: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn callbacks_run_when_and_only_when_they_should(ops in prop::collection::vec(op(), 1..80)) {
        let mut model = Model::new();
        for op in ops {
            model.step(op);
            model.check();
        }
        model.run_out();
    }
}

fn plain(workflow: u8) -> Shape {
    Shape { workflow, role: 0, parents: Vec::new(), group: None, awaits: BTreeMap::new() }
}

/// A task names a dependency twice, as an optional and as a required one. To cut only the optional wait lets nobody go, and
/// must not keep the wait that is over from being cut.
#[test]
fn a_wait_that_is_required_too_is_not_taken_for_one_that_was_cut() {
    let after =
        |workflow, parents: &[(u64, bool)]| Shape { parents: parents.to_vec(), ..plain(workflow) };
    let waits = |group| BTreeMap::from([(group, false)]);
    let after_group = |group| Shape { awaits: waits(group), ..plain(1) };
    let free = |count| vec![plain(0); count];
    let with = |mut shapes: Vec<Shape>, more: &[Shape]| {
        shapes.extend_from_slice(more);
        Op::Submit(shapes)
    };
    let twice = after(1, &[(2, true), (2, false)]);
    let last = Shape { group: Some(1), awaits: waits(0), ..after(1, &[(7, true)]) };
    let mut model = Model::new();
    for op in [
        Op::Submit(free(3)),
        Op::Finish(0, vec![]),
        Op::Finish(0, vec![]),
        Op::Submit(vec![after_group(2)]),
        with(free(4), &[after(0, &[(5, false)]), after_group(0)]),
        with(free(4), &[after(1, &[(6, true)])]),
        Op::Finish(1780988891932206433, vec![]),
        Op::Finish(0, vec![plain(0), twice]),
        Op::Finish(1423094630990269262, vec![after_group(1), plain(0)]),
        Op::Submit(free(1)),
        Op::Finish(7760629169116718765, vec![]),
        with(free(3), &[last]),
        Op::Submit(free(1)),
        Op::Submit(free(1)),
        Op::Resume(1),
        Op::Restart,
    ] {
        model.step(op);
        model.check();
    }
    model.run_out();
}

/// A task spawned another one, which died; its group settled. A task that waits for the group came, and the dead one was put
/// back and spawned a child that would wait for that task. While the server ran it waited for nothing that waits for it;
/// after a restart everything waited for everything.
#[test]
fn what_is_put_back_alone_keeps_the_groups_above_it_open_before_a_restart_as_after() {
    let member = |group| Shape { group: Some(group), ..plain(1) };
    let after_group = |group| Shape { awaits: BTreeMap::from([(group, true)]), ..plain(1) };
    let after_last = || Shape { parents: vec![(1, false)], ..plain(0) };
    let mut model = Model::new();
    for op in [
        Op::Submit(vec![member(2)]),
        Op::Finish(0, vec![plain(0)]),
        Op::Die(0),
        Op::Submit(vec![member(2)]),
        Op::Submit(vec![after_group(2)]),
        Op::Replay(0),
        Op::Finish(0, vec![after_last()]),
        Op::Restart,
    ] {
        model.step(op);
        model.check();
    }
    model.run_out();
}
