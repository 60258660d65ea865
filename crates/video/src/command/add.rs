//! `divvy video add`: uploads files, names addresses, and waits if asked.
//!
//! Everything that can be wrong with what was typed is told before anything is sent. After that each source stands
//! for itself: one that fails does not stop the others.

use std::path::PathBuf;

use crate::Recipe;
use crate::library::{Added, NewVideo, TITLE_LEN_MAX, check_title};
use crate::recipe::{RecipeError, SubtitleFile};
use crate::subtitles;
use anyhow::Result;
use divvy::objects::{BlobId, Objects, Reach};

use super::{player, wait_for};
use crate::command::args::{Add, RecipeFlags};
use crate::command::objects::{default_cache, failure, known, upload};
use crate::command::values::{Every, SubtitlePath};
use crate::command::{bars, words};
use crate::workload::settings::VideoSettings;
use divvy::api::{Api, Reply};
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure, explained};
use divvy_workload::console::output::words::bytes;

/// What to add.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file of this machine.
    File {
        /// Where it is.
        path: PathBuf,
        /// Its bytes.
        size: u64,
    },
    /// An address that a worker fetches.
    Address(String),
}

impl Source {
    /// What was typed, if it can be added.
    pub(crate) fn new(text: &str) -> Result<Self> {
        if let Some(scheme) = scheme(text) {
            return Ok(Self::Address(address(text, scheme)?));
        }
        if text == "-" {
            return Err(Failure::usage("videos are not read from standard input: `-`")
                .cure("write it to a file and add that; a file whose name is - is ./-")
                .into());
        }
        let path = PathBuf::from(text);
        // What is no file, such as a pipe, would be waited for when it is opened.
        let about = std::fs::metadata(&path).map_err(|error| unreadable(text, &error))?;
        if about.is_dir() {
            return Err(Failure::usage(format!("{text} is a folder, not a file"))
                .cure(format!(
                    "name the files in it: divvy video add {}/*",
                    text.trim_end_matches('/')
                ))
                .into());
        }
        if !about.is_file() {
            return Err(Failure::usage(format!("{text} is a pipe or a device, not a file"))
                .cure("write it to a file and add that")
                .into());
        }
        if about.len() == 0 {
            return Err(Failure::usage(format!("{text} is empty"))
                .cure("wait until whatever writes it is done, or copy it again")
                .into());
        }
        std::fs::File::open(&path).map_err(|error| unreadable(text, &error))?;
        Ok(Self::File { path, size: about.len() })
    }

    fn name(&self) -> String {
        match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::Address(address) => address.clone(),
        }
    }

    /// What it is called unless someone says otherwise: the name of the file as far as it can be a title.
    pub(crate) fn title(&self) -> Option<String> {
        match self {
            Self::File { path, .. } => {
                let name = path.file_stem()?.to_string_lossy();
                let name = name.chars().map(|c| if c.is_control() { ' ' } else { c });
                let title: String = name.take(TITLE_LEN_MAX).collect();
                Some(title.trim().to_owned()).filter(|title| !title.is_empty())
            }
            Self::Address(_) => None,
        }
    }
}

/// What an address begins with, if this is one.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    is_scheme.then_some(scheme)
}

fn address(text: &str, scheme: &str) -> Result<String, Failure> {
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        let cure = match scheme.to_ascii_lowercase().as_str() {
            "file" => "leave file:// away and give the path",
            _ => "fetch it with another program and add the file",
        };
        let problem = "only http:// and https:// addresses and files of this machine are taken";
        return Err(Failure::usage(format!("cannot add {text}: {problem}")).cure(cure));
    }
    match reqwest::Url::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(Failure::usage(format!("`{text}` is not an address: {error}"))
            .cure("give it whole, such as https://example.org/film.mp4")),
    }
}

