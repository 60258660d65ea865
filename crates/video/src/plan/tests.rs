//! Plans of made-up probes: what is in them, and which keys change with what.

use std::collections::BTreeSet;

use divvy::objects::{Blob, BlobId};
use proptest::prelude::*;

use super::*;
use crate::probe::{AudioStream, TextStream, VideoStream};

fn probe(seconds: u64) -> Probe {
    let frames = seconds * 30;
    let audio = |index, language: &str| AudioStream {
        index,
        codec: "aac".into(),
        channels: 2,
        language: language.into(),
        title: None,
    };
    Probe {
        source: Blob { id: BlobId::of(b"source"), size: 6 },
        copied_from: None,
        format: "matroska,webm".into(),
        video: VideoStream {
            index: 0,
            codec: "h264".into(),
            width: 1_920,
            height: 1_080,
            pixel_format: "yuv420p".into(),
            rate: FrameRate { frames: 30, seconds: 1 },
            frames,
            packets: frames,
            start_us: 0,
            variable_rate: false,
            interlaced: false,
            hdr: false,
            bt709: false,
            keyframes: (0..frames).step_by(250).collect(),
        },
        audio: vec![audio(1, "eng"), audio(2, "deu")],
        subtitles: Vec::new(),
    }
}

fn recipe() -> Recipe {
    Recipe { subtitles: Some("de".into()), scan: true, ..Recipe::default() }
}

fn providers() -> Providers {
    Providers { speech: Some("whisper 1".into()), scanner: Some("open_nsfw 1".into()) }
}

fn plan(probe: Probe, recipe: &Recipe) -> Plan {
    Plan::new(probe, recipe, "5.1.9", &providers()).unwrap()
}

/// Every key of a plan, by what it names.
fn keys(plan: &Plan) -> Vec<(String, Key)> {
    let mut keys = Vec::new();
    for chunk in &plan.chunks {
        for (rung, key) in plan.rungs.iter().zip(&chunk.keys) {
            keys.push((format!("encode {} {}", rung.name, chunk.span.from), key.clone()));
        }
    }
    keys.extend(plan.rungs.iter().map(|rung| (format!("mp4 {}", rung.name), rung.mp4.clone())));
    keys.extend(plan.tracks.iter().map(|t| (format!("audio {}", t.index), t.key.clone())));
    let single = [("frames", &plan.frames), ("subtitles", &plan.subtitles), ("scan", &plan.scan)];
    keys.extend(single.into_iter().filter_map(|(name, key)| Some((name.to_owned(), key.clone()?))));
    keys
}

