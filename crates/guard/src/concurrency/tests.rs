//! The limit against a simulated server, its permits, and its settings.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;

/// A server with a number of workers and one queue in front, under clients that always have one more call.
struct Server {
    free_at: BinaryHeap<Reverse<Duration>>,
    service: Duration,
    rng: fastrand::Rng,
    now: Duration,
    calls: Vec<(Duration, Option<Permit>)>,
    queue: BinaryHeap<Reverse<(Duration, usize)>>,
    latency_sum: Duration,
    served: u32,
}

impl Server {
    fn new(workers: usize, service: Duration) -> Self {
        let free_at = (0..workers).map(|_| Reverse(Duration::ZERO)).collect();
        Self {
            free_at,
            service,
            rng: fastrand::Rng::with_seed(7),
            now: Duration::ZERO,
            calls: Vec::new(),
            queue: BinaryHeap::new(),
            latency_sum: Duration::ZERO,
            served: 0,
        }
    }

    /// Changes the number of workers; what is being served is served to its end.
    fn resize(&mut self, workers: usize) {
        let latest = self.queue.iter().map(|Reverse((end, _))| *end).max().unwrap_or(self.now);
        self.free_at = (0..workers).map(|_| Reverse(latest)).collect();
    }

    /// Serves `count` calls, with as many in flight as the limiter allows.
    fn serve(&mut self, limiter: &Limiter, count: usize) {
        (self.latency_sum, self.served) = (Duration::ZERO, 0);
        for _ in 0..count {
            while let Ok(permit) = limiter.try_acquire(self.now) {
                let Reverse(free) = self.free_at.pop().unwrap();
                // Half to one and a half of the mean.
                let end = free.max(self.now) + self.service.mul_f64(0.5 + self.rng.f64());
                self.free_at.push(Reverse(end));
                self.queue.push(Reverse((end, self.calls.len())));
                self.calls.push((self.now, Some(permit)));
            }
            let Reverse((end, index)) = self.queue.pop().unwrap();
            self.now = end;
            let (began, permit) = &mut self.calls[index];
            self.latency_sum += end - *began;
            self.served += 1;
            permit.take().unwrap().finish(Outcome::Success, end - *began);
        }
    }

    fn latency_mean(&self) -> Duration {
        self.latency_sum / self.served
    }
}

fn settings(law: Law) -> Settings {
    Settings {
        law,
        window: Duration::from_millis(20),
        measure_every: Some(Duration::from_secs(5)),
        ..Settings::default()
    }
}

#[test]
fn the_limit_finds_the_knee_from_below_and_from_above() {
    for law in [Law::GRADIENT, Law::VEGAS] {
        for initial in [2, 400] {
            let limiter = Limiter::new(Settings { initial, ..settings(law) }).unwrap();
            let mut server = Server::new(40, Duration::from_millis(20));
            server.serve(&limiter, 150_000);
            server.serve(&limiter, 20_000);
            let limit = limiter.limit();
            assert!(
                (34..=100).contains(&limit),
                "{law:?} from {initial} went to {limit}, not near 40"
            );
            let latency = server.latency_mean();
            assert!(
                latency < Duration::from_millis(50),
                "{law:?} from {initial} takes {latency:?}"
            );
        }
    }
}

#[test]
fn the_limit_follows_a_server_that_loses_most_of_its_workers() {
    for law in [Law::GRADIENT, Law::VEGAS] {
        let limiter = Limiter::new(settings(law)).unwrap();
        let mut server = Server::new(40, Duration::from_millis(20));
        server.serve(&limiter, 100_000);
        let before = limiter.limit();
        server.resize(8);
        server.serve(&limiter, 60_000);
        let after = limiter.limit();
        assert!(after < before / 2 && after >= 6, "{law:?} went from {before} to {after}");
        server.resize(40);
        server.serve(&limiter, 150_000);
        assert!(limiter.limit() >= 34, "{law:?} came back to {} only", limiter.limit());
    }
}

