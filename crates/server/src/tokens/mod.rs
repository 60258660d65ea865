//! Tokens: the secrets that callers show, and what each of them allows.
//!
//! A secret is 256 random bits that are told once. Only its BLAKE3 hash is kept: a slow hash is for secrets that people
//! choose, and these cannot be guessed. Hashes are compared in constant time.
//!
//! - With a file, tokens last: every change is on the disk before it holds (`file`). Without one they end with the
//!   process.
//! - A *lent* token is made for the process's own children. It is not kept, not listed, and does not close a server that is
//!   open to everybody.
//! - When a token was used is remembered until the process ends, no longer: it would cost a write.

mod file;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use divvy_types::scope::TokenView;
use divvy_types::spec::check_name;
use divvy_types::{Name, Refusal, Scope, Scopes, SpecError, Timestamp};
use rustls::crypto::ring;

use file::Kept;

/// Tokens of one server.
pub const TOKENS_MAX: usize = 256;
/// Characters of a token's name.
pub const TOKEN_NAME_LEN_MAX: usize = 64;
/// What every secret begins with, so that people and scanners know one when they see it.
const PREFIX: &str = "divvy_";

/// The tokens of a server; a clone is cheap and shares them.
#[derive(Clone, Default)]
pub struct Tokens(Arc<Shared>);

#[derive(Default)]
struct Shared {
    file: Option<PathBuf>,
    known: RwLock<Arc<[Entry]>>,
    /// Held while a change is decided and written.
    changing: Mutex<()>,
}

/// A token that callers may show.
#[derive(Clone)]
struct Entry {
    kept: Kept,
    is_lent: bool,
    /// Microseconds since the Unix epoch; 0 is never.
    used: Arc<AtomicU64>,
}

/// What a secret is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// It allows this.
    Allows(Scopes),
    /// It did, until then.
    Expired(Timestamp),
    /// Nobody knows it.
    Nothing,
}

/// A token that was just made.
#[derive(Debug)]
pub struct NewToken {
    /// What is told of it from now on.
    pub view: TokenView,
    /// What is told once.
    pub secret: String,
}

