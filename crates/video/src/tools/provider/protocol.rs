//! What is said to a provider and what it may answer, as JSON lines. Decides which answers are believed: all of them
//! are checked, and one that is not understood fails the run. Progress lines are passed over here; `live` has read them
//! by then. Knows nothing of processes.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::results::Score;

/// Answers of one run.
const ANSWERS_MAX: usize = 200_000;
/// Bytes of one answer, and of what is quoted of it.
pub(super) const ANSWER_BYTES_MAX: usize = 16 << 10;
const QUOTE_CHARS_MAX: usize = 120;
/// Characters of a name that a provider gives: itself, its version, its model, a label.
const NAME_CHARS_MAX: usize = 64;
/// Characters of what identifies a provider; it is the value of a capability.
const IDENTITY_CHARS_MAX: usize = 100;

/// What a provider is asked for.
#[derive(Debug, Serialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub(super) enum Request<'a> {
    /// Who it is.
    Describe,
    /// What is said in a file: WAV, 16 kHz, one channel, 16 bits.
    Transcribe {
        /// The file.
        audio: PathBuf,
        /// The language that is spoken.
        language: &'a str,
    },
    /// What is seen in pictures.
    Scan {
        /// The pictures.
        frames: &'a [Frame],
    },
}

/// A picture to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// When it is shown.
    pub at_ms: u64,
    /// The picture, a JPEG.
    pub path: PathBuf,
}

/// Who a provider is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its name, such as `whisper`.
    pub provider: String,
    /// Its version.
    pub version: String,
    /// The model that it uses, in words that change with the model.
    pub model: String,
    /// The languages that it understands, such as `en`; all if it names none.
    #[serde(default)]
    pub languages: Vec<String>,
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// When it begins.
    pub start_ms: u64,
    /// When it ends.
    pub end_ms: u64,
    /// What was said.
    pub text: String,
    /// How sure the provider is, from 0 to 1, if it says so.
    #[serde(default)]
    pub confidence: Option<f64>,
}

/// All that a provider answered.
#[derive(Debug, PartialEq)]
pub(super) struct Answers {
    pub about: About,
    pub segments: Vec<Segment>,
    pub scores: Vec<Score>,
}

/// One line, told by the word that only its kind has.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    About(About),
    Segment(Segment),
    Score(Score),
    Progress { progress: f64 },
    Heard { heard_ms: u64 },
    Seen { seen_frames: u64 },
    Done { done: bool },
}

impl About {
    /// Provider, version and model in one word that may be the value of a capability. Equal words mean equal results.
    pub fn identity(&self) -> String {
        let whole = format!("{}-{}-{}", self.provider, self.model, self.version);
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let word: String = whole.chars().map(plain).collect();
        if word == whole && word.len() <= IDENTITY_CHARS_MAX {
            return word;
        }
        // Two names must not become one by what was replaced or cut off.
        let hash = blake3::hash(whole.as_bytes()).to_hex();
        format!("{}-{}", &word[..word.len().min(IDENTITY_CHARS_MAX - 9)], &hash[..8])
    }

    /// Whether it understands a language, such as `en` or `en-GB`.
    pub fn understands(&self, language: &str) -> bool {
        let main = |language: &str| language.split('-').next().map(str::to_ascii_lowercase);
        self.languages.is_empty() || self.languages.iter().any(|own| main(own) == main(language))
    }

    fn check(&self) -> Result<(), String> {
        for (name, value) in
            [("provider", &self.provider), ("version", &self.version), ("model", &self.model)]
        {
            check_name(name, value)?;
        }
        Ok(())
    }
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.provider, self.model, self.version)
    }
}

