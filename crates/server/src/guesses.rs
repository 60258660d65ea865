//! How often someone may guess a token: by address and in all.
//!
//! Every wrong token costs its address a token of a bucket. When that is empty, tokens from there are not looked at
//! for a while, right ones neither: else guessing would go on unhindered. A wrong token that comes again costs nothing,
//! so a worker with an old token that tries for ever shuts nobody out. A connection that was let in goes on with the
//! token that it showed, and when too many guess from too many addresses, those that showed a right one are spared.
//!
//! Does not know which tokens are right. At first start every bucket is full.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::Request;
use divvy_guard::rate::{Limiter, Quota, Refused};
use divvy_http::ApiError;
use http::StatusCode;
use http::header::AUTHORIZATION;

use divvy_wire::door::Guest;
use divvy_wire::quiet::Quiet;

/// Wrong tokens of one address that are looked at at once, and then each second.
const OF_ONE: (u32, u32) = (20, 1);
/// Wrong tokens of all addresses that are looked at at once, and then each second.
const OF_ALL: (u32, u32) = (200, 20);
/// Addresses that are remembered; further ones share the bucket of all.
const ADDRESSES_MAX: usize = 4_096;
/// Wrong tokens of one address that are recognised when they come again.
const REPEATED_MAX: usize = 16;

/// Who guessed how often.
pub(crate) struct Guesses {
    began: Instant,
    hasher: RandomState,
    all: Limiter,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    guessers: BTreeMap<IpAddr, Guesser>,
    /// Addresses that showed a right token.
    honest: BTreeSet<IpAddr>,
    told: Quiet,
}

struct Guesser {
    bucket: Limiter,
    wrong: VecDeque<u64>,
}

impl Default for Guesses {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            hasher: RandomState::new(),
            all: Limiter::new(quota(OF_ALL)),
            seen: Mutex::default(),
        }
    }
}

impl Guesses {
    /// Judges a request, unless its address has guessed too often.
    pub(crate) fn of_request<T>(
        &self,
        request: &Request,
        judge: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let guest = request.extensions().get::<Guest>();
        let (Some(guest), Some(shown)) = (guest, request.headers().get(AUTHORIZATION)) else {
            return judge();
        };
        if guest.was_let_in_with(shown) {
            return judge();
        }
        let judged = self.of_secret(guest.address, shown.as_bytes(), judge, |error| {
            error.status() == StatusCode::UNAUTHORIZED
        })?;
        guest.remember(shown);
        Ok(judged)
    }

    /// Judges a secret from this address, unless that has guessed too often.
    pub(crate) fn of_secret<T>(
        &self,
        address: IpAddr,
        secret: &[u8],
        judge: impl FnOnce() -> Result<T, ApiError>,
        is_wrong: impl FnOnce(&ApiError) -> bool,
    ) -> Result<T, ApiError> {
        let address = household(address);
        let now = self.began.elapsed();
        let mark = self.hasher.hash_one(secret);
        self.may_try(address, mark, now)?;
        let judged = judge();
        match &judged {
            Ok(_) => self.note_right(address),
            Err(error) if is_wrong(error) => self.note_wrong(address, mark, now),
            Err(_) => {}
        }
        judged
    }

