//! HTTP to addresses that a task was given by somebody else: only public ones are reached, however they are spelt and
//! whatever a name stands for, unless the worker allows others.
//!
//! A handler follows redirects itself and checks every hop:
//!
//! ```no_run
//! # async fn example(url: reqwest::Url) -> Result<(), Box<dyn std::error::Error>> {
//! use divvy::net;
//!
//! net::check_url(&url, false)?;
//! match net::client(false)?.get(url).send().await {
//!     Ok(_) => println!("look whether it is a redirect"),
//!     Err(error) => println!("{:?}", net::refused(&error)),
//! }
//! # Ok(()) }
//! ```

pub use divvy_worker::builtin::address::{
    Reach, RefusedAddress, check_url, client, refusal, refused,
};
pub use divvy_worker::builtin::{InvalidNetwork, Network};
