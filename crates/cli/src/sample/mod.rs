//! What `divvy up --sample` shows: a video from end to end, or, where there is no ffmpeg, processes that count primes.

pub(crate) mod primes;
pub(crate) mod steps;
