//! What settings mean for a task when it is submitted: defaults of its kind, and limits that its payload names. And what
//! its payload means without any setting: the program that it needs.
//!
//! A task is stored as it was completed, so later changes of the settings do not touch it. Whoever submits it again
//! sends it as it was before, so [`is_same`] looks past what the settings may have filled in.
//!
//! Settings themselves last as one fact under [`KEY`]; what they mean for waiting tasks is the scheduler's.

use std::borrow::Cow;
use std::collections::BTreeMap;

use divvy_types::limits::LIMIT_LEN_MAX;
use divvy_types::settings::KindSettings;
use divvy_types::spec::check_name;
use divvy_types::{Name, Payload, Settings, SpecError, TaskSpec, need};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::request::Error;

/// Under what the settings are kept.
pub(crate) const KEY: &str = "settings";

/// The settings as they are kept.
pub(crate) fn to_text(settings: &Settings) -> Result<Name, Error> {
    serde_json::to_string(settings)
        .map(Name::from)
        .map_err(|error| Error::Store(format!("the settings cannot be written: {error}")))
}

/// The settings that were kept.
pub(crate) fn from_text(text: &str) -> Result<Settings, Error> {
    let settings: Settings = serde_json::from_str(text).map_err(|error| {
        Error::Store(format!(
            "the settings in the store cannot be read: {error}; give settings in a file to replace them"
        ))
    })?;
    settings.check()?;
    Ok(settings)
}

/// Fills in what the kind of a new task gives it and what its payload says for its limits.
pub(crate) fn complete(spec: &mut TaskSpec, settings: &Settings) -> Result<(), SpecError> {
    if let Some(kind) = settings.kinds.get(&spec.kind) {
        fill(spec, kind);
    }
    need_program(spec);
    if spec.limits.is_empty() {
        return Ok(());
    }
    if let Some(limits) = expanded(&spec.limits, &spec.payload)? {
        spec.limits = limits;
    }
    for limit in &spec.limits {
        let name = name_of(limit);
        if !settings.limits.contains_key(name) {
            let problem = format!(
                "names `{name}`, which is not defined; define it first: divvy limit set {name} --rate 10/s"
            );
            return Err(SpecError::field("limits", problem));
        }
    }
    Ok(())
}

/// Lets a task of kind `exec` need the program that its payload names, and no other, so that it is sent to a worker that
/// has it. A payload that names none is left to the worker, which says what is wrong with it.
pub(crate) fn need_program(spec: &mut TaskSpec) {
    if spec.kind != need::PROGRAM_KIND {
        return;
    }
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        program: Cow<'a, str>,
    }
    let named = spec.payload.parse::<Named<'_>>().ok();
    let wanted = named.and_then(|named| need::of_program(&named.program));
    if spec.needs.iter().filter(|other| need::program(other).is_some()).eq(&wanted) {
        return;
    }
    spec.needs.retain(|other| need::program(other).is_none());
    spec.needs.extend(wanted);
}

/// Sets only what changes: setting a term makes the spec larger.
fn fill(spec: &mut TaskSpec, kind: &KindSettings) {
    if spec.timeout_ms.is_none() && kind.timeout_ms.is_some() {
        spec.timeout_ms = kind.timeout_ms;
    }
    if let Some(retry) = &kind.retry
        && spec.retry.is_default()
    {
        spec.retry = retry.clone();
    }
    if spec.limits.is_empty() && !kind.limits.is_empty() {
        spec.limits.clone_from(&kind.limits);
    }
    if spec.needs.is_empty() && !kind.needs.is_empty() {
        spec.needs.clone_from(&kind.needs);
    }
}

