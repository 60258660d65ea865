//! `wordcount`: how often each word occurs, as `word<tab>count`, sorted by word within a part.
//!
//! Words are parted by white space and control characters of ASCII. With `fold`, ASCII letters count as small ones and
//! punctuation around a word is left out.

use divvy_kernels::aggregate::take_number;
use divvy_kernels::text::words;
use serde::Deserialize;
use serde_json::Value;

use crate::input::{Faults, Lines};
use crate::job::{PartError, Report, Spec};
use crate::mapreduce::program::{Combining, Mapper, Program, Sink, Values, damaged};

/// The program.
pub(super) struct WordCount;

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    fold: bool,
}

struct Words {
    fold: bool,
    folded: Vec<u8>,
}

impl Program for WordCount {
    fn combining(&self) -> Combining {
        Combining::Add
    }

    fn mapper(&self, _: &Spec, settings: &Value) -> Result<Box<dyn Mapper>, String> {
        let settings =
            Option::<Settings>::deserialize(settings).map_err(|error| error.to_string())?;
        let fold = settings.unwrap_or_default().fold;
        Ok(Box::new(Words { fold, folded: Vec::new() }))
    }

    fn reduce(
        &self,
        _: &Spec,
        key: &[u8],
        values: &mut Values<'_>,
        out: &mut Vec<u8>,
        _: &mut Report,
    ) -> Result<u64, PartError> {
        let mut count = 0;
        while let Some(mut value) = values.next()? {
            count += take_number(&mut value).map_err(damaged)?;
        }
        out.extend_from_slice(key);
        out.push(b'\t');
        out.extend_from_slice(count.to_string().as_bytes());
        out.push(b'\n');
        Ok(1)
    }
}

impl Mapper for Words {
    fn map(
        &mut self,
        lines: Lines<'_>,
        out: &mut Sink<'_, '_>,
        _: &mut Faults<'_>,
    ) -> Result<(), PartError> {
        if let (Sink::Shuffle(collector), false) = (&mut *out, self.fold) {
            return collector.count_words(lines.block.bytes);
        }
        let mut result = Ok(());
        words::for_each(lines.block.bytes, |word| {
            let folded = words::fold(word, &mut self.folded);
            if result.is_ok() && !folded.is_empty() {
                result = out.emit(folded, &[1]);
            }
        });
        result
    }
}
