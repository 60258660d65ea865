//! The sample of `divvy up --sample primes`, which needs no workload: processes that count primes.

pub(crate) mod primes;
pub(crate) mod steps;
