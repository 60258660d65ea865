//! Thumbnails on sheets, and the poster.
//!
//! Decides how large tiles are and how many are on a sheet, and which frame stands for the video: the one after a tenth
//! of it, or, if that is black, the first thumbnail that is not.

use std::ffi::OsString;
use std::path::Path;

use divvy::objects::Blob;
use divvy::prelude::*;
use tokio::io::AsyncWriteExt as _;

use super::frames::{self, JPEG, made, no_picture, run, spent, sum};
use super::{Made, SpriteSheet};
use crate::keys::Key;
use crate::plan::Plan;
use crate::results::{self, Cost, Sprite, Stills};
use crate::studio::{Studio, failure};
use crate::webvtt::{self, Sheets};

/// Tiles beside and below each other on a full sheet.
const SIDE: u32 = 10;
/// The longer side of a tile.
const TILE: u32 = 192;
/// The longer side of the poster.
const POSTER: u32 = 1_280;
/// The size of the picture by which blackness is judged.
const SAMPLE: (u32, u32) = (32, 18);
const SAMPLE_BYTES: usize = (SAMPLE.0 * SAMPLE.1) as usize;
/// A pixel that is brighter is not black; one in so many must be.
const BRIGHT: u8 = 40;
const BRIGHT_SHARE: usize = 50;

/// Where the result of the sheets is, if the plan has thumbnails.
pub(crate) fn key(plan: &Plan) -> Option<Key> {
    let frames = plan.frames.as_ref()?;
    Some(Key::of("sprite", plan.probe.source.id, &(frames, SIDE, TILE, POSTER)))
}

pub(crate) async fn sprite_sheet(
    task: SpriteSheet,
    State(studio): State<Studio>,
    cancel: Cancel,
) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    arrange(&studio, &plan, &cancel).await
}

/// Arranges the thumbnails of a plan on sheets, unless they were.
async fn arrange(studio: &Studio, plan: &Plan, cancel: &Cancel) -> Outcome<Made> {
    let source = plan.probe.source.id;
    let (Some(frames), Some(key)) = (&plan.frames, key(plan)) else {
        return Err(Failure::dead("the plan has no thumbnails"));
    };
    if let Some(known) =
        results::find::<Sprite>(studio.objects(), source, &key).await.map_err(failure)?
    {
        return Ok(made(known.sheets.len(), bytes(&known), None));
    }
    let stills =
        results::find::<Stills>(studio.objects(), source, frames).await.map_err(failure)?;
    let stills = stills.ok_or_else(|| Failure::retry("the thumbnails are not there yet"))?;
    let (sheets, brightness, mut cost) = sheets(studio, plan, &stills, cancel).await?;
    let at_ms: Vec<u64> = stills.stills.iter().map(|still| still.at_ms).collect();
    let length_ms = plan.probe.video.rate.micros(plan.probe.video.frames).div_ceil(1_000);
    let index = webvtt::index(&at_ms, length_ms, layout(plan, at_ms.len()));
    let index = studio.objects().put(index.into_bytes()).await.map_err(failure)?;
    let first_bright =
        at_ms.iter().zip(&brightness).find(|(_, bright)| **bright).map(|(at, _)| *at);
    let (poster, spent) = poster(studio, plan, first_bright, cancel).await?;
    cost = sum(cost, spent);
    let sprite = Sprite { sheets, index, poster, cost };
    let made = made(sprite.sheets.len(), bytes(&sprite), Some(cost));
    results::commit(studio.objects(), source, &key, sprite).await.map_err(failure)?;
    Ok(made)
}

