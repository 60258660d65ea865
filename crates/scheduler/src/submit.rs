//! How a task comes into being: blocked by its dependencies, scheduled for its time, or ready; in memory, or in the
//! store if the window is full.
//!
//! Ids, limits and cycles were checked before ([`crate::admit`]); what is known of dependencies outside of memory is
//! said with the submission.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use divvy_types::view::TaskChange;
use divvy_types::{Fact, Lane, Name, Seq, TaskSpec, TaskState, Timestamp, Token, WorkflowId};

use crate::circles::{Node, Ties, groups_of};
use crate::lanes::End;
use crate::settle::{Ended, add_dependent, cancelled, cause};
use crate::table::{Edge, Links, NOBODY, Row, Task};
use crate::timers::Timer;
use crate::workflows::{self, called_back_by};
use crate::{Parent, ParentState, Scheduler, Submission};

/// What is learnt while one batch is taken in.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Tasks that were cancelled on arrival, and the cause.
    buried: BTreeMap<Seq, Name>,
    /// Tasks and groups that do not wait for the spawner of the batch.
    harmless: BTreeSet<Node>,
}

impl Batch {
    /// The next task has another spawner.
    pub(crate) fn change_spawner(&mut self) {
        self.harmless.clear();
    }
}

/// What the dependencies of a new task come to.
pub(crate) enum Standing {
    /// All settled.
    Met,
    /// Some are open: their places in the list.
    Unmet(Vec<usize>),
    /// A required one has failed.
    Failed(Name),
}

/// The ties of a new task, if it has any.
pub(crate) fn links_of(parents: &[Parent], spawned_by: Option<Seq>) -> Option<Box<Links>> {
    if parents.is_empty() && spawned_by.is_none() {
        return None;
    }
    let edge = |parent: &Parent| Edge { seq: parent.seq, optional: parent.optional, life: 0 };
    let parents = parents.iter().map(edge).collect();
    Some(Box::new(Links { parents, spawned_by, ..Links::default() }))
}

impl Scheduler {
    pub(crate) fn tasks_submitted(&mut self, now: Timestamp, tasks: Vec<Submission>) {
        let mut batch = Batch::default();
        for task in tasks {
            self.submit(now, task, None, &mut batch);
        }
    }

    /// Takes one new task, submitted from outside or spawned.
    pub(crate) fn submit(
        &mut self,
        now: Timestamp,
        submission: Submission,
        spawned_by: Option<Seq>,
        batch: &mut Batch,
    ) {
        let Submission { seq, spec, parents } = submission;
        let mut standing = self.standing(&spec, &parents, spawned_by, batch);
        let workflow = called_back_by(&spec, spawned_by);
        let tied = !spec.after_groups.is_empty();
        if tied && let Some(cause) = self.group_obstacle(&spec, spawned_by, batch) {
            standing = Standing::Failed(cause);
        }
        let met = matches!(standing, Standing::Met) && workflow.is_none() && !tied;
        let ready = met && spec.run_at.is_none_or(|due| due <= now);
        let class = self.class_of(&spec);
        // The children of a settling task are counted, and a count of those in the store would not survive a restart.
        let spilled = (ready && spawned_by.is_none() && self.must_spill(class, &spec, now))
            .then(|| Lane::of(&spec));
        self.record(Fact::Submitted { seq, at: now, spec: spec.clone(), spawned_by, spilled });
        self.tally_of_class(class).submitted += 1;
        if let Standing::Failed(cause) = standing {
            return self.bury(now, seq, &spec, spawned_by, cause, batch);
        }
        let state = match met {
            false => TaskState::Blocked,
            true if ready => TaskState::Ready,
            true => TaskState::Scheduled,
        };
        self.member_opened(seq, spec.member().as_ref());
        self.announce(|| TaskChange::of(&spec, state, now));
        if let Some(lane) = spilled {
            self.forget(seq, &spec);
            self.spill(lane, class, &spec, now);
            return;
        }
        let ready_at = spec.run_at.filter(|due| *due > now).unwrap_or(now);
        let task = Task {
            seq,
            spec,
            ready_at,
            since: now,
            begun: Timestamp::default(),
            token: Token::default(),
            links: links_of(&parents, spawned_by),
            class,
            stream: NOBODY,
            worker: NOBODY,
            charged_ms: 0,
            attempts: 0,
            checkpointed: false,
            state,
            retried: false,
            given_back: false,
            held: false,
            stopping: false,
            recovered: false,
        };
        let row = self.place(task, now);
        if let Standing::Unmet(unmet) = standing {
            self.wait_for(row, &unmet);
        }
        self.await_ends(row, workflow, tied);
    }

