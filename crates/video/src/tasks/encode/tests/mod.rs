//! From a clip to a checked package, with the real ffmpeg.

mod bench;
mod outputs;
mod sync;

use super::*;
use crate::probe::VideoStream;
use crate::tasks::corpus;
use bench::{Bench, Trial};

fn shapes(pieces: &[Piece]) -> Vec<u64> {
    pieces.iter().flat_map(|piece| &piece.fragments).map(|fragment| fragment.samples).collect()
}

/// Each clip with its rate and how many frames must come out, strictly, in every rung.
fn traps() -> Vec<(&'static str, Trial, u64)> {
    let variable: fn(&mut VideoStream) = |video| video.variable_rate = true;
    let plain = Trial { rungs: vec![(160, 90)], ..Trial::at(30, 1) };
    let clip = |name, frames| (name, plain.clone(), frames);
    let changed = |change| Trial { change, ..plain.clone() };
    vec![
        ("cfr30", Trial::at(30, 1), 120),
        ("cfr2997", Trial::at(30_000, 1_001), 90),
        ("vfr", Trial { change: variable, ..Trial::at(60, 1) }, 180),
        ("sparse", Trial { change: variable, ..Trial::at(10, 1) }, 40),
        ("rate_17_3", Trial::at(173, 10), 35),
        clip("one_frame", 1),
        clip("cover", 30),
        clip("late_video", 120),
        clip("open_gop", 120),
        clip("long_gop", 180),
        clip("all_intra", 60),
        ("matroska", Trial::at(24_000, 1_001), 72),
        clip("webm", 60),
        clip("transport", 60),
        clip("avi", 60),
        ("rotated", Trial { rungs: vec![(180, 320)], ..plain.clone() }, 60),
        ("odd_321x241", Trial { rungs: vec![(320, 240)], ..plain.clone() }, 30),
        ("tiny_1x1", Trial { rungs: vec![(16, 16)], ..plain.clone() }, 30),
        ("anamorphic", Trial { rungs: vec![(426, 180)], ..plain.clone() }, 30),
        ("hdr10", changed(|video| video.hdr = true), 30),
        ("interlaced", Trial { change: |video| video.interlaced = true, ..Trial::at(25, 1) }, 50),
    ]
}

#[tokio::test]
async fn odd_times_give_exactly_the_frames_of_the_grid() {
    check(&traps()[..10]).await;
}

#[tokio::test]
async fn odd_formats_give_exactly_the_frames_of_the_grid() {
    check(&traps()[10..]).await;
}

