//! `divvy flow mapreduce`: what it understands, and the job that it becomes.

use anyhow::Result;
use clap::Args;
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::values::Size;
use serde_json::{Value, json};

use super::args::Common;
use super::start;
use crate::input;
use crate::job::NewJob;
use crate::mapreduce::Options;

const EXAMPLES: &str = "\
Examples:
  divvy flow mapreduce wordcount --input 'logs/*.gz' --out counts
  divvy flow mapreduce grep --pattern ' 500 ' --input logs --out errors
  divvy flow mapreduce invert --input 'books/*.txt' --out index
  divvy flow mapreduce --input logs --map 'cut -f1' --reduce 'uniq -c' --out users

A command gets lines on its standard input; what it writes up to the first tab
of a line is the key. Workers run commands only if they were started with
--flow-commands.";

/// Map lines to pairs, group them by key, reduce each group.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MapReduceArgs {
    /// A program: wordcount, grep, invert, or one that your workers bring
    #[arg(value_name = "PROGRAM", conflicts_with_all = ["map", "combine", "reduce"])]
    program: Option<String>,
    /// Files, folders or quoted patterns
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    input: Vec<String>,
    /// Command that maps lines to lines of key, tab and value
    #[arg(long, value_name = "CMD")]
    map: Option<String>,
    /// Command that makes less of sorted pairs before they travel
    #[arg(long, requires = "reduce", value_name = "CMD")]
    combine: Option<String>,
    /// Command that reduces sorted pairs [default: none, the mapped lines are
    /// the result]
    #[arg(long, requires = "map", value_name = "CMD")]
    reduce: Option<String>,
    /// The reduce command can be applied to what it has written: a key that is
    /// much of all data is then divided over several reducers
    #[arg(long, requires = "reduce")]
    mergeable: bool,
    /// wordcount: small and capital letters are the same, punctuation around
    /// words does not count
    #[arg(long)]
    fold: bool,
    /// grep: the text that lines must hold
    #[arg(long, value_name = "TEXT")]
    pattern: Option<String>,
    /// grep: small and capital letters of ASCII are the same
    #[arg(long)]
    ignore_case: bool,
    /// grep: lines that do not hold it
    #[arg(long)]
    invert_match: bool,
    /// What a program of your own is told, as JSON
    #[arg(long, value_name = "JSON")]
    settings: Option<String>,
    /// Divide a partition over several reducers from this many times its fair
    /// share on; 0 never does [default: 2]
    #[arg(long, value_name = "TIMES")]
    skew: Option<f64>,
    /// The least size of a partition that is divided [default: 4MiB]
    #[arg(long, value_name = "SIZE")]
    skew_min: Option<Size>,
    #[command(flatten)]
    common: Common,
}

/// Starts the job.
pub(crate) async fn run(args: &MapReduceArgs, context: &Context) -> Result<Code> {
    start::run(&job(args)?, &args.common, context).await
}

fn job(args: &MapReduceArgs) -> Result<NewJob> {
    let options = Options {
        program: args.program.clone(),
        settings: settings(args)?,
        map: args.map.clone(),
        combine: args.combine.clone(),
        reduce: args.reduce.clone(),
        mergeable: args.mergeable,
        skew: args.skew,
        skew_bytes: args.skew_min.map(|size| size.0),
    };
    let inputs = input::expand(&args.input).map_err(|error| Failure::usage(error.to_string()))?;
    let mut job = args.common.job("mapreduce");
    job.name = job.name.or_else(|| args.program.clone());
    Ok(NewJob { inputs, options: serde_json::to_value(options)?, ..job })
}

fn settings(args: &MapReduceArgs) -> Result<Value> {
    let program = args.program.as_deref().unwrap_or_default();
    let belongs = [
        ("--fold", args.fold, "wordcount"),
        ("--pattern", args.pattern.is_some(), "grep"),
        ("--ignore-case", args.ignore_case, "grep"),
        ("--invert-match", args.invert_match, "grep"),
    ];
    for (flag, given, of) in belongs {
        if given && program != of {
            let text = format!("{flag} is for the program {of}");
            return Err(Failure::usage(text)
                .cure(format!("divvy flow mapreduce {of} {flag} …"))
                .into());
        }
    }
    if let Some(text) = &args.settings {
        let wrong = |error| Failure::usage(format!("--settings is no JSON: {error}"));
        return Ok(serde_json::from_str(text).map_err(wrong)?);
    }
    Ok(match program {
        "wordcount" => json!({ "fold": args.fold }),
        "grep" => {
            let Some(pattern) = &args.pattern else {
                let failure = Failure::usage("grep needs the text that lines must hold");
                return Err(failure.cure("add --pattern TEXT").into());
            };
            json!({ "pattern": pattern, "ignore_case": args.ignore_case, "invert": args.invert_match })
        }
        _ => Value::Null,
    })
}
