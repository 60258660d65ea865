//! What becomes of input that is broken, packed, or not what it was.

use std::io::Write as _;

use serde_json::json;

use crate::alone::{file, run};
use crate::job::{InputFile, NewJob, OnError};

fn grep(input: InputFile, on_error: OnError) -> NewJob {
    let options = json!({"program": "grep", "settings": {"pattern": "a"}});
    NewJob { inputs: vec![input], options, on_error, ..NewJob::new("mapreduce") }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A zstd frame without data, of this kind and with so many bytes.
fn skippable(kind: u8, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x50 + kind, 0x2a, 0x4d, 0x18];
    frame.extend(u32::try_from(bytes).unwrap().to_le_bytes());
    frame.resize(frame.len() + bytes, b'a');
    frame
}

#[test]
fn packed_files_of_several_members_are_read_whole() {
    let place = tempfile::tempdir().unwrap();
    let zstd = |text: &[u8]| {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    };
    for (name, bytes) in [
        ("a.gz", [gzip(b"a1\na2\n"), gzip(b"a3\n")].concat()),
        ("a.zst", [zstd(b"a1\na2\n"), zstd(b"a3\n")].concat()),
        // pzstd begins with a frame to pass over, a seekable file ends with one.
        ("passed.zst", [skippable(0, 4), zstd(b"a1\na2\na3\n"), skippable(14, 300_000)].concat()),
        ("empty.zst", [skippable(5, 0), zstd(b"a1\na2\na3\n")].concat()),
    ] {
        let input = file(place.path(), name, &bytes);
        let ended = run(grep(input, OnError::Fail), place.path()).unwrap();
        assert_eq!(ended.joined(), b"a1\na2\na3\n", "{name}");
    }
}

#[test]
fn a_truncated_file_is_named_and_what_was_whole_can_be_kept() {
    let place = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let text: String = (0..20_000).map(|_| format!("a{}\n", random.u64(..))).collect();
    let packed = gzip(text.as_bytes());
    let input = file(place.path(), "cut.gz", &packed[..packed.len() / 2]);
    let error = run(grep(input.clone(), OnError::Fail), place.path()).unwrap_err();
    assert!(
        error.contains("cut.gz:") && error.contains("the gzip data is broken after"),
        "{error}"
    );
    assert!(error.contains("is the file whole?") && !error.contains("cut.gz:0:"), "{error}");
    let ended = run(grep(input, OnError::Skip), place.path()).unwrap();
    assert_eq!(ended.summary.data["skipped"], 1);
    let kept = ended.joined();
    assert!(!kept.is_empty() && text.as_bytes().starts_with(&kept), "only whole lines are kept");
    let cut = &skippable(0, 9)[..12];
    let broken = [("no.gz", &b"plain text"[..]), ("no.zst", b"plain text"), ("cut.zst", cut)];
    for (name, bytes) in broken {
        let error =
            run(grep(file(place.path(), name, bytes), OnError::Fail), place.path()).unwrap_err();
        assert!(error.contains("data is broken after 0 unpacked bytes"), "{error}");
    }
}

#[test]
fn a_line_that_is_not_utf8_is_named_by_its_number() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "a.txt", b"a1\na\xff2\na3\n\xc3\na5");
    let error = run(grep(input.clone(), OnError::Fail), place.path()).unwrap_err();
    assert!(error.contains("a.txt:2: byte 2 of the line is not UTF-8; correct it, or"), "{error}");
    let ended = run(grep(input, OnError::Skip), place.path()).unwrap();
    assert_eq!(ended.joined(), b"a1\na3\na5\n");
    let report = &ended.stages[0].parts[0].report;
    assert_eq!(report.skipped, 2);
    assert_eq!(report.first_skipped.iter().map(|skip| skip.line).collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn a_line_without_an_end_is_named_by_its_number() {
    let place = tempfile::tempdir().unwrap();
    let text = [b"a1\na2\n".to_vec(), vec![b'a'; 70 << 20]].concat();
    let error =
        run(grep(file(place.path(), "a.txt", &text), OnError::Fail), place.path()).unwrap_err();
    assert!(error.contains("a.txt:3: the line at byte 6 is longer than"), "{error}");
}

#[test]
fn a_file_that_has_changed_or_is_gone_ends_the_job() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "a.txt", b"a1\n");
    std::fs::write(&input.path, b"a1\na2\n").unwrap();
    let error = run(grep(input.clone(), OnError::Skip), place.path()).unwrap_err();
    assert!(
        error.contains("has changed since the job was started (3 bytes then, 6 now)"),
        "{error}"
    );
    std::fs::remove_file(&input.path).unwrap();
    let error = run(grep(input, OnError::Skip), place.path()).unwrap_err();
    assert!(error.contains("a.txt: there is no such file"), "{error}");
}

#[test]
fn small_files_share_a_part_and_large_ones_are_cut() {
    let input = |name: &str, bytes| InputFile { path: name.into(), bytes, modified_ms: 0 };
    let inputs = vec![
        input("/a", 400),
        input("/b", 500),
        input("/c", 300),
        input("/d", 2_500),
        input("/e.gz", 9_000),
    ];
    let options = json!({"program": "wordcount"});
    let new = NewJob { inputs, options, split_bytes: 1 << 10, ..NewJob::new("mapreduce") };
    let spec = new.check("x".into(), 0).unwrap();
    let plan: Vec<Vec<(u32, u64, u64)>> = super::plan(&spec)
        .iter()
        .map(|part| part.iter().map(|split| (split.file, split.from, split.to)).collect())
        .collect();
    assert_eq!(
        plan,
        [
            vec![(0, 0, 400), (1, 0, 500)],
            vec![(2, 0, 300)],
            vec![(3, 0, 833)],
            vec![(3, 833, 1_666)],
            vec![(3, 1_666, 2_500)],
            vec![(4, 0, u64::MAX)],
        ]
    );
    assert!(super::explain(&spec)[1].contains("1 of the files are packed"));
}
