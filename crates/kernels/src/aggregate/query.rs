//! What is asked of every group, read from a text such as `count, sum(x), p99(x), top(5,u)`.
//!
//! | word | answer | nothing in the column |
//! |---|---|---|
//! | `count` | rows; with a column, rows that have something there | not counted |
//! | `sum(x)` `avg(x)` | of numbers | left out |
//! | `min(x)` `max(x)` | numbers come before texts; without a column that of the word before | left out |
//! | `distinct(u)` | how many different texts | not counted |
//! | `common(u,v)` | how many different texts are in both columns, in whichever rows | not counted |
//! | `p50(x)` `p99.9(x)` `median(x)` | quantile, between two numbers where it falls between them | left out |
//! | `top(5,u)` | the most frequent texts | left out |
//! | `histogram(x)` | numbers between powers of two | left out |

use super::state::{Keep, StateSpec};

/// Words of one query at most.
pub const MEASURES_MAX: usize = 64;
/// Columns of one query at most.
pub const COLUMNS_MAX: usize = 64;
/// Values that `top` lists at most.
pub const TOP_MAX: usize = 1_000;

/// What is asked, and what has to be kept for the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Columns that are needed: those of the groups first.
    columns: Vec<String>,
    keys: usize,
    measures: Vec<Measure>,
    states: Vec<StateSpec>,
    approximate: bool,
}

/// One word of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// As it was written.
    pub name: String,
    /// What it asks for.
    pub ask: Ask,
    /// Where its state is.
    pub state: usize,
    /// Where the state of its second column is, if it asks for two.
    pub second: Option<usize>,
}

/// What a word asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ask {
    /// How many rows.
    Count,
    /// The sum.
    Sum,
    /// The mean.
    Average,
    /// The least.
    Least,
    /// The greatest.
    Most,
    /// How many different ones.
    Distinct,
    /// How many different ones are in two columns.
    Common,
    /// The number that this share of the numbers does not exceed.
    Quantile(f64),
    /// So many of the most frequent.
    Top(usize),
    /// How many between powers of two.
    Histogram,
}

/// Why a query cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` {problem}")]
pub struct QueryError {
    word: String,
    problem: String,
}

impl QueryError {
    fn new(word: &str, problem: impl Into<String>) -> Self {
        Self { word: word.trim().to_owned(), problem: problem.into() }
    }
}

impl Query {
    /// Reads what is asked of the groups that these columns make; none makes all rows one group.
    ///
    /// # Errors
    /// Names the word that cannot be understood.
    pub fn parse(group_by: &[String], words: &str, approximate: bool) -> Result<Self, QueryError> {
        let mut query = Self {
            columns: Vec::new(),
            keys: group_by.len(),
            measures: Vec::new(),
            states: Vec::new(),
            approximate,
        };
        for column in group_by {
            if column.is_empty() || query.columns.contains(column) {
                return Err(QueryError::new(
                    column,
                    "is given twice, or empty, as a column to group by",
                ));
            }
            query.columns.push(column.clone());
        }
        let mut before = None;
        for word in split(words) {
            query.add(word.trim(), &mut before)?;
        }
        if query.measures.is_empty() {
            return Err(QueryError::new(
                words,
                "asks for nothing; name at least one, such as count",
            ));
        }
        if query.measures.len() > MEASURES_MAX || query.columns.len() > COLUMNS_MAX {
            let problem = format!(
                "asks for too much: at most {MEASURES_MAX} words and {COLUMNS_MAX} columns"
            );
            return Err(QueryError::new(words, problem));
        }
        Ok(query)
    }

    /// The columns that are needed, those of the groups first.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many of them make the group.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// What is asked.
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// Whether answers may be approximate.
    pub fn is_approximate(&self) -> bool {
        self.approximate
    }

    pub(super) fn states(&self) -> &[StateSpec] {
        &self.states
    }

    fn add(&mut self, word: &str, before: &mut Option<String>) -> Result<(), QueryError> {
        let (verb, inside) = parts(word)?;
        let Asked { ask, column, second } = ask(word, verb, inside, before.as_deref())?;
        if let Some(column) = &column {
            *before = Some(column.clone());
        }
        let name = match (&column, inside) {
            (Some(column), None) => format!("{verb}({column})"),
            _ => word.split_whitespace().collect(),
        };
        let keep = keep(ask, column.is_some(), self.approximate);
        let state = self.state(keep, column);
        let second = second.map(|second| self.state(keep, Some(second)));
        self.measures.push(Measure { name, ask, state, second });
        Ok(())
    }

