//! The video platform from outside: its programs, its files, its pages, and a corpus of odd videos.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod corpus;
mod files_are_served;
mod probe_of_the_corpus;
mod programs_are_confined;
mod programs_are_watched;
mod support;
mod the_player_plays;
mod web_support;
