//! A program reads what it was given, writes in its folder, and that is all.

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use crate::support::{LEVELS, complaints, folder, run, shell, tools, words};
use divvy_video::tools::RunError;
use divvy_video::tools::sandbox::Level;

#[tokio::test]
async fn a_program_reads_what_it_was_given_and_writes_in_its_folder() {
    let tools = tools().await;
    let (given, work) = (folder(), folder());
    let source = given.path().join("source");
    std::fs::write(&source, "words").unwrap();
    for level in LEVELS {
        let mut copy = shell(
            work.path(),
            &format!(
                "mkdir deep && cat {} > deep/copy && mv deep/copy copy && rmdir deep",
                source.display()
            ),
        );
        copy.readable = vec![source.clone()];
        run(&tools.clone().confined_by(level), copy).await.unwrap();
        let made = std::fs::read_to_string(work.path().join("copy")).unwrap();
        assert_eq!(made, "words", "{level}");
        std::fs::remove_file(work.path().join("copy")).unwrap();
    }
}

#[tokio::test]
async fn other_files_can_be_neither_read_nor_written() {
    let tools = tools().await;
    let (given, work) = (folder(), folder());
    let secret = given.path().join("secret");
    let source = given.path().join("source");
    for file in [&secret, &source] {
        std::fs::write(file, "words").unwrap();
    }
    for level in LEVELS {
        let tools = tools.clone().confined_by(level);
        let attempts = [
            format!("cat {}", secret.display()),
            format!("echo changed > {}", source.display()),
            format!("echo changed >> {}", source.display()),
            format!("rm {}", source.display()),
            "echo x > /usr/divvy-was-here".to_owned(),
            format!("cat /proc/{}/environ", std::process::id()),
        ];
        for attempt in attempts {
            let mut invocation = shell(work.path(), &attempt);
            invocation.readable = vec![source.clone()];
            complaints(run(&tools, invocation).await);
        }
        // Where /tmp is private this works, and changes nothing outside.
        let script = format!("echo x > {}/made; true", given.path().display());
        run(&tools, shell(work.path(), &script)).await.unwrap();
        assert!(!given.path().join("made").exists(), "{level}");
        assert_eq!(std::fs::read_to_string(&source).unwrap(), "words", "{level}");
    }
    let read = shell(work.path(), &format!("cat {}", secret.display()));
    let free = run(&tools.confined_by(Level::None), read).await.unwrap();
    assert_eq!(free.output, b"words", "it is the sandbox that refuses");
}

#[tokio::test]
async fn nobody_can_be_reached_over_the_network() {
    let tools = tools().await;
    let work = folder();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{}", tcp.local_addr().unwrap().port());
    let send = format!("echo x > /dev/udp/127.0.0.1/{}", udp.local_addr().unwrap().port());
    for level in LEVELS {
        complaints(run(&tools.clone().confined_by(level), shell(work.path(), &connect)).await);
        assert!(tcp.accept().is_err(), "{level}");
    }
    // Landlock knows nothing of this one: it needs a network of its own.
    let _ = run(&tools.clone().confined_by(Level::Bwrap), shell(work.path(), &send)).await;
    assert!(udp.recv(&mut [0; 8]).is_err());
    let free = tools.confined_by(Level::None);
    run(&free, shell(work.path(), &connect)).await.unwrap();
    run(&free, shell(work.path(), &send)).await.unwrap();
    assert!(
        tcp.accept().is_ok() && udp.recv(&mut [0; 8]).is_ok(),
        "it is the sandbox that refuses"
    );
}

#[tokio::test]
async fn the_environment_of_the_worker_is_not_passed_on() {
    let tools = tools().await;
    let work = folder();
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO")));
    for level in [Level::Bwrap, Level::Landlock, Level::None] {
        let done = run(&tools.clone().confined_by(level), shell(work.path(), "env")).await.unwrap();
        let printed = String::from_utf8(done.output).unwrap();
        assert!(printed.contains("HOME=") && !printed.contains("CARGO"), "{level}: {printed}");
    }
}

#[tokio::test]
async fn a_playlist_that_is_called_mp4_is_refused() {
    let tools = tools().await;
    let work = folder();
    let path = |name: &str| work.path().join(name);
    let make = "-f lavfi -i testsrc2=size=64x64:rate=10:duration=1 -c:v libx264 -preset ultrafast piece.ts";
    run(&tools, tools.ffmpeg(work.path(), words(make))).await.unwrap();
    let list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\npiece.ts\n#EXT-X-ENDLIST\n";
    std::fs::write(path("evil.mp4"), list).unwrap();
    std::fs::write(path("evil.mkv"), "ffconcat version 1.0\nfile piece.ts\n").unwrap();
    for name in ["evil.mp4", "evil.mkv"] {
        let mut probe = words("-show_format");
        probe.push(path(name).into());
        complaints(run(&tools, tools.ffprobe(work.path(), probe)).await);
        let mut copy = words("-i");
        copy.extend([path(name).into(), "-c".into(), "copy".into(), "stolen.ts".into()]);
        complaints(run(&tools, tools.ffmpeg(work.path(), copy)).await);
    }
    let mut probe = words("-show_format");
    probe.push(path("piece.ts").into());
    run(&tools, tools.ffprobe(work.path(), probe)).await.expect("an honest file is let in");
}

#[tokio::test]
async fn memory_and_processor_time_are_limited() {
    let tools = tools().await;
    let work = folder();
    for level in LEVELS {
        let tools = tools.clone().confined_by(level);
        let mut eat = shell(work.path(), "exec dd if=/dev/zero of=/dev/null bs=100M count=1");
        run(&tools, eat.clone()).await.expect("enough memory");
        eat.limits.memory_bytes = 64 << 20;
        assert!(complaints(run(&tools, eat).await).contains("memory"), "{level}");
        let mut spin = shell(work.path(), "while :; do :; done");
        spin.limits.cpu = Duration::from_secs(1);
        let stopped = run(&tools, spin).await.unwrap_err();
        let RunError::Stopped { problem, .. } = &stopped else { panic!("{level}: {stopped:?}") };
        assert!(problem.contains("processor time"), "{level}: {problem}");
    }
}
