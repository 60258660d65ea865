//! Keys that are too heavy for one node: which they are, and how many nodes should carry each.
//!
//! A ring shares out keys, not traffic: one key with a tenth of all requests puts its owner under a tenth of all
//! load, however many nodes there are. [`SpaceSaving`] finds such keys in little memory; [`HotKeys`] decides from it
//! when a key is hot, over how many owners to spread it, and when it has cooled; then there are two ways to spread:
//!
//! - **Replicate** (for reads): any of the first r owners serves the key, the less loaded of two drawn at random
//!   ([`two_choices`]). Costs r copies, which must be kept up to date or may be stale, and r cold misses when a key
//!   becomes hot. Cooling is free: the copies are just not asked any more.
//! - **Split** (for writes that can be added up: counters, logs, sets): writers write to one of r parts of the key
//!   ([`part_name`]), each with its own owner; readers read all parts and merge them. Costs r reads per read, loses the
//!   order among writes, and needs a memory of what was split until it is merged again ([`Splits`]).
//!
//! A key that is hot in writes that cannot be added up (a lock, a sequence) is helped by neither: shed or queue it.

mod keys;
mod space_saving;
mod split;
mod table;

pub use keys::{HotKey, HotKeys, SPREAD_MAX, Settings, two_choices};
pub use space_saving::{Counter, KEYS_MAX, SpaceSaving};
pub use split::{SPLITS_MAX, Splits, part_name};