async fn check(traps: &[(&str, Trial, u64)]) {
    let mut problems = Vec::new();
    for &(name, ref trial, frames) in traps {
        let bench = Bench::of(name, trial).await;
        let found = bench.plan.probe.video.frames;
        if found.abs_diff(frames) > 1 {
            problems.push(format!("{name}: {found} frames planned, expected {frames}"));
        }
        if let Err(failure) = bench.encode(false).await {
            problems.push(format!("{name}: {failure}"));
            continue;
        }
        let expected: Vec<u64> =
            bench.plan.chunks.iter().flat_map(|c| segments(c, trial)).collect();
        for rung in 0..trial.rungs.len() {
            let pieces = bench.pieces(rung).await;
            if shapes(&pieces) != expected || pieces.iter().any(|piece| piece.repaired > 0) {
                problems.push(format!("{name}: {:?}, expected {expected:?}", shapes(&pieces)));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The frames of each segment of a chunk.
fn segments(chunk: &Chunk, trial: &Trial) -> Vec<u64> {
    let (frames, segment) = (chunk.span.frames(), u64::from(trial.segment));
    (0..frames.div_ceil(segment)).map(|n| segment.min(frames - n * segment)).collect()
}

#[tokio::test]
async fn chunks_show_the_same_frames_as_one_pass_and_cost_no_quality() {
    let whole = Trial { preset: "veryfast", segment: 30, chunk: 180, ..Trial::at(30, 1) };
    let mut bench = Bench::of("long_gop", &whole).await;
    let mut found = Vec::new();
    for chunk in [180, 60] {
        bench.replan(&Trial { chunk, ..whole.clone() }).await;
        bench.encode(false).await.unwrap();
        let pieces = bench.pieces(0).await;
        let size: u64 = pieces.iter().map(|piece| piece.media.size).sum();
        let mut file = bench.studio.objects().get(pieces[0].init.id).await.unwrap();
        for piece in &pieces {
            file.extend(bench.studio.objects().get(piece.media.id).await.unwrap());
        }
        let path = bench.folder.path().join(format!("{chunk}.mp4"));
        std::fs::write(&path, file).unwrap();
        let filter = format!("-v info -i {} -i {{}} -lavfi ssim -f null -", path.display());
        let (_, said) = bench::tool("ffmpeg", &filter, &bench.clip);
        let ssim = said.rsplit("All:").next().and_then(|rest| rest.split(' ').next());
        found.push((pieces[0].init, size as f64, ssim.unwrap().parse::<f64>().unwrap()));
    }
    let [(init, size, ssim), (chunked_init, chunked_size, chunked_ssim)] = found[..] else {
        panic!("two were made")
    };
    assert_eq!(init, chunked_init);
    assert!(ssim > 0.95, "{ssim}");
    assert!((ssim - chunked_ssim).abs() <= 0.001, "{ssim} {chunked_ssim}");
    assert!(chunked_size <= size * 1.01, "{size} {chunked_size}");
}

#[tokio::test]
async fn what_is_recorded_is_not_encoded_again() {
    let one = Trial { rungs: vec![(160, 90)], ..Trial::at(30, 1) };
    let mut bench = Bench::of("silent", &one).await;
    assert!(bench.encode(false).await.unwrap().iter().all(|made| !made.known && made.units > 0));
    let first = bench.pieces(0).await;
    assert!(bench.encode(false).await.unwrap().iter().all(|made| made.known));
    bench.replan(&Trial { rungs: vec![(320, 180), (160, 90)], ..one }).await;
    let again = bench.encode(false).await.unwrap();
    assert!(again.iter().all(|made| !made.known));
    assert_eq!(bench.pieces(1).await, first);
    let objects = bench.studio.objects();
    let source = bench.plan.probe.source.id;
    for piece in bench.pieces(0).await {
        assert_eq!(objects.blob(piece.media.id).await.unwrap(), Some(piece.media));
    }
    let records = objects.record_names(&crate::keys::results_of(source)).await.unwrap();
    assert_eq!(records.len(), 2 * bench.plan.chunks.len());
    assert_eq!(std::fs::read_dir(bench.folder.path().join("scratch")).unwrap().count(), 0);
}

#[tokio::test]
async fn damage_is_refused_at_first_and_then_repaired_with_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(corpus::make("cfr30")).unwrap();
    let data = bytes.windows(4).position(|kind| kind == b"mdat").unwrap();
    // Well inside of the second chunk, which begins at three eighths of the picture.
    let middle = data + (bytes.len() - data) / 2;
    bytes[middle..middle + 3_000].fill(0x55);
    let clip = folder.path().join("damaged.mp4");
    std::fs::write(&clip, bytes).unwrap();
    let bench = Bench::with(folder, clip, &Trial::at(30, 1)).await;
    assert!(bench.encode_one(0, false).await.is_ok());
    let failure = bench.encode_one(1, false).await.unwrap_err();
    assert_eq!(failure.verdict(), divvy::types::FailureVerdict::Retry, "{failure}");
    bench.encode_one(1, true).await.unwrap();
    bench.encode_one(2, true).await.unwrap();
    let repaired: Vec<u64> = bench.pieces(0).await.iter().map(|piece| piece.repaired).collect();
    assert!(repaired[0] == 0 && repaired[1] > 0 && repaired[2] == 0, "{repaired:?}");
}

#[test]
fn frames_with_faults_are_counted_and_what_the_search_for_streams_says_is_not() {
    let said = "[mpegts @ 0x5] [warning] Packet corrupt (stream = 0, dts = 244800).\n";
    assert_eq!(damaged_frames(said), 0);
    let said = format!(
        "{said}[warning] loss.ts: corrupt decoded frame in stream 0\n[h264 @ 0x5] [error] error while decoding MB 0 4\n\
         [warning] loss.ts: corrupt decoded frame in stream 0\n\
         [error] Error while decoding stream #0:0: Invalid data found when processing input\n"
    );
    assert_eq!(damaged_frames(&said), 3);
    assert_eq!(damaged_frames("[h264 @ 0x5] [error] error while decoding MB 0 4\n"), 1);
}

#[tokio::test]
async fn what_a_source_lacks_at_its_end_is_made_up_only_in_a_later_attempt() {
    let longer: fn(&mut VideoStream) = |video| video.frames += 60;
    let trial = Trial { change: longer, ..Trial::at(30, 1) };
    let bench = Bench::of("silent", &trial).await;
    assert_eq!(bench.plan.chunks.len(), 3);
    bench.encode_one(0, false).await.unwrap();
    let failure = bench.encode_one(2, false).await.unwrap_err();
    assert!(failure.message().contains("expected"), "{failure}");
    bench.encode_one(1, true).await.unwrap();
    bench.encode_one(2, true).await.unwrap();
    let repaired: Vec<u64> = bench.pieces(0).await.iter().map(|piece| piece.repaired).collect();
    assert_eq!(repaired, [0, 30, 30]);
}

#[tokio::test]
async fn a_plan_without_the_chunk_is_dead_at_once() {
    let bench = Bench::of("one_frame", &Trial::at(30, 1)).await;
    let failure = bench.encode_one(1, false).await.unwrap_err();
    assert_eq!(failure.verdict(), divvy::types::FailureVerdict::Dead);
}