    fn may_try(&self, address: IpAddr, mark: u64, now: Duration) -> Result<(), ApiError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let own = match seen.guessers.get(&address) {
            // It is known to be wrong: that it is judged once more tells nothing new.
            Some(guesser) if guesser.wrong.contains(&mark) => return Ok(()),
            Some(guesser) => guesser.bucket.peek(1, now),
            None => Ok(()),
        };
        let all = || if seen.honest.contains(&address) { Ok(()) } else { self.all.peek(1, now) };
        let Err(refused) = own.and_then(|()| all()) else { return Ok(()) };
        if let Some(count) = seen.told.count() {
            tracing::warn!(count, %address, "refused to look at tokens: too many wrong ones came before");
        }
        Err(too_many(&refused))
    }

    fn note_right(&self, address: IpAddr) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.honest.len() < ADDRESSES_MAX {
            seen.honest.insert(address);
        }
    }

    fn note_wrong(&self, address: IpAddr, mark: u64, now: Duration) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.guessers.len() >= ADDRESSES_MAX && !seen.guessers.contains_key(&address) {
            let full = quota(OF_ONE).burst_size();
            seen.guessers.retain(|_, guesser| guesser.bucket.available(now) < full);
        }
        if seen.guessers.len() < ADDRESSES_MAX || seen.guessers.contains_key(&address) {
            let guesser = seen.guessers.entry(address).or_insert_with(|| Guesser {
                bucket: Limiter::new(quota(OF_ONE)),
                wrong: VecDeque::new(),
            });
            if guesser.wrong.contains(&mark) {
                return;
            }
            if guesser.wrong.len() == REPEATED_MAX {
                guesser.wrong.pop_front();
            }
            guesser.wrong.push_back(mark);
            // Several may have been judged at once; an empty bucket cannot be emptier.
            let _ = guesser.bucket.check(now);
        }
        let _ = self.all.check(now);
    }
}

fn quota((burst, per_second): (u32, u32)) -> Quota {
    let quota = Quota::per_second(per_second).and_then(|quota| quota.burst(burst));
    quota.expect("the constants are valid")
}

/// Whoever has one address of version 6 has the other 2^64 of its network too.
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

fn too_many(refused: &Refused) -> ApiError {
    let wait = refused.wait().unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(1));
    let message =
        "too many wrong tokens came from this address; check the token, and try again later";
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_guesses", message)
        .with_retry_after_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(guesses: &Guesses, address: &str, secret: &str) -> u16 {
        let judge = || match secret {
            "right" => Ok(()),
            _ => Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "wrong")),
        };
        let address = address.parse().unwrap();
        match guesses.of_secret(address, secret.as_bytes(), judge, |_| true) {
            Ok(()) => 200,
            Err(error) => error.status().as_u16(),
        }
    }

    #[test]
    fn who_guesses_too_often_is_not_looked_at_and_others_are() {
        let guesses = Guesses::default();
        for number in 0..20 {
            assert_eq!(guess(&guesses, "192.0.2.1", &number.to_string()), 401);
        }
        assert_eq!(guess(&guesses, "192.0.2.1", "one more"), 429);
        assert_eq!(guess(&guesses, "192.0.2.1", "right"), 429, "it would tell that it is right");
        assert_eq!(guess(&guesses, "::ffff:192.0.2.1", "right"), 429, "the same address");
        assert_eq!(guess(&guesses, "192.0.2.2", "right"), 200);
        for number in 0..20 {
            assert_eq!(guess(&guesses, &format!("2001:db8::{number}"), &number.to_string()), 401);
        }
        assert_eq!(guess(&guesses, "2001:db8::77", "right"), 429, "one household");
        assert_eq!(guess(&guesses, "2001:db8:0:1::77", "right"), 200);
    }

    #[test]
    fn a_wrong_token_that_comes_again_and_again_shuts_nobody_out() {
        let guesses = Guesses::default();
        for _ in 0..1_000 {
            assert_eq!(guess(&guesses, "192.0.2.1", "old"), 401);
        }
        assert_eq!(guess(&guesses, "192.0.2.1", "right"), 200);
    }

    #[test]
    fn guesses_from_everywhere_do_not_shut_out_who_was_right_before() {
        let guesses = Guesses::default();
        assert_eq!(guess(&guesses, "192.0.2.9", "right"), 200);
        for number in 0..200 {
            assert_eq!(guess(&guesses, &format!("198.51.100.{number}"), "x"), 401);
        }
        assert_eq!(guess(&guesses, "203.0.113.1", "right"), 429);
        assert_eq!(guess(&guesses, "192.0.2.9", "right"), 200);
    }

    #[test]
    fn the_table_of_guessers_does_not_grow_for_ever() {
        let guesses = Guesses::default();
        for number in 0..ADDRESSES_MAX as u32 + 100 {
            guesses.note_wrong(std::net::Ipv4Addr::from_bits(number).into(), 7, Duration::ZERO);
        }
        assert_eq!(guesses.seen.lock().unwrap().guessers.len(), ADDRESSES_MAX);
    }
}
