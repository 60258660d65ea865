//! Decides what no text file may hold: paths of one machine, left-over conflict marks, ragged white space, bulk.

use super::finding::Report;
use super::tree::TextFile;

const RULE: &str = "text";
/// Bytes of a file in the repository.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Folders that exist on somebody's machine and not on the reader's.
const PRIVATE_FOLDERS: [&str; 6] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("/Us", "ers/"),
    concat!("/tmp/bri", "efs"),
];
const CONFLICT_MARKS: [&str; 3] = ["<<<<<<< ", ">>>>>>> ", "||||||| "];

/// Checks one file.
pub(crate) fn check(file: &TextFile, report: &mut Report) {
    if file.bytes > FILE_BYTES_MAX {
        let message = format!(
            "has {} bytes, at most {FILE_BYTES_MAX}; keep bulk out of the repository",
            file.bytes
        );
        report.add(&file.path, 1, RULE, message);
    }
    for (index, line) in file.text.split_inclusive('\n').enumerate() {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        for problem in problems(&file.path, bare) {
            report.add(&file.path, index + 1, RULE, problem);
        }
    }
    let last = file.text.lines().count();
    if last > 0 && !file.text.ends_with('\n') {
        report.add(&file.path, last, RULE, "does not end with a line break; add one");
    }
}

fn problems(path: &str, line: &str) -> Vec<String> {
    let mut found = Vec::new();
    if line.ends_with('\r') {
        found.push("has a carriage return; save the file with plain line breaks".to_owned());
    } else if line.ends_with([' ', '\t']) {
        found.push("has white space at its end; remove it".to_owned());
    }
    if path.ends_with(".rs") && line.contains('\t') {
        found.push("has a tab; use spaces, or \\t in a literal".to_owned());
    }
    if CONFLICT_MARKS.iter().any(|mark| line.starts_with(mark)) {
        found.push("is the mark of a merge conflict; resolve it".to_owned());
    }
    for folder in PRIVATE_FOLDERS.iter().filter(|folder| holds_path(line, folder)) {
        found.push(format!(
            "names a folder of one machine (`{folder}`); use a relative path or a variable"
        ));
    }
    found
}

/// Whether `line` holds `folder` as the start of a path, not in the middle of a longer one.
fn holds_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '/' | '-' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(path: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        check(
            &TextFile { path: path.into(), text: text.into(), bytes: text.len() as u64 },
            &mut report,
        );
        report.places()
    }

    #[test]
    fn ragged_ends_are_found() {
        assert_eq!(places("a.md", "one\ntwo \nthree"), ["2 text", "3 text"]);
        assert_eq!(places("a.md", "one\r\n"), ["1 text"]);
        assert_eq!(places("a.md", "one\n"), [""; 0]);
        assert_eq!(places("a.md", ""), [""; 0]);
    }

    #[test]
    fn tabs_are_for_makefiles() {
        assert_eq!(places("a.rs", "fn a() {\n\tb();\n}\n"), ["2 text"]);
        assert_eq!(places("Makefile", "a:\n\tb\n"), [""; 0]);
    }

    #[test]
    fn conflict_marks_are_found() {
        let text =
            format!("{}ours\na\n=======\nb\n{}theirs\n", CONFLICT_MARKS[0], CONFLICT_MARKS[1]);
        assert_eq!(places("a.md", &text), ["1 text", "5 text"]);
    }

    #[test]
    fn folders_of_one_machine_are_found() {
        for folder in PRIVATE_FOLDERS {
            assert_eq!(places("a.md", &format!("see `{folder}me/x`\n")), ["1 text"], "{folder}");
            assert_eq!(
                places("a.md", &format!("see docs{folder}x and {{base}}{folder}\n")),
                [""; 0],
                "{folder}"
            );
        }
    }

    #[test]
    fn bulk_is_found() {
        let mut report = Report::default();
        check(
            &TextFile { path: "a.bin".into(), text: String::new(), bytes: FILE_BYTES_MAX + 1 },
            &mut report,
        );
        assert_eq!(report.places(), ["1 text"]);
    }
}
