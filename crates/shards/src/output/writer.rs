//! The files of a shard.
//!
//! Names are fixed: `pages.jsonl`, `links.tsv`, and for archives `pages-00000.warc.gz` with `pages-00000.cdx` and so on.
//! Whatever is found under such a name and was not committed is of an owner that died, and goes.

use std::fs;
use std::path::{Path, PathBuf};

use divvy_workload::now_ms;

use super::file::{Appended, Flushed};
use super::prepared::Prepared;
use super::warc::info;
use super::{Exchange, Format, Lengths, Options, OutputError, Record, cdx};

const PAGES: &str = "pages.jsonl";
const LINKS: &str = "links.tsv";

/// Writes what was fetched.
///
/// After an error the files may hold half a page: open another writer with the lengths of the last commit.
#[derive(Debug)]
pub struct Writer {
    options: Options,
    pages: Option<Appended>,
    links: Option<Appended>,
    archive: Option<Archive>,
    /// Where the next archive begins.
    next: u32,
    /// Archives that are full.
    full: Lengths,
    /// Whether files were made since the folder was last synced.
    has_new_files: bool,
}

/// What a writer wrote and the disk perhaps does not have. How long the files are is told only once it has: a state that is
/// durable must not speak of bytes that are not.
#[derive(Debug)]
#[must_use]
pub struct Unsynced {
    lengths: Lengths,
    files: Vec<Flushed>,
    /// The folder, if files in it are new.
    folder: Option<PathBuf>,
}

impl Unsynced {
    /// Waits for the disk; how long the files then are.
    ///
    /// # Errors
    ///
    /// If the disk does not take them.
    pub fn sync(self) -> Result<Lengths, OutputError> {
        self.files.iter().try_for_each(Flushed::sync)?;
        if let Some(folder) = &self.folder {
            let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(error("sync", folder))?;
        }
        Ok(self.lengths)
    }

    /// How many files the disk is waited for.
    #[cfg(test)]
    pub(super) fn files(&self) -> usize {
        self.files.len() + usize::from(self.folder.is_some())
    }
}

/// The WARC file that is being written, and its index.
#[derive(Debug)]
struct Archive {
    name: String,
    records: Appended,
    index_name: String,
    index: Appended,
}

impl Writer {
    /// Opens the files, cut to what was committed; outputs in the folder that `lengths` does not know are removed.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or lacks what was committed.
    pub fn open(options: Options, lengths: &Lengths) -> Result<Self, OutputError> {
        let folder = &options.folder;
        fs::create_dir_all(folder).map_err(error("make", folder))?;
        remove_unknown(folder, lengths)?;
        let has = |format| options.formats.contains(&format);
        let open = |name: &str| {
            Appended::open(&folder.join(name), lengths.get(name).copied().unwrap_or_default())
        };
        let pages = has(Format::Jsonl).then(|| open(PAGES)).transpose()?;
        let links = has(Format::Graph).then(|| open(LINKS)).transpose()?;
        let next =
            lengths.keys().filter_map(|name| number_of(name)).max().map_or(0, |last| last + 1);
        let mut writer = Self {
            pages,
            links,
            archive: None,
            next,
            full: Lengths::new(),
            has_new_files: true,
            options,
        };
        for (name, length) in lengths.iter().filter(|(name, _)| number_of(name).is_some()) {
            // Cuts them; the last one is opened again below if it has room.
            Appended::open(&writer.options.folder.join(name), *length)?;
            writer.full.insert(name.clone(), *length);
        }
        if next > 0 && writer.options.formats.contains(&Format::Warc) {
            writer.reopen(next - 1)?;
        }
        Ok(writer)
    }

    /// Where it writes.
    pub fn folder(&self) -> &Path {
        &self.options.folder
    }

    /// Which outputs it writes, for [`Prepared::new`].
    pub fn formats(&self) -> &[Format] {
        &self.options.formats
    }

    /// Prepares and writes one page.
    ///
    /// # Errors
    ///
    /// If a file cannot be written or a header cannot be archived.
    pub fn write(
        &mut self,
        record: &Record<'_>,
        exchange: Option<&Exchange<'_>>,
    ) -> Result<(), OutputError> {
        let prepared = Prepared::new(&self.options.formats, record, exchange)?;
        self.append(&prepared)
    }

