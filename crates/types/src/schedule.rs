//! Tasks that come by themselves, again and again: what is said about them, and what people see of them.
//!
//! Data only. When the ticks of an expression are is in `divvy-calendar`; what happens at a tick is in `divvy-engine`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::*;
use crate::spec::{DEFAULT_PRIORITY, SpecError, default_queue};
use crate::terms::Sparse;
use crate::{Name, Payload, TaskId, TaskSpec, Terms, Timestamp, flat};

/// A task that is submitted at every tick of a calendar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// When: a cron expression, a macro such as `@daily`, or `@every 90s`.
    pub cron: Name,
    /// On the clocks of which IANA time zone.
    #[serde(default = "utc")]
    pub zone: Name,
    /// What is submitted.
    pub task: Template,
    /// What becomes of ticks that were missed.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// What becomes of a tick while the task of the last one is open.
    #[serde(default)]
    pub overlap: Overlap,
    /// Whether it rests. Not given, a schedule that is set again stays as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// No tick before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// No tick after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// Each task comes up to so many milliseconds after its tick, always the same for the same tick, so that many
    /// schedules of one time do not come at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "schema", schemars(range(max = JITTER_MS_MAX)))]
    pub jitter_ms: u64,
}

/// The task of a schedule: a spec without what differs from tick to tick.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(transform = crate::schema::as_sent, transform = without_terms)
)]
pub struct Template {
    /// Which handler runs it.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label<KIND_LEN_MAX>"))]
    pub kind: Name,
    /// Which queue it waits in.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label<QUEUE_LEN_MAX>"))]
    pub queue: Name,
    /// What the handler gets.
    pub payload: Payload,
    /// 1 to 5; 5 goes first.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 5)))]
    pub priority: u8,
    /// When it should be done, in milliseconds after its tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Everything else, except the times, dependencies, workflow and unique key, which are for a single task.
    #[serde(flatten)]
    pub terms: Sparse<Terms>,
}

/// What becomes of ticks that were missed, because the server was down or its clock was set forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// They are dropped.
    #[default]
    Skip,
    /// One task is submitted for all of them, with the time of the last.
    Last,
    /// One task is submitted for each, up to a limit.
    All,
}

/// What becomes of a tick while the task of the last one is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Another task is submitted.
    #[default]
    Allow,
    /// Nothing is submitted.
    Skip,
}

/// What people see of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleView {
    /// Its name.
    pub name: Name,
    /// What was said about it.
    pub schedule: Schedule,
    /// When it ticks, in words.
    pub words: String,
    /// The next ticks; none while it is paused or after its end.
    pub next: Vec<Tick>,
    /// Up to when its ticks have been dealt with.
    pub upto: Timestamp,
    /// The task that it submitted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_task: Option<TaskId>,
    /// Why its last tick submitted no task, if that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedTick>,
    /// When it was set.
    pub set_at: Timestamp,
}

/// A tick whose task was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedTick {
    /// Which tick.
    pub at: Timestamp,
    /// What was wrong with the task.
    pub problem: String,
}

/// One tick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tick {
    /// When.
    pub at: Timestamp,
    /// The same on the clocks of its zone, in RFC 3339.
    pub local: String,
}

impl Schedule {
    /// A schedule with every other field at its default.
    pub fn new(cron: impl Into<Name>, task: Template) -> Self {
        Self {
            cron: cron.into(),
            zone: utc(),
            task,
            catch_up: CatchUp::default(),
            overlap: Overlap::default(),
            paused: None,
            start: None,
            end: None,
            jitter_ms: 0,
        }
    }

    /// Whether it rests.
    pub fn is_paused(&self) -> bool {
        self.paused.unwrap_or(false)
    }
}

impl Template {
    /// A task of this kind with every other field at its default.
    pub fn new(kind: impl Into<Name>) -> Self {
        Self::of(TaskSpec::new(TaskId(0), kind))
    }

    /// What a spec says that does not differ from tick to tick: all but its id, times, dependencies, workflow and
    /// unique key.
    pub fn of(spec: TaskSpec) -> Self {
        let TaskSpec { id: _, kind, queue, payload, priority, terms } = spec;
        let terms = Terms {
            after: Vec::new(),
            run_at: None,
            deadline: None,
            workflow: None,
            group: None,
            after_groups: Vec::new(),
            unique: None,
            ..terms.into_inner()
        };
        Self { kind, queue, payload, priority, deadline_ms: None, terms: terms.into() }
    }

