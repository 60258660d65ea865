//! The four tiers: where closures, futures and programs run, and what happens to programs that nobody waits for.

use std::future::Future;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use divvy_pool::JoinError;
use divvy_pool::tiers::{Options, ProcessError, Program, STDERR_BYTES_MAX, Tier, Tiers};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::runtime::Runtime;

fn tiers(options: Options) -> (Runtime, Tiers) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let tiers = Tiers::new(runtime.handle().clone(), options).unwrap();
    (runtime, tiers)
}

fn shell(script: &str) -> Program {
    Program::new("sh").args(["-c", script])
}

#[test]
fn closures_run_on_threads_of_their_tier() {
    let (_runtime, tiers) = tiers(Options::default());
    for (tier, prefix) in
        [(Tier::Blocking, "divvy-blocking-"), (Tier::Cpu, "divvy-cpu-"), (Tier::Async, "tokio")]
    {
        let run = || thread::current().name().unwrap().to_owned();
        let name = tiers.run_on(tier, run).unwrap().join().unwrap();
        assert!(name.starts_with(prefix), "{tier}: {name}");
    }
    let text = tiers.run_on(Tier::Process, || ()).unwrap_err().to_string();
    assert!(text.contains("run_process"), "{text}");
}

#[test]
fn the_blocking_tier_starts_threads_as_needed_and_stops_at_its_limit() {
    let (_runtime, tiers) = tiers(Options { blocking_threads: 8, ..Options::default() });
    assert_eq!(tiers.blocking().workers(), 1);
    // Eight closures that end only together need eight threads.
    let barrier = Arc::new(Barrier::new(8));
    let handles: Vec<_> = (0..8)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            tiers.run_on(Tier::Blocking, move || barrier.wait().is_leader()).unwrap()
        })
        .collect();
    let leaders = handles.into_iter().map(|handle| handle.join().unwrap());
    assert_eq!(leaders.filter(|leader| *leader).count(), 1);
    assert_eq!(tiers.blocking().workers(), 8);
    let handles: Vec<_> =
        (0..100).map(|n| tiers.run_on(Tier::Blocking, move || n).unwrap()).collect();
    assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<i32>(), 4950);
    assert_eq!(tiers.blocking().workers(), 8);
}

#[test]
fn a_burst_that_finds_the_only_thread_asleep_gets_all_the_threads_it_needs() {
    for round in 0..20 {
        let (_runtime, tiers) = tiers(Options { blocking_threads: 8, ..Options::default() });
        while tiers.blocking().load().sleeping == 0 {
            thread::yield_now();
        }
        // Each waits for the others, and gives up in the end so that the test fails rather than hangs.
        let met = Arc::new((Mutex::new(0), Condvar::new()));
        let handles: Vec<_> = (0..8)
            .map(|_| {
                let met = Arc::clone(&met);
                let meet = move || {
                    let mut count = met.0.lock().unwrap();
                    *count += 1;
                    met.1.notify_all();
                    let all = met.1.wait_timeout_while(count, Duration::from_secs(20), |n| *n < 8);
                    !all.unwrap().1.timed_out()
                };
                tiers.run_on(Tier::Blocking, meet).unwrap()
            })
            .collect();
        assert!(handles.into_iter().all(|handle| handle.join().unwrap()), "round {round}");
    }
}

#[test]
fn futures_give_values_panics_and_cancellations() {
    let (runtime, tiers) = tiers(Options::default());
    runtime.block_on(async {
        assert_eq!(tiers.run_on_async(async { 7 }).await.unwrap(), 7);
        let error = tiers.run_on_async(async { panic!("cold") }).await.unwrap_err();
        assert_eq!(error.panic_message(), Some("cold"));
        let waiting = tiers.run_on_async(std::future::pending::<()>());
        waiting.cancel();
        assert!(matches!(waiting.await, Err(JoinError::Cancelled)));
    });
}

