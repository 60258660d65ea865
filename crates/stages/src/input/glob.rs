//! Names of files: paths, folders and patterns, as they are when a job is started.
//!
//! `*` is any letters of a name, `?` one letter, `[a-c]` one of some, `**` any folders. Names that begin with a dot are
//! found only where the pattern says the dot. A folder stands for the files in it. A pattern that finds nothing is an
//! error: a job on nothing is hardly ever meant.

use std::path::{Component, Path, PathBuf};

use crate::job::{InputFile, SpecError};

/// Files of one pattern at most.
const FILES_MAX: usize = 100_000;

/// The files that these paths and patterns name, each once, in the order of patterns and then of names.
///
/// # Errors
/// Names the pattern that finds nothing, or the file that cannot be read.
pub fn expand(patterns: &[String]) -> Result<Vec<InputFile>, SpecError> {
    let mut files: Vec<InputFile> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    if patterns.is_empty() {
        return Err(SpecError::new(
            "--input",
            "is missing; name a file, a folder or a pattern such as 'logs/*.gz'",
        ));
    }
    for pattern in patterns {
        let wrong = |problem: String| SpecError::new("--input", format!("`{pattern}` {problem}"));
        let found = find(pattern).map_err(|problem| wrong(problem.to_string()))?;
        if found.is_empty() {
            return Err(wrong("finds no file; look at it with ls, and quote patterns".to_owned()));
        }
        for path in found {
            let file = InputFile::look(&path)
                .and_then(|file| std::fs::File::open(&path).map(|_| file))
                .map_err(|error| wrong(format!("names {}: {error}", path.display())))?;
            if seen.insert(file.path.clone()) {
                files.push(file);
            }
        }
    }
    if files.len() > FILES_MAX {
        return Err(SpecError::new(
            "--input",
            format!("finds {} files, at most {FILES_MAX}", files.len()),
        ));
    }
    Ok(files)
}

fn find(pattern: &str) -> std::io::Result<Vec<PathBuf>> {
    let path = Path::new(pattern);
    if !has_wildcard(pattern) || path.exists() {
        return if path.is_dir() { files_in(path) } else { Ok(vec![path.to_owned()]) };
    }
    let mut found = vec![PathBuf::new()];
    for component in path.components() {
        found = match component {
            Component::Normal(name) => {
                let name = name.to_string_lossy();
                let mut next = Vec::new();
                for folder in &found {
                    descend(folder, &name, &mut next)?;
                }
                next.sort();
                next.dedup();
                next
            }
            other => found.into_iter().map(|path| path.join(other)).collect(),
        };
        if found.len() > FILES_MAX {
            return Err(std::io::Error::other(format!("finds more than {FILES_MAX} files")));
        }
    }
    Ok(found.into_iter().filter(|path| path.is_file()).collect())
}

/// What one name of a pattern finds in a folder.
fn descend(folder: &Path, name: &str, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !has_wildcard(name) {
        let path = folder.join(name);
        if path.exists() {
            found.push(path);
        }
        return Ok(());
    }
    if name == "**" {
        found.push(folder.to_owned());
    }
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !here.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(here)? {
        let entry = entry?;
        let text = entry.file_name();
        let text = text.to_string_lossy();
        let path = folder.join(&*text);
        if text.starts_with('.') && !name.starts_with('.') {
            continue;
        }
        if name == "**" {
            if entry.file_type()?.is_dir() {
                descend(&path, name, found)?;
            }
        } else if matches(name.as_bytes(), text.as_bytes()) {
            found.push(path);
        }
    }
    Ok(())
}

fn files_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_file() && !hidden {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether a name fits a pattern. After a mismatch only the latest `*` can take one letter more.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut letter, mut star) = (0, 0, None);
    while letter < name.len() {
        match one(&pattern[at..], name[letter]) {
            Some(taken) => {
                at += taken;
                letter += 1;
            }
            None if pattern.get(at) == Some(&b'*') => {
                star = Some((at, letter));
                at += 1;
            }
            None => {
                let Some((star_at, star_letter)) = star else { return false };
                star = Some((star_at, star_letter + 1));
                (at, letter) = (star_at + 1, star_letter + 1);
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

/// How much of the pattern takes this letter, if its front does.
fn one(pattern: &[u8], letter: u8) -> Option<usize> {
    match pattern.first()? {
        b'*' => None,
        b'?' => Some(1),
        b'[' => {
            let end = pattern.iter().skip(2).position(|byte| *byte == b']').map(|end| end + 2);
            let Some(end) = end else { return (letter == b'[').then_some(1) };
            let (except, set) = match &pattern[1..end] {
                [b'!' | b'^', set @ ..] => (true, set),
                set => (false, set),
            };
            let mut inside = false;
            let mut rest = set;
            while let [first, tail @ ..] = rest {
                rest = match tail {
                    [b'-', last, tail @ ..] => {
                        inside |= (*first..=*last).contains(&letter);
                        tail
                    }
                    tail => {
                        inside |= *first == letter;
                        tail
                    }
                };
            }
            (inside != except).then_some(end + 1)
        }
        byte => (*byte == letter).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns_as_in_a_shell() {
        for (pattern, name, fits) in [
            ("*.gz", "a.gz", true),
            ("*.gz", "a.gzip", false),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyyb", false),
            ("?[0-9].csv", "x7.csv", true),
            ("?[!0-9].csv", "x7.csv", false),
            ("[", "[", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_find_files_in_order_and_nothing_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("a/deep")).unwrap();
        for name in ["b.txt", "a/1.txt", "a/2.txt", "a/deep/3.txt", "a/.hidden.txt", "a/other.csv"]
        {
            std::fs::write(place.path().join(name), name).unwrap();
        }
        let names = |patterns: &[&str]| {
            let patterns: Vec<String> =
                patterns.iter().map(|text| format!("{}/{text}", place.path().display())).collect();
            let files = expand(&patterns).map_err(|error| error.to_string())?;
            let strip = |file: &InputFile| {
                file.path.strip_prefix(place.path()).unwrap().display().to_string()
            };
            Ok::<_, String>(files.iter().map(strip).collect::<Vec<_>>())
        };
        assert_eq!(
            names(&["a/*.txt", "*.txt", "a/1.txt"]).unwrap(),
            ["a/1.txt", "a/2.txt", "b.txt"]
        );
        assert_eq!(names(&["**/*.txt"]).unwrap(), ["a/1.txt", "a/2.txt", "a/deep/3.txt", "b.txt"]);
        assert_eq!(names(&["a"]).unwrap(), ["a/1.txt", "a/2.txt", "a/other.csv"]);
        assert!(names(&["*.json"]).unwrap_err().contains("finds no file"));
        assert!(names(&["missing"]).unwrap_err().contains("No such file"));
        assert!(expand(&[]).unwrap_err().to_string().contains("--input is missing"));
    }
}
