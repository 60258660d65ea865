//! How a sink is told: a webhook by a POST that is signed as [Standard Webhooks](https://www.standardwebhooks.com) says, a
//! command by JSON on its standard input. Both get the same JSON:
//!
//! ```text
//! {"type": "divvy.alert.fired", "timestamp": "2026-01-02T03:04:05Z",
//!  "data": {"name": "oldest_wait", "state": "fired", "severity": "warning", "text": "…", "cure": "…", …}}
//! ```
//!
//! The signature is the HMAC-SHA256 of `ID.TIMESTAMP.BODY`, made anew for each attempt, so that a receiver may refuse old
//! ones. The id is the same for all attempts, also if the server was killed between two of them: who gets it twice knows that it is
//! a repetition. A command has it in `DIVVY_ALERT_ID`.

use std::process::Stdio;
use std::time::Duration;

use divvy_client::reqwest::header::CONTENT_TYPE;
use divvy_client::{Target, cause, plain};
use divvy_types::alerts::AlertChange;
use divvy_types::cut::tail;
use divvy_types::payload::to_base64;
use ring::hmac;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::options::{Command, Sink, Webhook, without_secrets};

/// How long an answer or a program may take.
const TELL_WITHIN: Duration = Duration::from_secs(15);
/// What is told of an answer or of a complaint.
const TOLD_BYTES_MAX: usize = 300;
/// Bytes of a complaint that are read.
const COMPLAINT_BYTES_MAX: u64 = 16 << 10;

/// Tells one sink; `id` names what is told, `now` is the time in seconds.
pub(super) async fn tell(
    sink: &Sink,
    id: &str,
    change: &AlertChange,
    now: u64,
) -> Result<(), String> {
    let body = json!({
        "type": format!("divvy.alert.{}", change.state.as_str()),
        "timestamp": change.at.to_string(),
        "data": change,
    });
    let body = body.to_string();
    let told = async {
        match sink {
            Sink::Webhook(hook) => post(hook, id, body, now).await,
            Sink::Command(command) => run(command, id, body, change).await,
        }
    };
    let late = |_| Err(format!("it took longer than {} s", TELL_WITHIN.as_secs()));
    tokio::time::timeout(TELL_WITHIN, told).await.unwrap_or_else(late)
}

async fn post(hook: &Webhook, id: &str, body: String, now: u64) -> Result<(), String> {
    let shown = without_secrets(&hook.url);
    let (client, _) = plain(&Target::new(&shown)).map_err(|error| error.to_string())?;
    let mut request = client
        .post(&hook.url)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", now);
    if let Some(key) = hook.key()? {
        request = request.header("webhook-signature", signature(&key, id, now, &body));
    }
    let answer = request.body(body).send().await;
    let answer = answer
        .map_err(|error| format!("{shown} cannot be reached: {}", cause(&error.without_url())))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let said = answer.text().await.unwrap_or_default();
    Err(format!("{shown} refused it ({status}): {}", tail(said.trim(), TOLD_BYTES_MAX)))
}

/// What a receiver checks.
fn signature(key: &[u8], id: &str, now: u64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let signed = hmac::sign(&key, format!("{id}.{now}.{body}").as_bytes());
    format!("v1,{}", to_base64(signed.as_ref()))
}

async fn run(
    command: &Command,
    id: &str,
    body: String,
    change: &AlertChange,
) -> Result<(), String> {
    let (program, arguments) = command.run.split_first().ok_or("its command is empty")?;
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .env("DIVVY_ALERT", change.name.as_str())
        .env("DIVVY_ALERT_STATE", change.state.as_str())
        .env("DIVVY_ALERT_ID", id)
        // It is no business of the program who may use this server.
        .env_remove("DIVVY_TOKEN")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read what it is told may still do its work.
            let _ = stdin.write_all(body.as_bytes()).await;
        }
    };
    let read = async {
        let mut complaint = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = (&mut stderr).take(COMPLAINT_BYTES_MAX).read_to_end(&mut complaint).await;
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        }
        String::from_utf8_lossy(&complaint).into_owned()
    };
    let ((), complaint, status) = tokio::join!(write, read, child.wait());
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "`{program}` failed ({status}): {}",
            tail(complaint.trim(), TOLD_BYTES_MAX)
        )),
        Err(error) => Err(format!("`{program}` cannot be waited for: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use divvy_types::Timestamp;
    use divvy_types::alerts::{AlertState, Severity};

    use super::*;

    /// The example of the standard, whose signature its own libraries make and accept.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        let key = divvy_types::payload::from_base64("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature(&key, id, 1_614_265_330, body), expected);
    }

    #[tokio::test]
    async fn a_command_gets_json_and_its_complaint_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let change = AlertChange {
            name: "disk_low".into(),
            state: AlertState::Fired,
            severity: Severity::Warning,
            at: Timestamp(1_767_225_600_000_000),
            since: Timestamp(1_767_225_600_000_000),
            value: 9.0,
            text: "9.0 % free".into(),
            cure: Some("free some".into()),
        };
        let run = |script: String| {
            let run = vec!["sh".to_owned(), "-c".to_owned(), script];
            Sink::Command(Command { run })
        };
        let sink =
            run(format!("(cat; echo $DIVVY_ALERT_STATE $DIVVY_ALERT_ID) > {}", told.display()));
        tell(&sink, "id-7", &change, 1).await.unwrap();
        let text = std::fs::read_to_string(told).unwrap();
        assert!(text.starts_with(r#"{"#) && text.contains("divvy.alert.fired"), "{text}");
        assert!(text.ends_with("fired id-7\n") && text.contains("2026-01-01T00:00:00"), "{text}");
        let sink = run("echo no pager >&2; exit 3".to_owned());
        let error = tell(&sink, "id", &change, 1).await.unwrap_err();
        assert!(error.contains("no pager"), "{error}");
    }
}
