//! The crawls of a server: what there is, how each stands, and what people may want of it.
//!
//! A crawl is a folder and a workflow of one task per shard. The server writes what is wanted into the folder and reads
//! what shards show there; it never fetches anything and never changes the state of a shard.
//!
//! A crawl that has ended can go on: `add`, `retry` and `resume` begin another *round*, a new workflow on the same folder.

pub(crate) mod explain;
mod keeper;
pub(crate) mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use divvy::types::view::TaskSummary;
use divvy::types::{TaskId, WorkflowId};
use divvy::{Client, Workflow};
use divvy_frontier::address::Address;
use divvy_workload::files::{self, FolderError, ID_LEN, is_id, make, read_json, write_json};
use divvy_workload::now_ms;
use tokio::sync::Mutex;

use crate::folder::control::{BLOCKED_MAX, Control};
use crate::folder::inbox::{self, SERVER, Travelling};
use crate::folder::{CRAWLS, Folder};
use crate::place::Places;
use crate::settings::{NewCrawl, Spec, Wrong, addresses};
use crate::shard::task::Shard;
use view::CrawlView;

/// Crawls of one server.
const CRAWLS_MAX: usize = 10_000;
/// Seeds that can be added to a crawl in all.
const ADDED_MAX: usize = 100_000;
/// Links of one batch to a shard.
const BATCH_LINKS_MAX: usize = 1_000;
/// Shards, and so tasks of a crawl, that are looked at.
const TASKS_MAX: usize = 1_000;