/// Whether `sent` is the task that is known, however the settings completed it then.
pub(crate) fn is_same(known: &TaskSpec, sent: &TaskSpec) -> bool {
    if known == sent {
        return true;
    }
    let head = |spec: &TaskSpec| (spec.id, spec.priority);
    if head(known) != head(sent)
        || known.kind != sent.kind
        || known.queue != sent.queue
        || known.payload != sent.payload
    {
        return false;
    }
    let mut sent = sent.clone();
    let filled = KindSettings {
        timeout_ms: known.timeout_ms,
        retry: Some(known.retry.clone()),
        limits: known.limits.clone(),
        needs: known.needs.clone(),
        retry_budget: None,
    };
    fill(&mut sent, &filled);
    if known.needs.iter().any(|other| need::program(other).is_some()) {
        need_program(&mut sent);
    }
    if let Ok(Some(limits)) = expanded(&sent.limits, &sent.payload) {
        sent.limits = limits;
    }
    known.terms == sent.terms
}

fn name_of(limit: &str) -> &str {
    limit.split('/').next().unwrap_or(limit)
}

/// The limits with fields of the payload in place of `{field}`; nothing if there is none to replace.
fn expanded(limits: &[Name], payload: &Payload) -> Result<Option<Vec<Name>>, SpecError> {
    if !limits.iter().any(|limit| limit.contains(['{', '}'])) {
        return Ok(None);
    }
    let fields: BTreeMap<String, &RawValue> = payload.parse().unwrap_or_default();
    let limits = limits.iter().map(|limit| expand(limit, &fields));
    limits.collect::<Result<_, _>>().map(Some)
}

fn expand(limit: &Name, fields: &BTreeMap<String, &RawValue>) -> Result<Name, SpecError> {
    let wrong = |problem: String| SpecError::field("limits", problem);
    let name = name_of(limit);
    if name.contains(['{', '}']) {
        return Err(wrong(format!(
            "has a `{{` or `}}` in the name of `{limit}`; only its key may have fields, as in name/{{field}}"
        )));
    }
    let (mut text, mut rest) = (Name::from(name), &limit[name.len()..]);
    while let Some((before, after)) = rest.split_once('{') {
        let Some((field, behind)) = after.split_once('}') else {
            return Err(wrong(format!("has a `{{` without its `}}` in `{limit}`")));
        };
        let value = fields.get(field).and_then(|value| key_text(value.get())).ok_or_else(|| {
            wrong(format!(
                "`{limit}` needs the field `{field}` of the payload, which must be there and be a text or a number"
            ))
        })?;
        text.push_str(before);
        text.push_str(&value);
        rest = behind;
    }
    text.push_str(rest);
    check_name("limits", &text, LIMIT_LEN_MAX)?;
    Ok(text)
}