    /// Lets a task wait for the end of a workflow or of groups, and notes that it may wait for something.
    pub(crate) fn await_ends(&mut self, row: Row, workflow: Option<WorkflowId>, tied: bool) {
        if let Some(workflow) = workflow {
            self.await_workflow(row, workflow);
        }
        if tied {
            self.await_groups(row);
        }
        let task = &self.tasks[row];
        if tied || task.state == TaskState::Blocked {
            let (seq, member) = (task.seq, task.spec.member());
            self.may_wait(seq, member.as_ref());
        }
    }

    /// Takes a task into memory where its state says, with the dependents that came before it.
    #[inline]
    pub(crate) fn place(&mut self, mut task: Task, now: Timestamp) -> Row {
        if !self.absent.is_empty()
            && let Some(dependents) = self.absent.remove(&task.seq)
        {
            task.links().dependents = dependents;
        }
        let (seq, state, ready_at) = (task.seq, task.state, task.ready_at);
        let row = self.insert(task);
        match state {
            TaskState::Ready => self.enqueue(row, End::Back, now),
            TaskState::Scheduled => self.timers.add(ready_at, Timer::Due(seq)),
            _ => {}
        }
        row
    }

    /// What the dependencies of a task come to.
    pub(crate) fn standing(
        &self,
        spec: &TaskSpec,
        parents: &[Parent],
        spawned_by: Option<Seq>,
        batch: &mut Batch,
    ) -> Standing {
        let mut unmet = Vec::new();
        // A recovered task may have fewer edges than its spec names; then places say nothing.
        let named = |index: usize| {
            spec.after
                .get(index)
                .filter(|_| spec.after.len() == parents.len())
                .map(|edge| edge.task)
        };
        for (index, parent) in parents.iter().enumerate() {
            let known = match parent.state {
                ParentState::Done => continue,
                ParentState::Failed => Some(cause(named(index), "failed", "see that task")),
                ParentState::Open => batch.buried.get(&parent.seq).cloned(),
            };
            if known.is_some() && parent.optional {
                continue;
            }
            if let Some(cause) = known {
                return Standing::Failed(cause);
            }
            if self.waits_for_workflow_of(parent.seq, spawned_by) {
                let why = "it runs when the workflow of the task that spawned this one has ended";
                return Standing::Failed(cause(named(index), "cannot be waited for", why));
            }
            if let Some(settling) = self.settling.get(&parent.seq) {
                // A child that waited for its own spawner to settle would wait for itself.
                if self.descends_from(spawned_by, parent.seq) {
                    continue;
                }
                match &settling.cause {
                    // A task that is open in spite of a failed dependency was put back by someone.
                    Some(_) if self.recovering && !parent.optional => continue,
                    Some(cause) if !parent.optional => return Standing::Failed(cause.clone()),
                    _ => {}
                }
            }
            if spawned_by.is_some()
                && !self.recovering
                && self.waits_for_spawner(Node::Task(parent.seq), spawned_by, batch)
            {
                let why = "it waits for the task that spawned this one";
                return Standing::Failed(cause(named(index), "cannot be waited for", why));
            }
            unmet.push(index);
        }
        if unmet.is_empty() { Standing::Met } else { Standing::Unmet(unmet) }
    }

    /// Whether a task waits for the end of a workflow that a spawner keeps open until its children have settled.
    fn waits_for_workflow_of(&self, seq: Seq, mut spawner: Option<Seq>) -> bool {
        if spawner.is_none() || self.workflows.is_empty() {
            return false;
        }
        let Some(task) = self.tasks.find(seq) else { return false };
        if !task.links.as_ref().is_some_and(|links| links.callback) {
            return false;
        }
        let awaited = task.spec.workflow.as_ref().map(|workflow| workflow.id);
        while let Some(settling) = spawner.and_then(|seq| self.settling.get(&seq)) {
            let workflow = settling.member.as_ref().map(|member| member.workflow);
            if workflow.is_some() && workflow == awaited {
                return true;
            }
            spawner = settling.spawned_by;
        }
        false
    }

