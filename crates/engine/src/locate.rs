//! Finding tasks: in memory, on their way to the store, or in the store; and resolving batches with that.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Arc, OnceLock};

use divvy_scheduler::input::{Parent, ParentState, Submission};
use divvy_scheduler::{Joining, Newcomer, admit};
use divvy_store::TaskRecord;
use divvy_types::view::Late;
use divvy_types::{Conflict, Seq, SpecError, TaskId, TaskSpec, TaskState};

use crate::core::{Core, Known, Unresolved};
use crate::request::Error;
use crate::settings;
use crate::unique::{Claims, Turn};

/// Children and grandchildren that are looked at to know whether a finished dependency really is settled well.
pub(crate) const SETTLED_LOOK_MAX: usize = 10_000;

/// Stands for a dependency that retention has dropped: no task has this number.
const DROPPED: Seq = Seq(0);

/// Where a task is.
pub(crate) enum Located {
    /// The scheduler has it (perhaps only as a finished task whose children are open).
    Open(Seq),
    /// It left the scheduler by facts that are not committed yet.
    Departing,
    /// The store has it: final, or waiting there because the window is full.
    Stored(Box<TaskRecord>),
    /// Nobody has it.
    Unknown,
}

/// A batch with numbers and dependencies.
#[derive(Default)]
pub(crate) struct Resolved {
    pub(crate) tasks: Vec<Submission>,
    pub(crate) known: u32,
    /// Tasks that were not taken, and the one that has their unique key.
    pub(crate) conflicts: Vec<Conflict>,
    /// Tasks to cancel once the batch is taken in, and the one that takes their unique key.
    pub(crate) replaced: Vec<(TaskId, TaskId)>,
    /// New tasks that are expected to miss their deadlines.
    pub(crate) late: Vec<Late>,
}

/// What to do about tasks that will presumably miss their deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadlines {
    /// Nobody asked.
    Ignore,
    /// Take them, and name them.
    Tell,
    /// Refuse the batch.
    Enforce,
}

impl Core {
    pub(crate) fn locate(&mut self, id: TaskId) -> Result<Located, Error> {
        if let Some(known) = self.ids.get(&id) {
            return Ok(if known.departing { Located::Departing } else { Located::Open(known.seq) });
        }
        if id.is_time_ordered() && id > self.last_ordered_id {
            return Ok(Located::Unknown);
        }
        Ok(self
            .reader
            .find(id)?
            .map_or(Located::Unknown, |record| Located::Stored(Box::new(record))))
    }

    /// Sorts a batch into new and known tasks, numbers the new ones and looks their dependencies up.
    ///
    /// Nothing is changed unless the whole batch is taken. `finishing` is the task whose finish spawns it.
    pub(crate) fn resolve_batch(
        &mut self,
        mut specs: Vec<TaskSpec>,
        finishing: Option<Seq>,
        deadlines: Deadlines,
    ) -> Result<Result<Resolved, Unresolved>, Error> {
        let mut known = 0;
        let mut new: Vec<usize> = Vec::with_capacity(specs.len());
        // Who depends on nothing needs no numbers of others, and rising ids are not named twice.
        let alone = specs.iter().all(|spec| spec.edges() == 0) && self.are_new(&specs);
        let mut numbers: HashMap<TaskId, Seq, BuildHasherDefault<IdHasher>> = HashMap::default();
        let mut claims = Claims::new(finishing);
        let mut seq = self.last_seq;
        let mut last_ordered = self.last_ordered_id;
        for (index, spec) in specs.iter().enumerate() {
            // A time-ordered id that is greater than all before it is new: nothing has to be looked up.
            let ordered = spec.id.is_time_ordered() && spec.id > last_ordered;
            if !ordered {
                if numbers.contains_key(&spec.id) {
                    known += 1;
                    continue;
                }
                match self.is_known(spec)? {
                    Match::No => {}
                    Match::Same => {
                        known += 1;
                        continue;
                    }
                    Match::Other => {
                        return Ok(Err(Unresolved::Refused(SpecError::IdTaken { task: spec.id })));
                    }
                    Match::Departing => return Ok(Err(Unresolved::Departing(specs))),
                }
            }
            match self.unique_turn(spec, &mut claims) {
                Ok(Some(Turn::Take | Turn::Replace(_))) => {}
                Ok(Some(Turn::Skip)) => continue,
                Ok(None) => return Ok(Err(Unresolved::Departing(specs))),
                Err(error) => return Ok(Err(Unresolved::Refused(error))),
            }
            if spec.id.is_time_ordered() {
                last_ordered = last_ordered.max(spec.id);
            }
            seq = Seq(seq.0 + 1);
            if !alone {
                numbers.insert(spec.id, seq);
            }
            new.push(index);
        }
        let parents = match self.batch_parents(&specs, &new, &numbers, &claims)? {
            Ok(parents) => parents,
            Err(None) => return Ok(Err(Unresolved::Departing(specs))),
            Err(Some(error)) => return Ok(Err(Unresolved::Refused(error))),
        };
        let settings = self.scheduler.settings();
        if let Some(error) =
            new.iter().find_map(|index| settings::complete(&mut specs[*index], settings).err())
        {
            return Ok(Err(Unresolved::Refused(error)));
        }
        let late = match self.test_deadlines(deadlines, &specs, &new, &parents) {
            Ok(late) => late,
            Err(error) => return Ok(Err(Unresolved::Refused(error))),
        };
        let tasks = self.take_in(specs, &new, parents, last_ordered);
        let Claims { conflicts, replaced, .. } = claims;
        Ok(Ok(Resolved { tasks, known, conflicts, replaced, late }))
    }