impl Request<'_> {
    /// The request as the provider reads it.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a request is plain data");
        line.push(b'\n');
        line
    }

    /// Reads what was answered to it; otherwise what is wrong with that.
    pub(super) fn read(&self, output: &[u8]) -> Result<Answers, String> {
        let output = std::str::from_utf8(output).map_err(|_| "it did not answer in UTF-8")?;
        let mut lines = output.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().ok_or("it did not answer")?;
        let Line::About(about) = parse(first)? else {
            return Err(format!("its first answer does not say who it is: {}", quote(first)));
        };
        about.check()?;
        let mut answers = Answers { about, segments: Vec::new(), scores: Vec::new() };
        let mut done = false;
        for line in lines {
            if done {
                return Err(format!("it went on after it was done: {}", quote(line)));
            }
            done = self.take(line, &mut answers)?;
        }
        if !done {
            return Err("it stopped before it was done".to_owned());
        }
        self.check_whole(&answers)?;
        Ok(answers)
    }

    /// Takes one answer; says whether it was the last one.
    fn take(&self, line: &str, answers: &mut Answers) -> Result<bool, String> {
        let wrong = |problem: &str| Err(format!("{problem}: {}", quote(line)));
        if answers.segments.len() + answers.scores.len() >= ANSWERS_MAX {
            return Err(format!("it gave more than {ANSWERS_MAX} answers"));
        }
        match (parse(line)?, self) {
            (Line::Done { done: true }, _) => return Ok(true),
            (Line::Progress { progress }, _) if (0.0..=1.0).contains(&progress) => {}
            (Line::Progress { .. }, _) => return wrong("its progress is not from 0 to 1"),
            (Line::Heard { .. }, Self::Transcribe { .. })
            | (Line::Seen { .. }, Self::Scan { .. }) => {}
            (Line::Segment(segment), Self::Transcribe { .. }) => {
                if segment.end_ms < segment.start_ms {
                    return wrong("something ends before it begins");
                }
                if segment.confidence.is_some_and(|sure| !(0.0..=1.0).contains(&sure)) {
                    return wrong("its confidence is not from 0 to 1");
                }
                answers.segments.push(segment);
            }
            (Line::Score(score), Self::Scan { frames }) => {
                if !(0.0..=1.0).contains(&score.score) {
                    return wrong("its score is not from 0 to 1");
                }
                if !frames.iter().any(|frame| frame.at_ms == score.at_ms) {
                    return wrong("it was not asked about that frame");
                }
                check_name("label", &score.label)?;
                answers.scores.push(score);
            }
            _ => return wrong("that is no answer to what was asked"),
        }
        Ok(false)
    }

    /// A frame that nobody scored must not pass as one without findings.
    fn check_whole(&self, answers: &Answers) -> Result<(), String> {
        let Self::Scan { frames } = self else { return Ok(()) };
        let scored: BTreeSet<u64> = answers.scores.iter().map(|score| score.at_ms).collect();
        match frames.iter().find(|frame| !scored.contains(&frame.at_ms)) {
            Some(frame) => Err(format!("it gave no score for the frame at {} ms", frame.at_ms)),
            None => Ok(()),
        }
    }
}

pub(super) fn parse(line: &str) -> Result<Line, String> {
    if line.len() > ANSWER_BYTES_MAX {
        return Err(format!("an answer has more than {ANSWER_BYTES_MAX} bytes: {}", quote(line)));
    }
    serde_json::from_slice(line.as_bytes())
        .map_err(|_| format!("it said what is no answer: {}", quote(line)))
}

fn check_name(field: &str, value: &str) -> Result<(), String> {
    let long = value.chars().count() > NAME_CHARS_MAX;
    if value.trim().is_empty() || long || value.chars().any(char::is_control) {
        let value = quote(value);
        return Err(format!("its `{field}` must have 1 to {NAME_CHARS_MAX} characters: {value}"));
    }
    Ok(())
}

