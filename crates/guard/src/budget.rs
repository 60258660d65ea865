//! How many retries and hedges the recent successes pay for.