    /// Whether each id of a batch is ordered by time and greater than all before it, so that nothing has to be looked up.
    fn are_new(&self, specs: &[TaskSpec]) -> bool {
        let mut last = self.last_ordered_id;
        specs.iter().all(|spec| {
            let rises = spec.id.is_time_ordered() && spec.id > last;
            last = spec.id;
            rises
        })
    }

    /// The dependencies of the new tasks of a batch; nothing if none of the batch has any. `Err(None)`: one of them is
    /// between memory and store.
    fn batch_parents(
        &mut self,
        specs: &[TaskSpec],
        new: &[usize],
        numbers: &HashMap<TaskId, Seq, BuildHasherDefault<IdHasher>>,
        claims: &Claims,
    ) -> Result<Result<Vec<Vec<Parent>>, Option<SpecError>>, Error> {
        let mut parents: Vec<Vec<Parent>> = Vec::new();
        if specs.iter().any(|spec| !spec.after.is_empty()) {
            let mut ended = HashMap::default();
            for index in new {
                match self.parents(&specs[*index], numbers, claims, &mut ended)? {
                    Ok(found) => parents.push(found),
                    Err(problem) => return Ok(Err(problem)),
                }
            }
        }
        Ok(match self.group_circle(specs, new, numbers, &parents) {
            Some(error) => Err(Some(error)),
            None => Ok(parents),
        })
    }

    /// Whether a new task would wait for one that waits for its group.
    fn group_circle(
        &self,
        specs: &[TaskSpec],
        new: &[usize],
        numbers: &HashMap<TaskId, Seq, BuildHasherDefault<IdHasher>>,
        parents: &[Vec<Parent>],
    ) -> Option<SpecError> {
        // Members that wait for nothing cannot close a circle; those batches cost nothing.
        let waits = new.iter().any(|index| {
            let spec = &specs[*index];
            !spec.after.is_empty() || !spec.after_groups.is_empty()
        });
        if !waits || new.iter().all(|index| specs[*index].group.is_none()) {
            return None;
        }
        let joining = new.iter().enumerate().map(|(place, index)| Joining {
            seq: numbers[&specs[*index].id],
            spec: &specs[*index],
            parents: parents.get(place).map_or(&[], Vec::as_slice),
        });
        let (task, group) = self.scheduler.circle_of(&joining.collect::<Vec<_>>())?;
        Some(SpecError::GroupCycle { task, group })
    }

