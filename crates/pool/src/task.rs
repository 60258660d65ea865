//! One task: a closure that runs once, on whichever thread takes it.
//!
//! A closure of up to three words is kept inside the value, so that submitting it allocates nothing; a larger one is
//! boxed. The value is four words: the function that knows the closure's type, and the closure or the box.
//! This file does not know queues, threads or panics.

#![allow(
    unsafe_code,
    reason = "a closure of unknown type is kept inline: its type is erased by hand"
)]

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many words a closure may have to be kept inline.
pub const INLINE_WORDS: usize = 3;

type Words = [MaybeUninit<usize>; INLINE_WORDS];

/// What to do with the closure. Both consume it.
#[derive(Clone, Copy)]
enum Action {
    Run,
    Drop,
}

/// A closure that runs once.
#[repr(C)]
pub struct Task {
    call: unsafe fn(*mut Words, Action),
    words: Words,
}

impl Task {
    /// Wraps a closure.
    #[inline]
    pub fn new(run: impl FnOnce() + Send + 'static) -> Self {
        // SAFETY: what is `'static` is valid whenever the task runs or is dropped.
        unsafe { Self::erased(run) }
    }

    /// Wraps a closure that may borrow.
    ///
    /// # Safety
    /// The task must have run or have been dropped before anything that the closure borrows ends.
    #[inline]
    pub(crate) unsafe fn erased<F: FnOnce() + Send>(run: F) -> Self {
        let mut words: Words = [MaybeUninit::uninit(); INLINE_WORDS];
        if fits::<F>() {
            // SAFETY: `fits` says that the words are large enough and aligned for `F`, and they are ours alone.
            unsafe { words.as_mut_ptr().cast::<F>().write(run) };
            return Self { call: call_closure::<F>, words };
        }
        // SAFETY: a box is one word, and the words are ours alone.
        unsafe { words.as_mut_ptr().cast::<Box<F>>().write(Box::new(run)) };
        Self { call: call_closure::<Box<F>>, words }
    }

    /// Wraps a closure and puts it at the end of a list. It is written in place: a task that is built first and moved
    /// then is read in other portions than it was written in, which stalls the processor.
    #[inline]
    pub(crate) fn push_new<F: FnOnce() + Send + 'static>(tasks: &mut Vec<Self>, run: F) {
        if !fits::<F>() || tasks.len() == tasks.capacity() {
            tasks.push(Self::new(run));
            return;
        }
        let len = tasks.len();
        // SAFETY: there is room for one more at the end; its two fields are written before the length says so. The
        // closure fits into the words, as in `erased`, and is `'static`, as in `new`.
        unsafe {
            let place = tasks.as_mut_ptr().add(len);
            (&raw mut (*place).call).write(call_closure::<F>);
            (&raw mut (*place).words).cast::<F>().write(run);
            tasks.set_len(len + 1);
        }
    }

    /// Runs the closure. A panic passes through.
    #[inline]
    pub fn run(self) {
        let mut task = ManuallyDrop::new(self);
        let call = task.call;
        // SAFETY: the closure is in the words since `erased`; `self` was consumed and is not dropped, so this is the
        // one call that consumes the closure.
        unsafe { call(&raw mut task.words, Action::Run) }
    }

    /// Runs the closure and catches a panic.
    #[inline]
    pub(crate) fn run_caught(self) -> std::thread::Result<()> {
        let mut task = ManuallyDrop::new(self);
        let (call, words) = (task.call, &raw mut task.words);
        // SAFETY: as in `run`. Only two pointers go into the closure that catches, and not the task.
        catch_unwind(AssertUnwindSafe(|| unsafe { call(words, Action::Run) }))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: as in `run`: a task that ran is never dropped, so the closure is still there.
        unsafe { (self.call)(&raw mut self.words, Action::Drop) }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

// `Task` is `Send` because its parts are, which is right: only `Send` closures get in. It is `Sync` too, which is
// right as well: a shared reference to it gives no access to the closure.

const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Words>() && align_of::<F>() <= align_of::<Words>()
}

