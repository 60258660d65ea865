//! Tokens: who may manage them makes, lists and revokes those of others.
//!
//! From the first token on, a server that was open to everybody asks for one. So that nobody locks themselves out by this,
//! the first one must have the scope `admin`, and the last one that has it stays while there are others.

use axum::extract::State;
use axum::{Extension, Json};
use divvy_http::{ApiError, JsonBody, PathText};
use divvy_types::schema::Label;
use divvy_types::scope::TokenView;
use divvy_types::spec::check_name;
use divvy_types::view::Page;
use divvy_types::{Scope, Scopes, Timestamp};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::guard::Rules;
use crate::http::whole;
use crate::tokens::{TOKEN_NAME_LEN_MAX, TokenError, Tokens};

/// What is asked for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewToken")]
pub(crate) struct Wanted {
    /// What people call it.
    #[schemars(with = "Label<TOKEN_NAME_LEN_MAX>")]
    name: String,
    /// What it allows.
    scopes: Scopes,
    /// From when on it is refused; never, if nothing is said.
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

/// A token, told once with its secret.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CreatedToken {
    #[serde(flatten)]
    token: TokenView,
    /// What callers show. It is not kept and cannot be told again.
    secret: String,
}

/// All of them, by name.
pub(crate) async fn list(State(app): State<App>) -> Json<Page<TokenView>> {
    whole(app.tokens.list())
}

/// Makes one.
pub(crate) async fn create(
    State(app): State<App>,
    Extension(rules): Extension<Rules>,
    JsonBody(wanted): JsonBody<Wanted>,
) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    let Wanted { name, scopes, expires_at } = wanted;
    if !scopes.is_empty() && !scopes.has(Scope::Admin) && !rules.has_admin_without(&name) {
        return Err(TokenError::NoAdmin.into());
    }
    let made = on_thread(&app, move |tokens| tokens.create(&name, scopes, expires_at)).await?;
    tracing::info!(name = %made.view.name, scopes = %made.view.scopes, "a token was made");
    app.frame().set_session(rules.wants_token());
    let created = CreatedToken { token: made.view, secret: made.secret };
    Ok((StatusCode::CREATED, Json(created)))
}

/// Makes one worthless.
pub(crate) async fn revoke(
    State(app): State<App>,
    Extension(rules): Extension<Rules>,
    PathText(name): PathText,
) -> Result<Json<TokenView>, ApiError> {
    check_name("name", &name, TOKEN_NAME_LEN_MAX)?;
    let tokens = app.tokens.list();
    let is_there = tokens.iter().any(|token| token.name == name);
    if is_there && tokens.len() > 1 && !rules.has_admin_without(&name) {
        return Err(TokenError::NoAdmin.into());
    }
    let revoked = on_thread(&app, move |tokens| tokens.revoke(&name)).await?;
    tracing::info!(name = %revoked.name, "a token was revoked");
    app.frame().set_session(rules.wants_token());
    Ok(Json(revoked))
}

/// A change is written to the disk.
async fn on_thread<T: Send + 'static>(
    app: &App,
    change: impl FnOnce(&Tokens) -> Result<T, TokenError> + Send + 'static,
) -> Result<T, ApiError> {
    let tokens = app.tokens.clone();
    let changed = tokio::task::spawn_blocking(move || change(&tokens)).await;
    let failed = |_| {
        let message = "the change of the tokens broke off; look whether it holds";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "tokens_not_kept", message)
    };
    Ok(changed.map_err(failed)??)
}
