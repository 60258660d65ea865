//! What a settings file may say about alerts: how the rules differ from their defaults, and who is told.
//!
//! It is read again while the server runs. It is not part of the settings that the API changes: a sink runs programs on
//! the server and holds secrets, so only who may write the file says where it leads.

use std::collections::BTreeMap;
use std::fmt;

use divvy_client::reqwest::Url;
use divvy_types::Name;
use divvy_types::alerts::{AlertSink, Severity};
use divvy_types::limits::QUEUE_LEN_MAX as NAME_LEN_MAX;
use divvy_types::payload::from_base64;
use divvy_types::settings::InvalidSetting;
use divvy_types::spec::check_name;
use serde::{Deserialize, Serialize};

use super::machine::Bounds;
use super::rules::{RULES, Rule};

/// Sinks that are told.
const SINKS_MAX: usize = 16;
/// The longest that a rule may wait: a day.
const WAIT_SEC_MAX: f64 = 86_400.0;
/// Bytes of a key that signs: what the standard asks for.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// What a key begins with, so that people recognise it.
pub(super) const KEY_MARK: &str = "whsec_";

/// The section `alerts`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlertOptions {
    /// How rules differ from their defaults, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<Name, RuleOptions>,
    /// Who is told besides the log, by a name of your choice.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sinks: BTreeMap<Name, Sink>,
}

/// How one rule differs from its defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleOptions {
    /// Whether it is looked at. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How bad it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The value at which it is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fires_at: Option<f64>,
    /// The value at which it is well again; between the two it stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolves_at: Option<f64>,
    /// For how long it must be broken before it fires, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_sec: Option<f64>,
    /// For how long it must be well before it is over, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calm_sec: Option<f64>,
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sink {
    /// An address that gets a POST.
    Webhook(Webhook),
    /// A program that gets JSON on its standard input.
    Command(Command),
}

/// An address that gets a POST, signed as [Standard Webhooks](https://www.standardwebhooks.com) says.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// The address.
    pub url: String,
    /// The key that signs: `whsec_` and 24 to 64 bytes in base64. Without one, nothing is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The variable of the server's environment that holds the key instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
}

/// A program that gets JSON on its standard input, without a shell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments.
    pub run: Vec<String>,
}

impl AlertOptions {
    /// Refuses what makes no sense, with its path.
    ///
    /// # Errors
    /// If something does.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        for (name, options) in &self.rules {
            let path = format!("alerts.rules.{name}");
            let Some(rule) = RULES.iter().find(|rule| rule.name == *name) else {
                let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
                let problem = format!("is no rule; the rules are {}", names.join(", "));
                return Err(InvalidSetting { path, problem });
            };
            options.check(&path, rule)?;
        }
        if self.sinks.len() > SINKS_MAX {
            let problem = format!("names {}, at most {SINKS_MAX}", self.sinks.len());
            return Err(InvalidSetting { path: "alerts.sinks".into(), problem });
        }
        self.sinks.iter().try_for_each(|(name, sink)| sink.check(name))
    }

    /// Who is told, as people see it.
    pub(crate) fn shown(&self) -> Vec<AlertSink> {
        let shown = |(name, sink): (&Name, &Sink)| {
            let (kind, to) = match sink {
                Sink::Webhook(hook) => ("webhook", without_secrets(&hook.url)),
                Sink::Command(command) => {
                    ("command", command.run.first().cloned().unwrap_or_default())
                }
            };
            AlertSink { name: name.clone(), kind: Name::const_new(kind), to }
        };
        self.sinks.iter().map(shown).collect()
    }

    pub(super) fn severity(&self, rule: &Rule) -> Severity {
        self.rules.get(rule.name).and_then(|it| it.severity).unwrap_or(rule.severity)
    }

    pub(super) fn bounds(&self, rule: &Rule) -> Bounds {
        let none = RuleOptions::default();
        let options = self.rules.get(rule.name).unwrap_or(&none);
        let ms = |said: Option<f64>, default: f64| (said.unwrap_or(default) * 1e3) as u64;
        Bounds {
            enabled: options.enabled.unwrap_or(true),
            low: rule.low,
            fires_at: options.fires_at.unwrap_or(rule.fires_at),
            resolves_at: options.resolves_at.unwrap_or_else(|| rule.resolves_at_for(options)),
            for_ms: ms(options.for_sec, rule.for_sec),
            calm_ms: ms(options.calm_sec, rule.calm_sec),
        }
    }
}

impl Rule {
    /// Where it is well again if only the other bound was set: as far from that as by default.
    fn resolves_at_for(&self, options: &RuleOptions) -> f64 {
        let moved = options
            .fires_at
            .map_or(1.0, |at| if self.fires_at == 0.0 { 1.0 } else { at / self.fires_at });
        self.resolves_at * moved
    }
}

impl RuleOptions {
    fn check(&self, path: &str, rule: &Rule) -> Result<(), InvalidSetting> {
        let wrong = |field: &str, problem: String| {
            Err(InvalidSetting { path: format!("{path}.{field}"), problem })
        };
        for (field, value) in [("for_sec", self.for_sec), ("calm_sec", self.calm_sec)] {
            if let Some(value) = value.filter(|value| !(0.0..=WAIT_SEC_MAX).contains(value)) {
                return wrong(field, format!("is {value}, expected 0 to {WAIT_SEC_MAX}"));
            }
        }
        for (field, value) in [("fires_at", self.fires_at), ("resolves_at", self.resolves_at)] {
            if value.is_some_and(|value| !value.is_finite()) {
                return wrong(field, "is no number".to_owned());
            }
        }
        let fires_at = self.fires_at.unwrap_or(rule.fires_at);
        let resolves_at = self.resolves_at.unwrap_or_else(|| rule.resolves_at_for(self));
        let (apart, than) = if rule.low {
            (resolves_at > fires_at, "greater")
        } else {
            (resolves_at < fires_at, "less")
        };
        if apart {
            return Ok(());
        }
        wrong(
            "resolves_at",
            format!("is {resolves_at}, expected {than} than fires_at ({fires_at})"),
        )
    }
}

