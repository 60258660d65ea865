//! Lists of tasks by a filter, newest first, page by page.
//!
//! Decides where tasks are looked for. Open ones are walked in the memory of the loop, a slice at a time so that the loop
//! is not held up; all others, and those that may wait in the store only, in the store. Either says how far it looked,
//! and the filter is asked again once it is known where each task is.
//!
//! A page that is not the last has one more row behind it, because one more is looked for. Only where no index helps is
//! the search bounded: then the page is *partial*, empty perhaps, and says where the next one goes on. None is left out.

use std::collections::BTreeMap;
use std::convert::Infallible;

use divvy_store::{Reader, TaskPage, TaskRecord};
use divvy_types::alike::normalise;
use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::select::Candidate;
use divvy_types::view::{DeadGroup, Page, TaskDetail, TaskSummary};
use divvy_types::{Name, Select, Seq, TaskError, TaskSpec, TaskState, Timestamp, WorkflowId};

use crate::core::Core;
use crate::handle::Handle;
use crate::query::{detail, record_key};
use crate::request::Error;

/// Pages of candidates that are looked at for one page of a list, if the engine knows of them that they do not fit.
const LOOKS_MAX: usize = 4;
/// Open tasks that the loop looks at in one slice.
const OPEN_SLICE: usize = 10_000;
/// Slices that are looked at until something is found.
const OPEN_SLICES_MAX: usize = 200;
/// Dead letters that are read to form one page of groups.
const DEAD_SCAN_MAX: usize = 20_000;
/// Parts of the time that the trend of a group has.
const TREND_PARTS: usize = 24;

/// Tasks of a page, and where the next one goes on.
#[derive(Default)]
struct Found {
    tasks: Vec<(Seq, TaskDetail)>,
    next: Option<Seq>,
    /// Whether it is not known that there is more.
    partial: bool,
}

impl Handle {
    /// One page of the tasks that fit, newest first. `after` is what `next` of the page before said.
    pub async fn tasks(
        &self,
        select: Select,
        limit: usize,
        after: Option<String>,
    ) -> Result<Page<TaskSummary>, Error> {
        let found = self.listed(select, limit, cursor(after)?).await?;
        let items = found.tasks.into_iter().map(|(_, task)| task.summary).collect();
        let next = found.next.map(|seq| seq.0.to_string());
        Ok(Page { items, next, partial: found.partial })
    }