/// The text that a JSON value stands for in a key, if it is a text or a number.
fn key_text(json: &str) -> Option<String> {
    match serde_json::from_str(json).ok()? {
        serde_json::Value::String(text) if !text.is_empty() => Some(text),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use divvy_types::settings::Limit;
    use divvy_types::{RetryPolicy, TaskId};

    use super::*;

    fn settings() -> Settings {
        let limit = Limit { concurrency: Some(1), ..Limit::default() };
        let kind = KindSettings {
            timeout_ms: Some(9),
            retry: Some(RetryPolicy { limit: 1, ..RetryPolicy::default() }),
            limits: vec!["api/{tenant}".into()],
            needs: vec!["gpu".into()],
            retry_budget: None,
        };
        Settings {
            limits: [("api".into(), limit)].into(),
            kinds: [("call".into(), kind)].into(),
            ..Settings::default()
        }
    }

    fn spec(kind: &str, payload: &'static str) -> TaskSpec {
        let mut spec = TaskSpec::new(TaskId(1), kind);
        spec.payload = Payload::json(payload).unwrap();
        spec
    }

    #[test]
    fn a_kind_fills_only_what_was_left_open() {
        let mut plain = spec("other", "null");
        complete(&mut plain, &settings()).unwrap();
        assert!(plain.terms.is_untouched());
        let mut call = spec("call", r#"{"tenant": "acme", "n": [1]}"#);
        call.timeout_ms = Some(5);
        complete(&mut call, &settings()).unwrap();
        assert_eq!((call.timeout_ms, call.retry.limit), (Some(5), 1));
        assert_eq!(call.limits, ["api/acme"]);
        assert_eq!(call.needs, ["gpu"]);
    }

    #[test]
    fn a_task_of_kind_exec_needs_its_program() {
        let mut sent = spec("exec", r#"{"input": 1, "program": "text.count"}"#);
        sent.needs = vec!["gpu".into()];
        let mut known = sent.clone();
        complete(&mut known, &settings()).unwrap();
        assert_eq!(known.needs, ["gpu", "exec.text.count"]);
        assert!(is_same(&known, &sent) && is_same(&sent, &sent.clone()));
        let mut again = known.clone();
        complete(&mut again, &settings()).unwrap();
        assert_eq!(again, known);
        known.payload = Payload::json(r#"{"program": "sort"}"#).unwrap();
        need_program(&mut known);
        assert_eq!(known.needs, ["gpu", "exec.sort"]);
        for payload in ["null", r#"{"program": 1}"#, r#"{"program": "a b"}"#] {
            let mut unclear = spec("exec", payload);
            complete(&mut unclear, &settings()).unwrap();
            assert!(unclear.terms.is_untouched(), "{payload}");
        }
    }

    #[test]
    fn fields_of_the_payload_become_keys_or_the_task_is_refused() {
        let payload = r#"{"tenant": "a", "n": 7, "f": 1.5, "o": {}, "e": "", "bad": "x\u0000"}"#;
        let with = |limit: &str| {
            let mut spec = spec("other", payload);
            spec.limits = vec![limit.into()];
            complete(&mut spec, &settings()).map(|()| spec.limits[0].to_string())
        };
        for (limit, expected) in [
            ("api", "api"),
            ("api/fixed", "api/fixed"),
            ("api/{tenant}", "api/a"),
            ("api/{n}-{tenant}/x", "api/7-a/x"),
            ("api/{f}", "api/1.5"),
        ] {
            assert_eq!(with(limit).as_deref(), Ok(expected), "{limit}");
        }
        for (limit, words) in [
            ("api/{missing}", "needs the field `missing`"),
            ("api/{o}", "needs the field `o`"),
            ("api/{e}", "needs the field `e`"),
            ("api/{bad}", "invisible character"),
            ("api/{open", "without its `}`"),
            ("{tenant}/x", "only its key may have fields"),
            ("nope/{tenant}", "divvy limit set nope --rate 10/s"),
        ] {
            let error = with(limit).unwrap_err().to_string();
            assert!(error.starts_with("limits ") && error.contains(words), "{limit}: {error}");
        }
    }

    #[test]
    fn a_task_is_the_same_whatever_the_settings_filled_in() {
        let sent = spec("call", r#"{"tenant": "acme"}"#);
        let mut known = sent.clone();
        complete(&mut known, &settings()).unwrap();
        assert_ne!(known, sent);
        assert!(is_same(&known, &sent));
        let mut templated = sent.clone();
        templated.limits = vec!["api/{tenant}".into()];
        assert!(is_same(&known, &templated));
        let spoilt: [fn(&mut TaskSpec); 4] = [
            |spec| spec.timeout_ms = Some(1),
            |spec| spec.limits = vec!["api/other".into()],
            |spec| spec.fair_key = Some("x".into()),
            |spec| spec.payload = Payload::null(),
        ];
        for spoil in spoilt {
            let mut other = sent.clone();
            spoil(&mut other);
            assert!(!is_same(&known, &other), "{other:?}");
        }
    }

    #[test]
    fn settings_survive_their_text() {
        let settings = settings();
        assert_eq!(from_text(&to_text(&settings).unwrap()).unwrap(), settings);
        assert!(from_text("{\"nope\":1}").unwrap_err().to_string().contains("nope"));
    }
}
