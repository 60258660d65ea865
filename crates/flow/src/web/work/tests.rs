//! A worker that does not see the folder of jobs and the server that has it, in one process: what it gets, what it hands
//! over, and what is refused.

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use divvy::extract::Cancel;
use divvy::{Api, Client};
use divvy_http::Frame;
use divvy_workload::Scratch;
use divvy_workload::files::write_json;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::duckdb::Duckdb;
use crate::input::Split;
use crate::job::remote::{AtServer, Transfers};
use crate::job::tasks::{self, JobsAt};
use crate::job::{
    Folder, InputFile, NewJob, PartDone, PartError, PartIo, PartSpec, Place, Report, StageDone,
    Surroundings,
};
use crate::jobs::Jobs;
use crate::jobs::remote::{Readable, identity};

/// A server without sockets and a job of it.
struct Served {
    place: TempDir,
    jobs: Jobs,
    id: String,
    api: Api,
}

impl Served {
    /// With a job that reads these files below `read/`, which jobs may read, or below `other/`, which they may not.
    async fn with(inputs: &[(&str, &[u8])]) -> Self {
        let place = tempfile::tempdir().unwrap();
        for folder in ["read", "other", "data", "scratch"] {
            std::fs::create_dir(place.path().join(folder)).unwrap();
        }
        let files = inputs.iter().map(|(name, bytes)| {
            let path = place.path().join(name);
            if !path.is_symlink() {
                std::fs::write(&path, bytes).unwrap();
            }
            InputFile::look(&path).unwrap()
        });
        let (inputs, options) = (files.collect(), json!({"program": "wordcount"}));
        let new = NewJob { inputs, options, ..NewJob::new("mapreduce") };
        // Nothing is asked of the engine here.
        let client = Client::new("http://127.0.0.1:1").unwrap();
        let jobs = Jobs::open(client, &place.path().join("data")).unwrap();
        let id = jobs.start(new).await.unwrap().id;
        let readable = Readable::new(vec![place.path().join("read").canonicalize().unwrap()]);
        let site = Site::new(jobs.clone(), readable, CancellationToken::new(), Frame::new(false));
        let api = Api::in_process(site.routes().router());
        Self { place, jobs, id, api }
    }

    fn folder(&self) -> Folder {
        self.jobs.folder(&self.id)
    }

    /// Does something as an attempt with this token of part 2 of stage 1, on a worker elsewhere.
    async fn attempt<T: Send + 'static>(
        &self,
        token: u64,
        act: impl FnOnce(&mut PartIo<'_>, &Transfers) -> T + Send + 'static,
    ) -> T {
        let scratch = Scratch::open(&self.place.path().join("scratch"), "flow").unwrap();
        let server = Arc::new(AtServer::new(self.api.clone(), Handle::current(), scratch));
        let part = PartSpec {
            job: self.id.clone(),
            folder: "/nowhere".into(),
            stage: 1,
            name: "reduce".into(),
            part: 2,
            parts: 3,
            twin: 0,
            work: json!(null),
            bytes: 0,
        };
        let acting = tokio::task::spawn_blocking(move || {
            let transfers = Rc::new(Transfers::new(server, &part.job, Cancel::never()));
            let spec = transfers.spec().unwrap();
            let around = Around::default();
            let place = Place::Server(Rc::clone(&transfers));
            act(&mut PartIo::new(&spec, &part, place, token, 1, &around), &transfers)
        });
        acting.await.unwrap()
    }

    /// What a split of an input has, and how many bytes were asked for.
    async fn read(&self, number: u32, from: u64, to: u64) -> Result<(Vec<u8>, u64), PartError> {
        self.attempt(1, move |io, transfers| {
            let before = transfers.bytes().0;
            let input =
                io.spec().inputs.get(number as usize).unwrap_or_else(|| &io.spec().inputs[0]);
            let mut bytes = Vec::new();
            let mut reader = io.input(input, Split { file: number, from, to })?;
            reader.read_to_end(&mut bytes).unwrap();
            assert_eq!(transfers.failure(), None);
            Ok((bytes, transfers.bytes().0 - before))
        })
        .await
    }

