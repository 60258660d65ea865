//! Lets a scanner look at the thumbnails. Only scores are recorded: which of them are flagged is decided by who reads
//! them, because that bound may change and the pictures do not.

use std::collections::BTreeMap;

use divvy::prelude::*;

use super::frames::made;
use super::transcribe::{cost, given_up};
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
    look(&studio, &plan, &cancel).await
}

/// Scans the thumbnails of a plan, unless they were.
async fn look(studio: &Studio, plan: &Plan, cancel: &Cancel) -> Outcome<Made> {
    let source = plan.probe.source.id;
    let (Some(key), Some(frames)) = (&plan.scan, &plan.frames) else {
        return Err(Failure::dead("the plan has no scan, or no thumbnails to scan"));
    };
    let objects = studio.objects();
    if let Some(known) = results::find::<Scan>(objects, source, key).await.map_err(failure)? {
        return Ok(made(known.frames as usize, 0, None));
    }
    let scanner = studio
        .tools()
        .scanner()
        .ok_or_else(|| Failure::retry("this worker has no provider for scans"))?;
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
    let seen =
        scanner.scan(studio.tools(), folder.path(), &frames, cancel).await.map_err(given_up)?;
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
