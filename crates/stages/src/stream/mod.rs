//! Windows over events that come out of order, from files that grow, from folders of segments, or through a pipe.
//!
//! One stage, `stream`, with one part that works in turns: it reads what is there, and gives its slot back while nothing
//! is. Positions in the sources, the state of all windows and the lengths of the outputs are kept together in one file
//! that is replaced at once; an attempt that begins cuts the outputs to those lengths and reads on from those
//! positions. So every event counts exactly once in the result, whoever died in between.
//!
//! Sources are read in rounds, a little of each in turn and always in the same order, so the same files give the same
//! bytes. Nothing is read before what came earlier is worked on: whoever writes into a pipe waits for the stream.
//!
//! Reading order: `options` (what is asked), `source` (reading), `rows` (lines become events), `windows` (events become
//! results), `kept` (what lasts between turns), `turn` (all of it together). Beside them `plain`, what all of it is measured
//! against.

mod kept;
mod options;
pub mod plain;
mod rows;
mod source;
#[cfg(test)]
mod tests;
mod turn;
mod windows;

use serde_json::Value;

use crate::job::{
    JobError, Kind, Next, Part, PartError, PartIo, PartSpec, Report, Spec, SpecError, Stage,
    StageDone, Summary,
};

pub use kept::SoFar;
pub use options::{Format, Options, Source, TimeUnit};
pub use source::END;

/// Windows over events.
#[derive(Clone, Copy, Debug)]
pub struct Stream;

impl Kind for Stream {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        if !spec.inputs.is_empty() {
            return Err(SpecError::new(
                "inputs",
                "is for files that do not grow; name options.sources",
            ));
        }
        spec.options::<Options>()?.check()
    }

    fn next(&self, _: &Spec, done: &[StageDone]) -> Result<Next, JobError> {
        let Some(last) = done.last() else {
            let parts = vec![Part::new(&Value::Null, 0)];
            return Ok(Next::Stage(Stage { name: "stream".to_owned(), parts, speculate: false }));
        };
        let found = last.parts.first().map(|part| part.report.extra.clone());
        let summary = found.and_then(|found| serde_json::from_value::<Summary>(found).ok());
        summary
            .map(Next::Finished)
            .ok_or_else(|| JobError("what the stream's part found cannot be read".to_owned()))
    }

    fn run(&self, _: &PartSpec, io: &mut PartIo<'_>) -> Result<Report, PartError> {
        let options: Options =
            io.spec().options().map_err(|error| PartError::Broken(error.to_string()))?;
        turn::run(&options, io)
    }

    fn explain(&self, spec: &Spec, _: &[StageDone]) -> Vec<String> {
        spec.options::<Options>()
            .map_or_else(|error| vec![error.to_string()], |options| options.explain())
    }
}
