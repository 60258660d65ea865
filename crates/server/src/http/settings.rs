//! The settings of scheduling, whole: shown, replaced, or changed in part by a JSON merge patch (RFC 7396).
//!
//! A section that the settings file has cannot be changed here; see [`crate::settings_file`].

use axum::Json;
use axum::extract::State;
use divvy_engine::Error;
use divvy_http::{ApiError, JsonBytes, form, parse};
use divvy_types::Settings;
use divvy_types::overview::SettingsView;
use divvy_types::settings::InvalidSetting;
use http::StatusCode;
use serde_json::Value;

use crate::app::App;

/// What holds.
pub(crate) async fn show(State(app): State<App>) -> Result<Json<SettingsView>, ApiError> {
    let settings = app.handle.settings().await?;
    Ok(Json(app.settings_file.view(settings)))
}

/// Replaces all settings; what is left out gets its default.
pub(crate) async fn replace(
    State(app): State<App>,
    JsonBytes(body): JsonBytes,
) -> Result<Json<SettingsView>, ApiError> {
    let new: Settings = parse(said(&form(body)?)?)?;
    let settings = change(&app, move |settings| {
        *settings = new;
        Ok(())
    })
    .await?;
    Ok(Json(app.settings_file.view(settings)))
}

/// Changes what the body names; `null` takes something back to its default.
pub(crate) async fn merge(
    State(app): State<App>,
    JsonBytes(body): JsonBytes,
) -> Result<Json<SettingsView>, ApiError> {
    let patch: Value = parse(said(&form(body)?)?)?;
    let settings = change(&app, move |settings| {
        *settings = merged(settings, &patch)?;
        Ok(())
    })
    .await?;
    Ok(Json(app.settings_file.view(settings)))
}

/// Changes settings unless the file has the section.
pub(crate) async fn change<F>(app: &App, change: F) -> Result<Settings, Error>
where
    F: FnOnce(&mut Settings) -> Result<(), Error> + Send + 'static,
{
    let file = app.settings_file.clone();
    let changed = app
        .handle
        .change_settings(move |settings| {
            change(settings)?;
            file.allow(settings)
        })
        .await?;
    app.settings_file.note_change();
    Ok(changed)
}

/// An absent body would set everything back, which nobody means by saying nothing.
fn said(body: &[u8]) -> Result<&[u8], ApiError> {
    if !body.is_empty() {
        return Ok(body);
    }
    let message = "the body is empty; send the settings as a JSON object, or {} for the defaults";
    Err(ApiError::new(StatusCode::BAD_REQUEST, "malformed_json", message))
}

fn merged(settings: &Settings, patch: &Value) -> Result<Settings, Error> {
    let invalid = |path: String, problem: String| Error::Setting(InvalidSetting { path, problem });
    let mut value = serde_json::to_value(settings)
        .map_err(|error| invalid("settings".into(), error.to_string()))?;
    lay(&mut value, patch);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        invalid(path, format!("is not valid: {}", error.into_inner()))
    })
}

fn lay(value: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = value else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            lay(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_changes_what_it_names_and_null_takes_it_back() {
        let first = merged(
            &Settings::default(),
            &json!({"limits": {"api": {"rate": "10/s", "concurrency": 4}}, "poison_after": 9}),
        )
        .unwrap();
        assert_eq!(first.limits["api"].concurrency, Some(4));
        let patch = json!({"limits": {"api": {"concurrency": null}}, "poison_after": null});
        let second = merged(&first, &patch).unwrap();
        assert_eq!((second.limits["api"].concurrency, second.poison_after.0), (None, 3));
        assert!(second.limits["api"].rate.is_some(), "not named, so kept");
        let third = merged(&second, &json!({"limits": {"api": null}})).unwrap();
        assert_eq!(third, Settings::default());
    }

    #[test]
    fn a_fault_in_a_patch_is_named_with_its_path() {
        for (patch, path) in [
            (json!({"limits": {"api": {"rate": "fast"}}}), "limits.api.rate"),
            (
                json!({"load_balancing": {"thresholds": {"busy": 1}}}),
                "load_balancing.thresholds.busy",
            ),
            (json!({"queues": {"a": {"fair_by": "luck"}}}), "queues.a.fair_by"),
        ] {
            let Error::Setting(error) = merged(&Settings::default(), &patch).unwrap_err() else {
                panic!("another error");
            };
            assert_eq!(error.path, path, "{error}");
        }
    }
}