#[test]
fn overload_shrinks_every_law_to_its_minimum() {
    for law in [Law::GRADIENT, Law::VEGAS, Law::Aimd] {
        let limiter = Limiter::new(Settings { min: 3, ..settings(law) }).unwrap();
        let mut now = Duration::ZERO;
        for _ in 0..1000 {
            now += Duration::from_millis(10);
            let permit = limiter.try_acquire(now).unwrap();
            permit.finish(Outcome::Overloaded, Duration::from_millis(5));
        }
        assert_eq!(limiter.limit(), 3, "{law:?}");
    }
}

#[test]
fn aimd_grows_while_nothing_is_refused() {
    let limiter = Limiter::new(Settings { max: 30, ..settings(Law::Aimd) }).unwrap();
    Server::new(40, Duration::from_millis(20)).serve(&limiter, 20_000);
    assert_eq!(limiter.limit(), 30);
}

#[test]
fn a_dropped_permit_gives_its_place_back_and_teaches_nothing() {
    let limiter = Limiter::new(Settings { initial: 2, ..Settings::default() }).unwrap();
    let first = limiter.try_acquire(Duration::ZERO).unwrap();
    let second = limiter.try_acquire(Duration::ZERO).unwrap();
    assert_eq!(limiter.try_acquire(Duration::ZERO).unwrap_err(), Saturated { limit: 2 });
    assert!(limiter.is_saturated());
    drop(first);
    second.finish(Outcome::Ignored, Duration::from_secs(100));
    let expected = Statistics { limit: 2, in_flight: 0, admitted: 2, refused: 1 };
    assert_eq!(limiter.statistics(), expected);
}

#[test]
fn nonsense_is_refused_by_name() {
    let good = Settings::default();
    let gradient = |tolerance, smoothing, long_windows| Settings {
        law: Law::Gradient { tolerance, smoothing, long_windows },
        ..good
    };
    let table = [
        (Settings { min: 0, ..good }, "min"),
        (Settings { max: LIMIT_MAX + 1, ..good }, "max"),
        (Settings { min: 30, max: 20, ..good }, "max"),
        (Settings { initial: 1001, ..good }, "initial"),
        (Settings { window_calls: 0, ..good }, "window_calls"),
        (Settings { measure_every: Some(Duration::ZERO), ..good }, "measure_every"),
        (gradient(f64::NAN, 0.2, 1), "tolerance"),
        (gradient(0.9, 0.2, 1), "tolerance"),
        (gradient(1.5, 0.0, 1), "smoothing"),
        (gradient(1.5, 0.2, 0), "long_windows"),
        (Settings { law: Law::Vegas { alpha: 0.0, beta: 1.0 }, ..good }, "alpha"),
        (Settings { law: Law::Vegas { alpha: 2.0, beta: 1.0 }, ..good }, "beta"),
    ];
    for (settings, field) in table {
        assert_eq!(Limiter::new(settings).unwrap_err().field, field, "{settings:?}");
    }
}

proptest! {
    #[test]
    fn the_limit_stays_in_its_bounds_and_places_add_up(
        law in prop_oneof![Just(Law::GRADIENT), Just(Law::VEGAS), Just(Law::Aimd)],
        steps in prop::collection::vec((0_u8..5, 0_u64..100_000), 0..400),
    ) {
        let settings = Settings {
            initial: 5,
            min: 2,
            max: 9,
            window_calls: 3,
            window: Duration::from_micros(1),
            measure_every: Some(Duration::from_millis(200)),
            law,
        };
        let limiter = Limiter::new(settings).unwrap();
        let mut held = Vec::new();
        let mut now = Duration::ZERO;
        for (kind, micros) in steps {
            let latency = Duration::from_micros(micros);
            now += latency;
            match (kind, held.pop()) {
                (0, Some(permit)) => drop::<Permit>(permit),
                (1, Some(permit)) => permit.finish(Outcome::Success, latency),
                (2, Some(permit)) => permit.finish(Outcome::Overloaded, latency),
                (_, popped) => {
                    held.extend(popped);
                    held.extend(limiter.try_acquire(now));
                }
            }
            prop_assert!((2..=9).contains(&limiter.limit()));
            prop_assert_eq!(limiter.statistics().in_flight as usize, held.len());
            prop_assert!(held.len() <= 9);
        }
    }
}