/// The first words of the keys that are not the same in both.
fn changed(one: &Plan, other: &Plan) -> BTreeSet<String> {
    let (one, other) = (keys(one), keys(other));
    let only = |these: &[(String, Key)], those: &[(String, Key)]| -> Vec<String> {
        let missing = these.iter().filter(|(_, key)| those.iter().all(|(_, there)| there != key));
        missing.filter_map(|(name, _)| Some(name.split(' ').next()?.to_owned())).collect()
    };
    only(&one, &other).into_iter().chain(only(&other, &one)).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn subtitles_of_the_source_have_names_and_one_result() {
    let text = |index, language: &str, title: Option<&str>| TextStream {
        index,
        codec: "subrip".into(),
        language: language.into(),
        title: title.map(str::to_owned),
    };
    let picture = TextStream { codec: "hdmv_pgs_subtitle".into(), ..text(2, "fre", None) };
    let subtitles = vec![picture, text(3, "ger", None), text(4, "eng", Some("Songs"))];
    let with = plan(Probe { subtitles, ..probe(10) }, &recipe());
    let captions = with.captions.as_ref().unwrap();
    let found: Vec<_> =
        captions.tracks.iter().map(|it| (it.index, &*it.language, &*it.name)).collect();
    assert_eq!(found, [(3, "de", "German"), (4, "en", "Songs")]);
    let without = plan(probe(10), &recipe());
    assert_eq!(without.captions, None);
    assert_eq!(without.chunks, with.chunks, "the picture is the same");
}

#[test]
fn a_plan_has_rungs_chunks_tracks_and_what_is_wanted_beside() {
    let plan = plan(probe(60), &recipe());
    assert_eq!(plan.segment_frames, 60);
    assert_eq!(
        plan.rungs.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(),
        ["1080p", "720p", "480p"]
    );
    assert_eq!(plan.chunks.len(), 3);
    assert!(plan.chunks.iter().all(|chunk| chunk.keys.len() == 3));
    assert_eq!(
        plan.tracks.iter().map(|t| (t.index, t.language.as_str())).collect::<Vec<_>>(),
        [(1, "en"), (2, "de")]
    );
    assert!(plan.frames.is_some() && plan.subtitles.is_some() && plan.scan.is_some());
    assert_eq!(plan.speech_track().unwrap().index, 2);
    let all: BTreeSet<Key> = keys(&plan).into_iter().map(|(_, key)| key).collect();
    assert_eq!(all.len(), keys(&plan).len());
}

#[test]
fn what_is_not_wanted_or_cannot_be_has_no_key() {
    let mut silent = probe(60);
    silent.audio.clear();
    let bare = Recipe { thumbnails_ms: 0, scan: false, ..recipe() };
    let plan = plan(silent, &bare);
    assert!(plan.tracks.is_empty() && plan.subtitles.is_none() && plan.speech_track().is_none());
    assert!(plan.frames.is_none() && plan.scan.is_none());
    // Nobody to listen and nobody to look: a task for it would wait for ever.
    let alone = Plan::new(probe(60), &recipe(), "5", &Providers::default()).unwrap();
    assert!(alone.subtitles.is_none() && alone.scan.is_none() && alone.frames.is_some());
}

#[test]
fn a_plan_of_a_bad_recipe_is_refused() {
    let bad = Recipe { crf: 99, ..Recipe::default() };
    assert_eq!(Plan::new(probe(1), &bad, "5", &Providers::default()).unwrap_err().field, "crf");
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    let plan = plan(probe(60), &recipe());
    let text = serde_json::to_vec(&plan).unwrap();
    assert_eq!(serde_json::from_slice::<Plan>(&text).unwrap(), plan);
}

#[test]
fn each_setting_changes_only_the_keys_that_it_matters_to() {
    let base = plan(probe(60), &recipe());
    let of = |change: fn(&mut Recipe)| {
        let mut recipe = recipe();
        change(&mut recipe);
        changed(&base, &plan(probe(60), &recipe))
    };
    let everything_seen = set(&["encode", "mp4"]);
    assert_eq!(of(|_| ()), set(&[]));
    assert_eq!(of(|r| r.ladder = vec![480, 720, 1080]), set(&[]));
    assert_eq!(of(|r| r.flag_at = 0.5), set(&[]));
    assert_eq!(of(|r| r.crf = 20), everything_seen);
    assert_eq!(of(|r| r.preset = "fast".into()), everything_seen);
    assert_eq!(of(|r| r.chunk_ms = Some(8_000)), everything_seen);
    assert_eq!(of(|r| r.segment_ms = 4_000), set(&["encode", "mp4", "audio"]));
    assert_eq!(of(|r| r.audio_bitrate = 96_000), set(&["audio", "mp4"]));
    assert_eq!(of(|r| r.thumbnails_ms = 5_000), set(&["frames", "scan"]));
    assert_eq!(of(|r| r.subtitles = Some("en".into())), set(&["subtitles"]));
    assert_eq!(of(|r| r.scan = false), set(&["scan"]));
}

#[test]
fn a_new_provider_changes_its_own_branch_and_a_new_build_everything() {
    let base = plan(probe(60), &recipe());
    let of = |tools: &str, speech: &str, scanner: &str| {
        let providers = Providers { speech: Some(speech.into()), scanner: Some(scanner.into()) };
        changed(&base, &Plan::new(probe(60), &recipe(), tools, &providers).unwrap())
    };
    assert_eq!(of("5.1.9", "whisper 2", "open_nsfw 1"), set(&["subtitles"]));
    assert_eq!(of("5.1.9", "whisper 1", "open_nsfw 2"), set(&["scan"]));
    let all = set(&["audio", "encode", "frames", "mp4", "scan", "subtitles"]);
    assert_eq!(of("6.0", "whisper 1", "open_nsfw 1"), all);
}

#[test]
fn what_is_there_changes_the_keys_that_it_matters_to() {
    let base = plan(probe(60), &recipe());
    let of = |change: fn(&mut Probe)| {
        let mut probe = probe(60);
        change(&mut probe);
        changed(&base, &plan(probe, &recipe()))
    };
    let picture = set(&["encode", "frames", "mp4", "scan"]);
    let all = set(&["audio", "encode", "frames", "mp4", "scan", "subtitles"]);
    assert_eq!(of(|p| p.source.id = BlobId::of(b"other")), all);
    assert_eq!(of(|p| p.video.index = 3), picture);
    assert_eq!(of(|p| p.video.interlaced = true), picture);
    assert_eq!(of(|p| p.video.hdr = true), picture);
    assert_eq!(of(|p| p.video.variable_rate = true), picture);
    assert_eq!(of(|p| p.video.start_us = 1), all);
    assert_eq!(of(|p| p.video.rate = FrameRate { frames: 30_000, seconds: 1_001 }), all);
    assert_eq!(of(|p| p.video.packets = 1), set(&[]));
    assert_eq!(of(|p| p.video.codec = "hevc".into()), set(&[]));
    assert_eq!(of(|p| p.audio[1].language = "fra".into()), set(&["mp4", "subtitles"]));
}

proptest! {
    #[test]
    fn a_new_rung_leaves_the_others_as_they_were(
        seconds in 1_u64..300,
        rung in (8_u32..=500).prop_map(|half| half * 2),
    ) {
        let base = plan(probe(seconds), &recipe());
        let mut wanted = recipe();
        if !wanted.ladder.contains(&rung) {
            wanted.ladder.push(rung);
        }
        let more = plan(probe(seconds), &wanted);
        let there = keys(&more);
        for known in keys(&base) {
            prop_assert!(there.contains(&known), "{:?}", known);
        }
        let name = format!(" {rung}p");
        for (new, _) in there.iter().filter(|key| !keys(&base).contains(key)) {
            prop_assert!(new.contains(&name), "{}", new);
        }
    }

    #[test]
    fn equal_inputs_give_equal_plans_and_other_lengths_other_keys(
        one in 1_u64..200,
        other in 1_u64..200,
    ) {
        let (first, second) = (plan(probe(one), &recipe()), plan(probe(other), &recipe()));
        prop_assert_eq!(first == second, one == other);
        prop_assert_eq!(first.rungs[0].mp4 == second.rungs[0].mp4, one == other);
        prop_assert_eq!(first.tracks[0].key == second.tracks[0].key, one == other);
    }
}
