//! Ready-made providers: Python programs that come with this one, and the packages that they need, which do not.
//!
//! Decides where they are and when one is whole: the last thing that an installation writes is a mark with the hash of
//! what was installed, so that one that was broken off, or is of another version, is seen and mended: only the program
//! if its packages are still the same, everything otherwise.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The oldest and the newest Python for which hashes of packages are known; the same as in `scripts/providers-lock`.
const PYTHON_MIN: (u32, u32) = (3, 11);
const PYTHON_MAX: (u32, u32) = (3, 14);
/// What is looked for, in this order.
const PYTHONS: [&str; 5] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];
/// Characters of a program's words in an error.
const WORDS_MAX: usize = 800;
/// The file that says that an installation is whole.
const MARK: &str = "installed";
const SCRIPT: &str = "provider.py";
/// The file that says which packages are there.
const REQUIREMENTS: &str = "requirements.txt";
/// The file that says that the virtual environment is made and its packages are not all there: the next try goes on here.
const BARE: &str = "bare";

/// What an installed provider is asked to see whether it works: who it is.
pub const DESCRIBE: &[u8] = b"{\"task\":\"describe\"}\n";

/// A provider that comes with this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The Python program.
    pub script: &'static str,
    /// Its packages: versions and hashes, as `scripts/providers-lock` writes them.
    pub requirements: &'static str,
}