impl Tokens {
    /// The tokens in this file, which need not be there yet.
    ///
    /// # Errors
    /// If it cannot be read, or is not a file of tokens.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, TokenError> {
        let path = path.into();
        let known = file::read(&path)?.into_iter().map(Entry::new).collect();
        Ok(Self(Arc::new(Shared {
            file: Some(path),
            known: RwLock::new(known),
            changing: Mutex::default(),
        })))
    }

    /// Whether none was made: then nobody can be asked for one.
    pub fn is_empty(&self) -> bool {
        self.known().iter().all(|entry| entry.is_lent)
    }

    /// All that were made, by name.
    pub fn list(&self) -> Vec<TokenView> {
        let known = self.known();
        let mut views: Vec<TokenView> =
            known.iter().filter(|entry| !entry.is_lent).map(Entry::view).collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// Makes a token, durably. Blocks while it is written.
    ///
    /// # Errors
    /// If the name is taken or makes no sense, there are too many, or the file cannot be written.
    pub fn create(
        &self,
        name: &str,
        scopes: Scopes,
        expires_at: Option<Timestamp>,
    ) -> Result<NewToken, TokenError> {
        check_name("name", name, TOKEN_NAME_LEN_MAX)?;
        if scopes.is_empty() {
            let problem = "is empty; name at least one of read, submit, work and admin".to_owned();
            return Err(SpecError::field("scopes", problem).into());
        }
        let secret = new_secret();
        let entry = Entry::new(Kept {
            name: name.into(),
            hash: hash(&secret).to_hex().to_string(),
            scopes,
            created_at: now(),
            expires_at,
        });
        let view = entry.view();
        self.change(|entries| {
            let mut kept = entries.iter().filter(|entry| !entry.is_lent);
            if kept.clone().count() >= TOKENS_MAX {
                return Err(TokenError::TooMany);
            }
            if kept.any(|entry| entry.kept.name == name) {
                return Err(TokenError::Exists(name.to_owned()));
            }
            entries.push(entry);
            Ok(())
        })?;
        Ok(NewToken { view, secret })
    }

    /// Makes a token worthless, durably. Blocks while it is written.
    ///
    /// # Errors
    /// If there is none, or the file cannot be written.
    pub fn revoke(&self, name: &str) -> Result<TokenView, TokenError> {
        self.change(|entries| {
            let at = entries.iter().position(|entry| !entry.is_lent && entry.kept.name == name);
            let at = at.ok_or_else(|| TokenError::NoSuch(name.to_owned()))?;
            Ok(entries.remove(at).view())
        })
    }

    /// The secret of a token that ends with this process.
    pub fn lend(&self, scopes: impl Into<Scopes>) -> String {
        let secret = new_secret();
        let kept = Kept {
            name: Name::from("lent"),
            hash: hash(&secret).to_hex().to_string(),
            scopes: scopes.into(),
            created_at: now(),
            expires_at: None,
        };
        let _one = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.known().to_vec();
        entries.push(Entry { is_lent: true, ..Entry::new(kept) });
        self.hold(entries);
        secret
    }

    /// What the first token that `is_it` is worth. Every token is tried, whichever is the right one.
    pub(crate) fn worth(&self, is_it: impl Fn(&blake3::Hash) -> bool) -> Worth {
        let mut found = None;
        let known = self.known();
        for entry in known.iter() {
            let entry_hash = blake3::Hash::from_hex(&entry.kept.hash).ok();
            if entry_hash.is_some_and(|hash| is_it(&hash)) {
                found = Some(entry);
            }
        }
        let Some(entry) = found else { return Worth::Nothing };
        let now = now();
        match entry.kept.expires_at.filter(|end| *end <= now) {
            Some(end) => Worth::Expired(end),
            None => {
                entry.used.store(now.0, Relaxed);
                Worth::Allows(entry.kept.scopes)
            }
        }
    }

    /// What people call the token that `is_it`.
    pub(crate) fn name_of(&self, is_it: impl Fn(&blake3::Hash) -> bool) -> Option<Name> {
        let known = self.known();
        let is_it =
            |entry: &&Entry| blake3::Hash::from_hex(&entry.kept.hash).is_ok_and(|it| is_it(&it));
        known.iter().find(is_it).map(|entry| entry.kept.name.clone())
    }

    fn known(&self) -> Arc<[Entry]> {
        Arc::clone(&self.0.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn hold(&self, entries: Vec<Entry>) {
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = entries.into();
    }

    /// Changes the tokens: on the disk first, then for callers.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<Entry>) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let _one = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.known().to_vec();
        let changed = change(&mut entries)?;
        if let Some(path) = &self.0.file {
            let kept = entries.iter().filter(|entry| !entry.is_lent).map(|entry| &entry.kept);
            file::write(path, kept)?;
        }
        self.hold(entries);
        Ok(changed)
    }

    /// Whether someone may still manage the others if this one is gone.
    pub(crate) fn has_other_admin(&self, name: &str) -> bool {
        let is_other = |view: &TokenView| view.name != name && view.scopes.has(Scope::Admin);
        self.list().iter().any(is_other)
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("file", &self.0.file).finish_non_exhaustive()
    }
}

impl Entry {
    fn new(kept: Kept) -> Self {
        Self { kept, is_lent: false, used: Arc::default() }
    }

    fn view(&self) -> TokenView {
        let Kept { name, scopes, created_at, expires_at, .. } = self.kept.clone();
        let used = Some(Timestamp(self.used.load(Relaxed))).filter(|used| used.0 > 0);
        TokenView { name, scopes, created_at, expires_at, last_used_at: used }
    }
}

/// What is kept of a secret.
pub(crate) fn hash(secret: &str) -> blake3::Hash {
    blake3::hash(secret.as_bytes())
}

fn new_secret() -> String {
    let mut bytes = [0; 32];
    let random = ring::default_provider().secure_random;
    random.fill(&mut bytes).expect("the operating system has random numbers");
    format!("{PREFIX}{}", blake3::Hash::from_bytes(bytes).to_hex())
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// Why tokens cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// What was asked for makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The name is taken.
    #[error("a token `{0}` exists already; choose another name, or revoke it first")]
    Exists(String),
    /// No such token.
    #[error("no token is called `{0}`; `divvy token list` shows all")]
    NoSuch(String),
    /// The list is full.
    #[error("there are {TOKENS_MAX} tokens, the most that a server keeps; revoke some")]
    TooMany,
    /// Nobody could manage the tokens any more.
    #[error(
        "nobody could manage this server then: no other token has the scope `admin`, and it was started without --token; make one with the scope `admin` first"
    )]
    NoAdmin,
    /// The file is of no use.
    #[error("cannot {action} {}: {problem}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl TokenError {
    /// All codes that such an error may have, besides those of [`SpecError`].
    pub(crate) const CODES: [&str; 5] =
        ["token_exists", "no_such_token", "too_many_tokens", "no_admin_left", "tokens_not_kept"];
}