    /// Which of the new tasks of a batch will presumably miss their deadlines; refuses the first if that is asked for.
    fn test_deadlines(
        &self,
        deadlines: Deadlines,
        specs: &[TaskSpec],
        new: &[usize],
        parents: &[Vec<Parent>],
    ) -> Result<Vec<Late>, SpecError> {
        // Nearly all batches have no deadlines; those cost nothing.
        if deadlines == Deadlines::Ignore
            || new.iter().all(|index| specs[*index].deadline.is_none())
        {
            return Ok(Vec::new());
        }
        let newcomers = new.iter().enumerate().map(|(place, index)| {
            let parents = parents.get(place).map_or(&[][..], Vec::as_slice);
            let blocked = parents.iter().any(|parent| parent.state == ParentState::Open);
            Newcomer { spec: &specs[*index], blocked }
        });
        let newcomers: Vec<Newcomer<'_>> = newcomers.collect();
        let late = self.scheduler.expected_late_among(self.now, &newcomers).into_iter();
        let late = late.filter_map(|(place, expected_end)| {
            let spec = newcomers[place].spec;
            Some(Late { task: spec.id, deadline: spec.deadline?, expected_end })
        });
        let late: Vec<Late> = late.collect();
        match late.first() {
            Some(&Late { task, deadline, expected_end }) if deadlines == Deadlines::Enforce => {
                Err(SpecError::TooLate { task, deadline, expected_end })
            }
            _ => Ok(late),
        }
    }

    /// What becomes of a new task by its unique key; nothing if the one that has it is between memory and store.
    fn unique_turn(
        &mut self,
        spec: &TaskSpec,
        claims: &mut Claims,
    ) -> Result<Option<Turn>, SpecError> {
        let Some(unique) = &spec.unique else { return Ok(Some(Turn::Take)) };
        if claims.instead_of(spec.id).is_some() {
            return Ok(Some(Turn::Skip));
        }
        let turn = self.keys.decide(self.now, spec.id, unique, claims)?;
        match turn {
            Turn::Replace(first) if self.is_departing(first) => Ok(None),
            turn => Ok(Some(turn)),
        }
    }

    fn take_in(
        &mut self,
        specs: Vec<TaskSpec>,
        new: &[usize],
        parents: Vec<Vec<Parent>>,
        last_ordered: TaskId,
    ) -> Vec<Submission> {
        let mut parents = parents.into_iter();
        let mut wanted = new.iter().copied().peekable();
        let mut tasks = Vec::with_capacity(new.len());
        self.ids.reserve(new.len());
        for (index, spec) in specs.into_iter().enumerate() {
            if wanted.next_if_eq(&index).is_none() {
                continue;
            }
            self.last_seq = Seq(self.last_seq.0 + 1);
            self.ids.insert(spec.id, Known::open(self.last_seq));
            let parents = parents.next().unwrap_or_default();
            tasks.push(Submission { seq: self.last_seq, spec: Arc::new(spec), parents });
        }
        self.last_ordered_id = last_ordered;
        tasks
    }

    /// Children of a finish: checked like a batch of their own.
    pub(crate) fn resolve_spawned(
        &mut self,
        parent: Seq,
        spawned: Vec<TaskSpec>,
    ) -> Result<Result<Resolved, Unresolved>, Error> {
        if spawned.is_empty() {
            return Ok(Ok(Resolved::default()));
        }
        if let Err(error) = admit::check_batch(&spawned) {
            return Ok(Err(Unresolved::Refused(error)));
        }
        if self.waits_for_workflow_facts(&spawned, true) {
            return Ok(Err(Unresolved::Departing(spawned)));
        }
        self.resolve_batch(spawned, Some(parent), Deadlines::Ignore)
    }

    /// Whether a dependency is between memory and store, so that what it means for its dependents is not known yet.
    pub(crate) fn has_departing_parent(&self, spec: &TaskSpec) -> bool {
        spec.after.iter().any(|edge| self.is_departing(edge.task))
    }

    /// The dependencies of a task that comes from the store, where they were known once.
    pub(crate) fn parents_of_stored(&mut self, spec: &TaskSpec) -> Result<Vec<Parent>, Error> {
        let mut parents = Vec::with_capacity(spec.after.len());
        for edge in &spec.after {
            let (seq, state) = match self.locate(edge.task)? {
                Located::Open(seq) => (seq, ParentState::Open),
                Located::Stored(record) => (record.seq, self.settled_state(&record)?),
                Located::Departing => continue,
                // A dependency that retention has dropped was final long ago; its result is missing.
                Located::Unknown => (DROPPED, ParentState::Done),
            };
            parents.push(Parent { seq, optional: edge.optional, state });
        }
        Ok(parents)
    }

