//! Lets a scanner look at the thumbnails. Only scores are recorded: which of them are flagged is decided by who reads
//! them, because that bound may change and the pictures do not.

use std::collections::BTreeMap;

use divvy::prelude::*;

use super::frames::made;
use super::transcribe::{cost, given_up, hired};
use super::{Made, ScanFrames};
use crate::plan::Plan;
use crate::results::{self, Scan, Score, Stills};
use crate::studio::{Studio, failure};
use crate::tools::provider::Frame;

pub(crate) async fn scan_frames(
    task: ScanFrames,
    State(studio): State<Studio>,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    progress.message("looking");
    look(&studio, &plan, &cancel, |done, total| progress.set(done, total)).await
}

/// Scans the thumbnails of a plan, unless they were.
async fn look(
    studio: &Studio,
    plan: &Plan,
    cancel: &Cancel,
    progress: impl FnMut(u64, u64) + Send,
) -> Outcome<Made> {
    let source = plan.probe.source.id;
    let (Some(key), Some(frames)) = (&plan.scan, &plan.frames) else {
        return Err(Failure::dead("the plan has no scan, or no thumbnails to scan"));
    };
    let objects = studio.objects();
    if let Some(known) = results::find::<Scan>(objects, source, key).await.map_err(failure)? {
        return Ok(made(known.frames as usize, 0, None));
    }
    let scanner = hired(studio.tools().scanner(), "scans")?;
    let stills = results::find::<Stills>(objects, source, frames).await.map_err(failure)?;
    let stills = stills.ok_or_else(|| Failure::retry("the thumbnails are not there yet"))?;
    let folder = studio.folder()?;
    let mut frames = Vec::new();
    for (number, still) in stills.stills.iter().enumerate() {
        cancel.check()?;
        let path = folder.path().join(format!("frame_{number:05}.jpg"));
        let picture = objects.get(still.picture.id).await.map_err(failure)?;
        tokio::fs::write(&path, picture).await?;
        frames.push(Frame { at_ms: still.at_ms, path });
    }
    let seen = scanner.scan(studio.tools(), folder.path(), &frames, cancel, progress).await;
    let seen = seen.map_err(given_up)?;
    let cost = cost(&seen);
    let scores = highest(seen.items);
    let scan = Scan {
        provider: seen.about.to_string(),
        frames: u32::try_from(frames.len()).unwrap_or(u32::MAX),
        highest: scores.iter().map(|score| score.score).fold(0.0, f64::max),
        scores,
        cost,
    };
    results::commit(objects, source, key, scan).await.map_err(failure)?;
    Ok(made(frames.len(), 0, Some(cost)))
}

/// The highest score of each frame: scanners with many labels would not fit into a record.
fn highest(scores: Vec<Score>) -> Vec<Score> {
    let mut best: BTreeMap<u64, Score> = BTreeMap::new();
    for score in scores {
        match best.get(&score.at_ms) {
            Some(known) if known.score >= score.score => {}
            _ => drop(best.insert(score.at_ms, score)),
        }
    }
    best.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{ENCODE, Fixture, installed};
    use super::super::frames;
    use super::*;
    use crate::tools::provider::Choice;

    /// Three seconds of a moving picture, with thumbnails.
    async fn clip(fixture: &Fixture) -> Plan {
        let picture = ["-f", "lavfi", "-i", "testsrc2=s=320x180:r=10:d=3"];
        let plan = fixture.clip("clip.mp4", &[&picture[..], &ENCODE].concat(), 30).await;
        frames::take(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap();
        plan
    }

    async fn scan(fixture: &Fixture, plan: &Plan) -> Option<Scan> {
        let (objects, key) = (fixture.studio.objects(), plan.scan.as_ref().unwrap());
        results::find(objects, plan.probe.source.id, key).await.unwrap()
    }

    #[tokio::test]
    async fn harmless_pictures_are_scored_low_and_each_of_them_is() {
        let fixture = Fixture::with(Choice::Nobody, installed("open_nsfw")).await;
        let plan = clip(&fixture).await;
        let mut told = Vec::new();
        let tell = |done, total| told.push((done, total));
        let made = look(&fixture.studio, &plan, &Cancel::never(), tell).await.unwrap();
        assert_eq!((made.units, made.known), (3, false));
        assert_eq!(told.first(), Some(&(1, 3)), "progress while it looks");
        let scan = scan(&fixture, &plan).await.unwrap();
        assert!(scan.provider.starts_with("open_nsfw "), "{}", scan.provider);
        let at: Vec<u64> = scan.scores.iter().map(|score| score.at_ms).collect();
        assert_eq!((scan.frames, at), (3, vec![0, 1_000, 2_000]));
        assert!(scan.highest > 0.0 && scan.highest < 0.8, "{scan:?}");
        assert!(look(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap().known);
    }

    #[tokio::test]
    async fn what_nobody_scanned_has_no_result() {
        let fixture = Fixture::new().await;
        let plan = clip(&fixture).await;
        let failed = look(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap_err();
        assert_eq!(failed.message(), "this worker has no provider for scans");
        assert_eq!(scan(&fixture, &plan).await, None);
    }

    #[tokio::test]
    async fn a_scanner_that_leaves_frames_out_fails_with_its_words_and_records_nothing() {
        let script = r#"echo '{"provider":"eye","version":"1","model":"m"}'
            read request
            case $request in *scan*) echo 'bad day' >&2; echo '{"at_ms":0,"label":"x","score":0}';; esac
            echo '{"done":true}'"#;
        let choice = Choice::Exec(["sh", "-c", script].map(str::to_owned).to_vec());
        let fixture = Fixture::with(Choice::Nobody, choice).await;
        let plan = clip(&fixture).await;
        let failed = look(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap_err();
        assert_eq!(
            failed.message(),
            "the provider failed: it gave no score for the frame at 1000 ms; it says: bad day"
        );
        assert_eq!(scan(&fixture, &plan).await, None);
    }

    #[tokio::test]
    async fn a_scanner_that_did_not_start_with_the_worker_fails_for_good_and_says_why() {
        let choice = Choice::Exec(vec!["/no/such/python3".into(), "scan.py".into()]);
        let fixture = Fixture::with(Choice::Nobody, choice).await;
        let plan = clip(&fixture).await;
        let failed = look(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap_err();
        assert_eq!(
            failed.message(),
            "the provider `exec:/no/such/python3 scan.py` does not work: there is no program \
             `/no/such/python3`; give its path, or put it on the path"
        );
        assert_eq!(failed.verdict(), Failure::dead("").verdict());
        assert_eq!(scan(&fixture, &plan).await, None);
    }

    #[test]
    fn the_highest_score_of_a_frame_is_kept() {
        let score = |at_ms, label: &str, score| Score { at_ms, label: label.into(), score };
        let kept = highest(vec![score(9, "a", 0.1), score(0, "a", 0.5), score(0, "b", 0.7)]);
        assert_eq!(kept, [score(0, "b", 0.7), score(9, "a", 0.1)]);
    }
}
