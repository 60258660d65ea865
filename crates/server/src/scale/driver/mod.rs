//! Who starts and stops workers, one file each. A driver is told what is wanted, again and again, and answers with what
//! is there: it may be asked for what is there already, and then does nothing.
//!
//! A driver never kills a worker: it lets it end what it runs. Workers must be started with the capabilities
//! `pool=NAME` and `type=NAME`, by which the server knows them.

mod exec;
mod kubernetes;
pub(crate) mod local;

use std::collections::BTreeMap;

use divvy_autoscale::Wanted;
use divvy_types::Name;
use divvy_types::pools::{Driver, Pool};

use local::LocalWorkers;

/// What a driver is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    pub(crate) pool: Name,
    pub(crate) settings: Pool,
    /// Workers by type. Those that leave do not count.
    pub(crate) wanted: Wanted,
    /// Connected workers by type, without those that leave.
    pub(crate) connected: Wanted,
    /// Who should go first if some have to, of each type: those with the least to do and the fewest affinity keys.
    pub(crate) leave_first: BTreeMap<Name, Vec<Name>>,
    pub(crate) reason: String,
}

/// What a driver answers: workers by type that are there or starting, without those that leave.
pub(crate) type Answer = Result<Wanted, String>;

/// Tells the driver of a pool what is wanted.
pub(crate) async fn carry_out(order: Order, local: &LocalWorkers) -> Answer {
    match order.settings.driver.clone() {
        Driver::Local => local.order(order),
        // What is wanted is in the log, the API and the metrics; whoever reads it there acts.
        Driver::Print => Ok(order.connected),
        Driver::Exec { command } => exec::run(&command, &order).await,
        Driver::Kubernetes { url, namespace, resource, name } => {
            kubernetes::scale(url.as_deref(), [&namespace, &resource, &name], &order).await
        }
    }
}
