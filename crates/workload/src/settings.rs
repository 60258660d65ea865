//! Settings and where each comes from: `DIVVY_*` variables over a section of `divvy.yaml` over defaults.
//!
//! Flags are laid over by the command that has them. Knows no setting by name: a workload reads its own section with
//! [`Sources::section`], a type of its own that serde derives, and picks each value with [`Sources::pick`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use divvy_console::exit::Failure;
use divvy_console::yaml;
use serde::de::DeserializeOwned;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag on the command line.
    Flag(&'static str),
    /// A variable of the environment.
    Environment(&'static str),
    /// The file.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and its origin.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

/// A setting as `divvy config show` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its whole name, such as `video.scratch`.
    pub key: Cow<'static, str>,
    /// Its value.
    pub value: String,
    /// Where that comes from.
    pub origin: Origin,
}

impl Row {
    /// The row of a setting.
    pub fn new<T>(
        key: impl Into<Cow<'static, str>>,
        setting: &Setting<T>,
        text: impl Fn(&T) -> String,
    ) -> Self {
        let (value, origin) = (text(&setting.value), setting.origin.clone());
        Self { key: key.into(), value, origin }
    }

    /// The row of a path that may be missing.
    pub fn path(key: impl Into<Cow<'static, str>>, setting: &Setting<Option<PathBuf>>) -> Self {
        Self::new(key, setting, |path| {
            path.as_ref().map_or_else(String::new, |path| path.display().to_string())
        })
    }
}

/// Looks a variable up.
type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What settings are read from; a clone is cheap.
#[derive(Clone)]
pub struct Sources {
    file: Option<Arc<SettingsText>>,
    environment: Environment,
    asked: Arc<Mutex<BTreeSet<&'static str>>>,
}

struct SettingsText {
    path: PathBuf,
    text: String,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("file", &self.path()).finish_non_exhaustive()
    }
}

impl Sources {
    /// A file, if there is one, and the variables that `environment` knows.
    pub fn new(
        file: Option<(PathBuf, String)>,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let file = file.map(|(path, text)| Arc::new(SettingsText { path, text }));
        Self { file, environment: Arc::new(environment), asked: Arc::default() }
    }

    /// A file, if there is one, and the variables of this process.
    pub fn of_process(file: Option<(PathBuf, String)>) -> Self {
        Self::new(file, |name| std::env::var(name).ok())
    }