    /// Writes one page.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn append(&mut self, page: &Prepared) -> Result<(), OutputError> {
        if let Some(pages) = &mut self.pages {
            pages.append(&page.line)?;
        }
        if let Some(links) = &mut self.links {
            links.append(&page.edges)?;
        }
        let Some((records, line)) = &page.archived else { return Ok(()) };
        let archive = self.archive()?;
        let start = archive.records.length();
        archive.records.append(&records.response)?;
        archive.records.append(&records.request)?;
        let line = format!("{line} {} {start} {}\n", records.response.len(), archive.name);
        archive.index.append(line.as_bytes())?;
        if archive.records.length() >= self.options.warc_bytes_max {
            self.finish_archive()?;
        }
        Ok(())
    }

    /// Hands everything to the system. It counts once it was synced.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn commit(&mut self) -> Result<Unsynced, OutputError> {
        let mut lengths = self.full.clone();
        let archive = self.archive.iter_mut().flat_map(|archive| {
            [
                (archive.name.as_str(), &mut archive.records),
                (&archive.index_name, &mut archive.index),
            ]
        });
        let plain = [(PAGES, &mut self.pages), (LINKS, &mut self.links)];
        let plain = plain.into_iter().filter_map(|(name, file)| Some((name, file.as_mut()?)));
        let mut files = Vec::new();
        for (name, file) in plain.chain(archive) {
            files.extend(file.flush()?);
            lengths.insert(name.to_owned(), file.length());
        }
        let is_new = std::mem::take(&mut self.has_new_files);
        let folder = is_new.then(|| self.options.folder.clone());
        Ok(Unsynced { lengths, files, folder })
    }

    /// The archive that has room.
    fn archive(&mut self) -> Result<&mut Archive, OutputError> {
        let archive = match self.archive.take() {
            Some(archive) => archive,
            None => self.new_archive()?,
        };
        Ok(self.archive.insert(archive))
    }

    fn new_archive(&mut self) -> Result<Archive, OutputError> {
        let (name, index_name) = names(self.next);
        self.next += 1;
        self.has_new_files = true;
        let folder = &self.options.folder;
        let mut records = Appended::open(&folder.join(&name), 0)?;
        records.append(&info(&name, &self.options.agent, now_ms())?)?;
        let mut index = Appended::open(&folder.join(&index_name), 0)?;
        index.append(cdx::HEADER.as_bytes())?;
        Ok(Archive { name, records, index_name, index })
    }

    /// Goes on with the last archive if it has room.
    fn reopen(&mut self, number: u32) -> Result<(), OutputError> {
        let (name, index_name) = names(number);
        let (Some(&length), Some(&index_length)) =
            (self.full.get(&name), self.full.get(&index_name))
        else {
            return Ok(());
        };
        if length >= self.options.warc_bytes_max {
            return Ok(());
        }
        let folder = &self.options.folder;
        let records = Appended::open(&folder.join(&name), length)?;
        let index = Appended::open(&folder.join(&index_name), index_length)?;
        self.full.remove(&name);
        self.full.remove(&index_name);
        self.archive = Some(Archive { name, records, index_name, index });
        Ok(())
    }

    fn finish_archive(&mut self) -> Result<(), OutputError> {
        if let Some(mut archive) = self.archive.take() {
            // Nobody syncs it later.
            for flushed in [archive.records.flush()?, archive.index.flush()?].into_iter().flatten()
            {
                flushed.sync()?;
            }
            self.full.insert(archive.name, archive.records.length());
            self.full.insert(archive.index_name, archive.index.length());
        }
        Ok(())
    }
}

fn remove_unknown(folder: &Path, lengths: &Lengths) -> Result<(), OutputError> {
    for entry in fs::read_dir(folder).map_err(error("list", folder))? {
        let entry = entry.map_err(error("list", folder))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_output = name == PAGES || name == LINKS || number_of(&name).is_some();
        if is_output && !lengths.contains_key(&name) {
            fs::remove_file(entry.path()).map_err(error("remove", &entry.path()))?;
        }
    }
    Ok(())
}

fn names(number: u32) -> (String, String) {
    (format!("pages-{number:05}.warc.gz"), format!("pages-{number:05}.cdx"))
}

/// The number of an archive or of its index, by its name.
fn number_of(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("pages-")?;
    let number = rest.strip_suffix(".warc.gz").or_else(|| rest.strip_suffix(".cdx"))?;
    number.parse().ok()
}

fn error(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> OutputError + use<> {
    let path = PathBuf::from(path);
    move |source| OutputError::File { verb, path, source }
}
