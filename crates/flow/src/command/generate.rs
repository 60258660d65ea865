//! `divvy flow gen`: makes data to try jobs out with. It needs no server.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::values::{Size, Span};
use serde_json::json;

use crate::generate::{self, Amount, Data, Disorder, Made, Shape};

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// What is made if nobody says how much.
const USUAL_BYTES: u64 = 10_000_000;

const EXAMPLES: &str = "\
Examples:
  divvy flow gen records --size 4GB --to records
  divvy flow gen text --size 1GB --to text
  divvy flow gen rows --rows 1000000 --keys 10000 --to rows.csv
  divvy flow gen edges --rows 20000000 --vertices 2000000 --to edges.tsv
  divvy flow gen events --rows 100000 --late 20s | head";

/// Make data to try jobs out with; the same seed gives the same bytes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GenArgs {
    #[command(subcommand)]
    what: What,
    /// How many bytes, about [default: 10MB]
    #[arg(long, global = true)]
    size: Option<Size>,
    /// How many rows
    #[arg(long, global = true)]
    rows: Option<u64>,
    /// Where all chance comes from
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// The file to write [default: standard output]
    #[arg(long, global = true, value_name = "FILE")]
    to: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Lines of 100 bytes whose first ten are a random key
    Records,
    /// Lines of words, few of them frequent
    Text {
        /// Different words
        #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
        words: u32,
        /// How uneven they are: 0 is even, 1 is Zipf's law
        #[arg(long, default_value_t = 1.0)]
        skew: f64,
    },
    /// Rows with a key k, a user u and a number x
    Rows {
        #[command(flatten)]
        keys: Keys,
    },
    /// Edges of a graph, a few vertices of which have most
    Edges {
        /// Vertices
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
        vertices: u32,
        /// Give edges a length from 1 to 99
        #[arg(long)]
        weighted: bool,
    },
    /// Events with a time at, a key k and a number x, out of order
    Events {
        #[command(flatten)]
        keys: Keys,
        /// Between two events, in microseconds
        #[arg(long, default_value_t = 1_000)]
        step_us: u64,
        /// How late an event may come
        #[arg(long, default_value = "20s")]
        late: Span,
        /// The share of events that come late
        #[arg(long, default_value_t = 0.25)]
        late_share: f64,
        /// The time of the first event, in milliseconds since 1970
        #[arg(long, default_value_t = 1_800_000_000_000)]
        start: u64,
    },
}

/// Keys of rows, and how they are written.
#[derive(Args, Clone, Copy, Debug)]
struct Keys {
    /// How rows are written [default: by the name of the file, else jsonl]
    #[arg(long, value_enum)]
    format: Option<Shape>,
    /// Different keys
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    keys: u32,
    /// How uneven they are: 0 is even, 1 is Zipf's law
    #[arg(long, default_value_t = 1.0)]
    skew: f64,
}

/// Makes it.
pub(crate) fn run(args: &GenArgs, context: &Context) -> Result<Code> {
    let amount = Amount {
        bytes: match (args.size, args.rows) {
            (Some(size), _) => size.0,
            (None, Some(_)) => u64::MAX,
            (None, None) => USUAL_BYTES,
        },
        rows: args.rows.unwrap_or(u64::MAX),
    };
    let data = data(args)?;
    let made = match &args.to {
        Some(path) => {
            let made = to_file(data, amount, args.seed, path);
            made.with_context(|| format!("cannot write {}", path.display()))?
        }
        None => to_output(data, amount, args.seed)?,
    };
    if let Some(path) = &args.to {
        let output = &context.output;
        if output.is_json() {
            output.object(&json!({"file": path, "rows": made.rows, "bytes": made.bytes}))?;
        } else {
            output.note(format_args!(
                "{} rows, {} bytes in {}",
                made.rows,
                made.bytes,
                path.display()
            ));
        }
    }
    Ok(Code::Done)
}

fn data(args: &GenArgs) -> Result<Data> {
    let is_skew = |skew: f64| (0.0..=10.0).contains(&skew);
    let shape = |keys: &Keys| {
        let is_csv =
            args.to.as_ref().is_some_and(|path| path.extension().is_some_and(|end| end == "csv"));
        keys.format.unwrap_or(if is_csv { Shape::Csv } else { Shape::Jsonl })
    };
    let (data, skew) = match &args.what {
        What::Records => (Data::Records, 0.0),
        What::Text { words, skew } => (Data::Text { words: *words, skew: *skew }, *skew),
        What::Rows { keys } => {
            (Data::Rows { shape: shape(keys), keys: keys.keys, skew: keys.skew }, keys.skew)
        }
        What::Edges { vertices, weighted } => {
            (Data::Edges { vertices: *vertices, weighted: *weighted }, 0.0)
        }
        What::Events { keys, step_us, late, late_share, start } => {
            if !(0.0..=1.0).contains(late_share) {
                return Err(Failure::usage("--late-share is not between 0 and 1").into());
            }
            let (start_ms, step_us, share) = (*start, *step_us, *late_share);
            let disorder = Disorder { start_ms, step_us, late_ms: late.as_ms(), share };
            (
                Data::Events { shape: shape(keys), keys: keys.keys, skew: keys.skew, disorder },
                keys.skew,
            )
        }
    };
    if !is_skew(skew) {
        return Err(
            Failure::usage(format!("--skew is {skew}, which is not between 0 and 10")).into()
        );
    }
    Ok(data)
}

fn to_file(data: Data, amount: Amount, seed: u64, path: &Path) -> io::Result<Made> {
    let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
    let made = generate::write(data, amount, seed, &mut file)?;
    file.flush()?;
    Ok(made)
}

/// To the standard output; whoever reads only the beginning has what was wanted.
fn to_output(data: Data, amount: Amount, seed: u64) -> Result<Made> {
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let made = generate::write(data, amount, seed, &mut output).and_then(|made| {
        output.flush()?;
        Ok(made)
    });
    match made {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Made::default()),
        made => Ok(made?),
    }
}