/// The sheets, and whether each thumbnail is more than black.
async fn sheets(
    studio: &Studio,
    plan: &Plan,
    stills: &Stills,
    cancel: &Cancel,
) -> Outcome<(Vec<Blob>, Vec<bool>, Cost)> {
    let folder = studio.folder()?;
    let all = folder.path().join("stills.mjpeg");
    let mut file = tokio::fs::File::create(&all).await?;
    for still in &stills.stills {
        cancel.check()?;
        let picture = studio.objects().get(still.picture.id).await.map_err(failure)?;
        file.write_all(&picture).await?;
    }
    file.flush().await?;
    let layout = layout(plan, stills.stills.len());
    let finished = run(studio.tools(), folder.path(), &all, tiling(&all, layout), cancel).await?;
    let mut sheets = Vec::new();
    let count = stills.stills.len().div_ceil((layout.columns * layout.rows) as usize);
    for number in 0..count {
        let path = folder.path().join(webvtt::sheet_name(number));
        if !path.exists() {
            return Err(no_picture(&finished));
        }
        sheets.push(studio.objects().put_file(&path).await.map_err(failure)?);
    }
    let samples = tokio::fs::read(folder.path().join("samples")).await?;
    let bright = samples.chunks(SAMPLE_BYTES).map(is_bright).collect();
    Ok((sheets, bright, spent(&finished)))
}

/// The poster. `instead` is when to take it if the frame after a tenth of the video is black.
async fn poster(
    studio: &Studio,
    plan: &Plan,
    instead: Option<u64>,
    cancel: &Cancel,
) -> Outcome<(Blob, Cost)> {
    let video = &plan.probe.video;
    let source = studio.objects().local_file(plan.probe.source.id).await.map_err(failure)?;
    let instead = instead.map(|at_ms| frames::frame_at(video.rate, at_ms));
    let mut cost = Cost::default();
    let mut taken = None;
    for frame in [Some(video.frames / 10), instead].into_iter().flatten() {
        let folder = studio.folder()?;
        let arguments = portrait(source.path(), plan, frame);
        let finished = run(studio.tools(), folder.path(), source.path(), arguments, cancel).await?;
        cost = sum(cost, spent(&finished));
        let path = folder.path().join("poster.jpg");
        if !path.exists() {
            return Err(no_picture(&finished));
        }
        taken = Some(studio.objects().put_file(&path).await.map_err(failure)?);
        if is_bright(&tokio::fs::read(folder.path().join("sample")).await?) {
            break;
        }
    }
    let poster = taken.expect("the first of two frames is always there");
    Ok((poster, cost))
}

/// As few columns and rows as hold the thumbnails, up to a full sheet.
fn layout(plan: &Plan, stills: usize) -> Sheets {
    let (width, height) = frames::fit(&plan.probe.video, TILE);
    let stills = u32::try_from(stills).unwrap_or(u32::MAX).max(1);
    let columns = (1..=SIDE).find(|side| side * side >= stills).unwrap_or(SIDE);
    Sheets { columns, rows: stills.div_ceil(columns).min(SIDE), width, height }
}

fn tiling(stills: &Path, sheets: Sheets) -> Vec<OsString> {
    let Sheets { columns, rows, width, height } = sheets;
    let (wide, high) = SAMPLE;
    let tiles = format!("scale={width}:{height}:flags=area,tile={columns}x{rows},format=yuvj420p");
    let sample = format!("scale={wide}:{high}:flags=area,format=gray");
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let mut arguments = words(&["-threads", "1", "-filter_threads", "1", "-f", "mjpeg", "-i"]);
    arguments.push(stills.into());
    arguments.extend(words(&["-map", "0:0", "-vf", &tiles, "-fps_mode", "passthrough"]));
    arguments.extend(words(&["-threads", "1", "-start_number", "0"]));
    arguments.extend(words(&JPEG));
    arguments.push("sprite_%03d.jpg".into());
    arguments.extend(words(&["-map", "0:0", "-vf", &sample, "-fps_mode", "passthrough"]));
    arguments.extend(words(&["-f", "rawvideo", "samples"]));
    arguments
}

