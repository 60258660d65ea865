//! What people see of the rules about the health of a server, and what others are told when one is broken. Read models
//! of the HTTP API and the body of webhooks; nothing here is decided.

use serde::{Deserialize, Serialize};

use crate::{Name, TaskId, Timestamp};

/// What delivers alerts, as it stands among workers, and the queue of its deliveries. People have no work for it.
pub const COURIER: &str = "divvy-alerts";

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Work goes on, but not as well as it could.
    #[default]
    Warning,
    /// Some work cannot go on until someone acts.
    Fault,
}

/// A rule about the health of a server, and how it stands now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alert {
    /// Names the rule.
    pub name: Name,
    /// Whether it has been broken for as long as the rule asks, and is not over yet.
    pub firing: bool,
    /// Whether it is broken, and not for long enough to fire.
    #[serde(default)]
    pub pending: bool,
    /// How bad that would be.
    pub severity: Severity,
    /// What is the case.
    pub text: String,
    /// What to do about it, while it is broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
    /// What was measured.
    #[serde(default)]
    pub value: f64,
    /// The value at which the rule is broken.
    #[serde(default)]
    pub fires_at: f64,
    /// Since when it fires, or is broken while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Until when nobody is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silenced_until: Option<Timestamp>,
}

impl Alert {
    /// Whether it is broken now or still fires: what a person who asks wants to hear of.
    pub fn needs_attention(&self) -> bool {
        self.firing || self.pending
    }
}

/// Every rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alerts {
    /// The time by the server's clock.
    pub time: Timestamp,
    /// The rules, in a fixed order.
    pub alerts: Vec<Alert>,
    /// The latest alerts that fired and resolved, newest first.
    #[serde(default)]
    pub history: Vec<AlertChange>,
    /// Who is told, besides the log.
    #[serde(default)]
    pub sinks: Vec<AlertSink>,
}

/// What became of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// It fires.
    Fired,
    /// It is over.
    Resolved,
    /// Nothing is the matter: somebody tries out whether this arrives.
    Test,
}

impl AlertState {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fired => "fired",
            Self::Resolved => "resolved",
            Self::Test => "test",
        }
    }
}

/// An alert fired or resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlertChange {
    /// Names the rule.
    pub name: Name,
    /// What became of it.
    pub state: AlertState,
    /// How bad it is.
    pub severity: Severity,
    /// When.
    pub at: Timestamp,
    /// When it fired.
    pub since: Timestamp,
    /// What was measured.
    pub value: f64,
    /// What is the case.
    pub text: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

/// Somebody who is told of alerts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlertSink {
    /// Its name in the settings file.
    pub name: Name,
    /// What it is: `webhook` or `command`.
    pub kind: Name,
    /// Where it leads: the address without what may be secret in it, or the program.
    pub to: String,
}

/// For how long nobody is told of an alert.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSilence {
    /// In seconds; a month at most.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 2_678_400)))]
    pub for_sec: u64,
}

/// What became of a silence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Silenced {
    /// Names the rule.
    pub name: Name,
    /// Until when nobody is told of it; nothing if others are told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silenced_until: Option<Timestamp>,
}

/// The test that was sent to everybody who is told of alerts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlertTest {
    /// Each sink and the task that delivers to it.
    pub sent: Vec<AlertTestSent>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlertTestSent {
    /// The name of the sink.
    pub sink: Name,
    /// The task that delivers to it.
    pub task: TaskId,
}
