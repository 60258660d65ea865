//! What tracks of sound and subtitles are called: the language as players know it, and a name that is no other track's.

/// Languages as files write them, those that MP4 files want first; as players want them; and their names.
const LANGUAGES: &[(&[&str], &str, &str)] = &[
    (&["afr"], "af", "Afrikaans"),
    (&["ara"], "ar", "Arabic"),
    (&["bul"], "bg", "Bulgarian"),
    (&["ben"], "bn", "Bengali"),
    (&["cat"], "ca", "Catalan"),
    (&["ces", "cze"], "cs", "Czech"),
    (&["cym", "wel"], "cy", "Welsh"),
    (&["dan"], "da", "Danish"),
    (&["deu", "ger"], "de", "German"),
    (&["ell", "gre"], "el", "Greek"),
    (&["eng"], "en", "English"),
    (&["spa"], "es", "Spanish"),
    (&["est"], "et", "Estonian"),
    (&["eus", "baq"], "eu", "Basque"),
    (&["fas", "per"], "fa", "Persian"),
    (&["fin"], "fi", "Finnish"),
    (&["fra", "fre"], "fr", "French"),
    (&["gle"], "ga", "Irish"),
    (&["glg"], "gl", "Galician"),
    (&["heb"], "he", "Hebrew"),
    (&["hin"], "hi", "Hindi"),
    (&["hrv"], "hr", "Croatian"),
    (&["hun"], "hu", "Hungarian"),
    (&["hye", "arm"], "hy", "Armenian"),
    (&["ind"], "id", "Indonesian"),
    (&["isl", "ice"], "is", "Icelandic"),
    (&["ita"], "it", "Italian"),
    (&["jpn"], "ja", "Japanese"),
    (&["kat", "geo"], "ka", "Georgian"),
    (&["kaz"], "kk", "Kazakh"),
    (&["kor"], "ko", "Korean"),
    (&["lat"], "la", "Latin"),
    (&["lit"], "lt", "Lithuanian"),
    (&["lav"], "lv", "Latvian"),
    (&["mkd", "mac"], "mk", "Macedonian"),
    (&["msa", "may"], "ms", "Malay"),
    (&["nld", "dut"], "nl", "Dutch"),
    (&["nor", "nob"], "no", "Norwegian"),
    (&["pol"], "pl", "Polish"),
    (&["por"], "pt", "Portuguese"),
    (&["ron", "rum"], "ro", "Romanian"),
    (&["rus"], "ru", "Russian"),
    (&["slk", "slo"], "sk", "Slovak"),
    (&["slv"], "sl", "Slovenian"),
    (&["sqi", "alb"], "sq", "Albanian"),
    (&["srp"], "sr", "Serbian"),
    (&["swe"], "sv", "Swedish"),
    (&["swa"], "sw", "Swahili"),
    (&["tam"], "ta", "Tamil"),
    (&["tel"], "te", "Telugu"),
    (&["tha"], "th", "Thai"),
    (&["tgl", "fil"], "tl", "Filipino"),
    (&["tur"], "tr", "Turkish"),
    (&["ukr"], "uk", "Ukrainian"),
    (&["urd"], "ur", "Urdu"),
    (&["vie"], "vi", "Vietnamese"),
    (&["zho", "chi"], "zh", "Chinese"),
];

/// The language and the name of each track, in order, from the language and the title that it has in its file. One
/// without either is called `unnamed`.
pub(super) fn names<'a>(
    tracks: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    unnamed: &str,
) -> Vec<(String, String)> {
    let mut named: Vec<(String, String)> = Vec::new();
    for (code, title) in tracks {
        let (language, known) = language(code);
        let title = title.map(|title| title.replace('"', "'"));
        let wanted =
            title.or_else(|| known.map(str::to_owned)).unwrap_or_else(|| unnamed.to_owned());
        let name = (1..)
            .map(|number| if number == 1 { wanted.clone() } else { format!("{wanted} {number}") })
            .find(|name| named.iter().all(|(_, other)| other != name))
            .expect("there are more numbers than tracks");
        named.push((language, name));
    }
    named
}

/// What people call a language, or its code.
pub(crate) fn language_name(code: &str) -> String {
    let name = language(code.split('-').next().unwrap_or(code)).1;
    name.map_or_else(|| code.to_owned(), str::to_owned)
}

/// The three letters (ISO 639-2) that MP4 files write for a language as players want it; `und` if it has none.
pub(crate) fn three_letters(code: &str) -> &str {
    let base = code.split('-').next().unwrap_or(code);
    match LANGUAGES.iter().find(|(long, short, _)| long.contains(&base) || *short == base) {
        Some((long, ..)) => long[0],
        None if base.len() == 3 => base,
        None => "und",
    }
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
        let streams = [
            ("eng", None),
            ("ger", None),
            ("en", None),
            ("und", None),
            ("tlh", None),
            ("eng", Some("The \"director\" speaks")),
            ("eng", Some("English 2")),
        ];
        let names = names(streams, "Sound");
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

    #[test]
    fn mp4_files_get_three_letters() {
        let table = [("en", "eng"), ("de", "deu"), ("pt-BR", "por"), ("tlh", "tlh"), ("xx", "und")];
        for (code, letters) in table {
            assert_eq!(three_letters(code), letters);
        }
        assert!(LANGUAGES.iter().all(|(long, short, _)| long[0].len() == 3 && short.len() == 2));
    }
}
