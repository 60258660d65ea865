//! What sound tracks are called: the language as players know it, and a name that is no other track's.

use crate::probe::AudioStream;

/// Languages as files write them, as players want them, and their names.
const LANGUAGES: &[(&[&str], &str, &str)] = &[
    (&["ara"], "ar", "Arabic"),
    (&["ces", "cze"], "cs", "Czech"),
    (&["dan"], "da", "Danish"),
    (&["deu", "ger"], "de", "German"),
    (&["ell", "gre"], "el", "Greek"),
    (&["eng"], "en", "English"),
    (&["fin"], "fi", "Finnish"),
    (&["fra", "fre"], "fr", "French"),
    (&["heb"], "he", "Hebrew"),
    (&["hin"], "hi", "Hindi"),
    (&["hun"], "hu", "Hungarian"),
    (&["ind"], "id", "Indonesian"),
    (&["ita"], "it", "Italian"),
    (&["jpn"], "ja", "Japanese"),
    (&["kor"], "ko", "Korean"),
    (&["nld", "dut"], "nl", "Dutch"),
    (&["nor", "nob"], "no", "Norwegian"),
    (&["pol"], "pl", "Polish"),
    (&["por"], "pt", "Portuguese"),
    (&["ron", "rum"], "ro", "Romanian"),
    (&["rus"], "ru", "Russian"),
    (&["spa"], "es", "Spanish"),
    (&["swe"], "sv", "Swedish"),
    (&["tha"], "th", "Thai"),
    (&["tur"], "tr", "Turkish"),
    (&["ukr"], "uk", "Ukrainian"),
    (&["vie"], "vi", "Vietnamese"),
    (&["zho", "chi"], "zh", "Chinese"),
];

/// The language and the name of each track, in order.
pub(super) fn names(streams: &[AudioStream]) -> Vec<(String, String)> {
    let mut named: Vec<(String, String)> = Vec::new();
    for stream in streams {
        let (language, known) = language(&stream.language);
        let title = stream.title.as_deref().map(|title| title.replace('"', "'"));
        let wanted =
            title.or_else(|| known.map(str::to_owned)).unwrap_or_else(|| "Sound".to_owned());
        let name = (1..)
            .map(|number| if number == 1 { wanted.clone() } else { format!("{wanted} {number}") })
            .find(|name| named.iter().all(|(_, other)| other != name))
            .expect("there are more numbers than tracks");
        named.push((language, name));
    }
    named
}

/// The language as players want it, and its name if it is known.
fn language(code: &str) -> (String, Option<&'static str>) {
    let known = LANGUAGES.iter().find(|(long, short, _)| long.contains(&code) || *short == code);
    match known {
        Some((_, short, name)) => ((*short).to_owned(), Some(name)),
        None => (code.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_have_their_language_and_a_name_of_their_own() {
        let stream = |language: &str, title: Option<&str>| AudioStream {
            index: 0,
            codec: "aac".into(),
            channels: 2,
            language: language.into(),
            title: title.map(str::to_owned),
        };
        let streams = [
            stream("eng", None),
            stream("ger", None),
            stream("en", None),
            stream("und", None),
            stream("tlh", None),
            stream("eng", Some("The \"director\" speaks")),
            stream("eng", Some("English 2")),
        ];
        let names = names(&streams);
        let expected = [
            ("en", "English"),
            ("de", "German"),
            ("en", "English 2"),
            ("und", "Sound"),
            ("tlh", "Sound 2"),
            ("en", "The 'director' speaks"),
            ("en", "English 2 2"),
        ];
        let expected = expected.map(|(language, name)| (language.to_owned(), name.to_owned()));
        assert_eq!(names, expected);
    }
}
