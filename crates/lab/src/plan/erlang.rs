//! Decides the first guess: how many slots a queue of random arrivals needs, by Erlang's formulas (1917).
//!
//! They hold for arrivals at a constant rate, exponential run times, one line and no stages, so they are only a start:
//! what a day, pieces and boots do is found by simulation.

/// The share of arrivals that have to wait, with an offered load of `load` (arrivals per second × seconds each).
///
/// 1 if the slots cannot carry the load.
pub fn waiting_share(slots: u32, load: f64) -> f64 {
    let count = f64::from(slots);
    if load >= count {
        return 1.0;
    }
    if load <= 0.0 {
        return 0.0;
    }
    let blocked = blocked_share(slots, load);
    blocked / (1.0 - load / count * (1.0 - blocked))
}

/// The share of arrivals that wait longer than `wait`, in units of the mean run time.
pub fn waiting_longer_share(slots: u32, load: f64, wait: f64) -> f64 {
    let spare = f64::from(slots) - load;
    waiting_share(slots, load) * if spare > 0.0 { (-spare * wait).exp() } else { 1.0 }
}

/// The fewest slots with which at most `late` of the arrivals wait longer than `wait`, in units of the mean run time.
/// Nothing if even `most` are too few.
pub fn slots_for(load: f64, wait: f64, late: f64, most: u32) -> Option<u32> {
    let first = load.floor().clamp(0.0, f64::from(u32::MAX - 1)) as u32 + 1;
    let is_enough = |slots: u32| waiting_longer_share(slots, load, wait) <= late;
    if first > most {
        return None;
    }
    let (mut least, mut enough) = (first, first);
    while !is_enough(enough) {
        if enough == most {
            return None;
        }
        least = enough + 1;
        enough = enough.saturating_mul(2).min(most);
    }
    // More slots never make anyone wait longer.
    while least < enough {
        let middle = least + (enough - least) / 2;
        match is_enough(middle) {
            true => enough = middle,
            false => least = middle + 1,
        }
    }
    Some(enough)
}

/// The share of arrivals that find all slots busy where nobody can wait (Erlang B), by the usual recursion.
fn blocked_share(slots: u32, load: f64) -> f64 {
    (1..=slots).fold(1.0, |blocked, slot| {
        let carried = load * blocked;
        carried / (f64::from(slot) + carried)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, told: f64) {
        assert!((found - told).abs() < 0.000_06, "{found} is not {told}");
    }

    #[test]
    fn shares_are_those_of_the_published_tables() {
        // Erlang B: 1 % blocked at 4.461 erlangs on 10 lines, 12.03 on 20, 84.06 on 100.
        for (slots, load) in [(10, 4.461), (20, 12.03), (100, 84.06)] {
            assert!((blocked_share(slots, load) - 0.01).abs() < 0.000_1);
        }
        // Erlang C at 80 % load, as in textbooks of queueing.
        for (slots, share) in
            [(1, 0.8), (2, 0.7111), (3, 0.6472), (5, 0.5541), (10, 0.4092), (20, 0.2561)]
        {
            near(waiting_share(slots, f64::from(slots) * 0.8), share);
        }
        near(waiting_share(2, 1.0), 1.0 / 3.0);
        near(waiting_longer_share(1, 0.5, 2.0), 0.5 * (-1.0_f64).exp());
    }

    #[test]
    fn the_fewest_slots_are_enough_and_one_less_is_not() {
        for (load, wait, late) in
            [(0.3, 0.0, 0.05), (8.0, 0.5, 0.05), (139.0, 0.1, 0.01), (900.0, 0.0, 0.2)]
        {
            let slots = slots_for(load, wait, late, 100_000).unwrap();
            assert!(waiting_longer_share(slots, load, wait) <= late);
            assert!(waiting_longer_share(slots - 1, load, wait) > late);
        }
        assert_eq!(slots_for(10.0, 0.0, 0.05, 10), None);
        assert_eq!(waiting_share(3, 3.0), 1.0);
        assert_eq!(waiting_share(3, 0.0), 0.0);
    }
}
