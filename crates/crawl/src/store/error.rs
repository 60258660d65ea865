//! What can go wrong with the file of a shard, by what the owner can do.

/// Why the file of a shard could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It holds something else, or something broken.
    #[error("{path} is damaged: {problem}; restore it from a copy, or start the crawl anew")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// It is a file of something else.
    #[error("{path} is not the file of a crawl's shard: {problem}; move it away")]
    Foreign {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// It was written by another version.
    #[error("{path} has format {found}, and this program reads format {known}; use the program that made it")]
    Version {
        /// The file.
        path: String,
        /// Its format.
        found: i64,
        /// The format that is known here.
        known: i64,
    },
    /// Another owner has taken it over.
    #[error("{path} has an owner of epoch {found}, and this one has epoch {own}; it may not write any more")]
    TakenOver {
        /// The file.
        path: String,
        /// The epoch in the file.
        found: u64,
        /// The epoch of this owner.
        own: u64,
    },
    /// It was made for another way of remembering addresses.
    #[error("{path} was made with --seen {found}; this cannot be changed while the crawl lasts")]
    OtherMode {
        /// The file.
        path: String,
        /// How it was made.
        found: &'static str,
    },
    /// There is no room.
    #[error("there is no room for {path}; free some, and the crawl goes on")]
    Full {
        /// The file.
        path: String,
    },
    /// The system or SQLite refused.
    #[error("{path} cannot be read or written: {message}")]
    Io {
        /// The file.
        path: String,
        /// What was said.
        message: String,
    },
}