/// Why a file cannot be read, and what to do about it.
fn unreadable(text: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(Code::NotFound, format!("there is no file {text}"))
                .cure("look for a slip in the name, or in the folder that it is relative to")
        }
        std::io::ErrorKind::PermissionDenied => {
            Failure::refused(format!("may not read {text}: permission denied"))
                .cure(format!("let this user read it, for example: chmod +r {text}"))
        }
        _ => Failure::usage(format!("cannot read {text}: {error}"))
            .cure("name a file that can be read, or an address that starts with https://"),
    }
}

/// Adds.
pub(super) async fn run(args: &Add, context: &Context) -> Result<Code> {
    let output = &context.output;
    for (flag, is_given) in
        [("title", args.title.is_some()), ("subtitle-file", !args.subtitle_file.is_empty())]
    {
        if is_given && args.sources.len() > 1 {
            return Err(
                Failure::usage(format!("--{flag} fits one video; add them one by one")).into()
            );
        }
    }
    let title = args.title.as_deref().map(check_title).transpose();
    let title = title.map_err(|error| Failure::usage(format!("--{error}")))?;
    let sources: Vec<Source> =
        args.sources.iter().map(|text| Source::new(text)).collect::<Result<_>>()?;
    let mut recipe = recipe(&args.recipe)?;
    let files = subtitle_files(&args.subtitle_file)?;
    let api = context.api()?;
    let objects = objects(context)?;
    for (language, bytes) in files {
        let stored = objects.put(bytes).await.map_err(|error| failure(&error))?;
        recipe.subtitle_files.push(SubtitleFile { language, file: stored.id });
    }
    let mut code = Code::Done;
    let mut ids = Vec::new();
    for source in &sources {
        let new = NewVideo {
            source: None,
            url: None,
            title: title.clone().or_else(|| source.title()),
            recipe: recipe.clone(),
            priority: args.priority,
            deadline_ms: args.deadline.map(divvy_workload::console::values::Span::as_ms),
        };
        match add(source, new, &api, &objects, context).await {
            Ok(reply) => {
                let added: Added = reply.parse()?;
                tell(&added, &reply, args.wait, &api, context)?;
                ids.push(added.video.id);
            }
            Err(error) if sources.len() == 1 => return Err(error),
            Err(error) => {
                let failure = named(&source.name(), error);
                code = failure.code;
                output.failure(&failure.into());
            }
        }
    }
    if !args.wait {
        return Ok(code);
    }
    let waited = wait_for(&ids, &api, context).await?;
    Ok(if code == Code::Done { waited } else { code })
}

/// The objects of the server, for uploads.
pub(crate) fn objects(context: &Context) -> Result<Objects> {
    let settings = VideoSettings::read(&context.sources)?;
    let cache = settings.cache.value.unwrap_or_else(default_cache);
    let reach = Reach { folder: None, cache, cache_bytes: settings.cache_size.value.0 };
    Ok(Objects::at_server(&context.client()?, reach))
}

/// Uploads if need be, and adds; the server's answer.
pub(crate) async fn add(
    source: &Source,
    mut new: NewVideo,
    api: &Api,
    objects: &Objects,
    context: &Context,
) -> Result<Reply> {
    match source {
        Source::Address(address) => new.url = Some(address.clone()),
        Source::File { path, size } => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(known) = known(objects, path).await? {
                new.source = Some(known.id);
                return Ok(api.post(&["videos"], &new).await?);
            }
            if !context.output.is_live() {
                context.output.note(format_args!("uploading {name}, {} …", bytes(*size)));
            }
            let bar = bars::upload(&context.output, &name, *size);
            let uploaded = upload(objects, path, |bytes| bar.set_position(bytes)).await;
            bar.finish_and_clear();
            new.source = Some(uploaded?.id);
        }
    }
    Ok(api.post(&["videos"], &new).await?)
}

