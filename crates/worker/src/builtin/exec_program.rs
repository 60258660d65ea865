//! The allow-list of programs: how an entry is written and how it is found on this machine. Nothing runs here.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use divvy_pool::tiers::Keeper;
use divvy_types::Name;
use nix::unistd::{AccessFlags, access};

use crate::Error;

/// A program that tasks may run. The name is both a kind of its own and a `program` of kind `exec`.
///
/// As text `name=program [fixed arguments…]`, split at white space; there is no shell and no quoting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecProgram {
    /// What tasks call it.
    pub name: Name,
    /// A path, or a name to look for in `PATH`.
    pub program: String,
    /// Arguments that it always gets.
    pub args: Vec<String>,
    /// Whether a task of kind `exec` may add arguments of its own.
    pub more_args: bool,
}

impl FromStr for ExecProgram {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || {
            Error::option("exec", format!("is `{text}`, expected name=program [fixed arguments…]"))
        };
        let (name, command) = text.split_once('=').ok_or_else(bad)?;
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or_else(bad)?;
        if name.trim().is_empty() {
            return Err(bad());
        }
        Ok(Self { name: name.trim().into(), program, args: words.collect(), more_args: false })
    }
}

/// A program that was found.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedProgram {
    pub(crate) name: Name,
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) more_args: bool,
    pub(crate) keeper: Option<Keeper>,
}

impl ExecProgram {
    /// Finds the program, or says why it cannot be run.
    pub(crate) fn resolve(&self, keeper: Option<&Keeper>) -> Result<ResolvedProgram, Error> {
        let problem = |problem: &str| Error::Program {
            name: self.name.to_string(),
            program: self.program.clone(),
            problem: problem.to_owned(),
        };
        let given = Path::new(&self.program);
        let path = if self.program.contains('/') {
            if !given.exists() {
                return Err(problem("does not exist; give the path of an existing program"));
            }
            if !is_program(given) {
                return Err(problem(
                    "is not an executable file; give a program, or make it one with chmod +x",
                ));
            }
            std::path::absolute(given)
                .map_err(|e| problem(&format!("has no absolute path ({e}); give it in full")))?
        } else {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&folders)
                .map(|folder| folder.join(given))
                .find(|path| is_program(path));
            found.ok_or_else(|| problem("is not in PATH; install it or give its path"))?
        };
        Ok(ResolvedProgram {
            name: self.name.clone(),
            path,
            args: self.args.clone(),
            more_args: self.more_args,
            keeper: keeper.cloned(),
        })
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_name_a_program_and_fixed_arguments() {
        let program: ExecProgram = "resize=convert -resize  50%".parse().unwrap();
        assert_eq!((program.name.as_str(), program.program.as_str()), ("resize", "convert"));
        assert_eq!(program.args, ["-resize", "50%"]);
        for bad in ["", "resize", "=convert", "resize=", "resize=  "] {
            assert!(
                bad.parse::<ExecProgram>().unwrap_err().to_string().contains("name=program"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_program_that_cannot_run_is_named() {
        let text = |entry: &str| {
            entry.parse::<ExecProgram>().unwrap().resolve(None).unwrap_err().to_string()
        };
        assert_eq!(
            text("x=no-such-program-here"),
            "program `no-such-program-here` for kind `x` is not in PATH; install it or give its path"
        );
        assert!(text("x=/no/such/file").contains("does not exist"));
        assert!(text("x=/etc/passwd").contains("is not an executable file"));
        assert!(text("x=/tmp").contains("is not an executable file"));
        assert!("x=sh".parse::<ExecProgram>().unwrap().resolve(None).unwrap().path.is_absolute());
    }
}