    /// Where this is kept of this column.
    fn state(&mut self, keep: Keep, column: Option<String>) -> usize {
        let spec = StateSpec { keep, column: column.map(|column| self.column(column)) };
        self.states.iter_mut().position(|state| state.serves(spec)).unwrap_or_else(|| {
            self.states.push(spec);
            self.states.len() - 1
        })
    }

    fn column(&mut self, name: String) -> usize {
        self.columns.iter().position(|column| *column == name).unwrap_or_else(|| {
            self.columns.push(name);
            self.columns.len() - 1
        })
    }
}

/// At commas outside of brackets.
fn split(words: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    words
        .split(move |letter| {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            letter == ',' && depth == 0
        })
        .filter(|word| !word.trim().is_empty())
}

/// The verb, and what is in brackets behind it.
fn parts(word: &str) -> Result<(&str, Option<&str>), QueryError> {
    let Some((verb, rest)) = word.split_once('(') else { return Ok((word, None)) };
    match rest.strip_suffix(')') {
        Some(inside) if !inside.trim().is_empty() => Ok((verb.trim(), Some(inside.trim()))),
        _ => Err(QueryError::new(word, "needs a column in brackets, such as sum(x)")),
    }
}

/// What a word asks for, and of which columns.
struct Asked {
    ask: Ask,
    column: Option<String>,
    second: Option<String>,
}

fn ask(
    word: &str,
    verb: &str,
    inside: Option<&str>,
    before: Option<&str>,
) -> Result<Asked, QueryError> {
    let column = || {
        inside
            .map(str::to_owned)
            .ok_or_else(|| QueryError::new(word, "needs a column in brackets, such as sum(x)"))
    };
    let two = || {
        inside.and_then(|inside| inside.split_once(',')).map(|(one, two)| (one.trim(), two.trim()))
    };
    let mut second = None;
    let (ask, column) = match verb {
        "count" => (Ask::Count, inside.map(str::to_owned)),
        "sum" => (Ask::Sum, Some(column()?)),
        "avg" | "mean" => (Ask::Average, Some(column()?)),
        "min" | "max" => {
            let column = inside.or(before).map(str::to_owned);
            let column =
                column.ok_or_else(|| QueryError::new(word, "needs a column, such as min(x)"))?;
            (if verb == "min" { Ask::Least } else { Ask::Most }, Some(column))
        }
        "distinct" => (Ask::Distinct, Some(column()?)),
        "common" => match two() {
            Some((one, two)) if !one.is_empty() && !two.is_empty() && one != two => {
                second = Some(two.to_owned());
                (Ask::Common, Some(one.to_owned()))
            }
            _ => {
                return Err(QueryError::new(word, "is not common(COLUMN,COLUMN) with two columns"));
            }
        },
        "median" => (Ask::Quantile(0.5), Some(column()?)),
        "histogram" => (Ask::Histogram, Some(column()?)),
        "top" => match two().and_then(|(count, column)| Some((count.parse().ok()?, column))) {
            Some((count @ 1..=TOP_MAX, column)) if !column.is_empty() => {
                (Ask::Top(count), Some(column.to_owned()))
            }
            _ => {
                let problem = format!("is not top(COUNT,COLUMN) with a count from 1 to {TOP_MAX}");
                return Err(QueryError::new(word, problem));
            }
        },
        _ => match verb.strip_prefix('p').and_then(|percent| percent.parse::<f64>().ok()) {
            Some(percent) if (0.0..=100.0).contains(&percent) => {
                (Ask::Quantile(percent / 100.0), Some(column()?))
            }
            Some(_) => {
                return Err(QueryError::new(
                    word,
                    "is no percentile; use p0 to p100, such as p99.9(x)",
                ));
            }
            None => {
                let problem = "is not known; use count, sum, avg, min, max, distinct, common, p50, median, top or histogram";
                return Err(QueryError::new(word, problem));
            }
        },
    };
    Ok(Asked { ask, column, second })
}

fn keep(ask: Ask, has_column: bool, approximate: bool) -> Keep {
    match ask {
        Ask::Count if has_column => Keep::Present,
        Ask::Count => Keep::Rows,
        Ask::Sum | Ask::Average => Keep::Sum,
        Ask::Least => Keep::Least,
        Ask::Most => Keep::Most,
        Ask::Distinct if approximate => Keep::DistinctSketch,
        Ask::Common if approximate => Keep::Sample,
        Ask::Distinct | Ask::Common => Keep::Different,
        Ask::Top(_) if approximate => Keep::Frequent,
        Ask::Top(_) => Keep::Counts,
        Ask::Quantile(_) if approximate => Keep::Rough,
        Ask::Quantile(_) => Keep::Numbers,
        Ask::Histogram => Keep::Histogram,
    }
}
