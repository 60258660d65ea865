//! Completions in a real shell, with a server and without one.

use std::process::Command;

use crate::stack::{Ended, Folder, Server, end};

/// What bash offers for a line, in the folder of a test. The function of the script is called as bash calls it.
fn offered(folder: &Folder, line: &str) -> Vec<String> {
    let script = folder.run(&["completions", "bash"]).expect(0).stdout;
    folder.write("completions.bash", &script);
    let mut bash = Command::new("bash");
    let body = r#"source completions.bash; COMP_LINE=$2; COMP_POINT=${#COMP_LINE}
        complete -p divvy >/dev/null && _divvy "$1" && printf '%s\n' "${COMPREPLY[@]}""#;
    bash.args(["--norc", "--noprofile", "-c", body, "bash", env!("CARGO_BIN_EXE_divvy"), line]);
    bash.current_dir(folder.path()).env("HOME", folder.path());
    bash.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DIVVY_") {
            bash.env_remove(name);
        }
    }
    let Ended { stdout, stderr, .. } = end(bash, "").expect(0);
    assert_eq!(stderr, "", "a shell that completes is silent");
    stdout.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect()
}

#[test]
fn bash_offers_the_names_that_the_server_knows() {
    let server = Server::up(&[]);
    let folder = Folder::new();
    // The worker is there.
    server.run(&["submit", "noop", "--queue", "mail", "--wait"]).expect(0);
    let id = server.run(&["submit", "noop", "--queue", "mail", "--in", "1h", "-q"]).expect(0);
    let id = id.line();
    server.run(&["queue", "pause", "reports"]).expect(0);
    server.run(&["queue", "pause", "two words"]).expect(0);
    server.run(&["limit", "set", "api", "--rate", "10/s"]).expect(0);
    let schedule = ["schedule", "set", "nightly", "--cron", "0 3 * * *", "--kind", "noop"];
    server.run(&schedule).expect(0);
    let ask = |rest: &str| offered(&folder, &format!("divvy --server {} {rest}", server.url));
    assert_eq!(
        ask("queue resume "),
        ["mail", "reports"],
        "a name with a space is for people to quote"
    );
    assert_eq!(ask("queue resume re"), ["reports"]);
    assert_eq!(ask("submit no"), ["noop"]);
    assert_eq!(ask("limit remove "), ["api"]);
    assert_eq!(ask("schedule show n"), ["nightly"]);
    assert_eq!(ask("task list --queue=ma"), ["mail"], "bash keeps what is before the sign");
    assert_eq!(ask("worker drain ").len(), 1);
    let short = &id[id.len() - 8..];
    assert_eq!(ask(&format!("task show {}", &short[..6])), [short]);
    assert_eq!(ask(&format!("logs {}", &id[..12])), [id]);
    assert_eq!(ask("video show "), [""; 0]);
}

#[test]
fn without_a_server_names_are_not_known_and_nothing_is_said() {
    let folder = Folder::new();
    let ask = |rest: &str| offered(&folder, &format!("divvy --server http://127.0.0.1:1 {rest}"));
    assert_eq!(ask("queue resume "), [""; 0]);
    assert_eq!(ask("task show 0"), [""; 0]);
    assert_eq!(ask("task list --state ru"), ["running"]);
    assert_eq!(ask("queue r"), ["resume", "rebalance"]);
}
