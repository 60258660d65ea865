//! The real binary, from outside: what it prints, how it ends, and what it leaves behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behind_tls;
mod benchmarks;
mod bulk;
mod completions;
mod dead_letters;
mod document;
mod exit_codes;
mod help;
mod lab;
mod monitoring;
mod plans;
mod programs;
mod schedules;
mod scheduling;
mod settings;
mod stack;
mod starting_and_stopping;
mod store_tools;
mod submitting;
mod tasks_and_queues;
mod tokens;
mod traces;
mod video_answers;
mod videos;
mod videos_whole;
mod watching;
mod workflows;
