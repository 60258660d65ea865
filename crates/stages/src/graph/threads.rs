//! The same work for each of a list, on several threads.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does the work for each item, on so many threads, each of which takes the next item when it is free. What came of it is
/// in the order of items, so nothing tells how many threads there were.
pub(super) fn each<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let others = threads.min(items.len()).saturating_sub(1);
    let queue = Mutex::new(items.into_iter().enumerate());
    let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        let mut done = Vec::new();
        while let Some((at, item)) = take() {
            done.push((at, work(item)));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (0..others).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn results_are_in_the_order_of_items_whatever_the_threads() {
        for threads in [0, 1, 2, 5, 100] {
            let squares = each(threads, (0..40_u64).collect(), |item| item * item);
            assert_eq!(squares, (0..40).map(|item| item * item).collect::<Vec<_>>(), "{threads}");
        }
        assert!(each(3, Vec::<u8>::new(), |item| item).is_empty());
    }

    #[test]
    fn items_are_worked_on_at_the_same_time() {
        // Nobody passes before all three are there.
        let together = Barrier::new(3);
        assert_eq!(each(3, vec![1, 2, 3], |item| (together.wait(), item).1), [1, 2, 3]);
    }
}
