//! How a result is written: a table for people, CSV, one JSON object per line, or Parquet.

use std::io::{self, Write};
use std::path::Path;

use anyhow::bail;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::parquet::arrow::ArrowWriter;
use serde::{Deserialize, Serialize};

/// More rows do not make a table that a person reads, and all of them are in memory.
const TABLE_ROWS_MAX: usize = 100_000;

/// A form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Columns side by side, for people
    Table,
    /// Values with commas, and a line with the names of the columns
    Csv,
    /// One object per line
    Json,
    /// Parquet, for which --out is needed
    Parquet,
}

impl Format {
    /// The form that the ending of a file asks for.
    pub(crate) fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "parquet" => Some(Self::Parquet),
            "txt" => Some(Self::Table),
            _ => None,
        }
    }
}

/// Takes rows and writes them.
pub(crate) enum Sink<W: Write + Send> {
    Table { schema: SchemaRef, batches: Vec<RecordBatch>, rows: usize, to: W },
    Csv(Box<csv::Writer<W>>),
    Json(LineDelimitedWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
}

impl<W: Write + Send> Sink<W> {
    /// A sink for rows of this schema.
    pub(crate) fn new(format: Format, schema: SchemaRef, to: W) -> anyhow::Result<Self> {
        Ok(match format {
            Format::Table => Self::Table { schema, batches: Vec::new(), rows: 0, to },
            Format::Csv => {
                let mut writer = csv::Writer::new(to);
                // The names of the columns are there even if no row is.
                writer.write(&RecordBatch::new_empty(schema))?;
                Self::Csv(Box::new(writer))
            }
            Format::Json => Self::Json(LineDelimitedWriter::new(to)),
            Format::Parquet => Self::Parquet(Box::new(ArrowWriter::try_new(to, schema, None)?)),
        })
    }

    /// Takes some rows.
    pub(crate) fn write(&mut self, batch: RecordBatch) -> anyhow::Result<()> {
        match self {
            Self::Table { batches, rows, .. } => {
                *rows += batch.num_rows();
                if *rows > TABLE_ROWS_MAX {
                    bail!(
                        "the result has more than {TABLE_ROWS_MAX} rows, too many for a table; use --format csv"
                    );
                }
                batches.push(batch);
            }
            Self::Csv(writer) => writer.write(&batch)?,
            Self::Json(writer) => writer.write(&batch)?,
            Self::Parquet(writer) => writer.write(&batch)?,
        }
        Ok(())
    }

    /// Writes what is left; gives back what was written to.
    pub(crate) fn finish(self) -> anyhow::Result<W> {
        match self {
            Self::Table { schema, batches, mut to, .. } => {
                writeln!(to, "{}", pretty_format_batches_with_schema(schema, &batches)?)?;
                Ok(to)
            }
            Self::Csv(writer) => Ok(writer.into_inner()),
            Self::Json(mut writer) => {
                writer.finish()?;
                Ok(writer.into_inner())
            }
            Self::Parquet(writer) => Ok(writer.into_inner()?),
        }
    }
}

/// Takes so many bytes and refuses more.
#[derive(Debug)]
pub(crate) struct Bounded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) limit: usize,
}

impl Write for Bounded {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + data.len() > self.limit {
            let message = format!(
                "the result has more than {} KiB, too much to be kept with the task; use --out FILE",
                self.limit >> 10
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn rows() -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("k", DataType::Utf8, false),
            Field::new("n", DataType::Int64, true),
        ]);
        let keys = StringArray::from(vec!["a", "b,c"]);
        let counts = Int64Array::from(vec![Some(1), None]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(keys), Arc::new(counts)]).unwrap()
    }

    fn written(format: Format, batches: &[RecordBatch]) -> String {
        let mut sink = Sink::new(format, rows().schema(), Vec::new()).unwrap();
        for batch in batches {
            sink.write(batch.clone()).unwrap();
        }
        String::from_utf8(sink.finish().unwrap()).unwrap()
    }

    #[test]
    fn every_form_has_the_rows() {
        assert_eq!(written(Format::Csv, &[rows()]), "k,n\na,1\n\"b,c\",\n");
        assert_eq!(written(Format::Json, &[rows()]), "{\"k\":\"a\",\"n\":1}\n{\"k\":\"b,c\"}\n");
        assert!(written(Format::Table, &[rows()]).contains("| b,c |   |"));
        let mut sink = Sink::new(Format::Parquet, rows().schema(), Vec::new()).unwrap();
        sink.write(rows()).unwrap();
        assert!(sink.finish().unwrap().starts_with(b"PAR1"));
    }

    #[test]
    fn a_result_without_rows_has_its_columns() {
        assert_eq!(written(Format::Csv, &[]), "k,n\n");
        assert_eq!(written(Format::Json, &[]), "");
        assert!(written(Format::Table, &[]).contains("| k | n |"));
    }

    #[test]
    fn what_would_not_fit_beside_a_task_is_refused_with_the_cure() {
        let to = Bounded { bytes: Vec::new(), limit: 4 };
        let mut sink = Sink::new(Format::Csv, rows().schema(), to).unwrap();
        let refused = sink.write(rows()).and_then(|()| sink.finish().map(drop)).unwrap_err();
        assert!(format!("{refused:#}").contains("--out FILE"), "{refused:#}");
    }

    #[test]
    fn the_ending_of_a_file_says_the_form() {
        assert_eq!(Format::of(Path::new("a/b.Parquet")), Some(Format::Parquet));
        assert_eq!(Format::of(Path::new("b.jsonl")), Some(Format::Json));
        assert_eq!(Format::of(Path::new("b")), None);
    }
}
