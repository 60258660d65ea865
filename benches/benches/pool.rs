//! The stealing pool beside rayon, tokio and a channel: the same closures, the same load, the same run.
//!
//! A round submits [`TASKS`] tasks and waits until all have run. Tasks are `tiny` (they only count themselves) or take
//! about a microsecond. They come from one thread outside of the pool (`outside`), or from tasks inside of it
//! (`inside`). `uneven` puts 70 of 100 tasks on one worker: from outside by address, which the peers do not take (they
//! place by themselves), and inside by letting one task submit 70 of 100.

use divan::Bencher;
use divan::counter::ItemsCount;
use divvy_benches::pools::{Channel, Contender, Divvy, DivvyBatch, Load, Rayon, TASKS, Tokio};

fn main() {
    divan::main();
}

#[divan::bench(types = [Divvy, DivvyBatch, Rayon, Tokio, Channel], args = Load::ALL)]
fn outside<C: Contender>(bencher: Bencher<'_, '_>, load: Load) {
    let contender = C::new();
    bencher.counter(ItemsCount::new(TASKS)).bench_local(|| load.from_outside(&contender));
}

#[divan::bench(types = [Divvy, Rayon, Tokio, Channel], args = Load::ALL)]
fn inside<C: Contender>(bencher: Bencher<'_, '_>, load: Load) {
    let contender = C::new();
    bencher.counter(ItemsCount::new(TASKS)).bench_local(|| load.from_inside(&contender));
}