    /// The file.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref().map(|file| file.path.as_path())
    }

    /// What a path in the file is relative to: the folder of the file.
    pub fn beside_file(&self, path: &Path) -> PathBuf {
        let folder = self.path().and_then(Path::parent).unwrap_or_else(|| Path::new(""));
        folder.join(path)
    }

    /// The same for a program. A bare name is looked up in `PATH`; only a path depends on where one stands.
    pub fn program_beside_file(&self, program: &Path) -> PathBuf {
        match program.components().count() {
            0 | 1 => program.to_owned(),
            _ => self.beside_file(program),
        }
    }

    /// The variables that were asked for so far: those that would change what this process has decided.
    pub fn variables(&self) -> Vec<&'static str> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// A section of the file; its default if there is none.
    ///
    /// # Errors
    /// If it is not what it should be, with its place.
    pub fn section<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, Failure> {
        let Some(file) = &self.file else { return Ok(T::default()) };
        yaml::section(&file.text, name).map_err(|error| {
            yaml::failure(&file.path.display().to_string(), &file.text, &error, &[])
        })
    }

    /// What the file says beside these sections; its default if there is none.
    ///
    /// # Errors
    /// If it is not what it should be, with its place.
    pub fn beside<T: DeserializeOwned + Default>(&self, sections: &[&str]) -> Result<T, Failure> {
        let Some(file) = &self.file else { return Ok(T::default()) };
        yaml::beside(&file.text, sections).map_err(|error| {
            yaml::failure(&file.path.display().to_string(), &file.text, &error, sections)
        })
    }

    /// The names at the top of the file.
    ///
    /// # Errors
    /// If it is no YAML, or no map.
    pub fn fields(&self) -> Result<Vec<String>, Failure> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        yaml::fields(&file.text).map_err(|error| {
            yaml::failure(&file.path.display().to_string(), &file.text, &error, &[])
        })
    }

    /// Where in the file a setting is, for the beginning of an error. `key` is its whole name, such as `video.scratch`.
    pub fn place(&self, key: &str) -> Option<String> {
        let file = self.file.as_deref()?;
        Some(yaml::place(&file.path.display().to_string(), &file.text, key))
    }

    /// Refuses a setting that is well-formed and makes no sense, with its place if the file has it.
    pub fn refuse(&self, key: &str, problem: impl Display) -> Failure {
        match self.place(key) {
            Some(place) => Failure::usage(format!("{place}: {key} {problem}")),
            None => Failure::usage(format!("{key} {problem}")),
        }
    }

    /// The value of a variable, or that of the file, or the default.
    ///
    /// # Errors
    /// If the variable makes no sense.
    pub fn pick<T>(&self, variable: &'static str, file: Option<T>, default: T) -> Result<Setting<T>>
    where
        T: FromStr,
        T::Err: Display,
    {
        let picked = self.pick_option(variable, file)?;
        Ok(Setting { value: picked.value.unwrap_or(default), origin: picked.origin })
    }

    /// The same where there is no default.
    ///
    /// # Errors
    /// If the variable makes no sense.
    pub fn pick_option<T>(
        &self,
        variable: &'static str,
        file: Option<T>,
    ) -> Result<Setting<Option<T>>>
    where
        T: FromStr,
        T::Err: Display,
    {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(variable);
        if let Some(text) = (self.environment)(variable).filter(|text| !text.is_empty()) {
            let value = text.parse().map_err(|e| {
                Failure::usage(format!("{variable}: {e}"))
                    .cure(format!("correct the variable, or remove it: unset {variable}"))
            })?;
            return Ok(Setting { value: Some(value), origin: Origin::Environment(variable) });
        }
        match (file, self.path()) {
            (Some(value), Some(path)) => {
                Ok(Setting { value: Some(value), origin: Origin::File(path.to_owned()) })
            }
            _ => Ok(Setting { value: None, origin: Origin::Default }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Bakery {
        ovens: Option<u32>,
        recipes: Option<PathBuf>,
    }

    fn sources(yaml: &str, variables: &'static [(&str, &str)]) -> Sources {
        Sources::new(Some(("/shop/divvy.yaml".into(), yaml.to_owned())), |name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_variable_beats_the_file_beats_the_default() {
        let said = sources("bakery: {ovens: 3}\n", &[]);
        let bakery: Bakery = said.section("bakery").unwrap();
        let ovens = said.pick("DIVVY_OVENS", bakery.ovens, 1).unwrap();
        assert_eq!((ovens.value, ovens.origin), (3, Origin::File("/shop/divvy.yaml".into())));
        let told = sources("bakery: {ovens: 3}\n", &[("DIVVY_OVENS", "7")]);
        let ovens = told.pick("DIVVY_OVENS", bakery.ovens, 1).unwrap();
        assert_eq!((ovens.value, ovens.origin), (7, Origin::Environment("DIVVY_OVENS")));
        let ovens = said.pick("DIVVY_OVENS", None, 1).unwrap();
        assert_eq!((ovens.value, ovens.origin), (1, Origin::Default));
        let wrong = sources("", &[("DIVVY_OVENS", "many")]).pick("DIVVY_OVENS", None, 1);
        assert!(wrong.unwrap_err().to_string().starts_with("DIVVY_OVENS: "));
        assert_eq!((said.variables(), sources("", &[]).variables()), (vec!["DIVVY_OVENS"], vec![]));
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let said = sources("server: x\nbakery:\n  ovens: 0\n", &[]);
        let failure = said.refuse("bakery.ovens", "is 0, expected at least 1");
        let expected = "/shop/divvy.yaml:3:10: bakery.ovens is 0, expected at least 1";
        assert_eq!(failure.message, expected);
        let wrong = sources("bakery:\n  oven: 1\n", &[]).section::<Bakery>("bakery");
        assert!(wrong.unwrap_err().message.starts_with("/shop/divvy.yaml:2:3: unknown field"));
    }

    #[test]
    fn paths_are_relative_to_the_file_and_bare_programs_are_not() {
        let said = sources("bakery: {recipes: old/book}\n", &[]);
        let bakery: Bakery = said.section("bakery").unwrap();
        let book = said.beside_file(&bakery.recipes.unwrap());
        assert_eq!(book, Path::new("/shop/old/book"));
        assert_eq!(said.program_beside_file(Path::new("mixer")), Path::new("mixer"));
        assert_eq!(said.program_beside_file(Path::new("./mixer")), Path::new("/shop/./mixer"));
    }
}
