//! Sessions of browsers, which cannot send the token in a header.
//!
//! Whoever signs in with the token gets a cookie: when it ends, and a keyed hash of that and the token. The key is made
//! when the server starts and never leaves it, so the cookie says nothing about the token, cannot be made by others, and
//! is worth nothing after a restart. Nothing is kept for a session, but for one that was ended before its time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{COOKIE, HeaderMap};

/// How long a session lasts.
const LASTS_S: u64 = 7 * 24 * 60 * 60;

/// Sessions that are remembered as ended; only who knows the token can make one.
const ENDED_MAX: usize = 10_000;

/// Makes and checks cookies.
pub(crate) struct Sessions {
    key: [u8; 32],
    /// Hashes of sessions that were ended, and when they would have been over.
    ended: Mutex<BTreeMap<[u8; 32], u64>>,
    /// Names the port too: a browser gives one machine's cookies to all its ports.
    name: String,
}

impl Sessions {
    /// Sessions of a server at this address.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut hasher = blake3::Hasher::new();
        // Each of them holds 74 random bits of the operating system.
        for _ in 0..4 {
            hasher.update(uuid::Uuid::now_v7().as_bytes());
        }
        Self {
            key: *hasher.finalize().as_bytes(),
            ended: Mutex::default(),
            name: format!("divvy_session_{}", address.port()),
        }
    }

    /// A cookie for someone who knows the token. `is_secure` keeps it off unencrypted connections.
    pub(crate) fn cookie(&self, token: &str, is_secure: bool) -> String {
        let ends = now() + LASTS_S;
        let secure = if is_secure { "; Secure" } else { "" };
        format!(
            "{}={ends}.{}; Path=/; Max-Age={LASTS_S}; HttpOnly; SameSite=Strict{secure}",
            self.name,
            self.hash(token, ends).to_hex(),
        )
    }

    /// A cookie that takes the place of a session's and is over at once.
    pub(crate) fn farewell(&self) -> String {
        format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", self.name)
    }

    /// Whether a request has the cookie of a session that is not over.
    pub(crate) fn admits(&self, headers: &HeaderMap, token: &str) -> bool {
        self.admits_at(headers, token, now())
    }

    /// Ends the session of a request, whoever else has its cookie. Says whether it was one of this token.
    pub(crate) fn end(&self, headers: &HeaderMap, token: &str) -> bool {
        let now = now();
        let Some((hash, ends)) = self.session(headers, token, now) else { return false };
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|_, ends| now < *ends);
        if ended.len() < ENDED_MAX {
            ended.insert(*hash.as_bytes(), ends);
        }
        true
    }

    fn admits_at(&self, headers: &HeaderMap, token: &str, now: u64) -> bool {
        let Some((hash, _)) = self.session(headers, token, now) else { return false };
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        !ended.contains_key(hash.as_bytes())
    }

    /// The session of a request, by its hash, and when it is over.
    fn session(&self, headers: &HeaderMap, token: &str, now: u64) -> Option<(blake3::Hash, u64)> {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(';')).find_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            let (ends, hash) = value.split_once('.')?;
            let (ends, hash) = (ends.parse().ok()?, blake3::Hash::from_hex(hash).ok()?);
            // Hashes are compared in constant time.
            let is_ours = name == self.name && now < ends && hash == self.hash(token, ends);
            is_ours.then_some((hash, ends))
        })
    }

    fn hash(&self, token: &str, ends: u64) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&ends.to_le_bytes());
        hasher.update(token.as_bytes());
        hasher.finalize()
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, cookie.parse().unwrap());
        headers
    }

    #[test]
    fn a_session_is_known_until_it_ends_and_only_here() {
        let address: SocketAddr = "127.0.0.1:7171".parse().unwrap();
        let (sessions, others) = (Sessions::new(address), Sessions::new(address));
        let cookie = sessions.cookie("secret", false);
        let (pair, rest) = cookie.split_once(';').unwrap();
        assert!(rest.contains("HttpOnly") && rest.contains("SameSite=Strict"));
        assert!(!rest.contains("Secure") && sessions.cookie("secret", true).contains("; Secure"));
        assert!(!cookie.contains("secret"));
        let headers = with(&format!("a=b; {pair}"));
        assert!(sessions.admits(&headers, "secret"));
        assert!(!sessions.admits(&headers, "other"));
        assert!(!others.admits(&headers, "secret"));
        assert!(!sessions.admits_at(&headers, "secret", now() + LASTS_S + 1));
        let (name, value) = pair.split_once('=').unwrap();
        let (ends, hash) = value.split_once('.').unwrap();
        let later: u64 = ends.parse::<u64>().unwrap() + 1;
        for bad in [
            format!("{name}={later}.{hash}"),
            format!("{name}={ends}.{}", "0".repeat(64)),
            format!("{name}={ends}."),
            format!("{name}_2={value}"),
            name.to_owned(),
        ] {
            assert!(!sessions.admits(&with(&bad), "secret"), "{bad}");
        }
        assert!(!sessions.end(&with(&format!("{name}={later}.{hash}")), "secret"));
        assert!(sessions.admits(&headers, "secret"), "only the session itself can be ended");
        assert!(!sessions.end(&headers, "other") && sessions.end(&headers, "secret"));
        assert!(!sessions.admits(&headers, "secret"));
    }
}
