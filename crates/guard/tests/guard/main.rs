//! The guards from outside: calls and services behind breakers, limits, retries and hedges.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod a_slow_service_deep_in_a_chain;
mod calls_through_a_breaker;
mod fan_out_takes_what_comes_in_time;
mod flaky_service_behind_a_breaker;
mod hedging_lowers_the_tail_within_its_budget;
mod layers_guard_a_service;
mod overload_is_shed_by_priority;
mod retrying_a_call;
mod tower_services_behind_guards;
mod waiting_for_a_rate_limit;
