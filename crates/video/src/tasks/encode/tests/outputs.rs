//! Playlists, files and the manifest, as players and the last check see them.

use super::bench::{Bench, Trial, tool};
use crate::manifest::Part;

fn packets(file: &std::path::Path, stream: &str) -> usize {
    let arguments =
        format!("-v error -select_streams {stream} -show_entries packet=pts -of csv {{}}");
    String::from_utf8(tool("ffprobe", &arguments, file).0).unwrap().lines().count()
}

#[tokio::test]
async fn a_packaged_video_plays_from_its_playlists_and_files() {
    let trial = Trial { preset: "veryfast", ..Trial::at(30, 1) };
    let bench = Bench::of("two_languages", &trial).await;
    let manifest = bench.whole().await.unwrap();
    assert_eq!((manifest.frames, manifest.repaired, manifest.duration_ms), (60, 0, 2_000));
    assert_eq!(manifest.tracks.len(), 2);
    assert!(manifest.tracks.iter().all(|track| track.samples == 96_000));
    assert_eq!(manifest.subtitles, Part::Skipped { reason: "not asked for".to_owned() });
    let folder = bench.export(&manifest).await;
    let master = std::fs::read_to_string(folder.join("master.m3u8")).unwrap();
    assert!(
        master.contains("LANGUAGE=\"deu\"") && master.contains("RESOLUTION=160x90"),
        "{master}"
    );
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
    bench.plan.scan = Some(crate::keys::Key::of("scan", source, &1));
    bench.store().await;
    bench.encode(false).await.unwrap();
    let id = bench.package().await.unwrap();
    let manifest = bench.manifest(id).await;
    assert_eq!(manifest.subtitles, Part::Skipped { reason: "the video has no sound".to_owned() });
    assert_eq!(manifest.scan, Part::Failed { reason: "it has no result".to_owned() });
    assert!(manifest.findings.is_none() && !manifest.needs_review);
}