/// The crawls of a server; a clone is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Crawls {
    client: Client,
    root: Arc<PathBuf>,
    /// Who crawls, for crawls that do not say it.
    user_agent: Option<String>,
    /// Held while something is written that others write too.
    writing: Arc<Mutex<()>>,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CrawlsError {
    /// There is no such crawl.
    #[error("there is no crawl `{0}`; divvy crawl list shows which there are")]
    None(String),
    /// What was asked for makes no sense.
    #[error("{} {}", .0.field, .0.problem)]
    Wrong(Wrong),
    /// It does not fit to where the crawl is.
    #[error("{0}")]
    Conflict(String),
    /// The folder cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The server has too much to do, or stops.
    #[error(transparent)]
    Server(#[from] divvy::Error),
    /// The file of a shard cannot be read.
    #[error("{0}")]
    Broken(String),
}

impl From<Wrong> for CrawlsError {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

/// What people may want of a crawl.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// Fetch nothing for now.
    Pause,
    /// Go on.
    Resume,
    /// Fetch nothing any more.
    Stop,
    /// Put back what failed for good.
    Retry,
    /// Leave these hosts alone, or no longer.
    Block { hosts: Vec<String>, undo: bool },
    /// Begin at these addresses too.
    Add { seeds: Vec<String> },
}

impl Crawls {
    /// The crawls in this data folder.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub(crate) fn open(
        client: Client,
        data: &Path,
        user_agent: Option<String>,
    ) -> Result<Self, FolderError> {
        let root = data.join(CRAWLS);
        make(&root)?;
        Ok(Self { client, root: Arc::new(root), user_agent, writing: Arc::default() })
    }

    /// The folder of a crawl.
    pub(crate) fn folder(&self, id: &str) -> Folder {
        Folder::new(self.root.join(id))
    }

    /// Starts a crawl.
    ///
    /// # Errors
    /// If it makes no sense, or cannot be written down.
    pub(crate) async fn start(&self, mut new: NewCrawl) -> Result<CrawlView, CrawlsError> {
        let _writing = self.writing.lock().await;
        if self.ids()?.len() >= CRAWLS_MAX {
            let problem = format!("there are {CRAWLS_MAX} crawls already; remove some");
            return Err(CrawlsError::Conflict(problem));
        }
        if new.rules.user_agent.is_none() {
            new.rules.user_agent = self.user_agent.clone();
        }
        // A name and no secret: it must only differ from all others.
        let id: String = (0..ID_LEN).map(|_| fastrand::digit(36)).collect();
        let (spec, seeds) = new.check(id, now_ms())?;
        let folder = self.folder(&spec.id);
        for shard in 0..spec.rules.shards {
            make(&folder.inbox(shard))?;
        }
        let mut control = Control { version: 1, round: 1, ..Control::default() };
        self.send(&folder, &spec, &mut control, &seeds)?;
        write_json(&folder.control(), &control)?;
        // With this file the folder is a crawl.
        write_json(&folder.spec(), &spec)?;
        self.submit(&spec, &control).await?;
        self.view(&spec.id).await
    }

    /// The ids of all crawls.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn ids(&self) -> Result<Vec<String>, FolderError> {
        files::ids(&self.root, "crawl.json")
    }

    /// What a crawl was asked to do.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn spec(&self, id: &str) -> Result<Spec, CrawlsError> {
        let none = || CrawlsError::None(id.chars().take(64).collect());
        if !is_id(id) {
            return Err(none());
        }
        read_json(&self.folder(id).spec())?.ok_or_else(none)
    }

    /// What people want of it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn control(&self, id: &str) -> Result<Control, CrawlsError> {
        Ok(read_json(&self.folder(id).control())?.unwrap_or_default())
    }

    /// Does what people want.
    ///
    /// # Errors
    /// If it makes no sense for this crawl.
    pub(crate) async fn wish(&self, id: &str, wish: Wish) -> Result<CrawlView, CrawlsError> {
        // An end that nobody has noted yet is one all the same.
        self.look(id).await?;
        let writing = self.writing.lock().await;
        let spec = self.spec(id)?;
        let folder = self.folder(id);
        let mut control = self.control(id)?;
        let has_ended = control.ended.is_some();
        let mut goes_on = false;
        match wish {
            Wish::Pause | Wish::Stop if has_ended => {
                return Err(CrawlsError::Conflict(format!("crawl {id} has ended already")));
            }
            Wish::Pause => control.paused = true,
            Wish::Stop => (control.stopped, control.paused) = (true, false),
            Wish::Resume => {
                (control.stopped, control.paused, goes_on) = (false, false, true);
            }
            Wish::Retry => (control.retries, goes_on) = (control.retries + 1, true),
            Wish::Block { hosts, undo } => block(&mut control, &hosts, undo)?,
            Wish::Add { seeds } => {
                let seeds = addresses(&seeds)?;
                spec.check_agent_for(&seeds)?;
                if control.added.len() + seeds.len() > ADDED_MAX {
                    let problem = format!("a crawl takes {ADDED_MAX} more seeds; start another");
                    return Err(CrawlsError::Conflict(problem));
                }
                control.added.extend(seeds.iter().map(|seed| seed.as_str().to_owned()));
                self.send(&folder, &spec, &mut control, &seeds)?;
                goes_on = true;
            }
        }
        control.version += 1;
        if goes_on && has_ended {
            control.round += 1;
            (control.ended, control.stopped) = (None, false);
        }
        write_json(&folder.control(), &control)?;
        if goes_on && has_ended {
            self.submit(&spec, &control).await?;
        } else {
            self.wake(&spec, &control).await;
        }
        drop(writing);
        self.view(id).await
    }

    /// Removes a crawl that has ended, with all that it made.
    ///
    /// # Errors
    /// If it has not ended.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), CrawlsError> {
        let _writing = self.writing.lock().await;
        self.spec(id)?;
        if self.control(id)?.ended.is_none() {
            let problem = format!("crawl {id} has not ended; stop it first: divvy crawl stop {id}");
            return Err(CrawlsError::Conflict(problem));
        }
        let folder = self.folder(id);
        Ok(files::remove(folder.root(), &folder.spec())?)
    }

    /// Puts addresses into the inboxes of the shards that own their hosts.
    fn send(
        &self,
        folder: &Folder,
        spec: &Spec,
        control: &mut Control,
        seeds: &[Address],
    ) -> Result<(), CrawlsError> {
        let places = Places::new(spec.rules.shards);
        let mut by_shard: Vec<Vec<Travelling>> = vec![Vec::new(); spec.rules.shards as usize];
        for seed in seeds {
            let url = seed.as_str().to_owned();
            let link = Travelling::seed(&url);
            by_shard[places.of(seed) as usize].push(link);
        }
        for (shard, links) in (0..).zip(&by_shard) {
            for batch in links.chunks(BATCH_LINKS_MAX) {
                let seq = control.sent.get(&shard).copied().unwrap_or(0) + 1;
                inbox::send(&folder.inbox(shard), SERVER, seq, batch)?;
                control.sent.insert(shard, seq);
            }
        }
        Ok(())
    }

    /// Submits the tasks of a round; the same again is the same tasks.
    async fn submit(&self, spec: &Spec, control: &Control) -> Result<(), CrawlsError> {
        let mut workflow =
            Workflow::new(format!("crawl {}", spec.name)).key(round_key(&spec.id, control.round));
        let root = self.folder(&spec.id).root().to_owned();
        for shard in 0..spec.rules.shards {
            let task =
                Shard { crawl: spec.id.clone(), folder: root.clone(), shard, round: control.round };
            let needs = Shard::needs(spec);
            let tag = format!("crawl:{}", spec.id);
            workflow.add_with(task, move |options| options.needs(needs).tags([tag]));
        }
        self.client.start(workflow).await?;
        Ok(())
    }

    /// Lets tasks that wait for their next turn run now, so that what was wanted happens soon.
    async fn wake(&self, spec: &Spec, control: &Control) {
        let key = round_key(&spec.id, control.round);
        for shard in 0..spec.rules.shards {
            // One that runs sees it by itself; one that cannot be asked now looks at its next turn.
            let _ = self.client.retry(TaskId::from_key(&format!("{key}/{shard}"))).await;
        }
    }

    /// The tasks of a round, in the order of their shards.
    async fn tasks(&self, spec: &Spec, round: u32) -> Result<Vec<TaskSummary>, CrawlsError> {
        let key = round_key(&spec.id, round);
        let workflow = WorkflowId(TaskId::from_key(&key).0);
        let query = [("workflow", workflow.to_string()), ("limit", TASKS_MAX.to_string())];
        let page = self.client.api().get(&["tasks"], &query).await?.rows()?;
        let mut tasks: Vec<TaskSummary> = divvy::api::parse_rows(&page.items)?;
        let ids: Vec<TaskId> = (0..spec.rules.shards)
            .map(|shard| TaskId::from_key(&format!("{key}/{shard}")))
            .collect();
        tasks.sort_by_key(|task| ids.iter().position(|id| *id == task.id));
        Ok(tasks)
    }
}

fn block(control: &mut Control, hosts: &[String], undo: bool) -> Result<(), CrawlsError> {
    for (at, host) in hosts.iter().enumerate() {
        let host = host_key(host).ok_or_else(|| Wrong {
            field: format!("hosts[{at}]"),
            problem: "is not the name of a host; write it as in example.org or example.org:8080"
                .into(),
        })?;
        if undo {
            control.blocked.remove(&host);
        } else {
            control.blocked.insert(host);
        }
    }
    if control.blocked.len() > BLOCKED_MAX {
        let problem = format!("more than {BLOCKED_MAX} hosts cannot be blocked");
        return Err(CrawlsError::Conflict(problem));
    }
    Ok(())
}

/// A host as people name it: its name, or an address of a page there.
pub(crate) fn host_key(text: &str) -> Option<String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}/") };
    let address: Address = whole.parse().ok()?;
    Some(address.host_key().to_owned())
}

/// What a round is called, so that submitting it twice is submitting it once.
fn round_key(id: &str, round: u32) -> String {
    format!("crawl/{id}/{round}")
}
