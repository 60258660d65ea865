//! `store check`, `backup` and `compact`, on data that a server wrote.

use std::io::{Read, Seek, SeekFrom, Write};

use crate::stack::Server;

#[test]
fn check_and_compact_need_the_server_to_be_stopped() {
    let server = Server::up(&[]);
    server.run(&["submit", "noop", "--count", "50", "--wait"]).expect(0);
    assert!(server.run(&["store", "check"]).expect(5).stderr.contains("in use"));
    server.run(&["store", "compact"]).expect(5);
    let (folder, _) = server.stop();
    let report = folder.run(&["store", "check", "--json"]).expect(0).json();
    assert_eq!(report[0]["tasks"], 50);
    assert!(report.iter().all(|file| file["problems"].as_array().unwrap().is_empty()));
    assert!(folder.run(&["store", "check"]).expect(0).stdout.starts_with("sound"));
    let sizes = folder.run(&["store", "compact", "--json"]).expect(0).json().remove(0);
    assert!(sizes["bytes_after"].as_u64().unwrap() > 0);
    folder.run(&["store", "check"]).expect(0);
}

#[test]
fn a_backup_is_taken_beside_a_running_server_and_can_be_served() {
    let server = Server::serve(&[]);
    let id = server.run(&["submit", "noop", "-q"]).expect(0).line().to_owned();
    assert_eq!(server.run(&["store", "backup", "copy"]).expect(0).line(), "copy");
    let refused = server.run(&["store", "backup", "copy"]);
    assert_ne!(refused.code, Some(0), "an existing copy must not be overwritten");
    let (folder, _) = server.stop();
    folder.run(&["store", "check", "--data", "copy"]).expect(0);
    let restored = Server::start(folder, &["serve", "--data", "copy"]);
    assert_eq!(restored.task(&id)["state"], "ready");
}

#[test]
fn a_restored_backup_serves_the_blobs_and_records_of_the_original() {
    let server = Server::serve(&[]);
    let bytes = b"a film that nobody wants to lose";
    let (id, blobs) =
        (blake3::hash(bytes).to_hex(), server.folder.path().join("divvy-data/objects"));
    let stored = divvy_objects::Folder::attach(&blobs).unwrap().put_blob(&mut &bytes[..]).unwrap();
    assert_eq!(stored.id.to_string(), id.as_str());
    fetch(&server.url, "PUT", "/api/v1/records/films/first", "{\"title\":\"A film\"}");
    let told = server.run(&["store", "backup", "copy", "--json"]).expect(0).json().remove(0);
    assert_eq!((told["object_files"].as_u64(), told["backup"].as_str()), (Some(2), Some("copy")));
    server.run(&["store", "backup", "next", "--since", "nowhere"]).expect(2);
    server.run(&["store", "backup", "next", "--since", "copy"]).expect(0);
    let task = server.run(&["submit", "noop", "-q", "--key", "late"]).expect(0);
    server.run(&["store", "backup", "last", "--since", "next"]).expect(0);
    server.run(&["store", "restore", "last"]).expect(5);
    let (folder, _) = server.stop();
    std::fs::remove_dir_all(folder.path().join("divvy-data")).unwrap();
    assert_eq!(folder.run(&["store", "restore", "last"]).expect(0).line(), "divvy-data");
    let checked = folder.run(&["store", "check", "--deep", "--json"]).expect(0).json();
    let objects = checked.last().unwrap();
    assert_eq!((&objects["objects"], &objects["records"]), (&1.into(), &1.into()));
    assert_eq!(objects["problem_count"], 0);
    let restored = Server::start(folder, &["serve"]);
    assert_eq!(restored.task(task.line())["state"], "ready");
    let blob = fetch(&restored.url, "GET", &format!("/api/v1/blobs/{id}"), "");
    assert!(blob.ends_with("a film that nobody wants to lose"), "{blob}");
    let record = fetch(&restored.url, "GET", "/api/v1/records/films/first", "");
    assert!(record.contains("A film"), "{record}");
}

/// An answer of a server that must be good, with its head.
fn fetch(url: &str, method: &str, path: &str, body: &str) -> String {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
    answer
}

#[test]
fn a_damaged_file_is_found_and_not_served() {
    let server = Server::serve(&[]);
    server.run(&["submit", "noop", "--count", "200"]).expect(0);
    let (folder, _) = server.stop();
    // Compacting puts everything into the main file, so that the damage cannot be healed from the log.
    folder.run(&["store", "compact"]).expect(0);
    let path = folder.path().join("divvy-data/divvy.db");
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    file.seek(SeekFrom::Start(length / 2)).unwrap();
    file.write_all(&[0xa5; 4_096]).unwrap();
    drop(file);
    let check = folder.run(&["store", "check"]).expect(1);
    folder.run(&["store", "backup", "of-damage"]).expect(1);
    assert!(!folder.path().join("of-damage").exists(), "half a backup has no name");
    let said = format!("{}{}", check.stdout, check.stderr);
    assert!(said.contains("divvy.db"), "{said}");
    let served = folder.run(&["serve", "--listen", "127.0.0.1:0"]).expect(1);
    assert!(
        served.stderr.contains("damaged") && served.stderr.contains("divvy.db"),
        "{}",
        served.stderr
    );
}
