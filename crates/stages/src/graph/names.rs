//! What vertices are called: their numbers, or the names that the first stage has numbered.

use std::io::Read as _;

use divvy_kernels::aggregate::take_bytes;

use super::pack;
use super::{Ids, Options};
use crate::job::{PartError, PartIo};

/// What vertices are called.
pub(super) enum Names {
    Numbers,
    /// All names one after the other, and where each begins.
    Texts {
        text: Vec<u8>,
        starts: Vec<u64>,
    },
}

impl Names {
    pub(super) fn open(options: &Options, io: &mut PartIo<'_>) -> Result<Self, PartError> {
        if options.ids == Ids::Number {
            return Ok(Self::Numbers);
        }
        let mut packed = Vec::new();
        if let Some(mut reader) = io.open(0, 0, pack::NAMES)? {
            let read = reader.read_to_end(&mut packed);
            read.map_err(|error| PartError::Trouble(format!("names of vertices: {error}")))?;
        }
        let (mut text, mut starts) = (Vec::with_capacity(packed.len()), vec![0]);
        let mut rest = &packed[..];
        while !rest.is_empty() {
            let name =
                take_bytes(&mut rest).map_err(|error| PartError::Trouble(error.to_string()))?;
            text.extend_from_slice(name);
            starts.push(text.len() as u64);
        }
        Ok(Self::Texts { text, starts })
    }

    /// Appends the name of a vertex.
    pub(super) fn write(&self, vertex: u32, out: &mut Vec<u8>) {
        match self {
            Self::Numbers => {
                let mut digits = [0; 10];
                let mut at = digits.len();
                let mut rest = vertex;
                loop {
                    at -= 1;
                    digits[at] = b'0' + (rest % 10) as u8;
                    rest /= 10;
                    if rest == 0 {
                        break;
                    }
                }
                out.extend_from_slice(&digits[at..]);
            }
            Self::Texts { text, starts } => {
                let (start, end) = (starts[vertex as usize], starts[vertex as usize + 1]);
                out.extend_from_slice(&text[start as usize..end as usize]);
            }
        }
    }

    /// The name of a vertex, for people.
    pub(super) fn shown(&self, vertex: u32) -> String {
        let mut name = Vec::new();
        self.write(vertex, &mut name);
        String::from_utf8_lossy(&name).into_owned()
    }

    /// The vertex with this name.
    pub(super) fn find(&self, name: &str, vertices: u32) -> Option<u32> {
        match self {
            Self::Numbers => name.parse().ok().filter(|vertex| *vertex < vertices),
            Self::Texts { .. } => {
                let mut text = Vec::new();
                (0..vertices).find(|vertex| {
                    text.clear();
                    self.write(*vertex, &mut text);
                    text == name.as_bytes()
                })
            }
        }
    }
}
