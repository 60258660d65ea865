//! `divvy video`: what is refused before anything is sent, and what needs no server.

use crate::stack::Folder;

/// Nothing listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

#[test]
fn what_cannot_be_added_is_told_with_its_name_before_a_server_is_asked() {
    let folder = Folder::new();
    folder.write("empty.mp4", "");
    folder.write("a.mp4", "x");
    for (args, code, word) in [
        (&["missing.mp4"][..], 4, "missing.mp4"),
        (&["a.mp4", "missing.mp4"], 4, "missing.mp4"),
        (&["empty.mp4"], 2, "empty.mp4 is empty"),
        (&["."], 2, "name the files in it: divvy video add ./*"),
        (&["-"], 2, "write it to a file and add that"),
        (&["/dev/null"], 2, "/dev/null is a pipe or a device"),
        (&["ftp://example.org/a.mp4"], 2, "only http:// and https:// addresses and files"),
        (&["file:///a.mp4"], 2, "leave file:// away"),
        (&["https://"], 2, "is not an address"),
        (&["a.mp4", "a.mp4", "--title", "T"], 2, "--title"),
        (&["a.mp4", "--ladder", "720,8"], 2, "has 8; give even heights"),
        (&["a.mp4", "--ladder", "481"], 2, "has 481; give even heights"),
        (&["a.mp4", "--preset", "slowest"], 2, "--preset is `slowest`"),
        (&["a.mp4", "--flag-at", "0.5"], 2, "--scan"),
        (&["a.mp4", "--scan", "--flag-at", "7"], 2, "--flag-at is 7"),
        (&["a.mp4", "--crf", "52"], 2, "52"),
        (&["a.mp4", "--crf", "0"], 2, "1..=51"),
        (&["a.mp4", "--subtitle-file", "missing.srt"], 2, "de=film.de.srt"),
        (&["a.mp4", "--priority", "6"], 2, "6"),
        (&["a.mp4", "--chunk", "20"], 2, "30s"),
        (&["a.mp4", "--thumbnails", "never"], 2, "off"),
        (&[], 2, "FILE|URL"),
    ] {
        let words = ["video", "add", "--server", NOWHERE].iter().chain(args);
        let ended = folder.run(&words.copied().collect::<Vec<_>>()).expect(code);
        assert!(ended.stderr.contains(word), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn without_a_server_each_command_ends_with_3() {
    let folder = Folder::new();
    let commands = [
        &["video", "list"][..],
        &["video", "show", "7k2m"],
        &["video", "open", "7k2m"],
        &["video", "wait", "7k2m4q8xw1zd"],
        &["video", "export", "7k2m", "out"],
        &["video", "remove", "7k2m", "--yes"],
        &["video", "sweep", "--dry-run"],
        &["video", "cancel", "7k2m"],
        &["video", "approve", "7k2m"],
        &["video", "add", "https://example.org/a.mp4"],
    ];
    // All at once: each waits a little for a server that may be starting.
    std::thread::scope(|scope| {
        for args in commands {
            let folder = &folder;
            scope.spawn(move || {
                let ended = folder.run(&[args, &["--server", NOWHERE]].concat()).expect(3);
                assert!(ended.stderr.contains("divvy up"), "{args:?}: {}", ended.stderr);
            });
        }
    });
    assert!(!folder.path().join("out").exists());
}

#[test]
fn an_export_does_not_touch_a_folder_with_something_in_it() {
    let folder = Folder::new();
    folder.write("mine", "x");
    let args = ["video", "export", "7k2m", ".", "--server", NOWHERE];
    let ended = folder.run(&args).expect(5);
    assert!(ended.stderr.contains("--force"), "{}", ended.stderr);
    let args = ["video", "export", "7k2m", "mine", "--force", "--server", NOWHERE];
    assert!(folder.run(&args).expect(5).stderr.contains("is a file"));
}

#[test]
fn providers_are_listed_and_a_mistyped_one_is_corrected() {
    let folder = Folder::new();
    let mut list = folder.command(&["video", "provider", "list", "--json"]);
    list.env("DIVVY_PROVIDERS", folder.path());
    let rows = crate::stack::end(list, "").expect(0).json();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["whisper", "open_nsfw"]);
    assert!(rows.iter().all(|row| row["installed"] == false), "{rows:?}");
    let error = folder.run(&["video", "provider", "install", "wisper"]).expect(2).stderr;
    assert!(error.contains("did you mean `whisper`?"), "{error}");
}

#[test]
fn a_clip_is_made_without_a_server() {
    let folder = Folder::new();
    let args = ["video", "sample", "a.mp4", "--seconds", "1", "--json"];
    let made = folder.run(&args).expect(0).json().remove(0);
    assert_eq!(made["file"], "a.mp4");
    let bytes = std::fs::metadata(folder.path().join("a.mp4")).unwrap().len();
    assert!(bytes > 1_000 && made["bytes"] == bytes, "{made}");
    let args = ["video", "sample", "b.mp4", "--ffmpeg", "/no/such/ffmpeg"];
    let error = folder.run(&args).expect(1).stderr;
    assert!(error.contains("/no/such/ffmpeg") && error.contains("install"), "{error}");
    assert!(
        folder.run(&["video", "sample", "b.mp4", "--seconds", "0"]).expect(2).stdout.is_empty()
    );
}

#[test]
fn settings_of_videos_have_their_layers_too() {
    let folder = Folder::new();
    folder.write("divvy.yaml", "video: {cache_size: 5GB, scratch: s, speech: whisper}\n");
    let mut show = folder.command(&["config", "show", "--json"]);
    show.env("DIVVY_CACHE_SIZE", "7GB").env("DIVVY_VIDEO", "false");
    let rows = crate::stack::end(show, "").expect(0).json();
    let value = |key: &str| {
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        row["value"].as_str().unwrap().to_owned()
    };
    assert_eq!((value("video.cache_size"), value("video.enabled")), ("7GB".into(), "false".into()));
    assert_eq!((value("video.speech"), value("video.scanner")), ("whisper".into(), "none".into()));
    assert!(value("video.scratch").ends_with("/s"), "relative to the file");
    let mut show = folder.command(&["config", "show"]);
    show.env("DIVVY_CACHE_SIZE", "7");
    assert!(crate::stack::end(show, "").expect(2).stderr.contains("DIVVY_CACHE_SIZE"));
}

#[test]
fn a_video_sample_without_videos_is_refused() {
    let folder = Folder::new();
    let error = folder.run(&["up", "--sample", "--no-video"]).expect(2).stderr;
    assert!(error.contains("--sample primes"), "{error}");
    assert!(!folder.path().join("divvy-data").exists(), "nothing was started");
    assert!(folder.run(&["up", "--video", "a.mp4"]).expect(2).stderr.contains("--sample"));
}
