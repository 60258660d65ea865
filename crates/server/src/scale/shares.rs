//! Whose work it is where several pools can run the same task.
//!
//! Each counts a part of what there is, as large as the part of all the slots that these pools may have at most. So what
//! all can run is counted once, none is given more than it could do while another has room, and the parts stay as they are
//! while workers come and go. A pool whose driver fails counts nothing as long as another can. That is what pools count;
//! who runs a task is decided by the scheduler alone.

use divvy_types::pools::Pool;

/// The part of one pool: it begins where that of the one before ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    from: f64,
    to: f64,
}

impl Part {
    /// How much of the whole it is, from 0 to 1.
    pub(crate) fn share(self) -> f64 {
        self.to - self.from
    }

    /// The part of so many tasks; those of all pools add up to the whole.
    pub(crate) fn of(self, tasks: u64) -> u64 {
        let until = |end: f64| (tasks as f64 * end + 1e-6).floor() as u64;
        until(self.to).saturating_sub(until(self.from))
    }

    /// The part of a number that only grows; it only grows too.
    pub(crate) fn of_total(self, total: u64) -> u64 {
        (total as f64 * self.share() + 1e-6).floor() as u64
    }
}

/// What each of these pools may have at most, in slots of speed 1.
pub(crate) fn weight(pool: &Pool) -> f64 {
    let slots = pool.worker_types().into_iter().map(|one| f64::from(one.slots) * one.speed);
    f64::from(pool.max) * slots.fold(0.0, f64::max)
}

/// The parts of pools with these weights; all alike if none has any.
pub(crate) fn parts(weights: &[f64]) -> Vec<Part> {
    let sum: f64 = weights.iter().sum();
    let even = 1.0 / weights.len().max(1) as f64;
    let mut from = 0.0;
    let part = |(place, weight): (usize, &f64)| {
        let share = if sum > 0.0 { weight / sum } else { even };
        let is_last = place + 1 == weights.len();
        let to = if is_last { 1.0 } else { from + share };
        let part = Part { from, to };
        from = to;
        part
    };
    weights.iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole_and_follow_the_weights() {
        assert_eq!(parts(&[3.0]), [Part { from: 0.0, to: 1.0 }]);
        let three = parts(&[20.0, 60.0, 20.0]);
        for tasks in [0, 1, 2, 3, 7, 10, 999, 1_000_003] {
            let sum: u64 = three.iter().map(|part| part.of(tasks)).sum();
            assert_eq!(sum, tasks);
        }
        assert_eq!(three.iter().map(|part| part.of(10)).collect::<Vec<_>>(), [2, 6, 2]);
        let shares =
            |weights: &[f64]| -> Vec<f64> { parts(weights).into_iter().map(Part::share).collect() };
        assert_eq!(shares(&[0.0, 5.0]), [0.0, 1.0]);
        assert_eq!(shares(&[0.0, 0.0]), [0.5, 0.5]);
        let part = three[1];
        assert!((0..1_000).all(|total| part.of_total(total) <= part.of_total(total + 1)));
    }
}
