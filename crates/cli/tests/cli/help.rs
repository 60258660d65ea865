//! Help, version, suggestions and completions.

use crate::stack::Folder;

const COMMANDS: &[&str] = &[
    "up",
    "serve",
    "work",
    "submit",
    "run",
    "wait",
    "explain",
    "logs",
    "task",
    "task list",
    "task show",
    "task cancel",
    "task retry",
    "queue",
    "queue list",
    "queue show",
    "queue pause",
    "queue resume",
    "queue set",
    "queue rebalance",
    "kind",
    "kind list",
    "worker",
    "worker list",
    "worker show",
    "worker status",
    "worker drain",
    "alert",
    "alert list",
    "alert silence",
    "alert test",
    "top",
    "limit",
    "limit list",
    "limit set",
    "limit remove",
    "workflow",
    "workflow list",
    "workflow show",
    "workflow cancel",
    "workflow resume",
    "dead",
    "dead list",
    "dead replay",
    "dead drop",
    "schedule",
    "schedule set",
    "schedule list",
    "schedule show",
    "schedule pause",
    "schedule resume",
    "schedule remove",
    "schedule trigger",
    "schedule preview",
    "video",
    "video add",
    "video list",
    "video show",
    "video wait",
    "video open",
    "video export",
    "video remove",
    "video sweep",
    "video cancel",
    "video approve",
    "video provider",
    "video provider list",
    "video provider install",
    "video sample",
    "flow provider",
    "flow provider list",
    "flow provider install",
    "status",
    "events",
    "doctor",
    "config",
    "config show",
    "config check",
    "config init",
    "settings",
    "settings show",
    "settings check",
    "store",
    "store check",
    "store backup",
    "store restore",
    "store compact",
    "token",
    "token create",
    "token list",
    "token revoke",
    "cert",
    "cert new",
    "bench scheduler",
    "bench video",
    "lab",
    "lab list",
    "lab run",
    "plan",
    "completions",
];

#[test]
fn every_command_has_help_with_an_example_that_fits_80_columns() {
    let folder = Folder::new();
    for command in COMMANDS {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = folder.run(&args).expect(0);
        assert!(help.stderr.is_empty(), "{command}");
        assert!(help.stdout.contains("Example"), "{command} has no example:\n{}", help.stdout);
        assert!(help.stdout.contains("Global options"), "{command}");
        for line in help.stdout.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
    }
}

#[test]
fn divvy_alone_prints_help_with_the_first_steps() {
    let folder = Folder::new();
    let help = folder.run(&[]).expect(0);
    for words in ["divvy up --sample", "divvy submit noop --wait", "divvy status", "Exit codes"] {
        assert!(help.stdout.contains(words), "{words}:\n{}", help.stdout);
    }
    assert!(!help.stdout.contains("sample-step"), "an inner command is shown");
    assert!(folder.run(&["--version"]).expect(0).stdout.starts_with("divvy "));
}

#[test]
fn commands_stand_in_the_order_of_their_use_and_say_what_they_do() {
    let folder = Folder::new();
    let help = folder.run(&[]).expect(0).stdout;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .collect();
    let names: Vec<&str> = commands
        .iter()
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names[..4], ["up", "serve", "work", "submit"], "{help}");
    let video = names.iter().position(|name| *name == "video").unwrap();
    assert_eq!(
        names[video..video + 3],
        ["video", "crawl", "flow"],
        "workloads stand together: {help}"
    );
    for (command, about) in
        [("up", "Start a server with local workers"), ("work", "Start a worker")]
    {
        let line =
            commands.iter().find(|line| line.trim_start().starts_with(&format!("{command} ")));
        assert!(line.is_some_and(|line| line.contains(about)), "{command}: {help}");
        let own = folder.run(&[command, "--help"]).expect(0).stdout;
        assert!(own.starts_with(about), "{own}");
    }
}

#[test]
fn a_mistyped_command_or_flag_is_corrected() {
    let folder = Folder::new();
    assert!(folder.run(&["sumbit", "noop"]).expect(2).stderr.contains("submit"));
    assert!(folder.run(&["task", "lst"]).expect(2).stderr.contains("list"));
    assert!(
        folder.run(&["submit", "noop", "--priorty", "3"]).expect(2).stderr.contains("--priority")
    );
    let json = folder.run(&["submit", "--json"]).expect(2).json_error();
    assert_eq!((&json["code"], &json["exit"]), (&"usage".into(), &2.into()));
}

#[test]
fn completions_know_the_commands() {
    let folder = Folder::new();
    for shell in ["elvish", "powershell"] {
        let script = folder.run(&["completions", shell]).expect(0).stdout;
        assert!(script.contains("replay") && script.contains("optional-after"), "{shell}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.run(&["completions", shell]).expect(0).stdout;
        assert!(script.contains(&format!("complete-words {shell}")), "{shell}");
    }
    folder.run(&["completions", "tcsh"]).expect(2);
}

#[test]
fn the_guide_has_an_example_of_every_command() {
    let guide = include_str!("../../../../docs/guides/cli.md");
    for command in COMMANDS.iter().filter(|command| {
        ![
            "task",
            "queue",
            "worker",
            "limit",
            "alert",
            "dead",
            "schedule",
            "workflow",
            "config",
            "settings",
            "store",
            "token",
            "cert",
            "lab",
            "video",
            "video provider",
            "flow provider",
        ]
        .contains(command)
    }) {
        assert!(
            guide.contains(&format!("\ndivvy {command} "))
                || guide.contains(&format!("\ndivvy {command}\n")),
            "{command}"
        );
    }
}