/// # Safety
/// `words` holds a valid `F`, which is gone after the call.
unsafe fn call_closure<F: FnOnce()>(words: *mut Words, action: Action) {
    let place = words.cast::<F>();
    match action {
        Action::Run => {
            // SAFETY: the caller promises a valid `F` that nobody uses again.
            let run = unsafe { place.read() };
            run();
        }
        // SAFETY: the same.
        Action::Drop => unsafe { place.drop_in_place() },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts its drops.
    struct Guard(Arc<AtomicUsize>);

    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A task with a payload of `N` words beside the guard, which adds the payload to `ran`.
    fn task<const N: usize>(drops: &Arc<AtomicUsize>, ran: &'static AtomicUsize) -> Task {
        let guard = Guard(Arc::clone(drops));
        let payload = [1_usize; N];
        Task::new(move || {
            let _guard = guard;
            ran.fetch_add(1 + payload.iter().sum::<usize>(), Ordering::Relaxed);
        })
    }

    fn check<const N: usize>() {
        let ran: &'static AtomicUsize = Box::leak(Box::default());
        let drops = Arc::new(AtomicUsize::new(0));
        task::<N>(&drops, ran).run();
        assert_eq!((ran.load(Ordering::Relaxed), drops.load(Ordering::Relaxed)), (N + 1, 1));
        drop(task::<N>(&drops, ran));
        assert_eq!((ran.load(Ordering::Relaxed), drops.load(Ordering::Relaxed)), (N + 1, 2));
    }

    #[test]
    fn closures_of_every_size_run_or_drop_exactly_once() {
        check::<0>();
        check::<1>();
        check::<2>();
        check::<3>();
        check::<64>();
    }

    #[test]
    fn closures_written_in_place_run_or_drop_exactly_once() {
        let drops = Arc::new(AtomicUsize::new(0));
        let ran = Arc::new(AtomicUsize::new(0));
        for room in [0, 100] {
            let mut tasks = Vec::with_capacity(room);
            for index in 0..100_usize {
                let (guard, ran) = (Guard(Arc::clone(&drops)), Arc::clone(&ran));
                if index % 2 == 0 {
                    Task::push_new(&mut tasks, move || {
                        let _guard = guard;
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                } else {
                    let large = [index; 8];
                    Task::push_new(&mut tasks, move || {
                        let _guard = guard;
                        ran.fetch_add(large.len() - 7, Ordering::Relaxed);
                    });
                }
            }
            tasks.drain(..60).for_each(Task::run);
        }
        assert_eq!((ran.load(Ordering::Relaxed), drops.load(Ordering::Relaxed)), (120, 200));
    }

    #[test]
    fn a_panic_drops_the_closure_once() {
        for words in [1_usize, 100] {
            let drops = Arc::new(AtomicUsize::new(0));
            let guard = Guard(Arc::clone(&drops));
            let big = [words; 50];
            let task = if words == 1 {
                Task::new(move || {
                    let _guard = guard;
                    std::panic::resume_unwind(Box::new(()));
                })
            } else {
                Task::new(move || {
                    let _guard = guard;
                    std::panic::resume_unwind(Box::new(big));
                })
            };
            assert!(task.run_caught().is_err());
            assert_eq!(drops.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn a_closure_with_a_large_alignment_is_boxed() {
        #[repr(align(64))]
        struct Aligned(u8);
        let value = Aligned(7);
        let task = Task::new(move || {
            let value = value;
            assert_eq!((&raw const value).addr() % 64, 0);
            assert_eq!(value.0, 7);
        });
        task.run();
    }

    #[test]
    fn a_task_is_four_words() {
        assert_eq!(size_of::<Task>(), 4 * size_of::<usize>());
        assert!(fits::<[usize; 3]>() && !fits::<[usize; 4]>() && !fits::<u128>());
    }
}
