//! A program tells how far it is, is stopped when it must be, and leaves nothing behind.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::support::{
    LEVELS, folder, processes_with, run, shell, tools, unique_sleep, until, words,
};
use divvy::extract::Cancel;
use divvy_video::tools::sandbox::Level;
use divvy_video::tools::{RunError, Step, ToolOptions, Tools};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[tokio::test]
async fn a_worker_offers_what_its_tools_can_do() {
    let tools = tools().await;
    let offered = tools.capabilities();
    assert_eq!(offered[0], format!("ffmpeg={}", tools.build()));
    assert!(tools.build().contains("-x264."), "{}", tools.build());
    for wanted in ["sandbox=bwrap", "encoder.libx264", "encoder.aac", "filter.fps", "filter.scale"]
    {
        assert!(offered.iter().any(|name| name == wanted), "{wanted} in {offered:?}");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "=._-".contains(c);
    assert!(offered.iter().all(|name| name.len() <= 128 && name.chars().all(plain)), "{offered:?}");
}

#[tokio::test]
async fn an_ffmpeg_that_is_missing_or_broken_is_found_out_at_start() {
    let work = folder();
    let find = async |ffmpeg: &Path| {
        let launcher = vec![env!("CARGO_BIN_EXE_divvy-confine").into()];
        let ffmpeg = Some(ffmpeg.to_owned());
        Tools::find(&ToolOptions { ffmpeg, launcher, ..ToolOptions::default() }).await.unwrap_err()
    };
    let missing = find(&work.path().join("nowhere")).await;
    assert!(matches!(missing, RunError::Missing { .. }), "{missing}");
    let fake = work.path().join("ffmpeg");
    let script = "#!/bin/sh\ncase \"$2\" in -version) echo ffmpeg version 1.0;; esac\n";
    write_program(&fake, script);
    let broken = find(&fake).await;
    assert!(matches!(broken, RunError::Broken { .. }), "{broken}");
}

#[tokio::test]
async fn a_machine_without_a_sandbox_is_refused_unless_that_is_allowed() {
    let work = folder();
    let launcher = work.path().join("launcher");
    // A launcher for which no sandbox works.
    let real = env!("CARGO_BIN_EXE_divvy-confine");
    let script =
        format!("#!/bin/sh\ncase \"$1\" in *level*none*) exec {real} \"$@\";; esac\nexit 1\n");
    write_program(&launcher, &script);
    let mut options = ToolOptions { launcher: vec![launcher.into()], ..ToolOptions::default() };
    let refused = Tools::find(&options).await.unwrap_err();
    let RunError::Unconfined { problem } = &refused else { panic!("{refused:?}") };
    assert!(problem.contains("bwrap: ") && problem.contains("landlock: "), "{problem}");
    options.allow_unconfined = true;
    let tools = Tools::find(&options).await.unwrap();
    assert!(tools.capabilities().contains(&"sandbox=none".to_owned()));
}

#[tokio::test]
async fn progress_arrives_and_never_goes_back() {
    let tools = tools().await;
    let work = folder();
    let encode =
        "-f lavfi -i testsrc2=size=320x180:rate=25:duration=2 -c:v libx264 -preset ultrafast a.mp4";
    let mut steps: Vec<Step> = Vec::new();
    let tell = |step| steps.push(step);
    let invocation = tools.ffmpeg(work.path(), words(encode));
    let done = tools.run(invocation, &Cancel::never(), tell).await.unwrap();
    assert_eq!(steps.last().map(|step| step.frames), Some(50));
    assert!(steps.is_sorted_by_key(|step| (step.frames, step.out_us)), "{steps:?}");
    assert!(done.output.is_empty(), "progress is not output");
    assert!(done.cpu > Duration::ZERO && work.path().join("a.mp4").exists());
}

#[tokio::test]
async fn a_program_that_hangs_is_stopped() {
    let tools = tools().await;
    let work = folder();
    for level in LEVELS {
        let sleep = unique_sleep();
        let mut hang = shell(work.path(), &format!("echo begun; sleep {sleep}"));
        hang.limits.stall = Duration::from_millis(300);
        let stopped = run(&tools.clone().confined_by(level), hang).await.unwrap_err();
        let RunError::Stopped { problem, .. } = &stopped else { panic!("{level}: {stopped:?}") };
        assert!(problem.contains("no progress"), "{level}: {problem}");
        assert_eq!(processes_with(&sleep), [], "{level}");
    }
}

#[tokio::test]
async fn a_silent_program_that_works_is_left_alone_and_its_time_is_counted() {
    let tools = tools().await;
    let work = folder();
    // The work is done by a child of the program, which bubblewrap puts behind two processes of its own.
    let mut busy = shell(work.path(), "(while ((SECONDS < 3)); do :; done); true");
    busy.limits.stall = Duration::from_secs(1);
    let done = run(&tools.confined_by(Level::Bwrap), busy).await.unwrap();
    assert!(done.wall >= Duration::from_secs(1), "{:?}", done.wall);
    assert!(done.cpu >= Duration::from_millis(200), "{:?}", done.cpu);
}

#[tokio::test]
async fn a_program_that_takes_too_long_or_prints_too_much_is_stopped() {
    let tools = tools().await;
    let work = folder();
    let mut long = shell(work.path(), "while sleep 0.05; do echo alive; done");
    long.limits.wall = Duration::from_millis(500);
    let stopped = run(&tools, long).await.unwrap_err().to_string();
    assert!(stopped.contains("more than 0.5 s"), "{stopped}");
    let stopped = run(&tools, shell(work.path(), "cat /dev/zero")).await.unwrap_err().to_string();
    assert!(stopped.contains("printed more than"), "{stopped}");
}

#[tokio::test]
async fn the_way_a_program_ended_is_told() {
    let tools = tools().await;
    let work = folder();
    for level in LEVELS {
        let tools = tools.clone().confined_by(level);
        for (script, expected) in [("exit 3", "exit code 3"), ("kill -SEGV $$", "signal 11")] {
            let script = format!("echo oh no >&2; {script}");
            let failed = run(&tools, shell(work.path(), &script)).await.unwrap_err();
            let RunError::Failed { program, status, complaints } = failed else {
                panic!("{level}: {failed:?}")
            };
            assert_eq!((&*program, &*status, &*complaints), ("bash", expected, "oh no"), "{level}");
        }
        let mut absent = shell(work.path(), "true");
        absent.program = "/usr/bin/no-such-program".into();
        let failed = run(&tools, absent).await.unwrap_err();
        assert!(matches!(failed, RunError::Start { .. }), "{level}: {failed:?}");
        let mut unreadable = shell(work.path(), "true");
        unreadable.readable = vec![work.path().join("not-there")];
        let failed = run(&tools, unreadable).await.unwrap_err().to_string();
        assert!(failed.contains("not-there"), "{level}: {failed}");
    }
}

#[tokio::test]
async fn input_arrives_whole() {
    let tools = tools().await;
    let work = folder();
    for level in LEVELS {
        let tools = tools.clone().confined_by(level);
        let mut copy = shell(work.path(), "cat");
        copy.input = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let done = run(&tools, copy.clone()).await.unwrap();
        assert!(done.output == copy.input, "{level}");
        // A program that does not care for its input is no failure.
        copy.arguments = words("-c true");
        run(&tools, copy).await.unwrap();
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_leaves_no_process() {
    let tools = tools().await;
    let work = folder();
    for level in [Level::Bwrap, Level::Landlock, Level::None] {
        let sleep = unique_sleep();
        // It does not want to go, and has a child in a session of its own.
        let script = format!("trap '' TERM; setsid sleep {sleep} & sleep {sleep} & wait; wait");
        let tools = tools.clone().confined_by(level);
        let script = shell(work.path(), &script);
        let running = tokio::spawn(async move { run(&tools, script).await });
        until("the program runs", || sleepers(&sleep) == 2).await;
        running.abort();
        until("the program is gone", || processes_with(&sleep).is_empty()).await;
    }
}

#[tokio::test]
async fn what_a_program_leaves_behind_goes_with_it() {
    let tools = tools().await;
    let work = folder();
    for level in LEVELS {
        let sleep = unique_sleep();
        let script = format!("setsid sleep {sleep} & exit 0");
        run(&tools.clone().confined_by(level), shell(work.path(), &script)).await.unwrap();
        assert_eq!(processes_with(&sleep), [], "{level}");
    }
}

#[tokio::test]
async fn a_launcher_that_is_killed_takes_its_program_along() {
    let tools = tools().await;
    let work = folder();
    for level in [Level::Bwrap, Level::Landlock, Level::None] {
        let sleep = unique_sleep();
        let script = shell(work.path(), &format!("exec sleep {sleep}"));
        let tools = tools.clone().confined_by(level);
        let running = tokio::spawn(async move { run(&tools, script).await });
        until("the program runs", || sleepers(&sleep) == 1).await;
        let launcher = processes_with(&sleep).into_iter().find(|(id, _)| parent(*id) == own_id());
        let (launcher, _) = launcher.expect("the launcher is a child of this process");
        kill(Pid::from_raw(launcher), Signal::SIGKILL).unwrap();
        until("the program is gone", || processes_with(&sleep).is_empty()).await;
        let ended = running.await.unwrap().unwrap_err();
        assert!(matches!(ended, RunError::Start { .. }), "{level}: {ended:?}");
    }
}

fn write_program(path: &Path, script: &str) {
    std::fs::write(path, script).expect("a program");
    std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a program");
}

fn sleepers(sleep: &str) -> usize {
    let found = processes_with(sleep);
    found.iter().filter(|(_, program)| program.ends_with("sleep")).count()
}

fn own_id() -> i32 {
    std::process::id().cast_signed()
}

fn parent(id: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').nth(1).and_then(|parent| parent.parse().ok()).unwrap_or(0)
}
