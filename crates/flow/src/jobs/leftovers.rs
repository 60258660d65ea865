//! What a job leaves behind: the names of its result, and everything that is swept when it has ended.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use divvy_workload::files::{FolderError, make, sync_folder, write_json};

use super::state::Manifest;
use crate::job::{Folder, JobError, OutputFile, Spec, StageDone, Summary};

/// Gives the files of the result their own names and writes the manifest. Doing it twice is doing it once.
///
/// # Errors
/// If a file is missing, or a name is taken twice.
pub(super) fn publish(
    spec: &Spec,
    folder: &Folder,
    done: &[StageDone],
    summary: &Summary,
) -> Result<Manifest, JobError> {
    let failed = |error: FolderError| JobError(error.to_string());
    let out = folder.out();
    make(&out).map_err(failed)?;
    let files = done.iter().flat_map(|stage| &stage.parts).flat_map(|part| &part.report.outputs);
    let checksum = summary.data["tally"]["checksum"].as_str().map(str::to_owned);
    let mut manifest =
        Manifest { job: spec.id.clone(), kind: spec.kind.clone(), checksum, ..Manifest::default() };
    let mut names = BTreeSet::new();
    for file in files {
        if !names.insert(&file.name) {
            return Err(JobError(format!(
                "two parts wrote the file `{}` of the result",
                file.name
            )));
        }
        let (from, to) = (out.join(&file.until_done), out.join(&file.name));
        match fs::rename(&from, &to) {
            Ok(()) => {}
            // An earlier try came this far.
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.is_file() => {}
            Err(error) => return Err(JobError(format!("{}: {error}", from.display()))),
        }
        manifest.rows += file.rows;
        manifest.bytes += file.bytes;
        manifest.files.push(OutputFile { until_done: String::new(), ..file.clone() });
    }
    manifest.files.sort_by(|a, b| a.name.cmp(&b.name));
    sync_folder(&out).map_err(|error| JobError(format!("{}: {error}", out.display())))?;
    write_json(&folder.manifest(), &manifest).map_err(failed)?;
    Ok(manifest)
}

/// Removes what only the work needed: what stages handed to each other, spills, what parts kept, and results of attempts
/// that do not count.
pub(super) fn sweep(folder: &Folder) {
    for gone in [folder.shuffles(), folder.scratches(), folder.keeps()] {
        match fs::remove_dir_all(&gone) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // An attempt that has not heard of its end may write there; the next start sweeps again.
            Err(error) => tracing::debug!("{} cannot be swept: {error}", gone.display()),
        }
    }
    for entry in fs::read_dir(folder.out()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with('.') {
            // The next start sweeps again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{NewJob, PartDone, Report};

    fn spec() -> Spec {
        let new = NewJob::new("sort");
        Spec {
            id: "a".into(),
            name: "a".into(),
            kind: new.kind,
            created_at_ms: 1,
            inputs: Vec::new(),
            on_error: new.on_error,
            memory_bytes: new.memory_bytes,
            split_bytes: new.split_bytes,
            partitions: None,
            options: new.options,
        }
    }

    #[test]
    fn only_what_finished_tasks_named_is_in_the_result_and_all_else_is_swept() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        for (path, text) in [
            ("out/.part-00000-0.7", "kept"),
            ("out/.part-00000-0.8", "an attempt that died"),
            ("shuffle/0/0-0.7", "x"),
            ("scratch/0-0-0.7/run", "x"),
            ("keep/0-0/checkpoint", "x"),
        ] {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let file = OutputFile {
            name: "part-00000".into(),
            until_done: ".part-00000-0.7".into(),
            rows: 1,
            bytes: 4,
            xxh3: String::new(),
        };
        let report = Report { outputs: vec![file], ..Report::default() };
        let part = PartDone { report, ..PartDone::default() };
        let mut done = [StageDone { parts: vec![part], ..StageDone::default() }];
        let data = serde_json::json!({"tally": {"checksum": "00ff"}});
        let summary = Summary { lines: Vec::new(), data };
        for _ in 0..2 {
            let manifest = publish(&spec(), &folder, &done, &summary).unwrap();
            assert_eq!((manifest.rows, manifest.bytes), (1, 4));
            assert_eq!(manifest.checksum.as_deref(), Some("00ff"));
        }
        sweep(&folder);
        sweep(&folder);
        assert_eq!(fs::read(folder.out().join("part-00000")).unwrap(), b"kept");
        let mut left: Vec<_> =
            fs::read_dir(folder.out()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["manifest.json", "part-00000"]);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        done[0].parts.push(done[0].parts[0].clone());
        assert!(publish(&spec(), &folder, &done, &summary).unwrap_err().0.contains("two parts"));
    }
}