    /// Checks every field against its limit.
    pub fn validate(&self) -> Result<(), SpecError> {
        let Terms { after, run_at, deadline, workflow, group, after_groups, unique, .. } =
            &*self.terms;
        for (term, given) in [
            ("after", !after.is_empty()),
            ("run_at", run_at.is_some()),
            ("deadline", deadline.is_some()),
            ("workflow", workflow.is_some()),
            ("group", group.is_some()),
            ("after_groups", !after_groups.is_empty()),
            ("unique", unique.is_some()),
        ] {
            if given {
                let problem = "is for a single task, not for the tasks of a schedule; leave it out";
                return Err(SpecError::field(term, problem.to_owned()));
            }
        }
        self.spec(TaskId(0), Timestamp(0)).validate()?;
        let bytes = self.payload.data().len();
        if bytes > SCHEDULE_PAYLOAD_BYTES_MAX {
            let problem = format!(
                "is {bytes} bytes, at most {SCHEDULE_PAYLOAD_BYTES_MAX} in a schedule; keep large data elsewhere and send its address"
            );
            return Err(SpecError::field("payload", problem));
        }
        Ok(())
    }

    /// The task of one tick, whose time handlers find as its `run_at`.
    pub fn spec(&self, id: TaskId, tick: Timestamp) -> TaskSpec {
        let Self { kind, queue, payload, priority, deadline_ms, terms } = self.clone();
        let mut spec = TaskSpec { id, kind, queue, payload, priority, terms };
        spec.run_at = Some(tick);
        spec.deadline = deadline_ms.map(|ms| tick.plus_ms(ms));
        spec
    }
}

/// What the task of a schedule says besides its terms.
#[derive(Default)]
struct Head {
    kind: Option<Name>,
    queue: Option<Name>,
    payload: Payload,
    priority: Option<u8>,
    deadline_ms: Option<u64>,
}
crate::beside_terms!(Head { kind, queue, payload, priority, deadline_ms }
    without { after, run_at, deadline, workflow, group, after_groups, unique });

/// The schema of a template does not have the terms that a template cannot have.
#[cfg(feature = "schema")]
fn without_terms(schema: &mut schemars::Schema) {
    let properties = schema.get_mut("properties").and_then(|known| known.as_object_mut());
    let properties = properties.expect("a template has fields");
    properties.retain(|name, _| !<Head as flat::BesideTerms>::WITHOUT.contains(&name.as_str()));
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (head, terms): (Head, Terms) = flat::read(deserializer)?;
        Ok(Self {
            kind: head.kind.ok_or_else(|| D::Error::missing_field("kind"))?,
            queue: head.queue.unwrap_or_else(default_queue),
            payload: head.payload,
            priority: head.priority.unwrap_or(DEFAULT_PRIORITY),
            deadline_ms: head.deadline_ms,
            terms: terms.into(),
        })
    }
}

fn utc() -> Name {
    Name::const_new("UTC")
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_form_reads_with_defaults_and_a_full_one_comes_back_whole() {
        let text = r#"{"cron":"@daily","task":{"kind":"report"}}"#;
        let short: Schedule = serde_json::from_str(text).unwrap();
        assert_eq!(short, Schedule::new("@daily", Template::new("report")));
        let mut full = short;
        full.task.payload = Payload::json(r#"{"a":1}"#).unwrap();
        full.task.deadline_ms = Some(60_000);
        full.task.terms.retry.limit = 1;
        full.paused = Some(true);
        full.jitter_ms = 5;
        full.end = Some(Timestamp(1_000_000));
        let text = serde_json::to_string(&full).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), full);
        assert!(serde_json::from_str::<Schedule>(r#"{"cron":"@daily","task":{}}"#).is_err());
        assert!(
            serde_json::from_str::<Schedule>(r#"{"cron":"","task":{"kind":"a","after":[]}}"#)
                .is_err()
        );
    }

    #[test]
    fn the_task_of_a_tick_has_the_ticks_time_and_the_template_of_it_is_the_template() {
        let mut template = Template::new("report");
        template.terms.needs = vec!["gpu".into()];
        let spec = template.spec(TaskId(7), Timestamp(5_000_000));
        assert_eq!(
            (spec.id, spec.run_at, spec.deadline),
            (TaskId(7), Some(Timestamp(5_000_000)), None)
        );
        assert_eq!(Template::of(spec), template);
        assert_eq!(template.validate(), Ok(()));
        template.payload = Payload::json(format!("\"{}\"", "x".repeat(70_000))).unwrap();
        let error = template.validate().unwrap_err().to_string();
        assert!(error.starts_with("payload is 70002 bytes, at most 65536"), "{error}");
        template.deadline_ms = Some(2_000);
        let spec = template.spec(TaskId(7), Timestamp(5_000_000));
        assert_eq!(spec.deadline, Some(Timestamp(7_000_000)));
    }
}
