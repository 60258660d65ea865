//! Playlists, files and the manifest, as players and the last check see them.

use super::bench::{Bench, Trial, tool};
use crate::keys::Key;
use crate::manifest::Part;
use crate::plan::{CaptionTrack, Captions};
use crate::recipe::SubtitleFile;
use crate::results;

fn packets(file: &std::path::Path, stream: &str) -> usize {
    let arguments =
        format!("-v error -select_streams {stream} -show_entries packet=pts -of csv {{}}");
    String::from_utf8(tool("ffprobe", &arguments, file).0).unwrap().lines().count()
}

#[tokio::test]
async fn a_packaged_video_plays_from_its_playlists_and_files() {
    let trial = Trial { preset: "veryfast", ..Trial::at(30, 1) };
    let mut bench = Bench::of("two_languages", &trial).await;
    // As players want it; files want three letters.
    bench.plan.tracks[1].language = "de".to_owned();
    bench.store().await;
    let manifest = bench.whole().await.unwrap();
    assert_eq!((manifest.frames, manifest.repaired, manifest.duration_ms), (60, 0, 2_000));
    assert_eq!(manifest.tracks.len(), 2);
    assert!(manifest.tracks.iter().all(|track| track.samples == 96_000));
    assert_eq!(manifest.subtitles, Part::Skipped { reason: "not asked for".to_owned() });
    let folder = bench.export(&manifest).await;
    let master = std::fs::read_to_string(folder.join("master.m3u8")).unwrap();
    assert!(master.contains("LANGUAGE=\"de\"") && master.contains("RESOLUTION=160x90"), "{master}");
    assert!(master.contains("CODECS=\"avc1.64") && master.contains("mp4a.40.2\""), "{master}");
    for (list, stream, count) in [
        ("v/180p/index.m3u8", "v:0", 60),
        ("v/90p/index.m3u8", "v:0", 60),
        ("a/0_eng/index.m3u8", "a:0", 95),
    ] {
        assert_eq!(packets(&folder.join(list), stream), count, "{list}");
    }
    let decode = "-v error -xerror -i {} -map 0 -f null -";
    for file in ["master.m3u8", "mp4/180p.mp4", "mp4/90p.mp4"] {
        let (_, complaints) = tool("ffmpeg", decode, &folder.join(file));
        assert_eq!(complaints, "", "{file}");
    }
    let entries =
        "-v error -show_entries stream=codec_type,duration:stream_tags=language -of csv {}";
    let (said, _) = tool("ffprobe", entries, &folder.join("mp4/180p.mp4"));
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("audio,2.000000,eng") && said.contains("audio,2.000000,deu"), "{said}");
    let mp4 = std::fs::read(folder.join("mp4/180p.mp4")).unwrap();
    let at = |kind: &[u8]| mp4.windows(4).position(|four| four == kind).unwrap();
    assert!(at(b"moov") < at(b"mdat"), "it does not play while it loads");
}

#[tokio::test]
async fn a_package_with_a_fault_is_refused_by_name() {
    let trial = Trial { rungs: vec![(160, 90)], ..Trial::at(30, 1) };
    let bench = Bench::of("silent", &trial).await;
    bench.encode(false).await.unwrap();
    let id = bench.package().await.unwrap();
    bench.verify(id).await.unwrap();
    let good = bench.manifest(id).await;
    let objects = bench.studio.objects();
    let place = |path: &str| good.files.iter().position(|file| file.path == path).unwrap();
    let segment = place("v/90p/seg_00001.m4s");
    let other = good.files[place("v/90p/seg_00000.m4s")].clone();
    let mut faults = Vec::new();
    let mut add = |words: &'static str, change: &dyn Fn(&mut crate::manifest::Manifest)| {
        let mut manifest = good.clone();
        change(&mut manifest);
        faults.push((words, manifest));
    };
    add("seg_00001.m4s, which is not there", &|manifest| {
        manifest.files.remove(segment);
    });
    add("seg_00001.m4s", &|manifest| manifest.files[segment].length += 1 << 40);
    add("has 59 frames, expected 60", &|manifest| manifest.renditions[0].frames = 59);
    add("is not stored", &|manifest| {
        manifest.files[segment].blob = divvy::objects::BlobId::of(b"nothing");
    });
    add("mp4/90p.mp4 is missing", &|manifest| {
        manifest.files.retain(|file| !file.path.ends_with("mp4/90p.mp4"))
    });
    add("one name", &|manifest| manifest.files.push(other.clone()));
    for (words, manifest) in faults {
        let id = objects.put(serde_json::to_vec(&manifest).unwrap()).await.unwrap().id;
        let failure = bench.verify(id).await.unwrap_err();
        assert!(failure.message().contains(words), "{words}: {failure}");
        assert_eq!(failure.verdict(), divvy::types::FailureVerdict::Dead);
    }
}