/// Says what became of one.
fn tell(added: &Added, reply: &Reply, waits: bool, api: &Api, context: &Context) -> Result<()> {
    let (output, video) = (&context.output, &added.video);
    if output.is_json() {
        // With a wait the end is told instead, and one object per video is enough.
        if !waits {
            output.raw(reply.text())?;
        }
        return Ok(());
    }
    if output.is_quiet() {
        return Ok(output.data(&video.id.0)?);
    }
    let known = if added.known { "  (known: same content, same settings)" } else { "" };
    let state = video.state.as_str();
    output.data(format_args!("{}  {state}  {}{known}", video.id.0, video.title))?;
    if let Some(estimate) = added.estimated_ms.filter(|_| !video.state.is_final()) {
        output.data(format_args!("  estimate  about {}", words::span(estimate)))?;
    }
    output.data(format_args!("  watch     {}", player(api, &video.id)))?;
    Ok(())
}

/// An error with the source in front of it.
fn named(name: &str, error: anyhow::Error) -> Failure {
    let error = explained(error);
    match error.downcast_ref::<Failure>() {
        Some(failure) => Failure {
            code: failure.code,
            name: failure.name.clone(),
            field: failure.field.clone(),
            message: format!("{name}: {failure}"),
            cure: failure.cure.clone(),
        },
        None => Failure::new(Code::Failed, format!("{name}: {error:#}")),
    }
}

/// What the files of subtitles hold, with their languages. Those that cannot be read are told before anything is sent.
fn subtitle_files(paths: &[SubtitlePath]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for SubtitlePath { language, path } in paths {
        let name = path.display().to_string();
        let about = std::fs::metadata(path).map_err(|error| unreadable(&name, &error))?;
        if !about.is_file() || about.len() > subtitles::BYTES_MAX {
            return Err(Failure::usage(format!("{name} is no file of subtitles")).into());
        }
        let bytes = std::fs::read(path).map_err(|error| unreadable(&name, &error))?;
        let wrong = |problem: &str| Failure::usage(format!("{name} {problem}"));
        subtitles::parse(&bytes).map_err(|problem| wrong(&problem))?;
        files.push((language.clone(), bytes));
    }
    let named = files.iter().map(|(language, bytes)| {
        let (language, file) = (language.clone(), BlobId::of(bytes));
        SubtitleFile { language, file }
    });
    let recipe = Recipe { subtitle_files: named.collect(), ..Recipe::default() };
    recipe.validate().map_err(|error| Failure::usage(flagged(&error)))?;
    Ok(files)
}

/// A setting that cannot be, named as the flag that sets it.
fn flagged(error: &RecipeError) -> String {
    let flag = match error.field {
        "chunk_ms" => "chunk",
        "thumbnails_ms" => "thumbnails",
        "subtitle_files" => "subtitle-file",
        field => field,
    };
    format!("--{} {}", flag.replace('_', "-"), error.problem)
}

