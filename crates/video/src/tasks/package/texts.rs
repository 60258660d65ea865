//! The subtitles of a video: files that were given, what the source carries, what a provider heard; in this order.
//!
//! Each is a track of its own in the playlist, with a name and a file that no other one has.

use divvy::objects::Blob;
use divvy::prelude::*;

use super::super::{Captions, Pcm, Transcribe};
use super::{Book, failed, file_name};
use crate::hls::{Alternative, MediaList, Segment};
use crate::manifest::{Origin, Part, TextEntry};
use crate::plan::language_name;
use crate::probe::TextStream;
use crate::results::{self, Transcript};
use crate::studio::failure;
use crate::{subtitles, webvtt};

/// All subtitles of a video.
#[derive(Default)]
pub(super) struct Texts {
    /// How listening went.
    pub(super) heard: Part,
    /// How it went with those of the source.
    pub(super) carried: Part,
    pub(super) entries: Vec<TextEntry>,
    pub(super) lists: Vec<Alternative>,
}

impl Book<'_> {
    pub(super) async fn texts(
        &mut self,
        ended: &impl Fn(&str) -> Option<String>,
    ) -> Outcome<Texts> {
        let mut texts = Texts::default();
        self.given(&mut texts).await?;
        texts.carried = self.carried(&mut texts, ended).await?;
        texts.heard = self.heard(&mut texts, ended).await?;
        Ok(texts)
    }

    /// Files that came with the video. They were read when it was added.
    async fn given(&mut self, texts: &mut Texts) -> Outcome<()> {
        let objects = self.studio.objects();
        let video = &self.plan.probe.video;
        let length_ms = video.rate.micros(video.frames).div_ceil(1_000);
        for file in &self.plan.recipe.subtitle_files {
            let bytes = objects.get(file.file).await.map_err(failure)?;
            let cues = subtitles::parse(&bytes).map_err(|problem| {
                Failure::dead(format_args!("the {} subtitles: the file {problem}", file.language))
            })?;
            let text = webvtt::file(&subtitles::fitted(cues, 0, length_ms));
            let blob = objects.put(text.into_bytes()).await.map_err(failure)?;
            let name = language_name(&file.language);
            self.add_text(texts, &file.language, &name, blob, Origin::File).await?;
        }
        Ok(())
    }

    async fn carried(
        &mut self,
        texts: &mut Texts,
        ended: &impl Fn(&str) -> Option<String>,
    ) -> Outcome<Part> {
        let Some(captions) = &self.plan.captions else {
            return Ok(Part::Skipped { reason: "the source carries none".to_owned() });
        };
        let Some(found) = self.optional::<results::Captions>(&captions.key).await? else {
            return Ok(failed(ended(Captions::KIND)));
        };
        self.made.cost = self.made.cost + found.cost;
        for (track, text) in captions.tracks.iter().zip(&found.tracks) {
            let (language, name) = (&track.language, &track.name);
            self.add_text(texts, language, name, text.subtitles, Origin::Source).await?;
        }
        Ok(Part::Done { provider: "ffmpeg".to_owned() })
    }

    async fn heard(
        &mut self,
        texts: &mut Texts,
        ended: &impl Fn(&str) -> Option<String>,
    ) -> Outcome<Part> {
        let wanted = self.plan.recipe.subtitles.is_some();
        let Some(key) = &self.plan.subtitles else {
            let reason = match (wanted, self.plan.tracks.is_empty()) {
                (false, _) => "not asked for",
                (true, true) => "the video has no sound",
                (true, false) => "no provider is switched on; start workers with --speech NAME",
            };
            return Ok(Part::Skipped { reason: reason.to_owned() });
        };
        let Some(transcript) = self.optional::<Transcript>(key).await? else {
            return Ok(failed(ended(Pcm::KIND).or_else(|| ended(Transcribe::KIND))));
        };
        self.made.cost = self.made.cost + transcript.cost;
        let (language, blob) = (&transcript.language, transcript.subtitles);
        self.add_text(texts, language, language, blob, Origin::Provider).await?;
        Ok(Part::Done { provider: transcript.provider })
    }

    /// Adds a track with its file and its playlist.
    async fn add_text(
        &mut self,
        texts: &mut Texts,
        language: &str,
        name: &str,
        blob: Blob,
        origin: Origin,
    ) -> Outcome<()> {
        let name = free(name, " ", |name| texts.entries.iter().all(|entry| entry.name != name));
        let path = |file: &str| format!("subs/{file}.vtt");
        let file = free(&file_name(language), "_", |file| {
            texts.entries.iter().all(|entry| entry.path != path(file))
        });
        self.files.blob(&path(&file), blob);
        let video = &self.plan.probe.video;
        let length = video.frames * u64::from(video.rate.frame_ticks());
        let segments = vec![Segment { uri: format!("{file}.vtt"), length, bytes: blob.size }];
        let list = MediaList { timescale: video.rate.timescale(), init: None, segments };
        let uri = format!("subs/{file}.m3u8");
        self.text(&uri, list.text()).await?;
        let (language, path) = (language.to_owned(), path(&file));
        texts.lists.push(Alternative { uri, name: name.clone(), language: language.clone() });
        texts.entries.push(TextEntry { language, name, path, origin });
        Ok(())
    }
}

/// The subtitles of a source that are pictures, which no player shows beside HLS, in words.
pub(super) fn lost(subtitles: &[TextStream]) -> Vec<String> {
    let pictures = subtitles.iter().filter(|stream| !stream.is_text());
    pictures
        .map(|TextStream { index, codec, language, .. }| {
            let language = match language.as_str() {
                "und" => "unnamed".to_owned(),
                code => language_name(code),
            };
            format!("the {language} subtitles of the source are pictures and not carried over: stream {index}, {codec}")
        })
        .collect()
}

/// What is wanted, or the first with a number after it that is free.
fn free(wanted: &str, before: &str, is_free: impl Fn(&str) -> bool) -> String {
    (1..)
        .map(|number| match number {
            1 => wanted.to_owned(),
            _ => format!("{wanted}{before}{number}"),
        })
        .find(|name| is_free(name))
        .expect("there are more numbers than tracks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtitles_that_are_pictures_are_named() {
        let stream = |index, codec: &str, language: &str| TextStream {
            index,
            codec: codec.to_owned(),
            language: language.to_owned(),
            title: None,
        };
        let found = [
            stream(2, "subrip", "eng"),
            stream(3, "hdmv_pgs_subtitle", "ger"),
            stream(4, "dvb_subtitle", "und"),
        ];
        assert_eq!(
            lost(&found),
            [
                "the German subtitles of the source are pictures and not carried over: stream 3, hdmv_pgs_subtitle",
                "the unnamed subtitles of the source are pictures and not carried over: stream 4, dvb_subtitle",
            ]
        );
    }
}
