//! A program, for any cloud. It gets one JSON object on its standard input and answers with one on its standard output:
//!
//! ```text
//! {"version":1,"pool":"encoders","wanted":{"small":3},"connected":{"small":1},
//!  "leave_first":{"small":["i-2","i-1"]},"reason":"…"}
//! {"workers":{"small":3}}
//! ```
//!
//! `workers` are those that are there or starting, without those that leave. No shell is involved. What it writes to
//! its standard error is told when it fails. It is killed when it takes too long or says too much.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use divvy_autoscale::Wanted;
use divvy_types::Name;
use divvy_types::cut::tail;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::{Answer, Order};

/// How long a program may take.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes that it may write to its standard output, and what is kept of its standard error.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
const TOLD_BYTES_MAX: usize = 500;

#[derive(Serialize)]
struct Question<'a> {
    version: u32,
    pool: &'a Name,
    wanted: &'a Wanted,
    connected: &'a Wanted,
    leave_first: &'a BTreeMap<Name, Vec<Name>>,
    reason: &'a str,
}

#[derive(Deserialize)]
struct Reply {
    workers: Wanted,
}

pub(super) async fn run(command: &[String], order: &Order) -> Answer {
    run_within(command, order, TIME_MAX).await
}

async fn run_within(command: &[String], order: &Order, within: Duration) -> Answer {
    let (program, arguments) = command.split_first().ok_or("driver.exec.command is empty")?;
    let question = serde_json::to_vec(&Question {
        version: 1,
        pool: &order.pool,
        wanted: &order.wanted,
        connected: &order.connected,
        leave_first: &order.leave_first,
        reason: &order.reason,
    })
    .map_err(|error| format!("the question for `{program}` cannot be written: {error}"))?;
    let mut child = Command::new(program)
        .args(arguments)
        // It is no business of the program who may use this server.
        .env_remove("DIVVY_TOKEN")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let talk = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read what it is told may still answer.
                let _ = stdin.write_all(&question).await;
            }
        };
        let ((), said, complained, status) =
            tokio::join!(write, read(stdout), read(stderr), child.wait());
        (said, complained, status)
    };
    let (said, complained, status) = tokio::time::timeout(within, talk)
        .await
        .map_err(|_| format!("`{program}` took longer than {within:?} and was killed"))?;
    let status = status.map_err(|error| format!("`{program}` cannot be waited for: {error}"))?;
    if !status.success() {
        let complained = String::from_utf8_lossy(&complained);
        let complained = tail(complained.trim(), TOLD_BYTES_MAX);
        return Err(format!("`{program}` failed ({status}): {complained}"));
    }
    if said.len() as u64 > OUTPUT_BYTES_MAX {
        return Err(format!("`{program}` answered with more than {OUTPUT_BYTES_MAX} bytes"));
    }
    let reply: Reply = serde_json::from_slice(&said).map_err(|error| {
        format!("`{program}` did not answer like {{\"workers\": {{\"TYPE\": 3}}}}: {error}")
    })?;
    Ok(reply.workers)
}

/// What comes, up to a byte more than is allowed; the rest is read and dropped, so that the program can end.
async fn read(from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let Some(mut from) = from else { return Vec::new() };
    let mut bytes = Vec::new();
    // A broken pipe ends it like the end.
    let _ = (&mut from).take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::pools::Pool;

    fn order() -> Order {
        Order {
            pool: "encoders".into(),
            settings: Pool::default(),
            wanted: [("small".into(), 3)].into(),
            connected: [("small".into(), 1)].into(),
            leave_first: [("small".into(), vec!["i-1".into()])].into(),
            reason: "a backlog".into(),
        }
    }

    /// A program that keeps what it was told, and then does this.
    fn program(folder: &tempfile::TempDir, text: &str) -> Vec<String> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.path().join("scale.sh");
        let told = folder.path().join("told");
        std::fs::write(&path, format!("#!/bin/sh\ncat > {}\n{text}\n", told.display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        vec![path.to_string_lossy().into_owned()]
    }

    #[tokio::test]
    async fn a_program_is_told_in_json_and_answers_in_json() {
        let folder = tempfile::tempdir().unwrap();
        let command = program(&folder, r#"echo '{"workers": {"small": 2, "large": 0}}'"#);
        let answer = run(&command, &order()).await.unwrap();
        assert_eq!(answer, [("small".into(), 2), ("large".into(), 0)].into());
        let told: serde_json::Value =
            serde_json::from_slice(&std::fs::read(folder.path().join("told")).unwrap()).unwrap();
        assert_eq!(
            told,
            serde_json::json!({
                "version": 1, "pool": "encoders", "wanted": {"small": 3}, "connected": {"small": 1},
                "leave_first": {"small": ["i-1"]}, "reason": "a backlog",
            })
        );
    }

    #[tokio::test]
    async fn a_program_that_fails_lies_or_dawdles_is_told_plainly() {
        let folder = tempfile::tempdir().unwrap();
        for (text, problem) in [
            ("echo no quota >&2; exit 3", "no quota"),
            ("echo hello", "did not answer like"),
            (r#"echo '{"workers": {"small": -1}}'"#, "did not answer like"),
            ("head -c 70000 /dev/zero", "more than 65536 bytes"),
        ] {
            let error = run(&program(&folder, text), &order()).await.unwrap_err();
            assert!(error.contains(problem) && error.contains("scale.sh"), "{text}: {error}");
        }
        let slow = program(&folder, "exec sleep 60");
        let error = run_within(&slow, &order(), Duration::from_millis(50)).await.unwrap_err();
        assert!(error.contains("took longer than 50ms"), "{error}");
        let error = run(&["/nowhere/at/all".to_owned()], &order()).await.unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
    }
}