fn quote(line: &str) -> String {
    let mut text: String = line.chars().filter(|c| !c.is_control()).take(QUOTE_CHARS_MAX).collect();
    if text.len() < line.trim_end().len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: &str = r#"{"provider":"ear","version":"2","model":"m-1","languages":["en"]}"#;

    fn scan(frames: &[Frame]) -> Request<'_> {
        Request::Scan { frames }
    }

    fn frames() -> Vec<Frame> {
        [0, 10_000].map(|at_ms| Frame { at_ms, path: "still.jpg".into() }).to_vec()
    }

    #[test]
    fn a_request_is_one_line_that_names_its_task() {
        let hear = Request::Transcribe { audio: "a.wav".into(), language: "en" };
        assert_eq!(
            String::from_utf8(hear.line()).unwrap(),
            "{\"task\":\"transcribe\",\"audio\":\"a.wav\",\"language\":\"en\"}\n"
        );
        assert_eq!(Request::Describe.line(), b"{\"task\":\"describe\"}\n");
        assert_eq!(
            String::from_utf8(scan(&frames()[..1]).line()).unwrap(),
            "{\"task\":\"scan\",\"frames\":[{\"at_ms\":0,\"path\":\"still.jpg\"}]}\n"
        );
    }

    #[test]
    fn whole_answers_are_believed() {
        let hear = Request::Transcribe { audio: "a.wav".into(), language: "en" };
        let said = format!(
            "{ABOUT}\n{{\"progress\":0.5}}\n{{\"heard_ms\":5}}\n\n{{\"start_ms\":0,\"end_ms\":5,\"text\":\"hi\",\"extra\":1}}\n{{\"done\":true}}\n"
        );
        let answers = hear.read(said.as_bytes()).unwrap();
        assert_eq!(answers.segments.len(), 1);
        assert_eq!(
            (answers.segments[0].text.as_str(), answers.segments[0].confidence),
            ("hi", None)
        );
        let said = format!(
            "{ABOUT}\n{{\"at_ms\":10000,\"label\":\"x\",\"score\":1}}\n{{\"seen_frames\":1}}\n{{\"at_ms\":0,\"label\":\"x\",\"score\":0.25}}\n{{\"done\":true}}"
        );
        assert_eq!(scan(&frames()).read(said.as_bytes()).unwrap().scores.len(), 2);
    }

    #[test]
    fn every_other_answer_fails_with_its_own_words() {
        let hear = || Request::Transcribe { audio: "a.wav".into(), language: "en" };
        let done = "{\"done\":true}";
        let long = format!("{{\"start_ms\":0,\"end_ms\":1,\"text\":\"{}\"}}", "x".repeat(20_000));
        for (lines, reason) in [
            (vec![], "did not answer"),
            (vec![done], "does not say who it is"),
            (vec!["Traceback: out of luck"], "no answer: Traceback: out of luck"),
            (vec![ABOUT], "stopped before it was done"),
            (vec![ABOUT, done, done], "went on after it was done"),
            (vec![ABOUT, "{\"done\":false}", done], "no answer to what was asked"),
            (vec![ABOUT, "hello", done], "no answer: hello"),
            (vec![ABOUT, "{\"progress\":7}", done], "progress is not"),
            (vec![ABOUT, "{\"heard_ms\":-7}", done], "is no answer"),
            (vec![ABOUT, "{\"seen_frames\":7}", done], "no answer to what was asked"),
            (vec![ABOUT, "{\"start_ms\":5,\"end_ms\":1,\"text\":\"x\"}", done], "ends before"),
            (vec![ABOUT, "{\"start_ms\":-5,\"end_ms\":1,\"text\":\"x\"}", done], "is no answer"),
            (
                vec![ABOUT, "{\"start_ms\":0,\"end_ms\":1,\"text\":\"x\",\"confidence\":9}", done],
                "confidence is not",
            ),
            (vec![ABOUT, "{\"at_ms\":0,\"label\":\"x\",\"score\":0}", done], "no answer to what"),
            (vec![ABOUT, &long, done], "more than 16384 bytes"),
            (vec![r#"{"provider":" ","version":"2","model":"m"}"#, done], "`provider` must"),
        ] {
            let problem = hear().read(lines.join("\n").as_bytes()).unwrap_err();
            assert!(problem.contains(reason), "{lines:?}: {problem}");
            assert!(problem.chars().count() < 250, "{problem}");
        }
    }

    #[test]
    fn a_scan_must_cover_every_frame_that_was_asked_for_and_no_other() {
        let score =
            |at_ms, score| format!("{{\"at_ms\":{at_ms},\"label\":\"x\",\"score\":{score}}}");
        let frames = frames();
        for (lines, reason) in [
            (vec![score(0, "0.1")], "no score for the frame at 10000 ms"),
            (vec![score(0, "0.1"), score(5, "0.1")], "not asked about"),
            (vec![score(0, "1.5")], "score is not from 0 to 1"),
        ] {
            let said = format!("{ABOUT}\n{}\n{{\"done\":true}}", lines.join("\n"));
            let problem = scan(&frames).read(said.as_bytes()).unwrap_err();
            assert!(problem.contains(reason), "{lines:?}: {problem}");
        }
    }

    #[test]
    fn an_identity_is_one_plain_word_and_differs_when_the_provider_does() {
        let about = |model: &str| About {
            provider: "whisper".into(),
            version: "1.2".into(),
            model: model.into(),
            languages: vec!["en".into()],
        };
        assert_eq!(about("tiny.en-1a5a").identity(), "whisper-tiny.en-1a5a-1.2");
        let (one, two) = (about("a b").identity(), about("a,b").identity());
        assert_ne!(one, two);
        let long = about(&"ü".repeat(60)).identity();
        for word in [one, two, long] {
            assert!(word.len() <= IDENTITY_CHARS_MAX, "{word}");
            assert!(word.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)), "{word}");
        }
        assert!(about("m").understands("en-GB") && !about("m").understands("de"));
    }
}
