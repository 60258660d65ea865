//! How often something may happen: a token bucket, for all together or for each key.
//!
//! It decides from the time and the cost that it is told; it does not know what is limited, has no clock and does
//! not wait (`shell::rate` does).
//!
//! A [`Limiter`] is the generic cell rate algorithm: one word holds when the bucket will be full again. A request
//! moves that moment on by its cost, and passes if the moment is not further away than a full bucket takes. That is
//! exact, needs no refill timer and no lock, and in any span of time no more passes than the burst plus what the
//! rate gives in that span. At first start the bucket is full.
//!
//! The algorithm is the generic cell rate algorithm of ITU-T I.371, in its virtual scheduling form; the bucket that it
//! keeps is that of J. Turner, *New Directions in Communications* (1986).

mod keyed;
mod limiter;
mod quota;

pub use keyed::{KEYS_MAX, Keyed};
pub use limiter::{Limiter, Refused};
pub use quota::{INTERVAL_MIN, Quota};

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/limits-and-retries.md")]
mod guide {}