fn portrait(source: &Path, plan: &Plan, frame: u64) -> Vec<OsString> {
    let video = &plan.probe.video;
    let (width, height) = frames::fit(video, POSTER);
    let filters = format!("{},{}", frames::on_grid(video), frames::jpeg(video, width, height));
    let (wide, high) = SAMPLE;
    let sample = format!("{filters},scale={wide}:{high}:flags=area,format=gray");
    let mut arguments: Vec<OsString> = vec!["-filter_threads".into(), "1".into()];
    arguments.extend(frames::seek(source, video, frame));
    arguments.extend(frames::map(0, video, &filters, 1));
    arguments.extend(JPEG.map(OsString::from));
    arguments.extend(["-update", "1", "poster.jpg"].map(OsString::from));
    arguments.extend(frames::map(0, video, &sample, 1));
    arguments.extend(["-f", "rawvideo", "sample"].map(OsString::from));
    arguments
}

fn is_bright(sample: &[u8]) -> bool {
    let bright = sample.iter().filter(|pixel| **pixel > BRIGHT).count();
    bright * BRIGHT_SHARE > sample.len()
}

fn bytes(sprite: &Sprite) -> u64 {
    let sheets: u64 = sprite.sheets.iter().map(|sheet| sheet.size).sum();
    sheets + sprite.index.size + sprite.poster.size
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{ENCODE, Fixture};
    use super::*;

    const COLOURS: [(&str, [i32; 3]); 3] =
        [("red", [255, 0, 0]), ("lime", [0, 255, 0]), ("blue", [0, 0, 255])];

    /// Colours one after the other, a second each, and a plan whose thumbnails were taken.
    async fn coloured(fixture: &Fixture, colours: &[&str]) -> Plan {
        let inputs: Vec<String> =
            colours.iter().map(|colour| format!("color={colour}:s=320x180:r=10:d=1")).collect();
        let mut arguments: Vec<&str> = Vec::new();
        for input in &inputs {
            arguments.extend(["-f", "lavfi", "-i", input]);
        }
        let joined = format!("concat=n={}", colours.len());
        arguments.extend(["-filter_complex", &joined]);
        arguments.extend(ENCODE);
        let plan = fixture.clip("colours.mp4", &arguments, colours.len() as u64 * 10).await;
        frames::take(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap();
        plan
    }

    async fn sprite(fixture: &Fixture, plan: &Plan) -> Sprite {
        arrange(&fixture.studio, plan, &Cancel::never()).await.unwrap();
        let objects = fixture.studio.objects();
        let key = key(plan).unwrap();
        results::find(objects, plan.probe.source.id, &key).await.unwrap().unwrap()
    }

    fn near(one: [i32; 3], other: [i32; 3]) -> bool {
        one.iter().zip(other).all(|(one, other)| (one - other).abs() < 25)
    }

    #[tokio::test]
    async fn the_index_leads_to_the_picture_of_each_moment() {
        let fixture = Fixture::new().await;
        let names: Vec<&str> = COLOURS.iter().cycle().take(7).map(|(name, _)| *name).collect();
        let plan = coloured(&fixture, &names).await;
        let sprite = sprite(&fixture, &plan).await;
        assert_eq!(sprite.sheets.len(), 1);
        let index = fixture.text(sprite.index.id).await;
        let places: Vec<&str> = index.lines().filter(|line| line.contains("#xywh=")).collect();
        assert_eq!(places.len(), 7);
        for (number, place) in places.iter().enumerate() {
            let place = place.strip_prefix("sprite_000.jpg#xywh=").unwrap();
            let [x, y, width, height] = place.split(',').collect::<Vec<_>>()[..] else {
                panic!("{place}")
            };
            let part = format!("{width}:{height}:{x}:{y}");
            let seen = fixture.colour(sprite.sheets[0].id, &part).await;
            assert!(near(seen, COLOURS[number % 3].1), "{number} at {part}: {seen:?}");
        }
        assert!(
            index.ends_with("00:00:06.000 --> 00:00:07.000\nsprite_000.jpg#xywh=0,216,192,108\n")
        );
        let again = arrange(&fixture.studio, &plan, &Cancel::never()).await.unwrap();
        assert!(again.known && again.bytes == bytes(&sprite));
    }

    #[tokio::test]
    async fn the_poster_is_a_tenth_into_the_video_unless_that_is_black() {
        let fixture = Fixture::new().await;
        for (colours, expected) in [
            (&["lime", "red", "blue"][..], [0, 255, 0]),
            (&["black", "black", "red", "blue"], [255, 0, 0]),
            (&["black"], [0, 0, 0]),
        ] {
            let plan = coloured(&fixture, colours).await;
            let sprite = sprite(&fixture, &plan).await;
            let seen = fixture.colour(sprite.poster.id, "320:180:0:0").await;
            assert!(near(seen, expected), "{colours:?}: {seen:?}");
        }
    }

    #[tokio::test]
    async fn pictures_of_hd_video_have_the_colours_of_the_video() {
        let fixture = Fixture::new().await;
        let input = "color=0xE02040:s=320x180:r=10:d=1,scale=out_color_matrix=bt709:out_range=tv";
        // A source that does not say which colours it has is believed by its size; the plan has the verdict.
        for tags in [&["-colorspace", "bt709", "-color_range", "tv"][..], &[]] {
            let arguments = [&["-f", "lavfi", "-i", input][..], &ENCODE, tags].concat();
            let mut plan = fixture.clip("hd.mp4", &arguments, 10).await;
            plan.probe.video.bt709 = true;
            frames::take(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap();
            let sprite = sprite(&fixture, &plan).await;
            for picture in [sprite.poster.id, sprite.sheets[0].id] {
                let seen = fixture.colour(picture, "100:100:0:0").await;
                let is_near = seen.iter().zip([0xe0, 0x20, 0x40]).all(|(a, b)| (a - b).abs() <= 5);
                assert!(is_near, "{tags:?}: {seen:?}");
            }
        }
    }

    #[tokio::test]
    async fn more_thumbnails_than_a_sheet_holds_go_on_to_the_next() {
        let fixture = Fixture::new().await;
        let mut plan = coloured(&fixture, &["red", "lime", "blue"]).await;
        let (objects, source) = (fixture.studio.objects(), plan.probe.source.id);
        let key = plan.frames.clone().unwrap();
        let few: Stills = results::find(objects, source, &key).await.unwrap().unwrap();
        let stills: Vec<_> = (0..203_u64)
            .map(|number| results::Still { at_ms: number, ..few.stills[number as usize % 3] })
            .collect();
        let many = Key::of("frames", source, &"many");
        let cost = Cost::default();
        results::commit(objects, source, &many, Stills { stills, cost }).await.unwrap();
        plan.frames = Some(many);
        let sprite = sprite(&fixture, &plan).await;
        assert_eq!(sprite.sheets.len(), 3);
        // The last one is the third picture of the third sheet.
        let seen = fixture.colour(sprite.sheets[2].id, "192:108:384:0").await;
        assert!(near(seen, COLOURS[202 % 3].1), "{seen:?}");
        let beside = fixture.colour(sprite.sheets[2].id, "192:108:576:0").await;
        assert!(near(beside, [0, 0, 0]), "{beside:?}");
    }

    #[tokio::test]
    async fn sheets_are_as_small_as_their_thumbnails_allow() {
        let fixture = Fixture::new().await;
        let plan = coloured(&fixture, &["red"]).await;
        for (stills, columns, rows) in [
            (1, 1, 1),
            (2, 2, 1),
            (4, 2, 2),
            (5, 3, 2),
            (99, 10, 10),
            (101, 10, 10),
            (4_000, 10, 10),
        ] {
            let Sheets { columns: wide, rows: high, .. } = layout(&plan, stills);
            assert_eq!((wide, high), (columns, rows), "{stills}");
        }
    }
}