    /// Dead letters that fit, grouped by kind, class and normalised error, largest group first. A page is of so many
    /// dead letters; those of a group may be on several pages.
    pub async fn dead_groups(
        &self,
        select: Select,
        after: Option<String>,
    ) -> Result<Page<DeadGroup>, Error> {
        let select = Select { state: vec![TaskState::Dead], ..select };
        let mut groups: BTreeMap<(Name, &'static str, String), (DeadGroup, Vec<Timestamp>)> =
            BTreeMap::new();
        let (mut next, mut scanned) = (cursor(after)?, 0);
        let partial = loop {
            let found = self.listed(select.clone(), PAGE_ROWS_MAX, next).await?;
            next = found.next;
            // An empty page costs as much as one that has many.
            scanned += found.tasks.len().max(PAGE_ROWS_MAX);
            for task in found.tasks.into_iter().map(|(_, task)| task.summary) {
                let Some(error) = task.error else { continue };
                let text = normalise(&error.message);
                let key = (task.kind.clone(), error.class.as_str(), text.clone());
                let died = task.ended_at.unwrap_or(task.submitted_at);
                let (group, times) = groups.entry(key).or_insert_with(|| {
                    let (first, last) = (died, died);
                    let (kind, class, sample) = (task.kind, error.class, task.id);
                    let trend = Vec::new();
                    let group = DeadGroup {
                        kind,
                        class,
                        error: text,
                        count: 0,
                        sample,
                        first,
                        last,
                        trend,
                    };
                    (group, Vec::new())
                });
                group.count += 1;
                (group.first, group.last) = (group.first.min(died), group.last.max(died));
                times.push(died);
            }
            if next.is_none() || scanned >= DEAD_SCAN_MAX {
                break found.partial;
            }
        };
        let mut items = with_trends(groups.into_values().collect());
        items.sort_by_key(|group| std::cmp::Reverse(group.count));
        Ok(Page { items, next: next.map(|seq| seq.0.to_string()), partial })
    }

    async fn listed(
        &self,
        select: Select,
        limit: usize,
        mut before: Option<Seq>,
    ) -> Result<Found, Error> {
        let now = self.look(|core| core.now()).await?;
        let (select, limit) = (select.at(now), limit.clamp(1, PAGE_ROWS_MAX));
        let mut found = Found::default();
        for _ in 0..LOOKS_MAX {
            // One more than the page has tells that the page is not the last.
            let page = self.candidates(&select, before, limit + 1).await?;
            let present = self.present(page.tasks.iter().map(record_key).collect()).await?;
            for (record, present) in page.tasks.into_iter().zip(present) {
                let (seq, task) = (record.seq, detail(record, present, None));
                let Ok(fits) = select.matches(&task);
                found.tasks.extend(fits.then_some((seq, task)));
            }
            if found.tasks.len() > limit {
                found.tasks.truncate(limit);
                found.next = found.tasks.last().map(|(seq, _)| *seq);
                return Ok(found);
            }
            before = page.searched_to;
            if before.is_none() {
                return Ok(found);
            }
            if page.bounded {
                break;
            }
        }
        (found.next, found.partial) = (before, true);
        Ok(found)
    }

    /// Tasks that may fit, from where they are found at the least cost.
    async fn candidates(
        &self,
        select: &Select,
        before: Option<Seq>,
        rows: usize,
    ) -> Result<Candidates, Error> {
        if is_of_memory(select)
            && let Some(candidates) = self.open_candidates(select, before, rows).await?
        {
            return Ok(candidates);
        }
        let wanted = select.clone();
        let page = self.read(move |reader| reader.page(&wanted, before, rows)).await?;
        let TaskPage { mut tasks, searched_to } = page;
        let bounded = searched_to.is_some() && tasks.len() < rows;
        if let Some(worker) = select.worker.clone() {
            // Who holds a task is known to the scheduler only.
            let held = self.look(move |core| core.scheduler().held_by(&worker, before)).await?;
            let unseen = |seq: &Seq| {
                searched_to.is_none_or(|end| *seq >= end)
                    && tasks.iter().all(|task| task.seq != *seq)
            };
            let held: Vec<Seq> = held.into_iter().filter(unseen).collect();
            tasks.extend(self.read(move |reader| records(reader, held)).await?);
            tasks.sort_unstable_by_key(|task| std::cmp::Reverse(task.seq));
        }
        Ok(Candidates { tasks, searched_to, bounded })
    }

    /// Open tasks that may fit, found in memory. Nothing if some that may fit wait in the store only.
    async fn open_candidates(
        &self,
        select: &Select,
        mut before: Option<Seq>,
        rows: usize,
    ) -> Result<Option<Candidates>, Error> {
        for slice in 1.. {
            let wanted = select.of_spec();
            let known = self.look(move |core| open_keys(core, &wanted, before, rows)).await?;
            let Some((found, searched_to)) = known else { return Ok(None) };
            let bounded = slice == OPEN_SLICES_MAX;
            if !found.is_empty() || searched_to.is_none() || bounded {
                let tasks = self.read(move |reader| records(reader, found)).await?;
                return Ok(Some(Candidates { tasks, searched_to, bounded }));
            }
            before = searched_to;
        }
        Ok(None)
    }
}

/// Tasks that may fit.
struct Candidates {
    /// Newest first.
    tasks: Vec<TaskRecord>,
    /// All that may fit are shown down to this number; nothing if none was left out.
    searched_to: Option<Seq>,
    /// Whether no more could be looked at.
    bounded: bool,
}

/// Says of each group when its letters died: all over the same time, so that they can be compared.
fn with_trends(groups: Vec<(DeadGroup, Vec<Timestamp>)>) -> Vec<DeadGroup> {
    let first = groups.iter().map(|(group, _)| group.first.0).min().unwrap_or_default();
    let last = groups.iter().map(|(group, _)| group.last.0).max().unwrap_or_default();
    let parts = u128::from(last - first) + 1;
    let counted = |(group, times): (DeadGroup, Vec<Timestamp>)| {
        let mut trend = vec![0; TREND_PARTS];
        for time in times {
            let part = u128::from(time.0 - first) * TREND_PARTS as u128 / parts;
            trend[part as usize] += 1;
        }
        DeadGroup { trend, ..group }
    };
    groups.into_iter().map(counted).collect()
}

fn records(reader: &mut dyn Reader, seqs: Vec<Seq>) -> Result<Vec<TaskRecord>, divvy_store::Error> {
    seqs.into_iter().filter_map(|seq| reader.get(seq).transpose()).collect()
}

/// Whether memory is the place to look: only open tasks fit, and nothing is asked that the store finds along an index.
/// Tasks that are not ready are few, so that whatever else is asked of them can be tried on each.
fn is_of_memory(select: &Select) -> bool {
    let only_state = Select { state: select.state.clone(), ..Select::default() };
    let is_plain = *select == only_state || !select.state.contains(&TaskState::Ready);
    select.is_open() && select.worker.is_none() && is_plain
}

/// Where a page starts, as `next` of the page before said it.
pub(crate) fn cursor(text: Option<String>) -> Result<Option<Seq>, Error> {
    let read = |text: String| text.parse().map(Seq).map_err(|_| Error::BadCursor(text));
    text.map(read).transpose()
}

/// Open tasks in memory that may fit, at most so many, and how far was looked. Nothing if some that may fit wait in the
/// store only.
fn open_keys(
    core: &Core,
    wanted: &Select,
    before: Option<Seq>,
    rows: usize,
) -> Option<(Vec<Seq>, Option<Seq>)> {
    let scheduler = core.scheduler();
    if wanted.state.contains(&TaskState::Ready) && scheduler.counts().spilled > 0 {
        return None;
    }
    let (mut found, mut last) = (Vec::new(), None);
    for (looked_at, (seq, state, spec)) in scheduler.open_before(before).enumerate() {
        if looked_at == OPEN_SLICE {
            return Some((found, last));
        }
        let Ok(fits) = wanted.matches(&OpenTask { state, spec });
        if fits && found.len() == rows {
            return Some((found, last));
        }
        last = Some(seq);
        found.extend(fits.then_some(seq));
    }
    Some((found, None))
}

/// An open task in memory, as [`Select::of_spec`] looks at it.
struct OpenTask<'a> {
    state: TaskState,
    spec: &'a TaskSpec,
}

