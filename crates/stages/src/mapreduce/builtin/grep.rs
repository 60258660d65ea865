//! `grep`: the lines that hold a text, in the order of the input. There is nothing to reduce.

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Value;

use crate::input::{Faults, Lines};
use crate::job::{PartError, Report, Spec};
use crate::mapreduce::program::{Combining, Mapper, Program, Sink, Values};

/// The program.
pub(super) struct Grep;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    pattern: String,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    invert: bool,
}

struct Lookout {
    finder: Finder<'static>,
    ignore_case: bool,
    invert: bool,
    folded: Vec<u8>,
}

impl Program for Grep {
    fn combining(&self) -> Combining {
        Combining::MapOnly
    }

    fn mapper(&self, _: &Spec, settings: &Value) -> Result<Box<dyn Mapper>, String> {
        let settings = Settings::deserialize(settings).map_err(|error| error.to_string())?;
        if settings.pattern.is_empty() {
            return Err("pattern is empty; give the text that lines must hold".to_owned());
        }
        let mut pattern = settings.pattern.into_bytes();
        if settings.ignore_case {
            pattern.make_ascii_lowercase();
        }
        let (ignore_case, invert) = (settings.ignore_case, settings.invert);
        let finder = Finder::new(&pattern).into_owned();
        Ok(Box::new(Lookout { finder, ignore_case, invert, folded: Vec::new() }))
    }

    fn reduce(
        &self,
        _: &Spec,
        _: &[u8],
        _: &mut Values<'_>,
        _: &mut Vec<u8>,
        _: &mut Report,
    ) -> Result<u64, PartError> {
        Err(PartError::Broken("grep reduces nothing".to_owned()))
    }
}

impl Mapper for Lookout {
    fn map(
        &mut self,
        lines: Lines<'_>,
        out: &mut Sink<'_, '_>,
        faults: &mut Faults<'_>,
    ) -> Result<(), PartError> {
        let mut found = 0;
        for (_, line) in lines.block.lines() {
            let text = if self.ignore_case {
                self.folded.clear();
                self.folded.extend(line.iter().map(u8::to_ascii_lowercase));
                &self.folded
            } else {
                line
            };
            if self.finder.find(text).is_some() != self.invert {
                found += 1;
                out.line(line)?;
            }
        }
        faults.report().count("lines found", found);
        Ok(())
    }
}
