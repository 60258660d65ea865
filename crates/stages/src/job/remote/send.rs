//! Hands a file that an attempt wrote to the server: piece by piece, so that what arrived before a connection broke is
//! not sent again, with the hash of all bytes beside the last piece.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use divvy::Api;
use divvy::api::reqwest::Method;
use divvy::api::reqwest::header::CONTENT_TYPE;
use divvy::api::{Error, Patience};
use xxhash_rust::xxh3::Xxh3;

use super::super::{PartError, Written};
use super::{Asking, Transfers, request};

/// Bytes that are sent at once.
pub const PIECE_BYTES_MAX: usize = 4 << 20;
/// Times that a file is sent from its beginning, if the server has lost what it had.
const SENDS_MAX: u32 = 3;

impl Transfers {
    /// Sends the file at this path. When this returns, it is whole at the server and outlasts a loss of power.
    pub(in super::super) fn send(&self, written: Written, path: &Path) -> Result<(), PartError> {
        let numbers = match written {
            Written::Shuffle { stage, attempt } => {
                ["shuffle", &stage.to_string(), &attempt.to_string()].map(str::to_owned)
            }
            Written::Output { number, attempt } => {
                ["output", &number.to_string(), &attempt.to_string()].map(str::to_owned)
            }
        };
        let address = self.path(&numbers.each_ref().map(String::as_str));
        let mut sends = 1;
        loop {
            match self.send_all(&address, path)? {
                Sent::Taken => return Ok(()),
                Sent::Lost if sends < SENDS_MAX => sends += 1,
                Sent::Lost => {
                    let text = format!(
                        "the server lost what was sent of {} again and again",
                        path.display()
                    );
                    return Err(PartError::Trouble(text));
                }
            }
        }
    }

    fn send_all(&self, address: &[String], path: &Path) -> Result<Sent, PartError> {
        let failed = |error: io::Error| PartError::io(path, &error);
        let mut file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut hash = Box::new(Xxh3::new());
        let mut offset = 0;
        loop {
            let mut piece = Vec::new();
            file.by_ref().take(PIECE_BYTES_MAX as u64).read_to_end(&mut piece).map_err(failed)?;
            hash.update(&piece);
            let end = offset + piece.len() as u64;
            if piece.is_empty() && end < length {
                return Err(PartError::Trouble(format!("{}: has become shorter", path.display())));
            }
            let mut query = vec![("offset", offset.to_string())];
            if end >= length {
                query.push(("xxh3", format!("{:016x}", hash.digest())));
            }
            let sending = sending(self.server.api.clone(), address.to_vec(), query, piece);
            if let Sent::Lost = self.wait(sending)? {
                return Ok(Sent::Lost);
            }
            self.sent_bytes.set(self.sent_bytes.get() + end - offset);
            if end >= length {
                return Ok(Sent::Taken);
            }
            offset = end;
        }
    }
}

/// What became of a file, or of a piece.
enum Sent {
    /// It is there.
    Taken,
    /// What was sent before is not.
    Lost,
}

fn sending(
    api: Api,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    piece: Vec<u8>,
) -> Asking<Sent> {
    Box::pin(async move {
        let mut patience = Patience::default();
        loop {
            let request = request(&api, Method::PUT, &path).query(&query);
            let request = request.header(CONTENT_TYPE, "application/octet-stream");
            let answer = match api.answer(request.body(piece.clone())).await {
                Ok(answer) => api.good(answer).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(_) => return Ok(Sent::Taken),
                Err(Error::Refused { code, .. }) if code == "wrong_offset" => {
                    return Ok(Sent::Lost);
                }
                Err(error) => patience.bear(error).await?,
            }
        }
    })
}