impl Candidate for OpenTask<'_> {
    type Error = Infallible;

    fn state(&self) -> Result<Option<TaskState>, Infallible> {
        Ok(Some(self.state))
    }

    fn kind(&self) -> Result<&str, Infallible> {
        Ok(&self.spec.kind)
    }

    fn queue(&self) -> Result<&str, Infallible> {
        Ok(&self.spec.queue)
    }

    fn workflow(&self) -> Result<Option<WorkflowId>, Infallible> {
        Ok(self.spec.workflow.as_ref().map(|workflow| workflow.id))
    }

    fn submitted_at(&self) -> Result<Timestamp, Infallible> {
        Ok(Timestamp::default())
    }

    fn ended_at(&self) -> Result<Option<Timestamp>, Infallible> {
        Ok(None)
    }

    fn worker(&self) -> Result<Option<Name>, Infallible> {
        Ok(None)
    }

    fn error(&self) -> Result<Option<TaskError>, Infallible> {
        Ok(None)
    }

    fn workflow_name(&self) -> Result<Option<Name>, Infallible> {
        Ok(self.spec.workflow.as_ref().map(|workflow| workflow.name.clone()))
    }

    fn has_tag(&self, tag: &str) -> Result<bool, Infallible> {
        Ok(self.spec.tags.iter().any(|found| found == tag))
    }
}
