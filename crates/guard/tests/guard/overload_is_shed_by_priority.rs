//! Five times as many requests as can be served, on a paused clock.

#![cfg(feature = "async")]

use std::time::Duration;

use divvy_guard::bulkhead;
use divvy_guard::shed::{Priority, Settings, Shedder};
use divvy_guard::shell::bulkhead::Bulkhead;
use divvy_guard::shell::shed::Entrance;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn entrance() -> Entrance {
    // Four places of 20 ms each serve 200 requests per second.
    let settings = bulkhead::Settings { places: 4, waiting_max: 400, wait_max: millis(1000) };
    let bulkhead = Bulkhead::new(settings).unwrap();
    Entrance::new(Shedder::new(Settings::default()).unwrap(), bulkhead)
}

/// A priority from 1 to 5, and fewer of the higher ones.
fn draw(rng: &mut fastrand::Rng) -> Priority {
    let draw = rng.u8(0..100);
    Priority::new(match draw {
        0..30 => 1,
        30..55 => 2,
        55..75 => 3,
        75..90 => 4,
        _ => 5,
    })
    .unwrap()
}

/// Offers `per_tick` requests every 5 ms for some ticks; served requests by priority, and their longest wait.
async fn offer(entrance: &Entrance, per_tick: usize, ticks: usize) -> ([usize; 5], Duration) {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut requests = JoinSet::new();
    for _ in 0..ticks {
        for _ in 0..per_tick {
            let (entrance, priority, began) = (entrance.clone(), draw(&mut rng), Instant::now());
            requests.spawn(async move {
                let entered = entrance.enter(priority).await;
                let waited = began.elapsed();
                let _entered = entered.ok()?;
                sleep(millis(20)).await;
                Some((priority, waited))
            });
        }
        sleep(millis(5)).await;
    }
    let (mut served, mut longest) = ([0; 5], Duration::ZERO);
    while let Some(request) = requests.join_next().await {
        if let Some((priority, waited)) = request.unwrap() {
            served[usize::from(priority.number()) - 1] += 1;
            longest = longest.max(waited);
        }
    }
    (served, longest)
}

#[tokio::test(start_paused = true)]
async fn the_important_ones_are_served_and_goodput_holds() {
    let entrance = entrance();
    let (served, _) = offer(&entrance, 5, 4000).await;
    let statistics = entrance.statistics();
    assert_eq!(statistics.shed[4], 0, "the highest priority is protected");
    let share = |index: usize| {
        served[index] as f64 / (statistics.shed[index] + statistics.admitted[index]) as f64
    };
    for index in 1..5 {
        assert!(share(index) >= share(index - 1) - 0.02, "{served:?} {statistics:?}");
    }
    assert!(share(4) > 0.9, "{} of the most important are served", share(4));
    assert!(share(0) < 0.1, "{} of the least important are served", share(0));
    let total: usize = served.iter().sum();
    assert!(total >= 20 * 200 * 8 / 10, "{total} served in 20 s, and 4000 are possible");
}

#[tokio::test(start_paused = true)]
async fn shedding_ends_with_the_overload() {
    let entrance = entrance();
    offer(&entrance, 5, 400).await;
    assert!(entrance.statistics().level > 0.5);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(entrance.statistics().level, 0.0);
    let before = entrance.statistics();
    let (served, longest) = offer(&entrance, 1, 30).await;
    assert_eq!(served.iter().sum::<usize>(), 30);
    assert_eq!(entrance.statistics().shed, before.shed);
    assert!(longest < millis(20), "{longest:?}");
}
