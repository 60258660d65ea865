//! What every task passes at the server: the connection that it comes by, gRPC for submitters and workers, and batches of
//! tasks in JSON.
//!
//! Reading order: [`door`] (connections that nobody vouches for yet), [`connection`] (how one is served), [`gate`] (what every request and answer passes), [`edge`] (what the
//! services reach), [`grpc`] (one file per service), [`batch`] (tasks in JSON), [`budget`] (the memory of all that waits), [`changes`]
//! (every change of a task, for those who watch).
//!
//! **Invariant:** nothing is decided here about tasks, nor about who may ask. Knows no route of HTTP: those, their pages,
//! alerts and pools are in `divvy-server`, which people wait for and the compiler need not optimise. This crate is
//! optimised. So what is awaited of it comes in a box: otherwise who awaits it would compile it.

pub mod batch;
pub mod budget;
pub mod changes;
pub mod connection;
pub mod door;
pub mod edge;
pub mod gate;
pub mod grpc;
pub mod quiet;
