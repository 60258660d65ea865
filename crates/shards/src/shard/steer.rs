//! What people want of the crawl, as far as a shard obeys it: hosts that are left alone, hosts and addresses that were given
//! up and are tried again, seeds that widen the scope. Pausing and stopping are for the loop.

use divvy_frontier::frontier::Link;
use divvy_frontier::robots::Standing;
use divvy_workload::files::read_json;

use super::{Owner, ShardError};
use crate::folder::control::Control;
use crate::store::{PageEnd, PageFilter};

/// Addresses that are read at once.
const PAGES_MAX: u32 = 1_000;

impl Owner {
    /// Reads again what people want.
    pub(super) async fn reread_control(&mut self) -> Result<(), ShardError> {
        let control: Control = read_json(&self.folder.control())?.unwrap_or_default();
        if control.version == self.control.version {
            return Ok(());
        }
        self.control = control;
        self.obey().await
    }

    /// Does what people want now.
    pub(super) async fn obey(&mut self) -> Result<(), ShardError> {
        self.scope = self.spec.scope(&self.control.added);
        let control = &self.control;
        self.frontier.block(|origin| control.blocks(key_of(origin)));
        if self.retries < self.control.retries {
            self.replay().await?;
        }
        Ok(())
    }

    /// Tries again what was given up.
    async fn replay(&mut self) -> Result<(), ShardError> {
        self.retry_hosts()?;
        let mut filter = PageFilter { end: Some(PageEnd::Dead), after: None };
        loop {
            let pages = self.file().pages(filter, PAGES_MAX)?;
            for page in &pages {
                let Some((host, domain)) = self.frontier.host_name(page.host) else { continue };
                let (host, domain) = (host.to_owned(), domain.to_owned());
                let link = Link {
                    host: &host,
                    domain: &domain,
                    path: &page.path,
                    depth: page.depth,
                    hops: 0,
                    is_sitemap: false,
                };
                self.frontier.replay(&link);
            }
            match pages.last() {
                Some(last) => filter.after = Some(last.fingerprint),
                None => break,
            }
        }
        (self.retries, self.dead) = (self.control.retries, 0);
        // Together with the count, so that a crash does not put them back twice.
        self.batch_since.get_or_insert_with(tokio::time::Instant::now);
        self.commit().await
    }

    /// Asks hosts again that could not be reached or might not be asked, and their robots.txt first.
    fn retry_hosts(&mut self) -> Result<(), ShardError> {
        for host in self.frontier.retry() {
            let Some(mut copy) = self.file().robots(host)? else { continue };
            let Ok(mut standing) = serde_json::from_str::<Standing>(&copy.about) else { continue };
            standing.ask_anew();
            copy.about = serde_json::to_string(&standing)
                .map_err(|error| ShardError::system("write down a robots.txt", &error))?;
            self.batch.robots.push(copy);
        }
        Ok(())
    }
}

/// The host and port of an origin.
fn key_of(origin: &str) -> &str {
    origin.split_once("://").map_or(origin, |(_, key)| key)
}
