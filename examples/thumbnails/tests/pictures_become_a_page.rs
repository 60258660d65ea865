//! The example as a whole: its binary serves, scales three pictures and shows them. And the guide says what the code is.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The start of every PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The binary, without settings from outside.
fn binary(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_divvy-thumbnails"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DIVVY_") {
            command.env_remove(name);
        }
    }
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    binary(folder, args).output().unwrap()
}

fn good(folder: &Path, args: &[&str]) -> String {
    let output = run(folder, args);
    let (said, wrong) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    assert!(output.status.success(), "{args:?}: {wrong:?}");
    said.unwrap()
}

/// A server that does not outlive its test.
struct Server(Child, String);

impl Server {
    fn up(folder: &Path) -> Self {
        let args = ["up", "--workers", "1", "--listen", "127.0.0.1:0", "--json"];
        let mut child = binary(folder, &args).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let server = Self(child, String::new());
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let url = said["url"].as_str().unwrap().to_owned();
        let mut server = server;
        server.1 = url;
        server
    }

    /// The body of an answer that must be good.
    fn get(&self, path: &str) -> Vec<u8> {
        let host = self.1.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        assert!(
            head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200"),
            "{path}: {head}"
        );
        answer.split_off(end)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its worker ends when it is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes a small picture.
fn picture(path: &Path, color: &str) {
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", &format!("color={color}:size=64x48")])
        .args(["-frames:v", "1"])
        .arg(path)
        .status();
    assert!(made.unwrap().success(), "{}", path.display());
}

#[test]
fn a_folder_of_pictures_becomes_a_page_of_thumbnails() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::create_dir(at.join("pictures")).unwrap();
    for (name, color) in [("a.png", "red"), ("b.png", "green"), ("c.jpg", "blue")] {
        picture(&at.join("pictures").join(name), color);
    }
    std::fs::write(at.join("divvy.yaml"), "thumbnails:\n  width: 32\n").unwrap();
    let server = Server::up(at);
    let said = good(at, &["thumbnails", "add", "pictures", "--wait", "--server", &server.1]);
    assert_eq!(said.trim(), "3 pictures");
    let listed = good(at, &["thumbnails", "list", "--json", "--server", &server.1]);
    let rows: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 3, "{listed}");
    let page = String::from_utf8(server.get("/thumbnails")).unwrap();
    for row in &rows {
        let (name, path) = (row["name"].as_str().unwrap(), row["path"].as_str().unwrap());
        assert!(page.contains(name) && page.contains(path), "{page}");
        let image = server.get(path);
        assert!(image.starts_with(PNG), "{path}");
        let width = u32::from_be_bytes(image[16..20].try_into().unwrap());
        let height = u32::from_be_bytes(image[20..24].try_into().unwrap());
        assert_eq!((width, height), (32, 24), "{path}");
    }
    // A picture in another width is another thumbnail.
    drop(server);
    std::fs::write(at.join("divvy.yaml"), "thumbnails:\n  width: 16\n").unwrap();
    let server = Server::up(at);
    good(at, &["thumbnails", "add", "pictures", "--wait", "--server", &server.1]);
    let listed = good(at, &["thumbnails", "list", "--json", "--server", &server.1]);
    assert_eq!(listed.lines().count(), 6, "{listed}");
    let home = String::from_utf8(server.get("/")).unwrap();
    assert!(home.contains("href=\"/thumbnails\""), "{home}");
    let figures = String::from_utf8(server.get("/metrics")).unwrap();
    assert!(figures.lines().any(|line| line == "thumbnails_added_total 3"), "{figures}");
}

#[test]
fn its_settings_checks_and_command_are_those_of_any_other_part() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let help = good(at, &["--help"]);
    assert!(help.contains("thumbnails") && !help.contains("video"), "{help}");
    good(at, &["config", "init"]);
    let file = std::fs::read_to_string(at.join("divvy.yaml")).unwrap();
    assert!(file.contains("#thumbnails:\n"), "{file}");
    std::fs::write(at.join("divvy.yaml"), "server: http://a:1\nthumbnails:\n  width: 8\n").unwrap();
    let wrong = run(at, &["config", "check"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.contains("divvy.yaml:3:10: thumbnails.width is 8, expected 16 to 1024"), "{said}");
    std::fs::write(at.join("divvy.yaml"), "thumbnail: {}\n").unwrap();
    let said = String::from_utf8(run(at, &["config", "check"]).stderr).unwrap();
    assert!(
        said.contains("divvy.yaml:1:1: unknown field `thumbnail`; did you mean `thumbnails`?"),
        "{said}"
    );
    std::fs::write(at.join("divvy.yaml"), "thumbnails: {width: 99}\n").unwrap();
    let shown = good(at, &["config", "show", "--origin"]);
    let row = shown.lines().find(|line| line.starts_with("thumbnails.width")).unwrap();
    assert!(row.contains("99") && row.ends_with("divvy.yaml"), "{row}");
    let checks = String::from_utf8(run(at, &["doctor", "--json"]).stdout).unwrap();
    assert!(checks.contains("\"check\":\"thumbnails\""), "{checks}");
}

#[test]
fn the_guide_shows_the_code_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = root.join("../../docs/guides/your-own-workload.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let code: Vec<String> = ["lib", "main", "workload", "settings", "tasks", "web", "command"]
        .map(|name| read(&format!("src/{name}.rs")))
        .into_iter()
        .chain([read("Cargo.toml")])
        .collect();
    let mut blocks = 0;
    for (number, block) in guide.split("```").enumerate().filter(|(number, _)| number % 2 == 1) {
        let Some((language, block)) = block.split_once('\n') else { continue };
        if !["rust", "toml"].contains(&language) {
            continue;
        }
        blocks += 1;
        for item in items(block) {
            let found = code.iter().any(|file| file.contains(&item));
            assert!(found, "block {number} is not in the code:\n{item}");
        }
    }
    assert!(blocks >= 12, "the guide has only {blocks} blocks");
}

/// What stands by itself in a block of code: what comes after an empty line and is indented belongs to what is before.
fn items(block: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for paragraph in block.trim_matches('\n').split("\n\n") {
        match items.last_mut() {
            Some(item) if paragraph.starts_with(' ') => {
                item.push_str("\n\n");
                item.push_str(paragraph);
            }
            _ => items.push(paragraph.to_owned()),
        }
    }
    items
}