impl Sink {
    fn check(&self, name: &str) -> Result<(), InvalidSetting> {
        let path = format!("alerts.sinks.{name}");
        let wrong = |field: &str, problem: String| {
            Err(InvalidSetting { path: format!("{path}.{field}"), problem })
        };
        if let Err(error) = check_name("name", name, NAME_LEN_MAX) {
            return Err(InvalidSetting { path, problem: format!("is no good name: {error}") });
        }
        match self {
            Self::Command(command) if command.run.first().is_none_or(String::is_empty) => {
                wrong("command.run", "is empty; give a program and its arguments".to_owned())
            }
            Self::Command(_) => Ok(()),
            Self::Webhook(hook) => {
                let is_http = hook.url.starts_with("http://") || hook.url.starts_with("https://");
                if !is_http || Url::parse(&hook.url).is_err() {
                    let problem = format!(
                        "is `{}`, expected http://… or https://…",
                        without_secrets(&hook.url)
                    );
                    return wrong("webhook.url", problem);
                }
                if hook.secret.is_some() && hook.secret_env.is_some() {
                    let problem = "is given beside secret_env; give one of them".to_owned();
                    return wrong("webhook.secret", problem);
                }
                match hook.secret.as_deref().map(key) {
                    Some(Err(problem)) => wrong("webhook.secret", problem),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl Webhook {
    /// The key that signs, if there is one.
    pub(super) fn key(&self) -> Result<Option<Vec<u8>>, String> {
        let secret = match (&self.secret, &self.secret_env) {
            (Some(secret), _) => secret.clone(),
            (None, None) => return Ok(None),
            (None, Some(name)) => std::env::var(name).map_err(|_| {
                format!("secret_env names {name}, which the server's environment does not have")
            })?,
        };
        key(&secret).map(Some).map_err(|problem| format!("its secret {problem}"))
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("url", &without_secrets(&self.url))
            .field("signs", &(self.secret.is_some() || self.secret_env.is_some()))
            .finish()
    }
}

/// The bytes of a key.
fn key(secret: &str) -> Result<Vec<u8>, String> {
    let bytes = secret.strip_prefix(KEY_MARK).and_then(from_base64);
    bytes.filter(|bytes| KEY_BYTES.contains(&bytes.len())).ok_or_else(|| {
        format!(
            "is not `{KEY_MARK}` and {} to {} bytes in base64; make one with: echo {KEY_MARK}$(openssl rand -base64 32)",
            KEY_BYTES.start(),
            KEY_BYTES.end()
        )
    })
}

/// An address without what may be secret in it: the user, what follows the host, and the query.
pub(super) fn without_secrets(url: &str) -> String {
    match Url::parse(url) {
        Ok(parsed) => {
            let host = parsed.host_str().unwrap_or_default();
            let port = parsed.port().map_or_else(String::new, |port| format!(":{port}"));
            format!("{}://{host}{port}", parsed.scheme())
        }
        Err(_) => "an address that cannot be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(options: &serde_json::Value) -> Result<(), String> {
        let options: AlertOptions = serde_json::from_value(options.clone()).unwrap();
        options.check().map_err(|error| error.to_string())
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_path() {
        use serde_json::json;
        for (options, problem) in [
            (json!({"rules": {"oldest_weight": {}}}), "alerts.rules.oldest_weight is no rule"),
            (
                json!({"rules": {"oldest_wait": {"for_sec": -1}}}),
                "alerts.rules.oldest_wait.for_sec is -1",
            ),
            (
                json!({"rules": {"oldest_wait": {"fires_at": 60, "resolves_at": 90}}}),
                "alerts.rules.oldest_wait.resolves_at is 90, expected less than fires_at (60)",
            ),
            (
                json!({"rules": {"disk_low": {"resolves_at": 5}}}),
                "alerts.rules.disk_low.resolves_at is 5, expected greater than fires_at (2048)",
            ),
            (
                json!({"sinks": {"a": {"webhook": {"url": "ftp://x"}}}}),
                "alerts.sinks.a.webhook.url is",
            ),
            (
                json!({"sinks": {"a": {"webhook": {"url": "https://x/hook", "secret": "short"}}}}),
                "alerts.sinks.a.webhook.secret is not `whsec_`",
            ),
            (
                json!({"sinks": {"a": {"command": {"run": []}}}}),
                "alerts.sinks.a.command.run is empty",
            ),
        ] {
            let error = checked(&options).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
        assert_eq!(checked(&json!({"rules": {"oldest_wait": {"fires_at": 60}}})), Ok(()));
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = "https://user:pass@hooks.example:8443/T0/B1/secret?token=x";
        let secret = format!("whsec_{}", divvy_types::payload::to_base64(&[7; 32]));
        let hook = Webhook { url: url.into(), secret: Some(secret.clone()), secret_env: None };
        let shown = format!("{hook:?}");
        assert!(!shown.contains("pass") && !shown.contains("token") && !shown.contains(&secret));
        let sinks = [("ops".into(), Sink::Webhook(hook))].into();
        let options = AlertOptions { sinks, ..AlertOptions::default() };
        assert_eq!(options.shown()[0].to, "https://hooks.example:8443");
    }
}