/// Why a provider could not be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// No Python, or none that will do.
    #[error(
        "providers need Python {}.{} to {}.{}: {problem}; apt-get install python3 python3-venv",
        PYTHON_MIN.0, PYTHON_MIN.1, PYTHON_MAX.0, PYTHON_MAX.1
    )]
    Python {
        /// What was found.
        problem: String,
    },
    /// Python cannot make virtual environments.
    #[error(
        "python3 cannot make a virtual environment; apt-get install python3-venv; it says: {words}"
    )]
    Venv {
        /// What Python says.
        words: String,
    },
    /// The packages could not be had.
    #[error(
        "cannot install the packages of `{name}`; check the network and pip's settings, then try again; pip says: {words}"
    )]
    Packages {
        /// The provider.
        name: &'static str,
        /// What pip says.
        words: String,
    },
    /// It is there but does not work.
    #[error("`{name}` was installed but does not work: {problem}")]
    Broken {
        /// The provider.
        name: &'static str,
        /// What it says.
        problem: String,
    },
    /// The folder.
    #[error("cannot {act} {path}: {source}")]
    Io {
        /// What was tried.
        act: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl Ready {
    /// Whether it is installed in this folder, whole and in this program's version.
    pub fn is_in(&self, folder: &Path) -> bool {
        std::fs::read_to_string(folder.join(MARK)).is_ok_and(|mark| mark == self.fingerprint())
            && self.python(folder).exists()
    }

    /// The interpreter and the arguments that run it.
    pub fn command(&self, folder: &Path) -> (PathBuf, Vec<std::ffi::OsString>) {
        let script = folder.join(SCRIPT).into_os_string();
        (self.python(folder), vec!["-I".into(), "-B".into(), script])
    }

    /// Whether every package is pinned by its version and by hashes.
    pub fn is_pinned(&self) -> bool {
        let text = self.requirements.replace("\\\n", " ");
        let mut packages = text.lines().filter(|line| !line.starts_with('#')).peekable();
        let is_hash = |word: &str| {
            word.strip_prefix("--hash=sha256:").is_some_and(|digits| {
                digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        };
        let is_pin = |line: &str| {
            let mut words = line.split_whitespace();
            let package = words.next().and_then(|word| word.split_once("=="));
            let hashes: Vec<&str> = words.collect();
            package.is_some_and(|(name, version)| !name.is_empty() && !version.is_empty())
                && !hashes.is_empty()
                && hashes.into_iter().all(is_hash)
        };
        packages.peek().is_some() && packages.all(is_pin)
    }

    fn python(&self, folder: &Path) -> PathBuf {
        folder.join("venv/bin/python")
    }

    fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [self.script, self.requirements] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }
}

/// Where ready-made providers are installed: `DIVVY_PROVIDERS`, or `divvy/providers` where this user's data is.
pub fn root() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = variable("DIVVY_PROVIDERS") {
        return folder.into();
    }
    let data = variable("XDG_DATA_HOME").map(PathBuf::from);
    let home =
        || PathBuf::from(variable("HOME").unwrap_or_else(|| ".".into())).join(".local/share");
    data.unwrap_or_else(home).join("divvy/providers")
}

/// Where a ready-made provider is installed, or would be.
pub fn folder(name: &str) -> PathBuf {
    root().join(name)
}

/// Installs a ready-made provider in `folder`, unless it is there already, and asks it who it is; `understand` reads its
/// answer. What is being done is told to `progress`, in words.
///
/// # Errors
/// With the cure. The next try keeps the environment that was made and replaces packages that may be half there.
pub async fn install<T>(
    ready: &Ready,
    folder: &Path,
    understand: impl FnOnce(&[u8]) -> Result<T, String> + Send,
    mut progress: impl FnMut(&str) + Send,
) -> Result<T, InstallError> {
    let folder = std::path::absolute(folder).map_err(io("find", folder))?;
    let fresh = !ready.is_in(&folder);
    if fresh {
        put(ready, &folder, &mut progress).await?;
    }
    progress("trying it out");
    match describe(ready, &folder).await.and_then(|said| understand(&said)) {
        Ok(about) => {
            if fresh {
                write(&folder.join(MARK), &ready.fingerprint()).await?;
            }
            Ok(about)
        }
        Err(problem) => {
            // The next try shall not believe what these say, and make all of it anew.
            for mark in [MARK, REQUIREMENTS] {
                let _ = tokio::fs::remove_file(folder.join(mark)).await;
            }
            Err(InstallError::Broken { name: ready.name, problem })
        }
    }
}

async fn put(
    ready: &Ready,
    folder: &Path,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<(), InstallError> {
    let packages = tokio::fs::read_to_string(folder.join(REQUIREMENTS)).await;
    if packages.is_ok_and(|packages| packages == ready.requirements)
        && ready.python(folder).exists()
    {
        return write(&folder.join(SCRIPT), ready.script).await;
    }
    let bare = folder.join(BARE);
    if !(bare.exists() && ready.python(folder).exists()) {
        let python = find_python(&PYTHONS).await?;
        if folder.exists() {
            tokio::fs::remove_dir_all(folder).await.map_err(io("remove", folder))?;
        }
        tokio::fs::create_dir_all(folder).await.map_err(io("create", folder))?;
        progress("making a virtual environment");
        let mut venv = Command::new(python);
        venv.args(["-m", "venv"]).arg(folder.join("venv"));
        run(venv, b"").await.map_err(|words| InstallError::Venv { words })?;
        write(&bare, "").await?;
    }
    progress("installing packages, which takes a minute");
    let wanted = folder.join("requirements.new");
    write(&wanted, ready.requirements).await?;
    let mut pip = Command::new(ready.python(folder));
    // All packages are pinned by version and hash, those that others need too; none is compiled here. From which index
    // they come is pip's own setting, and does not matter to the hashes. What a try that was broken off left is replaced.
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--require-hashes"])
        .args(["--ignore-installed", "--disable-pip-version-check", "--only-binary", ":all:", "-r"])
        .arg(&wanted);
    let failed = |words| InstallError::Packages { name: ready.name, words };
    run(pip, b"").await.map_err(failed)?;
    tokio::fs::remove_file(&bare).await.map_err(io("remove", &bare))?;
    let installed = folder.join(REQUIREMENTS);
    tokio::fs::rename(&wanted, &installed).await.map_err(io("rename", &wanted))?;
    write(&folder.join(SCRIPT), ready.script).await
}

/// The first of these programs that is a Python which will do.
async fn find_python<'a>(names: &[&'a str]) -> Result<&'a str, InstallError> {
    let mut problem = "there is no python3 on the path".to_owned();
    for &python in names {
        let mut ask = Command::new(python);
        ask.args(["-c", "import sys; print(sys.version_info[0], sys.version_info[1])"]);
        let Ok(said) = run(ask, b"").await else { continue };
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let version = said.split_once(' ').and_then(|(major, minor)| {
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        });
        if version.is_some_and(|version| (PYTHON_MIN..=PYTHON_MAX).contains(&version)) {
            return Ok(python);
        }
        problem = format!("{python} is version {}", said.replace(' ', "."));
    }
    Err(InstallError::Python { problem })
}

/// Asks an installed provider who it is. It is not confined here: its packages were installed by this user just so.
async fn describe(ready: &Ready, folder: &Path) -> Result<Vec<u8>, String> {
    let (program, arguments) = ready.command(folder);
    let mut ask = Command::new(program);
    ask.args(arguments).current_dir(folder);
    run(ask, DESCRIBE).await
}

/// Runs a program to its end; otherwise the end of its words.
async fn run(mut command: Command, input: &[u8]) -> Result<Vec<u8>, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input says so by how it ends.
        let _ = stdin.write_all(input).await;
    }
    let output = child.wait_with_output().await.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    // Some tools, venv among them, say what is wrong on standard output.
    let all =
        [output.stderr, output.stdout].map(|words| String::from_utf8_lossy(&words).into_owned());
    let words = all.join("\n").trim().to_owned();
    let skip = words.chars().count().saturating_sub(WORDS_MAX);
    let words: String = words.chars().skip(skip).collect();
    Err(if words.is_empty() { output.status.to_string() } else { words })
}