    /// Why a task cannot wait for the groups that it names: one that it requires has failed, or one waits for the task.
    pub(crate) fn group_obstacle(
        &self,
        spec: &TaskSpec,
        spawned_by: Option<Seq>,
        batch: &mut Batch,
    ) -> Option<Name> {
        if let Some(cause) = self.failed_group(spec) {
            return Some(cause);
        }
        spawned_by?;
        let group = groups_of(spec).find(|group| {
            self.spawned_in(spawned_by, group)
                || self.waits_for_spawner(group.clone(), spawned_by, batch)
        });
        let Node::Group(_, name) = group? else { return None };
        let what = format!("group `{name}` cannot be waited for");
        Some(cause(None, &what, "it waits for the task that spawned this one"))
    }

    /// Why a task that is put back cannot wait for its dependencies: one of them waits for the group of the task.
    pub(crate) fn own_group_obstacle(&self, spec: &TaskSpec, parents: &[Parent]) -> Option<Name> {
        let group = self.own_group_behind(spec, parents)?;
        let why = format!("one of them waits for `{group}`, the group of this task");
        Some(cause(None, "what it depends on cannot be waited for", &why))
    }

    pub(crate) fn descends_from(&self, mut spawner: Option<Seq>, ancestor: Seq) -> bool {
        while let Some(seq) = spawner {
            if seq == ancestor {
                return true;
            }
            spawner = self.settling.get(&seq).and_then(|settling| settling.spawned_by);
        }
        false
    }

    /// Whether a task waits, over any number of dependencies and children, for the spawner or one of its spawners.
    fn waits_for_spawner(&self, start: Node, spawner: Option<Seq>, batch: &mut Batch) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if batch.harmless.contains(&node) || !seen.insert(node.clone()) {
                continue;
            }
            if let Node::Task(seq) = node
                && self.settling.contains_key(&seq)
                && self.descends_from(spawner, seq)
            {
                return true;
            }
            open.extend(self.waits_of(&node, Ties::Ever));
        }
        batch.harmless.append(&mut seen);
        false
    }

    /// Ties a blocked task to the dependencies that it waits for.
    pub(crate) fn wait_for(&mut self, row: Row, unmet: &[usize]) {
        let links = self.tasks[row].links();
        links.missing = unmet.len() as u32;
        let edges: Vec<Edge> = unmet.iter().map(|index| links.parents[*index]).collect();
        let (seq, life) = (self.tasks[row].seq, self.tasks[row].links().life);
        for parent in edges {
            let edge = Edge { seq, optional: parent.optional, life };
            if let Some(parent) = self.tasks.row_of(parent.seq) {
                let mut list = std::mem::take(&mut self.tasks[parent].links().dependents);
                add_dependent(&mut list, edge, |seq| self.tasks.row_of(seq).is_some());
                self.tasks[parent].links().dependents = list;
            } else if let Some(settling) = self.settling.get_mut(&parent.seq) {
                add_dependent(&mut settling.dependents, edge, |seq| {
                    self.tasks.row_of(seq).is_some()
                });
            } else {
                self.absent.entry(parent.seq).or_default().push(edge);
            }
        }
    }

    /// Cancels a task on arrival, because something that it requires has failed.
    pub(crate) fn bury(
        &mut self,
        now: Timestamp,
        seq: Seq,
        spec: &Arc<TaskSpec>,
        spawned_by: Option<Seq>,
        cause: Name,
        batch: &mut Batch,
    ) {
        let reason = Name::from(format!("dependency {cause}"));
        self.record(Fact::Cancelled { seq, at: now, reason: reason.clone(), spilled: None });
        self.announce(|| cancelled(spec, &reason, now));
        self.forget(seq, spec);
        self.member_ended(seq, spec.member(), workflows::End::Failed(&cause), false);
        self.ended_workflows.extend(called_back_by(spec, spawned_by));
        batch.buried.insert(seq, cause.clone());
        let dependents = self.absent.remove(&seq).unwrap_or_default();
        self.ended.push(Ended { dependents, spawned_by, cause: Some(cause) });
    }
}