    /// Sends a piece as anybody could; the status and the code of a refusal.
    async fn put(&self, path: &str, query: &str, bytes: Vec<u8>) -> (u16, String) {
        let path = format!("flows/{}/work/{path}", self.id);
        // The client writes a slash within a part as %2F, so that it gets to the handler.
        let parts: Vec<String> = path.split('/').map(|part| part.replace("%2F", "/")).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let query: Vec<(&str, &str)> =
            query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let request = self.api.request(Method::PUT, &parts).query(&query);
        let request = request.header("content-type", BYTES).body(bytes);
        let answer = self.api.answer(request).await.unwrap();
        let status = answer.status().as_u16();
        let text: serde_json::Value = self.api.read(answer).await.unwrap();
        (status, text["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    /// Names of all files below the folders into which attempts write.
    fn written(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in [self.folder().shuffle(1), self.folder().out()] {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            names.extend(entries.map(|entry| entry.file_name().into_string().unwrap()));
        }
        names.sort();
        names
    }
}

#[derive(Default)]
struct Around {
    told: Cell<bool>,
}

impl Surroundings for Around {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn progress(&self, _: u64, _: u64) {}

    fn message(&self, _: &str) {
        self.told.set(true);
    }

    fn may_read(&self, path: &Path) -> Result<(), String> {
        Err(format!("{} is read by the server, not by the worker", path.display()))
    }

    fn may_run(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn duckdb(&self) -> Result<Duckdb, String> {
        Err("not here".to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_is_read_from_its_beginning_to_the_end_of_its_last_line_and_no_byte_more() {
    let line = |nth: u32| format!("line number {nth:06}\n");
    let text: String = (0..600_000).map(line).collect();
    let length = line(0).len() as u64;
    let served = Served::with(&[("read/a.txt", text.as_bytes()), ("read/none", b"")]).await;
    // Cuts at line ends: exactly the bytes from the one before the split on, over more than one request.
    let (found, asked) = served.read(0, 10 * length, 500_000 * length).await.unwrap();
    assert_eq!(found, &text.as_bytes()[(10 * length - 1) as usize..(500_000 * length) as usize]);
    assert_eq!(asked, 499_990 * length + 1);
    // A cut in a line: that line to its end.
    let (found, asked) = served.read(0, 0, 5).await.unwrap();
    assert_eq!(found, line(0).as_bytes());
    assert!(asked <= 5 + 2 * (64 << 10), "{asked}");
    let (found, _) = served.read(0, text.len() as u64 - 3, text.len() as u64).await.unwrap();
    assert_eq!(found, &text.as_bytes()[text.len() - 4..]);
    assert_eq!(served.read(1, 0, 0).await.unwrap(), (Vec::new(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_files_of_the_job_that_jobs_may_read_and_that_have_not_changed_are_given_out() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.txt");
    std::fs::write(&secret, "secret\n").unwrap();
    let inputs: &[(&str, &[u8])] = &[("read/a.txt", b"a\n"), ("other/b.txt", b"b\n")];
    let served = Served::with(inputs).await;
    assert_eq!(served.read(0, 0, 2).await.unwrap().0, b"a\n");
    let broken = |result: Result<(Vec<u8>, u64), PartError>| match result {
        Err(PartError::Broken(text)) => text,
        other => panic!("{other:?}"),
    };
    let text = broken(served.read(1, 0, 2).await);
    assert!(
        text.contains("other/b.txt") && text.contains("in flow.read of its settings"),
        "{text}"
    );
    let text = broken(served.read(7, 0, 2).await);
    assert!(text.contains("has no input 7"), "{text}");
    // A link that leads out of what may be read, put there after the job was started.
    let path = served.place.path().join("read/a.txt");
    std::fs::remove_file(&path).unwrap();
    symlink(&secret, &path).unwrap();
    let text = broken(served.read(0, 0, 2).await);
    assert!(text.contains("gives out no files of that folder"), "{text}");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a\nmore\n").unwrap();
    let text = broken(served.read(0, 0, 2).await);
    assert!(text.contains("has changed since the job was started (2 bytes then, 7 now)"), "{text}");
    std::fs::remove_file(&path).unwrap();
    assert!(broken(served.read(0, 0, 2).await).contains("there is no such file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_attempt_wrote_is_there_whole_and_is_read_back_by_partition() {
    let served = Served::with(&[("read/a.txt", b"a\n")]).await;
    let mut random = fastrand::Rng::with_seed(5);
    let partitions: Vec<Vec<u8>> = [0, 7, 5_000_000, 6_000_001]
        .map(|bytes| std::iter::repeat_with(|| random.u8(..)).take(bytes).collect())
        .into();
    let wanted = partitions.clone();
    // The second time it is the attempt that sends again what has arrived.
    for _ in 0..2 {
        let partitions = wanted.clone();
        let write = move |io: &mut PartIo<'_>, transfers: &Transfers| {
            let mut report = Report::default();
            let mut writer = io.shuffle(4)?;
            for (number, bytes) in (0..).zip(&partitions) {
                writer.partition(number).unwrap();
                writer.write_all(bytes).unwrap();
                writer.add_rows(1);
            }
            io.finish_shuffle(writer, &mut report)?;
            let mut output = io.output(9)?;
            output.write_all(b"a result").unwrap();
            io.finish_output(output, &mut report)?;
            let left = std::fs::read_dir(io.scratch()?).unwrap().count();
            Ok::<_, PartError>((report, transfers.bytes().1, left))
        };
        let (report, sent, left) = served.attempt(71, write).await.unwrap();
        assert_eq!(left, 0, "what was handed over is not kept");
        assert!(sent > 11_000_000, "{sent}");
        assert_eq!(report.shuffle.as_deref(), Some("2-0.71"));
        assert_eq!(served.written(), [".part-00009-0.71", "2-0.71"]);
        let output = served.folder().out().join(&report.outputs[0].until_done);
        assert_eq!(std::fs::read(output).unwrap(), b"a result");
        let mut stage = StageDone { parts: vec![PartDone::default(); 2], ..StageDone::default() };
        stage.parts.push(PartDone { report, ..PartDone::default() });
        write_json(&served.folder().done(1), &stage).unwrap();
    }
    let found = served.attempt(72, |io, _| {
        (0..4)
            .map(|number| {
                let mut bytes = Vec::new();
                if let Some(mut reader) = io.open(1, 2, number)? {
                    reader.read_to_end(&mut bytes).unwrap();
                }
                Ok(bytes)
            })
            .collect::<Result<Vec<_>, PartError>>()
    });
    assert!(found.await.unwrap() == partitions);
    // Damage on the server's disk is seen by who reads.
    let path = served.folder().shuffle(1).join("2-0.71");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let found = served.attempt(73, |io, _| {
        let mut reader = io.open(1, 2, 2).unwrap().unwrap();
        reader.read_to_end(&mut Vec::new()).unwrap_err().to_string()
    });
    assert!(found.await.contains("damaged partition"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_that_do_not_fit_are_refused_and_leave_nothing_behind() {
    let served = Served::with(&[("read/a.txt", b"a\n")]).await;
    let whole = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(b"abcdef"));
    let refused = |status: u16, code: &str| (status, code.to_owned());
    let path = "shuffle/1/2-0.7";
    assert_eq!(served.put(path, "offset=3", b"def".into()).await, refused(409, "wrong_offset"));
    assert_eq!(served.put(path, "offset=0", b"abc".into()).await, refused(200, ""));
    assert_eq!(served.written(), [".2-0.7.half"], "a part of a file has not its name");
    // The same piece again, and the next one after a longer one that was broken off.
    assert_eq!(served.put(path, "offset=0", b"abcxyz".into()).await, refused(200, ""));
    let wrong = format!("offset=3&xxh3={}", "0".repeat(16));
    assert_eq!(served.put(path, &wrong, b"def".into()).await, refused(422, "damaged_file"));
    assert_eq!(served.written(), [""; 0]);
    assert_eq!(served.put(path, "offset=0", b"abc".into()).await, refused(200, ""));
    let last = format!("offset=3&xxh3={whole}");
    for _ in 0..2 {
        assert_eq!(served.put(path, &last, b"def".into()).await, refused(200, ""));
        assert_eq!(served.written(), ["2-0.7"]);
    }
    assert_eq!(std::fs::read(served.folder().shuffle(1).join("2-0.7")).unwrap(), b"abcdef");
    let large = vec![b'x'; PIECE_BYTES_MAX + 1];
    let answer = served.put("output/1/2-0.7", "offset=0", large).await;
    assert_eq!(answer, refused(413, "body_too_large"));
    let far = format!("offset={}", u64::MAX);
    let answer = served.put("output/1/2-0.7", &far, b"x".into()).await;
    assert_eq!(answer, refused(400, "invalid_field"));
    let answer = served.put("output/1/2-0.7", "offset=0&xxh3=../../job", b"x".into()).await;
    assert_eq!(answer, refused(400, "invalid_field"));
    for path in [
        "shuffle/1/..%2F..%2Fjob.json",
        "shuffle/..%2F1/2-0.7",
        "shuffle/-1/2-0.7",
        "shuffle/1/02-0.7",
        "output/x/2-0.7",
        "output/1/job.json",
    ] {
        let answer = served.put(path, "offset=0", b"x".into()).await;
        assert_eq!(answer, refused(404, "no_such_file"), "{path}");
    }
    assert_eq!(served.written(), ["2-0.7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_taken_for_a_job_that_has_ended_or_was_never_there() {
    let mut served = Served::with(&[("read/a.txt", b"a\n")]).await;
    let hash = format!("offset=0&xxh3={:016x}", xxhash_rust::xxh3::xxh3_64(b"abc"));
    served.jobs.cancel(&served.id).await.unwrap();
    let answer = served.put("shuffle/1/2-0.7", &hash, b"abc".into()).await;
    assert_eq!(answer, (409, "flow_conflict".to_owned()));
    assert_eq!(served.written(), [""; 0]);
    let write = |io: &mut PartIo<'_>, _: &Transfers| {
        let output = io.output(0)?;
        io.finish_output(output, &mut Report::default())
    };
    let error = served.attempt(7, write).await.unwrap_err();
    assert!(matches!(&error, PartError::Broken(text) if text.contains("has ended")), "{error:?}");
    served.id = "000000000000".into();
    let answer = served.put("shuffle/1/2-0.7", &hash, b"abc".into()).await;
    assert_eq!(answer, (404, "no_such_flow".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_the_server_is_named_at_the_worker() {
    let served = Served::with(&[("read/a.txt", b"a\n")]).await;
    let out = served.folder().out();
    std::fs::create_dir_all(&out).unwrap();
    // Nothing fits into this file of the system.
    symlink("/dev/full", out.join("..part-00000-0.7.half")).unwrap();
    let write = |io: &mut PartIo<'_>, transfers: &Transfers| {
        let mut output = io.output(0)?;
        output.write_all(b"a result").unwrap();
        let error = io.finish_output(output, &mut Report::default());
        assert_eq!(transfers.failure(), error.clone().err());
        error
    };
    let error = served.attempt(7, write).await.unwrap_err();
    assert!(
        matches!(&error, PartError::Trouble(text) if text.contains("the disk is full; free some space there")),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_files_between_attempts_is_not_for_workers_elsewhere() {
    let served = Served::with(&[("read/a.txt", b"a\n")]).await;
    let kept = served.attempt(7, |io, _| io.keep().map(drop)).await;
    assert!(matches!(kept, Err(PartError::Later { .. })), "{kept:?}");
    assert!(tasks::needs_folder("graph") && tasks::needs_folder("stream"));
    assert!(!tasks::needs_folder("edges"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_can_tell_the_servers_folder_of_jobs_from_any_other() {
    let served = Served::with(&[("read/a.txt", b"a\n")]).await;
    let data = served.place.path().join("data");
    let told = served.api.get(&["flows", "folder"], &[]).await.unwrap();
    let told = told.parse::<serde_json::Value>().unwrap()["identity"].as_str().map(str::to_owned);
    assert!(told.is_some() && identity(&data.join("flows")) == told);
    let client = || Client::new("http://127.0.0.1:1").unwrap();
    let again = Jobs::open(client(), &data).unwrap();
    assert_eq!(Some(again.identity()), told.as_deref(), "it lasts");
    let other = served.place.path().join("other");
    assert_eq!(identity(&other), None);
    assert_ne!(Some(Jobs::open(client(), &other).unwrap().identity()), told.as_deref());
}

/// A part of the first stage, as the driver submits it.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
struct Map(PartSpec);

impl divvy::Task for Map {
    const KIND: &'static str = "flow.map";
    type Output = serde_json::Value;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_shall_stop_does_not_wait_for_a_server_that_does_not_answer() {
    let place = tempfile::tempdir().unwrap();
    let silent = axum::Router::new().fallback(std::future::pending::<()>);
    let scratch = Scratch::open(place.path(), "flow").unwrap();
    let server = AtServer::new(Api::in_process(silent), Handle::current(), scratch);
    let jobs = JobsAt::Server(Arc::new(server));
    let site = tasks::Site { jobs, readable: [].into(), commands: false, duckdb: None };
    let mut bench = divvy::testing::bench(tasks::serve(divvy::Worker::new("w").state(site)));
    let part = PartSpec {
        job: "0123456789ab".into(),
        folder: "/nowhere".into(),
        stage: 0,
        name: "map".into(),
        part: 0,
        parts: 1,
        twin: 0,
        work: json!(null),
        bytes: 0,
    };
    bench.cancel_next("enough");
    let ran = tokio::time::timeout(Duration::from_secs(30), bench.run(Map(part))).await;
    ran.expect("the part waits for the server").assert_cancelled("enough");
}
