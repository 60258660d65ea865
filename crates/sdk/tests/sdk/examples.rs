//! Every example runs against a private server, and its output is what its text promises.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::support::TestServer;
use tokio::process::Command;

/// Longer than any example takes on a busy machine; only there so that a hanging one fails.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Where cargo put the example: beside the folder of the test binaries.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    let profile = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("test binaries are in a folder of the profile");
    let program = profile.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is missing; build it: cargo build -p divvy --examples",
        program.display()
    );
    program
}

async fn output_of(name: &str, server: Option<&str>) -> Output {
    let mut command = Command::new(program(name));
    command
        .env_remove("DIVVY_TOKEN")
        .env_remove("DIVVY_SERVER")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    if let Some(url) = server {
        command.env("DIVVY_SERVER", url);
    }
    let output = tokio::time::timeout(TIME_LIMIT, command.output()).await;
    output
        .unwrap_or_else(|_| panic!("example {name} did not end within {TIME_LIMIT:?}"))
        .expect("the example can be run")
}

async fn lines_of(name: &str) -> Vec<String> {
    let server = TestServer::start().await;
    let output = output_of(name, Some(&server.url())).await;
    server.stop().await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "example {name} failed with {}:\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn hello() {
    assert_eq!(lines_of("hello").await, ["hello, world"]);
}

#[tokio::test]
async fn workflow() {
    assert_eq!(lines_of("workflow").await, ["count words: 5 of 5 done", "6 words"]);
}

#[tokio::test]
async fn children() {
    assert_eq!(lines_of("children").await, ["sum of squares: 12 of 12 done", "the sum is 385"]);
}

#[tokio::test]
async fn failures() {
    let expected = [
        r#""42" is 42 after 1 attempts"#,
        r#""" is dead: there is nothing to parse"#,
        r#""busy" is 1 after 2 attempts"#,
        r#""x" is dead: invalid digit found in string"#,
    ];
    assert_eq!(lines_of("failures").await, expected);
}

#[tokio::test]
async fn progress() {
    assert_eq!(lines_of("progress").await, ["the task is leased", "cancelled: nobody watches it"]);
}

#[tokio::test]
async fn checkpoints() {
    let expected = ["attempt 2 began at page 7: 1000 rows in all"];
    assert_eq!(lines_of("checkpoints").await, expected);
}

#[cfg(feature = "testing")]
#[tokio::test]
async fn testing() {
    let output = output_of("testing", None).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "late knows\n4 tasks, 7 days later\n");
}

#[tokio::test]
async fn without_a_server_an_example_says_what_to_do() {
    // A port that was free a moment ago, and that nobody listens on.
    let url = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let output = output_of("hello", Some(&url)).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains(&url) && errors.contains("divvy up"), "{errors}");
}
