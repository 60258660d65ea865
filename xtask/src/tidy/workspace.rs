//! The packages of the workspace and their declared dependencies, as `cargo metadata` tells them.
//!
//! Declared, not resolved: an edge behind a feature counts. Only what the test bench of the SDK reaches is resolved, by
//! `cargo tree`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use cargo_metadata::{DependencyKind, MetadataCommand};

/// The feature of the SDK that brings its test bench.
pub(crate) const TEST_BENCH: &str = "testing";

/// All packages.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// By name.
    pub(crate) packages: Vec<Package>,
    /// The names of what users of the SDK's test bench compile, others' packages too.
    pub(crate) test_bench: Vec<String>,
}

/// One package.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its folder, relative to the root.
    pub(crate) folder: String,
    /// The text of its manifest.
    pub(crate) manifest: String,
    /// What it declares under `[package.metadata.divvy]`.
    pub(crate) layer: Option<u64>,
    /// What it depends on.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One declared dependency.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    /// The name of the package depended on.
    pub(crate) name: String,
    /// Whether only tests, examples and benches see it.
    pub(crate) dev: bool,
    /// Whether it comes only with a feature.
    pub(crate) optional: bool,
}

impl Workspace {
    /// Asks cargo about the workspace at `root`.
    pub(crate) fn load(root: &Path) -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .no_deps()
            .exec()
            .context("cargo metadata failed; mend the manifests first")?;
        let mut packages = Vec::new();
        for package in &metadata.packages {
            let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
            let folder = folder
                .strip_prefix(&metadata.workspace_root)
                .context("a member lies in the workspace")?;
            let manifest = std::fs::read_to_string(&package.manifest_path)
                .with_context(|| format!("cannot read {}", package.manifest_path))?;
            let layer = package
                .metadata
                .get("divvy")
                .and_then(|divvy| divvy.get("layer"))
                .and_then(|l| l.as_u64());
            let dependencies = package.dependencies.iter();
            let dependencies = dependencies
                .map(|d| Dependency {
                    name: d.name.clone(),
                    dev: d.kind == DependencyKind::Development,
                    optional: d.optional,
                })
                .collect();
            let (name, folder) = (package.name.to_string(), folder.to_string().replace('\\', "/"));
            packages.push(Package { name, folder, manifest, layer, dependencies });
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { packages, test_bench: test_bench(root)? })
    }

    /// The package called `name`, if it is ours.
    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// The package that a file belongs to.
    pub(crate) fn package_of(&self, path: &str) -> Option<&Package> {
        let inside = |package: &&Package| {
            path.strip_prefix(&package.folder).is_some_and(|rest| rest.starts_with('/'))
        };
        self.packages.iter().filter(inside).max_by_key(|package| package.folder.len())
    }
}

fn test_bench(root: &Path) -> anyhow::Result<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .current_dir(root)
        .args(["tree", "--locked", "--package", "divvy", "--features", TEST_BENCH])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .output()
        .context("cannot run cargo tree")?;
    let said = String::from_utf8_lossy(&tree.stderr);
    ensure!(tree.status.success(), "cargo tree failed: {}", said.trim());
    let lines = String::from_utf8_lossy(&tree.stdout);
    Ok(lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

impl Package {
    /// Whether it lies in the layers that know neither clock, threads nor I/O.
    pub(crate) fn is_pure(&self) -> bool {
        self.layer.is_some_and(|layer| layer <= 2)
    }

    /// Where its manifest is.
    pub(crate) fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }

    /// The line of the manifest that names a dependency or a table; 1 if none does.
    pub(crate) fn line_of(&self, key: &str) -> usize {
        let names = |line: &str| {
            line.strip_prefix(key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '=', '.']))
        };
        self.manifest.lines().position(names).map_or(1, |index| index + 1)
    }
}

#[cfg(test)]
impl Package {
    /// A package with normal dependencies and a manifest that keeps the rules.
    pub(crate) fn of(name: &str, layer: u64, dependencies: &[&str]) -> Self {
        let mut manifest =
            format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n[dependencies]\n");
        for dependency in dependencies {
            manifest.push_str(&format!("{dependency} = {{ workspace = true }}\n"));
        }
        let dependencies = dependencies
            .iter()
            .map(|name| Dependency { name: (*name).to_owned(), dev: false, optional: false })
            .collect();
        Self {
            name: name.to_owned(),
            folder: format!("crates/{name}"),
            manifest,
            layer: Some(layer),
            dependencies,
        }
    }

    /// The same with a dependency for tests.
    pub(crate) fn with_dev(mut self, name: &str) -> Self {
        let name = name.to_owned();
        self.dependencies.push(Dependency { name, dev: true, optional: false });
        self
    }

    /// The same with a dependency that comes only with a feature.
    pub(crate) fn with_optional(mut self, name: &str) -> Self {
        let name = name.to_owned();
        self.dependencies.push(Dependency { name, dev: false, optional: true });
        self
    }
}
