//! What the name of a table stands for: files of one form, found by their ending.

use std::fs;
use std::path::Path;

use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions, SessionContext};

use crate::args::Table;
use crate::query::Fault;

/// Endings of files that can be read, longest first.
const ENDINGS: [&str; 9] = [
    ".csv.gz",
    ".json.gz",
    ".jsonl.gz",
    ".ndjson.gz",
    ".parquet",
    ".ndjson",
    ".jsonl",
    ".json",
    ".csv",
];
/// Files of a folder that are looked at to learn their form.
const LOOKED_AT_MAX: usize = 10_000;

/// Makes a table known to a session.
pub(crate) async fn register(session: &SessionContext, table: &Table) -> Result<(), Fault> {
    let path = place(table)?;
    let ending = ending(table, &path)?;
    let packed = match ending.ends_with(".gz") {
        true => FileCompressionType::GZIP,
        false => FileCompressionType::UNCOMPRESSED,
    };
    let name = table.name.as_str();
    let registered = match ending.trim_end_matches(".gz") {
        ".parquet" => session.register_parquet(name, &path, ParquetReadOptions::default()).await,
        ".csv" => {
            let options = CsvReadOptions::new().file_extension(ending);
            session.register_csv(name, &path, options.file_compression_type(packed)).await
        }
        _ => {
            let options = JsonReadOptions::default().file_extension(ending);
            session.register_json(name, &path, options.file_compression_type(packed)).await
        }
    };
    let unreadable = |problem: String| {
        Fault::Missing(format!("table `{name}`: {} cannot be read: {problem}", table.path))
    };
    registered.map_err(|error| unreadable(error.find_root().strip_backtrace()))?;
    let found = session.table_provider(name).await;
    if found.is_ok_and(|found| found.schema().fields().is_empty()) {
        return Err(unreadable("no file has columns there".to_owned()));
    }
    Ok(())
}

/// The path as DataFusion wants it: a folder ends with a slash.
fn place(table: &Table) -> Result<String, Fault> {
    let path = &table.path;
    if path.contains("://") || path.contains(['*', '?', '[']) {
        return Ok(path.clone());
    }
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() && !path.ends_with('/') => Ok(format!("{path}/")),
        Ok(_) => Ok(path.clone()),
        Err(error) => {
            Err(Fault::Missing(format!("table `{}`: cannot read {path}: {error}", table.name)))
        }
    }
}

/// The ending of the files that are meant.
fn ending(table: &Table, path: &str) -> Result<&'static str, Fault> {
    let found = match path.ends_with('/') {
        false => known(path),
        true => {
            let entries = fs::read_dir(Path::new(path)).into_iter().flatten().flatten();
            let mut names = entries.take(LOOKED_AT_MAX).map(|entry| entry.file_name());
            names.find_map(|name| known(name.to_str()?))
        }
    };
    found.ok_or_else(|| {
        let endings = ENDINGS.join(", ");
        Fault::Missing(format!(
            "table `{}`: {path} names no file that ends with one of {endings}",
            table.name
        ))
    })
}

fn known(name: &str) -> Option<&'static str> {
    ENDINGS.into_iter().find(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(path: &str) -> Table {
        Table { name: "t".to_owned(), path: path.to_owned() }
    }

    #[test]
    fn the_form_of_a_folder_is_that_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.jsonl.gz"), "").unwrap();
        let table = table(folder.path().to_str().unwrap());
        let path = place(&table).unwrap();
        assert!(path.ends_with('/'));
        assert_eq!(ending(&table, &path), Ok(".jsonl.gz"));
    }

    #[test]
    fn what_is_not_there_is_told_with_the_name_of_the_table() {
        let fault = place(&table("/nowhere/a.csv")).unwrap_err();
        assert!(
            fault.to_string().starts_with("table `t`: cannot read /nowhere/a.csv: "),
            "{fault}"
        );
        let fault = ending(&table("a.xls"), "a.xls").unwrap_err();
        assert!(fault.to_string().contains(".parquet"), "{fault}");
        assert_eq!(ending(&table("data/*.csv"), "data/*.csv"), Ok(".csv"));
    }
}