/// The recipe that the flags ask for, checked: what cannot be is told before anything is sent.
pub(crate) fn recipe(flags: &RecipeFlags) -> Result<Recipe> {
    let mut recipe = Recipe::default();
    let ms = |flag: &str, span: divvy_workload::console::values::Span| {
        u32::try_from(span.as_ms()).map_err(|_| Failure::usage(format!("--{flag} is too long")))
    };
    if let Some(ladder) = &flags.ladder {
        recipe.ladder.clone_from(&ladder.0);
    }
    if let Some(preset) = &flags.preset {
        recipe.preset.clone_from(preset);
    }
    recipe.crf = flags.crf.unwrap_or(recipe.crf);
    if let Some(chunk) = flags.chunk {
        recipe.chunk_ms = Some(ms("chunk", chunk)?);
    }
    match flags.thumbnails {
        Some(Every::Off) => recipe.thumbnails_ms = 0,
        Some(Every::Span(span)) => recipe.thumbnails_ms = ms("thumbnails", span)?,
        None => {}
    }
    recipe.subtitles.clone_from(&flags.subtitles);
    recipe.scan = flags.scan;
    if let Some(score) = flags.flag_at {
        if !(score > 0.0 && score <= 1.0) {
            let text = format!("--flag-at is {score}, expected more than 0 and at most 1");
            return Err(Failure::usage(text).into());
        }
        recipe.flag_at = score;
    }
    recipe.validate().map_err(|error| Failure::usage(flagged(&error)))?;
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::args::{Video, VideoCommand};
    use clap::Parser;

    fn flags(words: &[&str]) -> RecipeFlags {
        let line = ["video", "add", "a.mp4"].iter().chain(words);
        match VideoCommand::try_parse_from(line).unwrap().verb {
            Video::Add(add) => add.recipe,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_change_only_what_they_name() {
        assert_eq!(recipe(&flags(&[])).unwrap(), Recipe::default());
        let words = [
            "--ladder",
            "720,480",
            "--preset",
            "fast",
            "--crf",
            "20",
            "--chunk",
            "20s",
            "--thumbnails",
            "5s",
            "--subtitles",
            "en",
            "--scan",
            "--flag-at",
            "0.5",
        ];
        let expected = Recipe {
            ladder: vec![720, 480],
            preset: "fast".to_owned(),
            crf: 20,
            chunk_ms: Some(20_000),
            thumbnails_ms: 5_000,
            subtitles: Some("en".to_owned()),
            scan: true,
            flag_at: 0.5,
            ..Recipe::default()
        };
        assert_eq!(recipe(&flags(&words)).unwrap(), expected);
        assert!(recipe(&flags(&["--scan", "--flag-at", "0"])).is_err());
        assert!(recipe(&flags(&["--chunk", "90d"])).is_err());
        let told = |words: &[&str]| recipe(&flags(words)).unwrap_err().to_string();
        assert_eq!(recipe(&flags(&["--thumbnails", "off"])).unwrap().thumbnails_ms, 0);
        assert!(told(&["--thumbnails", "off", "--scan"]).starts_with("--thumbnails is 0"));
        assert!(told(&["--preset", "slowest"]).starts_with("--preset is `slowest`"));
        assert!(told(&["--chunk", "1s"]).starts_with("--chunk is 1000; give 2000 to"));
        assert!(told(&["--subtitles", "English"]).starts_with("--subtitles is `English`"));
        for wrong in [["--crf", "0"], ["--ladder", "481"], ["--crf", "52"]] {
            let line = ["video", "add", "a.mp4"].iter().chain(&wrong);
            assert!(VideoCommand::try_parse_from(line).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_cannot_be_added_is_told_before_anything_is_sent() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name).display().to_string();
        std::fs::write(path("empty.mp4"), "").unwrap();
        std::fs::write(path("film.mp4"), "x").unwrap();
        let code = |text: &str| {
            let error = Source::new(text).unwrap_err();
            error.downcast_ref::<Failure>().unwrap().code
        };
        assert_eq!(code(&path("missing.mp4")), Code::NotFound);
        assert_eq!(code(&path("empty.mp4")), Code::Usage);
        assert_eq!(code(&place.path().display().to_string()), Code::Usage);
        for wrong in ["http://", "ftp://a.example/b", "file:///a.mp4", "s3://a/b", "-"] {
            assert_eq!(code(wrong), Code::Usage, "{wrong}");
        }
        assert!(matches!(Source::new("HTTPS://a.example/b").unwrap(), Source::Address(_)));
        let denied = unreadable("a.mp4", &std::io::ErrorKind::PermissionDenied.into());
        assert_eq!(denied.code, Code::Refused);
        assert!(denied.cure.unwrap().contains("chmod"));
        let file = Source::new(&path("film.mp4")).unwrap();
        assert_eq!(file.title().as_deref(), Some("film"));
        let title = |name: &str| Source::File { path: name.into(), size: 1 }.title();
        assert_eq!(title("a\nb\tc.mp4").as_deref(), Some("a b c"));
        assert_eq!(title("\n.mp4"), None);
        assert_eq!(title(&"x".repeat(300)).map(|title| title.len()), Some(TITLE_LEN_MAX));
        assert!(matches!(Source::new("https://a.example/b").unwrap(), Source::Address(_)));
    }
}