async fn write(path: &Path, text: &str) -> Result<(), InstallError> {
    tokio::fs::write(path, text).await.map_err(io("write", path))
}

fn io(act: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> InstallError {
    move |source| InstallError::Io { act, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_that_was_broken_off_or_is_old_does_not_count() {
        let place = tempfile::tempdir().unwrap();
        let ready = Ready { name: "any", about: "", script: "", requirements: "" };
        std::fs::create_dir_all(place.path().join("venv/bin")).unwrap();
        std::fs::write(ready.python(place.path()), "").unwrap();
        assert!(!ready.is_in(place.path()));
        std::fs::write(place.path().join(MARK), "another").unwrap();
        assert!(!ready.is_in(place.path()));
        std::fs::write(place.path().join(MARK), ready.fingerprint()).unwrap();
        assert!(ready.is_in(place.path()));
    }

    /// A provider that needs one package, which lies as a wheel in a folder, with this hash.
    fn small(folder: &Path, hash: Option<&str>) -> Ready {
        let wheel = folder.join("small_package-1.0-py3-none-any.whl");
        let make = "import hashlib, sys, zipfile\n\
            with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n\
            \x20   info = 'small_package-1.0.dist-info/'\n\
            \x20   wheel.writestr('small_package.py', 'WORD = \"small\"')\n\
            \x20   wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: small-package\\nVersion: 1.0\\n')\n\
            \x20   wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
            \x20   wheel.writestr(info + 'RECORD', '')\n\
            print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest(), end='')";
        let made = std::process::Command::new("python3").args(["-c", make]).arg(&wheel).output();
        let right = String::from_utf8(made.unwrap().stdout).unwrap();
        let requirements = format!(
            "--no-index\n--find-links {}\nsmall-package==1.0 \\\n    --hash=sha256:{}\n",
            folder.display(),
            hash.unwrap_or(&right)
        );
        Ready {
            name: "small",
            about: "",
            script: "import small_package\nprint(small_package.WORD, end='')",
            requirements: requirements.leak(),
        }
    }

    #[test]
    fn a_package_without_a_version_or_a_hash_is_not_pinned() {
        let hash = format!("--hash=sha256:{}", "0a".repeat(32));
        let pinned = |requirements: String| {
            let requirements = requirements.leak();
            Ready { name: "any", about: "", script: "", requirements }.is_pinned()
        };
        assert!(pinned(format!("# text\na==1 \\\n    {hash}\nb==2 {hash} {hash}\n")));
        assert!(!pinned(format!("a==1 {hash}\nb==2\n")));
        assert!(!pinned(format!("a {hash}\n")));
        assert!(!pinned(format!("a==1 {hash}0\n")) && !pinned("# text\n".to_owned()));
    }

    fn text(said: &[u8]) -> Result<String, String> {
        String::from_utf8(said.to_vec()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_package_is_installed_only_if_its_hash_is_right() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("small");
        let wrong = small(place.path(), Some(&"0".repeat(64)));
        let error = install(&wrong, &folder, text, |_| ()).await.unwrap_err();
        assert!(matches!(error, InstallError::Packages { .. }), "{error}");
        assert!(error.to_string().contains("HASHES"), "{error}");
        assert!(!wrong.is_in(&folder));
        let right = small(place.path(), None);
        let mut steps = Vec::new();
        let progress = |step: &str| steps.push(step.to_owned());
        let about = install(&right, &folder, text, progress).await.unwrap();
        assert_eq!(about, "small");
        assert!(right.is_in(&folder) && !wrong.is_in(&folder));
        assert!(steps[0].starts_with("installing"), "the environment is not made again: {steps:?}");
    }

    #[tokio::test]
    async fn without_a_python_that_will_do_it_is_said_which_one_is_needed() {
        let none = find_python(&["no-such-python"]).await.unwrap_err().to_string();
        let expected =
            "providers need Python 3.11 to 3.14: there is no python3 on the path; apt-get install";
        assert!(none.starts_with(expected), "{none}");
        let place = tempfile::tempdir().unwrap();
        for (said, version) in [("2 7", "2.7"), ("3 99", "3.99")] {
            use std::os::unix::fs::PermissionsExt as _;
            let path = place.path().join(version);
            std::fs::write(&path, format!("#!/bin/sh\necho {said}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            let error = find_python(&[path.to_str().unwrap()]).await.unwrap_err().to_string();
            assert!(error.contains(&format!("is version {version}; ")), "{error}");
        }
    }
}
