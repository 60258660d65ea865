//! The server from outside: a real engine, a real listener on a free port, real HTTP and gRPC clients.
#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod bulk;
mod crowding;
mod document;
mod events;
mod lab;
mod listening;
mod objects;
mod operating;
mod pools;
mod pulse;
mod reading;
mod schedules;
mod scheduling;
mod security;
mod submitting;
mod submitting_grpc;
mod tls;
mod tokens;
mod uploads;
mod worker_stream;
mod workflows;
mod world;
