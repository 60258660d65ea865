//! Whole videos through the real binary: from a file to a folder of results, and what happens without ffmpeg.

use std::process::Command;

use crate::stack::{Folder, Server};

/// A clip of four seconds with sound, small enough for any machine.
fn clip(folder: &Folder) {
    let made = Command::new("ffmpeg")
        .args(
            "-nostdin -loglevel error -f lavfi -i testsrc2=s=320x180:r=25:d=4 -f lavfi -i sine=d=4"
                .split(' '),
        )
        .args(
            "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac -shortest clip.mp4"
                .split(' '),
        )
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(made.success());
}

#[test]
fn a_video_goes_from_a_file_to_a_folder_and_is_known_after_that() {
    let server = Server::up_with_videos(&["--slots", "process=2"]);
    clip(&server.folder);
    let add = ["video", "add", "clip.mp4", "--ladder", "180,90", "--preset", "ultrafast"];
    let ended = server.run(&[&add[..], &["--wait", "--json"]].concat()).expect(0);
    let view = ended.json().remove(0);
    assert_eq!((&view["state"], &view["title"]), (&"ready".into(), &"clip".into()), "{view}");
    let id = view["id"].as_str().unwrap();
    let known = server.run(&[&add[..], &["--json"]].concat()).expect(0).json().remove(0);
    assert_eq!((&known["known"], &known["video"]["id"]), (&true.into(), &id.into()), "{known}");
    let shown = server.run(&["video", "show", &id[..6]]).expect(0).stdout;
    assert!(shown.contains("320x180") && shown.contains("100%"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    server.run(&["video", "export", id, "out"]).expect(0);
    let probed = Command::new("ffprobe")
        .args("-v error -count_packets -select_streams v:0 -show_entries stream=nb_read_packets -of csv=p=0".split(' '))
        .arg("out/mp4/180p.mp4")
        .current_dir(server.folder.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&probed.stdout).trim().trim_end_matches(','), "100");
    let played = Command::new("ffmpeg")
        .args("-v error -i out/master.m3u8 -f null -".split(' '))
        .current_dir(server.folder.path())
        .output()
        .unwrap();
    assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
    server.run(&["video", "remove", id, "--yes"]).expect(0);
    assert_eq!(server.run(&["video", "list", "-q"]).expect(0).stdout, "");
    server.run(&["video", "show", id]).expect(4);
}

#[test]
fn a_corrupt_file_fails_with_its_reason_and_does_not_stop_the_others() {
    let server = Server::up_with_videos(&["--slots", "process=2"]);
    clip(&server.folder);
    server.folder.write("broken.mp4", "this is no video");
    let args = [
        "video",
        "add",
        "broken.mp4",
        "clip.mp4",
        "--ladder",
        "90",
        "--preset",
        "ultrafast",
        "--wait",
        "--json",
    ];
    let views = server.run(&args).expect(1).json();
    let states: Vec<&str> = views.iter().filter_map(|view| view["state"].as_str()).collect();
    assert_eq!(states, ["failed", "ready"]);
    assert!(views[0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{views:?}");
}

#[test]
fn without_ffmpeg_everything_else_works_and_the_cure_is_told() {
    let server = Server::up_with_videos(&["--ffmpeg", "/no/such/ffmpeg"]);
    assert!(server.said["video"].is_null(), "{}", server.said);
    server.run(&["submit", "noop", "--wait"]).expect(0);
    let folder = Folder::new();
    folder.write("divvy.yaml", "server: http://127.0.0.1:9\nserve: {listen: '127.0.0.1:0'}\nvideo: {ffmpeg: /no/such/ffmpeg}\n");
    let rows = folder.run(&["doctor", "--json"]).expect(0).json();
    let row = rows.iter().find(|row| row["check"] == "video").unwrap();
    assert_eq!(row["grade"], "note", "{row}");
    assert!(row["cure"].as_str().unwrap().contains("apt-get install ffmpeg"), "{row}");
    let error =
        folder.run(&["up", "--sample", "--once", "--listen", "127.0.0.1:0"]).expect(1).stderr;
    assert!(error.contains("--sample primes"), "{error}");
}
