//! Pages of servers on this machine: what is asked, what comes back, and what is not put up with.

mod bombs;
mod connections;
mod hostile;

use url::Url;

use super::{FetchError, Fetched, Fetcher, Limits, Order, Session, Trouble};
use crate::net::testing::connector;

fn fetcher(change: impl FnOnce(&mut Limits)) -> Fetcher {
    let mut limits = Limits::default();
    change(&mut limits);
    Fetcher::new(connector(), limits)
}

async fn get(url: &Url) -> Result<Fetched, FetchError> {
    fetcher(|_| ()).fetch(Order::page(url), &mut Session::default()).await
}

async fn trouble(fetcher: &Fetcher, url: &Url) -> Trouble {
    fetcher.fetch(Order::page(url), &mut Session::default()).await.unwrap_err().trouble()
}
