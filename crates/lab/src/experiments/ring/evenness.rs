//! Decides how even rings are: by the number of points, and by the cap on each node's load.

use divvy_placement::hashing::{BoundedRing, Distribution, Error, Ring, hash_of, ring};

/// Equal nodes of the rings that are looked at here.
pub(super) const NODES: usize = 10;
/// Points per node.
pub(super) const POINTS: [u32; 9] = [10, 20, 50, 100, 150, 200, 500, 1_000, 2_000];
/// How far above its share a node may go.
pub(super) const BOUNDS: [f64; 5] = [1.0, 0.5, 0.25, 0.1, 0.05];

/// How even rings with this many points are, over several sets of names.
pub(super) struct Evenness {
    /// Points per node.
    pub(super) points: u32,
    /// The fullest node per mean, on average.
    pub(super) peak: f64,
    /// The fullest node per mean, at worst.
    pub(super) peak_worst: f64,
    /// The emptiest node per mean, on average.
    pub(super) least: f64,
    /// The coefficient of variation, on average (root of the mean square).
    pub(super) variation: f64,
}

/// The exact shares of several rings; no keys are drawn, so chance is only in the names.
pub(super) fn by_points(points: u32, rings: u64, seed: u64) -> Result<Evenness, Error> {
    let mut sum = Evenness { points, peak: 0.0, peak_worst: 0.0, least: 0.0, variation: 0.0 };
    for number in 0..rings {
        let ring = ring_of(points, seed.wrapping_add(number))?;
        let ratios: Vec<f64> =
            ring.shares().iter().map(|(_, share)| share * NODES as f64).collect();
        let peak = ratios.iter().copied().fold(0.0, f64::max);
        sum.peak += peak;
        sum.peak_worst = sum.peak_worst.max(peak);
        sum.least += ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let squares: f64 = ratios.iter().map(|ratio| (ratio - 1.0).powi(2)).sum();
        sum.variation += squares / NODES as f64;
    }
    let rings = rings as f64;
    Ok(Evenness {
        peak: sum.peak / rings,
        least: sum.least / rings,
        variation: (sum.variation / rings).sqrt(),
        ..sum
    })
}

/// What a cap does to keys.
pub(super) struct Capped {
    /// How far above its share a node may go; none means without cap.
    pub(super) epsilon: Option<f64>,
    /// The fullest node per mean.
    pub(super) peak: f64,
    /// The most keys that a node may have.
    pub(super) cap: Option<u64>,
    /// The most keys that a node has.
    pub(super) most: u64,
    /// The share of keys that are not with their owner.
    pub(super) displaced: f64,
}

/// Places all keys on one ring, with and without caps.
pub(super) fn capped(points: u32, keys: &[String], seed: u64) -> Result<Vec<Capped>, Error> {
    let ring = ring_of(points, seed)?;
    let plain = Distribution::of_ring(&ring, keys);
    let most = |distribution: &Distribution| {
        distribution.shares().iter().map(|share| share.keys).max().unwrap_or_default()
    };
    let mut rows = vec![Capped {
        epsilon: None,
        peak: plain.peak_to_mean(),
        cap: None,
        most: most(&plain),
        displaced: 0.0,
    }];
    for epsilon in BOUNDS {
        let mut bounded = BoundedRing::new(ring.clone(), epsilon)?;
        let mut displaced = 0_usize;
        for key in keys {
            let home = ring.node_of_key(key).map(|node| node.id());
            let node = bounded.assign(hash_of(key)).map(|node| node.id());
            displaced += usize::from(home != node);
        }
        let loads = ring.nodes().map(|node| {
            let load = bounded.load(node.name()).unwrap_or_default();
            (node.name().to_owned(), node.weight(), load)
        });
        let placed = Distribution::of_counts(loads);
        rows.push(Capped {
            epsilon: Some(epsilon),
            peak: placed.peak_to_mean(),
            cap: ring.nodes().next().and_then(|node| bounded.capacity(node.name())),
            most: most(&placed),
            displaced: displaced as f64 / keys.len() as f64,
        });
    }
    Ok(rows)
}

fn ring_of(points: u32, seed: u64) -> Result<Ring, Error> {
    let mut ring = Ring::new(ring::Settings { points, ..ring::Settings::default() })?;
    let names: Vec<String> = (0..NODES).map(|node| format!("node-{seed:x}-{node}")).collect();
    ring.extend(names.iter().map(|name| (name.as_str(), 1.0)))?;
    Ok(ring)
}