#[tokio::test]
async fn a_segment_that_does_not_decode_is_found() {
    let trial = Trial { rungs: vec![(160, 90)], ..Trial::at(30, 1) };
    let bench = Bench::of("silent", &trial).await;
    bench.encode(false).await.unwrap();
    let id = bench.package().await.unwrap();
    let mut manifest = bench.manifest(id).await;
    let file = manifest.files.iter_mut().find(|file| file.path == "v/90p/seg_00000.m4s").unwrap();
    let mut bytes = bench.studio.objects().get(file.blob).await.unwrap();
    let end = (file.offset + file.length) as usize;
    bytes[end - 2_000..end].fill(0xff);
    file.blob = bench.studio.objects().put(bytes).await.unwrap().id;
    let id = bench.studio.objects().put(serde_json::to_vec(&manifest).unwrap()).await.unwrap().id;
    assert!(bench.verify(id).await.is_err());
}

#[tokio::test]
async fn parts_that_nobody_made_are_never_called_done() {
    let trial = Trial { rungs: vec![(160, 90)], ..Trial::at(30, 1) };
    let mut bench = Bench::of("one_frame", &trial).await;
    bench.plan.recipe.subtitles = Some("en".to_owned());
    bench.plan.recipe.scan = true;
    let source = bench.plan.probe.source.id;
    bench.plan.scan = Some(Key::of("scan", source, &1));
    bench.store().await;
    bench.encode(false).await.unwrap();
    let id = bench.package().await.unwrap();
    let manifest = bench.manifest(id).await;
    assert_eq!(manifest.subtitles, Part::Skipped { reason: "the video has no sound".to_owned() });
    assert_eq!(manifest.scan, Part::Failed { reason: "it has no result".to_owned() });
    assert_eq!(manifest.thumbnails, Part::default());
    assert!(manifest.findings.is_none() && !manifest.needs_review);
}

#[tokio::test]
async fn thumbnails_that_failed_are_noted_and_subtitles_of_all_sorts_are_tracks() {
    let trial = Trial { rungs: vec![(160, 90)], ..Trial::at(30, 1) };
    let mut bench = Bench::of("one_frame", &trial).await;
    let (objects, source) = (bench.studio.objects().clone(), bench.plan.probe.source.id);
    bench.plan.frames = Some(Key::of("frames", source, &1));
    let key = Key::of("captions", source, &1);
    let track = |name: &str| CaptionTrack { index: 2, language: "de".into(), name: name.into() };
    let tracks = vec![track("German"), track("Comments")];
    bench.plan.captions = Some(Captions { key: key.clone(), tracks });
    let vtt = objects.put(b"WEBVTT\n".to_vec()).await.unwrap();
    let caption = results::Caption { subtitles: vtt, cues: 0 };
    let made = results::Captions { tracks: vec![caption; 2], cost: results::Cost::default() };
    results::commit(&objects, source, &key, made).await.unwrap();
    let srt = b"1\n00:00:00,000 --> 00:00:09,000\n<b>Hallo</b>\n".to_vec();
    let file = objects.put(srt).await.unwrap().id;
    bench.plan.recipe.subtitle_files = vec![SubtitleFile { language: "de".into(), file }];
    bench.store().await;
    bench.encode(false).await.unwrap();
    let id = bench.package().await.unwrap();
    bench.verify(id).await.unwrap();
    let manifest = bench.manifest(id).await;
    assert_eq!(manifest.thumbnails, Part::Failed { reason: "it has no result".to_owned() });
    assert_eq!(manifest.captions, Part::Done { provider: "ffmpeg".to_owned() });
    let texts: Vec<_> = manifest.texts.iter().map(|text| (&*text.name, &*text.path)).collect();
    let expected =
        [("German", "subs/de.vtt"), ("German 2", "subs/de_2.vtt"), ("Comments", "subs/de_3.vtt")];
    assert_eq!(texts, expected);
    let folder = bench.export(&manifest).await;
    let given = std::fs::read_to_string(folder.join("subs/de.vtt")).unwrap();
    assert_eq!(given, "WEBVTT\n\n00:00:00.000 --> 00:00:00.034\nHallo\n");
    let master = std::fs::read_to_string(folder.join("master.m3u8")).unwrap();
    for name in
        ["NAME=\"German\"", "NAME=\"German 2\"", "subs/de_3.m3u8", "SUBTITLES=\"subtitles\""]
    {
        assert!(master.contains(name), "{name}: {master}");
    }
}