    /// `Err(None)`: a dependency is between memory and store. Each that has ended is read once for a batch, and noted in
    /// `ended`.
    fn parents(
        &mut self,
        spec: &TaskSpec,
        batch: &HashMap<TaskId, Seq, BuildHasherDefault<IdHasher>>,
        claims: &Claims,
        ended: &mut HashMap<TaskId, (Seq, ParentState), BuildHasherDefault<IdHasher>>,
    ) -> Result<Result<Vec<Parent>, Option<SpecError>>, Error> {
        let mut parents = Vec::with_capacity(spec.after.len());
        for edge in &spec.after {
            let in_batch = batch.get(&edge.task).map(|seq| (*seq, ParentState::Open));
            let (seq, state) = match in_batch.or_else(|| ended.get(&edge.task).copied()) {
                Some(found) => found,
                None => match self.locate(edge.task)? {
                    Located::Open(seq) => (seq, ParentState::Open),
                    Located::Stored(record) => {
                        let found = (record.seq, self.settled_state(&record)?);
                        ended.insert(edge.task, found);
                        found
                    }
                    Located::Departing => return Ok(Err(None)),
                    Located::Unknown => {
                        let (task, missing) = (spec.id, edge.task);
                        return Ok(Err(Some(match claims.instead_of(missing) {
                            Some(holder) => {
                                SpecError::SkippedDependency { task, skipped: missing, holder }
                            }
                            None => SpecError::UnknownDependency { task, missing },
                        })));
                    }
                },
            };
            if state == ParentState::Open
                && !batch.contains_key(&edge.task)
                && self.waits_for_own_workflow(spec, seq)
            {
                let other = edge.task;
                return Ok(Err(Some(SpecError::Cycle { task: spec.id, other })));
            }
            parents.push(Parent { seq, optional: edge.optional, state });
        }
        Ok(Ok(parents))
    }

    /// What a stored dependency means for its dependents: one that left memory has settled.
    fn settled_state(&mut self, record: &TaskRecord) -> Result<ParentState, Error> {
        match record.outcome.as_ref().map(|outcome| outcome.state) {
            None => Ok(ParentState::Open),
            Some(TaskState::Done) => {
                let family = self.reader.upstream(&[record.seq], SETTLED_LOOK_MAX, 0)?.ends;
                let well = family.iter().all(|member| member.state == TaskState::Done);
                Ok(if well { ParentState::Done } else { ParentState::Failed })
            }
            Some(_) => Ok(ParentState::Failed),
        }
    }

    /// Whether there is room in memory for what is new in a batch; who repeats one is answered in any case.
    pub(crate) fn has_room_for(&mut self, specs: &[TaskSpec]) -> Result<bool, Error> {
        if self.scheduler.has_room_for(specs.iter()) {
            return Ok(true);
        }
        let mut new = Vec::new();
        for spec in specs {
            if !matches!(self.is_known(spec)?, Match::Same) {
                new.push(spec);
            }
        }
        Ok(self.scheduler.has_room_for(new.into_iter()))
    }

    fn is_known(&mut self, spec: &TaskSpec) -> Result<Match, Error> {
        let same = |known: &TaskSpec| {
            if settings::is_same(known, spec) { Match::Same } else { Match::Other }
        };
        match self.locate(spec.id)? {
            Located::Unknown => Ok(Match::No),
            Located::Departing => Ok(Match::Departing),
            Located::Stored(record) => Ok(same(&record.spec)),
            Located::Open(seq) => match self.scheduler.spec(seq) {
                Some(known) => Ok(same(known)),
                // Done, with open children: the store has the spec as soon as the finish is committed.
                None => {
                    Ok(self.reader.get(seq)?.map_or(Match::Departing, |record| same(&record.spec)))
                }
            },
        }
    }
}

enum Match {
    No,
    Same,
    Other,
    Departing,
}

/// A product of the halves of an id, each mixed with a number that nobody outside knows, so that ids cannot be chosen to
/// collide.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_u128(&mut self, id: u128) {
        static SECRETS: OnceLock<[u64; 2]> = OnceLock::new();
        let [high, low] = SECRETS.get_or_init(|| {
            let state = RandomState::new();
            [state.hash_one(0), state.hash_one(1)]
        });
        let product = u128::from((id >> 64) as u64 ^ high) * u128::from(id as u64 ^ low);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}