#[test]
fn a_program_reads_its_input_and_gives_its_output() {
    let (runtime, tiers) = tiers(Options::default());
    let program = shell("cat; echo oops >&2; exit 3").input(*br#"{"a":1}"#);
    let output = runtime.block_on(tiers.run_process(program)).unwrap();
    assert_eq!(output.stdout, br#"{"a":1}"#);
    assert_eq!(output.stderr, b"oops\n");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_program_sees_a_clean_environment_and_no_shell() {
    let (runtime, tiers) = tiers(Options::default());
    let mut program = Program::new("env");
    program.environment.push(("EXTRA".into(), "1".into()));
    let output = runtime.block_on(tiers.run_process(program)).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"EXTRA") && names.contains(&"PATH"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
    let program = Program::new("printf").args(["%s", "$PATH; ls"]);
    let output = runtime.block_on(tiers.run_process(program)).unwrap();
    assert_eq!(output.stdout, b"$PATH; ls");
}

#[test]
fn too_much_output_is_refused_and_long_logs_are_cut() {
    let (runtime, tiers) = tiers(Options::default());
    let mut program = shell("yes");
    program.stdout_bytes_max = 1000;
    let error = runtime.block_on(tiers.run_process(program)).unwrap_err();
    assert!(matches!(error, ProcessError::TooMuchOutput { bytes_max: 1000, .. }), "{error}");
    let script =
        "i=0; while [ $i -lt 20000 ]; do echo 0123456789 >&2; i=$((i+1)); done; echo end >&2";
    let output = runtime.block_on(tiers.run_process(shell(script))).unwrap();
    assert_eq!(output.stderr.len(), STDERR_BYTES_MAX);
    assert!(output.stderr.ends_with(b"end\n"));
}

#[test]
fn a_program_that_cannot_start_is_named() {
    let (runtime, tiers) = tiers(Options::default());
    let error = runtime.block_on(tiers.run_process(Program::new("no-such-program"))).unwrap_err();
    assert!(error.to_string().starts_with("cannot start `no-such-program`"), "{error}");
    let many = Program::new("true").args((0..257).map(|n| n.to_string()));
    let error = runtime.block_on(tiers.run_process(many)).unwrap_err();
    assert!(error.to_string().contains("has 257 arguments, at most 256"), "{error}");
    let output = runtime.block_on(tiers.run_process(shell("kill -9 $$"))).unwrap();
    assert_eq!(output.status.signal(), Some(9));
}

#[test]
fn giving_up_kills_the_program_and_all_it_started() {
    let (runtime, tiers) = tiers(Options { processes: 1, ..Options::default() });
    let folder = tempfile::tempdir().unwrap();
    let (alive, begun) = (folder.path().join("alive"), folder.path().join("begun"));
    for path in [&alive, &begun] {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    // A grandchild holds the pipe `alive` open for as long as it lives.
    let script = format!(
        "sh -c 'exec 3>{}; echo x >{}; while :; do read line || sleep 1000; done' & wait",
        alive.display(),
        begun.display()
    );
    let mut running = Box::pin(tiers.run_process(shell(&script)));
    let mut context = Context::from_waker(Waker::noop());
    {
        let _on_runtime = runtime.enter();
        assert!(running.as_mut().poll(&mut context).is_pending());
    }
    let mut alive = std::fs::File::open(&alive).unwrap();
    std::fs::File::open(&begun).unwrap().read_to_string(&mut String::new()).unwrap();
    assert_eq!(tiers.processes_free(), 0);
    drop(running);
    // The read ends when nobody holds the other end: the grandchild is dead.
    assert_eq!(alive.read_to_string(&mut String::new()).unwrap(), 0);
    assert_eq!(tiers.processes_free(), 1);
}

#[test]
fn a_program_that_is_asked_to_stop_may_end_by_itself() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // It says that it is ready, and only then it is asked.
    let program =
        shell("trap 'echo bye; exit 7' TERM; echo ready >&2; while :; do sleep 0.01; done");
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let log = |stderr| async move {
        let mut lines = BufReader::new(stderr).lines();
        let first = lines.next_line().await.unwrap();
        ready.send(()).unwrap();
        while lines.next_line().await.unwrap().is_some() {}
        first
    };
    let stop = async { is_ready.await.unwrap() };
    let output = runtime.block_on(program.run(runtime.handle(), stop, log)).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), b"bye\n".as_slice()));
    assert_eq!(output.stderr.as_deref(), Some("ready"));
}

#[test]
fn no_more_programs_run_at_once_than_set() {
    let (runtime, tiers) = tiers(Options { processes: 2, ..Options::default() });
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    // Each fails if its two places are taken already: a place is a folder, which only one can make.
    let script = format!(
        "for place in 1 2; do if mkdir {0}-$place 2>/dev/null; then cat; rmdir {0}-$place; exit 0; fi; done; exit 1",
        mark.display()
    );
    let programs: Vec<_> = (0..12)
        .map(|_| tiers.run_on_async(tiers.run_process(shell(&script).input(*b"x"))))
        .collect();
    for program in programs {
        let output = runtime.block_on(program).unwrap().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"x".as_slice()));
    }
    assert_eq!(tiers.processes_free(), 2);
}