impl Refusal for TokenError {
    fn code(&self) -> &'static str {
        match self {
            Self::Spec(error) => error.code(),
            Self::Exists(_) => "token_exists",
            Self::NoSuch(_) => "no_such_token",
            Self::TooMany => "too_many_tokens",
            Self::NoAdmin => "no_admin_left",
            Self::File { .. } => "tokens_not_kept",
        }
    }

    fn status(&self) -> u16 {
        match self {
            Self::Spec(error) => Refusal::status(error),
            Self::Exists(_) | Self::TooMany | Self::NoAdmin => 409,
            Self::NoSuch(_) => 404,
            Self::File { .. } => 500,
        }
    }

    fn field_name(&self) -> Option<&str> {
        match self {
            Self::Spec(error) => error.field_name(),
            Self::Exists(_) => Some("name"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(tokens: &Tokens, secret: &str) -> Worth {
        let shown = hash(secret);
        tokens.worth(|known| *known == shown)
    }

    #[test]
    fn a_token_lasts_until_it_is_revoked_and_its_secret_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let tokens = Tokens::open(&path).unwrap();
        assert!(tokens.is_empty());
        let made = tokens.create("ci", Scope::Submit.into(), None).unwrap();
        assert!(made.secret.starts_with(PREFIX) && made.secret.len() == PREFIX.len() + 64);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&made.secret[PREFIX.len()..]), "{text}");

        let again = Tokens::open(&path).unwrap();
        assert_eq!(worth(&again, &made.secret), Worth::Allows(Scope::Submit.into()));
        assert_eq!(worth(&again, &format!("{}0", made.secret)), Worth::Nothing);
        assert!(again.list()[0].last_used_at.is_some() && tokens.list()[0].last_used_at.is_none());
        assert!(matches!(again.create("ci", Scopes::ADMIN, None), Err(TokenError::Exists(_))));
        again.revoke("ci").unwrap();
        assert!(matches!(again.revoke("ci"), Err(TokenError::NoSuch(_))));
        assert_eq!(worth(&again, &made.secret), Worth::Nothing);
        assert!(Tokens::open(&path).unwrap().is_empty());
    }

    #[test]
    fn an_expired_token_is_known_and_worth_nothing() {
        let tokens = Tokens::default();
        let made = tokens.create("old", Scopes::ADMIN, Some(Timestamp(1))).unwrap();
        assert_eq!(worth(&tokens, &made.secret), Worth::Expired(Timestamp(1)));
    }

    #[test]
    fn a_lent_token_works_and_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let tokens = Tokens::open(&path).unwrap();
        let secret = tokens.lend(Scope::Work);
        assert_eq!(worth(&tokens, &secret), Worth::Allows(Scope::Work.into()));
        assert!(tokens.is_empty() && tokens.list().is_empty());
        tokens.create("lent", Scopes::ADMIN, None).unwrap();
        let again = Tokens::open(&path).unwrap();
        assert_eq!(worth(&again, &secret), Worth::Nothing);
        assert_eq!(worth(&tokens, &secret), Worth::Allows(Scope::Work.into()));
    }

    #[test]
    fn what_cannot_be_written_does_not_hold() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/tokens.json");
        let tokens = Tokens::open(&path).unwrap();
        let error = tokens.create("ci", Scopes::ADMIN, None).unwrap_err();
        assert!(error.to_string().contains("tokens.json"), "{error}");
        assert!(tokens.is_empty());
    }
}
