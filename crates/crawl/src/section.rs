//! The section `crawl` of `divvy.yaml`, its variables, and the flags of workers that are laid over it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use divvy_workload::settings::{Row, Setting, Sources};
use serde::Deserialize;

/// The name of the section, and of everything else that has the workload's name.
pub(crate) const NAME: &str = "crawl";

/// What `divvy config init` writes about it.
pub(crate) const TEMPLATE: &str = "\
# Crawls (divvy crawl).
#crawl:
# Whether workers take shards of crawls.
#  enabled: true
# Who crawls, for crawls that do not say it themselves: a name and where its owner
# can be reached.
#  user_agent: examplebot/1.0 (+https://example.org/bot)
# Where a worker finds the server's folder of crawls. Without this: beside the
# server's objects, if the worker was told where those are.
#  folder: /mnt/divvy-data/crawls
# The browser for pages that are made by scripts. Without this: the first chromium
# in PATH.
#  chromium: /usr/bin/chromium
";

/// The section of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Section {
    enabled: Option<bool>,
    user_agent: Option<String>,
    folder: Option<PathBuf>,
    chromium: Option<PathBuf>,
}

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct CrawlSettings {
    /// Whether workers take shards.
    pub(crate) enabled: Setting<bool>,
    /// Who crawls, unless a crawl says so.
    pub(crate) user_agent: Setting<Option<String>>,
    /// The server's folder of crawls, for workers.
    pub(crate) folder: Setting<Option<PathBuf>>,
    /// The browser.
    pub(crate) chromium: Setting<Option<PathBuf>>,
}

/// What workers are told about crawls.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Crawl")]
pub(crate) struct CrawlFlags {
    /// Take no shards of crawls
    #[arg(long)]
    pub(crate) no_crawl: bool,
    /// The server's folder of crawls [default: beside its objects]
    #[arg(long, value_name = "DIR", env = "DIVVY_CRAWLS", hide_env_values = true)]
    pub(crate) crawls: Option<PathBuf>,
    /// The browser for pages that are made by scripts [default: in PATH]
    #[arg(long, value_name = "FILE", env = "DIVVY_CHROMIUM", hide_env_values = true)]
    pub(crate) chromium: Option<PathBuf>,
}

impl CrawlSettings {
    /// From the variables and the file.
    ///
    /// # Errors
    /// If a value makes no sense.
    pub(crate) fn read(from: &Sources) -> Result<Self> {
        let file: Section = from.section(NAME)?;
        let folder = file.folder.map(|path| from.beside_file(&path));
        let chromium = file.chromium.map(|program| from.program_beside_file(&program));
        let user_agent = from.pick_option("DIVVY_USER_AGENT", file.user_agent)?;
        if let Some(agent) = &user_agent.value
            && let Err(problem) = crate::settings::check_agent(agent)
        {
            return Err(from.refuse("crawl.user_agent", problem).into());
        }
        Ok(Self {
            enabled: from.pick("DIVVY_CRAWL", file.enabled, true)?,
            user_agent,
            folder: from.pick_option("DIVVY_CRAWLS", folder)?,
            chromium: from.pick_option("DIVVY_CHROMIUM", chromium)?,
        })
    }

    /// As text.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let agent = |agent: &Option<String>| agent.clone().unwrap_or_default();
        vec![
            Row::new("crawl.enabled", &self.enabled, bool::to_string),
            Row::new("crawl.user_agent", &self.user_agent, agent),
            Row::path("crawl.folder", &self.folder),
            Row::path("crawl.chromium", &self.chromium),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<CrawlSettings> {
        CrawlSettings::read(&Sources::new(Some(("/a/divvy.yaml".into(), yaml.into())), |_| None))
    }

    #[test]
    fn wrong_values_are_named_with_their_line() {
        let settings =
            read("crawl: {folder: c, user_agent: 'bot/1 (+https://a.example/)'}").unwrap();
        assert_eq!(settings.folder.value, Some("/a/c".into()));
        let problem = read("crawl:\n  user_agent: bot\n").unwrap_err().to_string();
        assert!(problem.starts_with("/a/divvy.yaml:2:"), "{problem}");
        assert!(problem.contains("names no contact"), "{problem}");
        assert!(read("crawl: {foldr: c}").unwrap_err().to_string().contains("folder"));
    }
}
