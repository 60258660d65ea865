//! `divvy token`: makes, lists and revokes tokens, at a server or in the data folder of one that is stopped.

use std::path::Path;

use anyhow::Result;
use divvy::api::parse_rows;
use divvy_server::{TokenError, Tokens};
use divvy_store::sqlite::lock;
use divvy_types::scope::TokenView;
use divvy_types::{Refusal, Timestamp};
use serde_json::json;

use super::Context;
use crate::args::access::{CreateToken, Offline, Token};
use crate::exit::{Code, Failure};
use crate::output::table::Table;
use crate::output::words;
use crate::service::{TOKENS, store_failure};

/// Does what is asked.
pub(super) async fn run(args: Token, context: &Context) -> Result<Code> {
    match args {
        Token::Create(args) => create(args, context).await,
        Token::List(offline) => list(&offline, context).await,
        Token::Revoke { name, offline } => revoke(&name, &offline, context).await,
    }
}

async fn create(args: CreateToken, context: &Context) -> Result<Code> {
    let CreateToken { name, scope, expires, offline } = args;
    let output = &context.output;
    let expires_at = expires.map(|moment| moment.from(words::now()));
    let created = match &offline.data {
        Some(data) => {
            let made = in_folder(data, |tokens| tokens.create(&name, scope, expires_at))?;
            let mut created = serde_json::to_value(&made.view)?;
            created["secret"] = made.secret.into();
            created
        }
        None => {
            let wanted = json!({ "name": name, "scopes": scope, "expires_at": expires_at });
            context.api()?.post(&["tokens"], &wanted).await?.value()?
        }
    };
    if output.is_json() {
        output.object(&created)?;
        return Ok(Code::Done);
    }
    output.data(created["secret"].as_str().unwrap_or_default())?;
    output.note(format_args!(
        "token {name} may {scope}; this is its secret, which is not kept and not told again"
    ));
    output.note("give it to a program as DIVVY_TOKEN");
    Ok(Code::Done)
}

async fn list(offline: &Offline, context: &Context) -> Result<Code> {
    let output = &context.output;
    let tokens: Vec<TokenView> = match &offline.data {
        Some(data) => Tokens::open(data.join(TOKENS)).map_err(failure)?.list(),
        None => parse_rows(&context.api()?.get(&["tokens"], &[]).await?.rows()?.items)?,
    };
    if output.is_json() {
        tokens.iter().try_for_each(|token| output.object(token))?;
        return Ok(Code::Done);
    }
    if output.is_quiet() {
        tokens.iter().try_for_each(|token| output.data(&token.name))?;
        return Ok(Code::Done);
    }
    let mut table = Table::new(&["TOKEN", "SCOPES", "CREATED", "EXPIRES", "LAST USED"]);
    let now = words::now();
    let time = |at: Option<Timestamp>, never: &str| {
        at.map_or_else(|| never.to_owned(), |at| words::relative(at, now))
    };
    for token in &tokens {
        table.row([
            token.name.as_str().into(),
            token.scopes.to_string().into(),
            words::relative(token.created_at, now).into(),
            time(token.expires_at, "never").into(),
            time(token.last_used_at, "-").into(),
        ]);
    }
    table.print(output)?;
    if tokens.is_empty() {
        output.note("no token was made; make one with `divvy token create NAME --scope admin`");
    }
    Ok(Code::Done)
}

async fn revoke(name: &str, offline: &Offline, context: &Context) -> Result<Code> {
    let revoked = match &offline.data {
        Some(data) => in_folder(data, |tokens| tokens.revoke(name))?,
        None => context.api()?.delete(&["tokens", name]).await?.parse()?,
    };
    let output = &context.output;
    if output.is_json() {
        output.object(&revoked)?;
    } else {
        output.data(format_args!("token {} is worth nothing any more", revoked.name))?;
    }
    Ok(Code::Done)
}

/// Changes the tokens of a data folder that no server uses: one that runs would not notice, and write its own over them.
fn in_folder<T>(
    data: &Path,
    change: impl FnOnce(&Tokens) -> Result<T, TokenError>,
) -> Result<T, Failure> {
    std::fs::create_dir_all(data).map_err(|error| {
        Failure::new(Code::Failed, format!("cannot create {}: {error}", data.display()))
    })?;
    let _locked = lock(data).map_err(|error| {
        store_failure(error).cure("ask the server that uses the folder: leave out --data")
    })?;
    let tokens = Tokens::open(data.join(TOKENS)).map_err(failure)?;
    change(&tokens).map_err(failure)
}

fn failure(error: TokenError) -> Failure {
    let code = match error.status() {
        404 => Code::NotFound,
        409 => Code::Refused,
        400 => Code::Usage,
        _ => Code::Failed,
    };
    Failure { name: Some(error.code().to_owned()), ..Failure::new(code, error.to_string()) }
}
