//! What an experiment or a plan hands back: one report of words, tables, drawings and verdicts.
//!
//! A report is data and is written as JSON. Whoever computes it knows how its figures came about; terminals and pages
//! decide how it looks.

use serde::{Serialize, Serializer};

/// Where the times of an experiment come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LabTiming"))]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Simulated: the same seed gives the same report everywhere.
    Simulated,
    /// Measured on the machine it runs on.
    Measured,
}

/// What an experiment found; `C` is a chart: its data, or its [`Drawing`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LabReport"))]
pub struct Report<C> {
    /// The name of the experiment.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it shows, in plain words.
    pub shows: String,
    /// What it ran with.
    pub parameters: Vec<Parameter>,
    /// Its figures.
    pub tables: Vec<Table>,
    /// Its drawings.
    pub charts: Vec<C>,
    /// What the figures of this run say.
    pub findings: Vec<String>,
    /// What to take from it.
    pub lessons: Vec<String>,
    /// Targets and whether this run met them.
    pub verdicts: Vec<Verdict>,
}

/// One thing that an experiment ran with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LabParameter"))]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Cell,
}

/// A target and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LabVerdict"))]
pub struct Verdict {
    /// What is measured.
    pub what: String,
    /// What is wanted.
    pub target: String,
    /// What was found.
    pub measured: String,
    /// Whether the one meets the other.
    pub met: bool,
}

impl<C> Report<C> {
    /// A report without content.
    pub fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        shows: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            shows: shows.into(),
            parameters: Vec::new(),
            tables: Vec::new(),
            charts: Vec::new(),
            findings: Vec::new(),
            lessons: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    /// Adds something that it ran with.
    pub fn parameter(&mut self, name: impl Into<String>, value: impl Into<Cell>) {
        self.parameters.push(Parameter { name: name.into(), value: value.into() });
    }

    /// Adds what the figures say.
    pub fn finding(&mut self, sentence: impl Into<String>) {
        self.findings.push(sentence.into());
    }

    /// Adds what to take from it.
    pub fn lesson(&mut self, sentence: impl Into<String>) {
        self.lessons.push(sentence.into());
    }

    /// Adds a target and whether it was met.
    pub fn verdict(
        &mut self,
        what: impl Into<String>,
        target: impl Into<String>,
        measured: impl Into<String>,
        met: bool,
    ) {
        let (what, target, measured) = (what.into(), target.into(), measured.into());
        self.verdicts.push(Verdict { what, target, measured, met });
    }

    /// How many targets were met, of how many.
    pub fn met(&self) -> (usize, usize) {
        (self.verdicts.iter().filter(|verdict| verdict.met).count(), self.verdicts.len())
    }

    /// The same report with other charts.
    pub fn with_charts<D>(self, charts: Vec<D>) -> Report<D> {
        let Self { name, title, shows, parameters, tables, charts: _, findings, lessons, verdicts } =
            self;
        Report { name, title, shows, parameters, tables, charts, findings, lessons, verdicts }
    }
}

/// A table with a caption.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LabTable"))]
pub struct Table {
    /// What it lists.
    pub caption: String,
    /// What each column holds.
    pub columns: Vec<Column>,
    /// The rows; each has a cell per column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LabColumn"))]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The unit of its numbers; may be empty.
    pub unit: String,
    /// What its cells are.
    pub kind: CellKind,
}

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LabCellKind"))]
#[serde(rename_all = "snake_case")]
pub enum CellKind {
    /// Words.
    Text,
    /// Numbers, shown with this many decimals.
    Number {
        /// Decimals.
        precision: usize,
    },
}

/// A drawn chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LabChart"))]
pub struct Drawing {
    /// What it shows.
    pub title: String,
    /// How to read it; may be empty.
    pub note: String,
    /// An SVG element, whose colours are classes.
    pub svg: String,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words; also in a column of numbers, to say why there is none.
    Text(String),
    /// A number.
    Number(f64),
    /// Nothing.
    Empty,
}

impl Table {
    /// A table without columns and rows.
    pub fn new(caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), columns: Vec::new(), rows: Vec::new() }
    }

    /// Adds a column of words.
    pub fn text(mut self, name: impl Into<String>) -> Self {
        self.columns.push(Column { name: name.into(), unit: String::new(), kind: CellKind::Text });
        self
    }

    /// Adds a column of numbers.
    pub fn number(
        mut self,
        name: impl Into<String>,
        unit: impl Into<String>,
        precision: usize,
    ) -> Self {
        let kind = CellKind::Number { precision };
        self.columns.push(Column { name: name.into(), unit: unit.into(), kind });
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If there is not one cell per column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(cells);
    }
}

impl Column {
    /// The name with its unit.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() {
            return self.name.clone();
        }
        format!("{} ({})", self.name, self.unit)
    }

    /// Whether its cells stand at the right.
    pub fn is_number(&self) -> bool {
        matches!(self.kind, CellKind::Number { .. })
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(value) if value.is_finite() => {
                // Counts stay whole: 3, not 3.0.
                if value.fract() == 0.0 && value.abs() < 9e15 {
                    return serializer.serialize_i64(*value as i64);
                }
                serializer.serialize_f64(*value)
            }
            Self::Number(_) | Self::Empty => serializer.serialize_none(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        Self::Number(value as f64)
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Number(f64::from(value))
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_plain_values_in_json() {
        let cells: [Cell; 5] = ["a".into(), 3u64.into(), 0.5.into(), f64::NAN.into(), Cell::Empty];
        assert_eq!(serde_json::to_string(&cells).unwrap(), r#"["a",3,0.5,null,null]"#);
    }

    #[test]
    #[should_panic(expected = "one cell per column")]
    fn a_row_that_does_not_fit_is_refused() {
        Table::new("x").text("a").number("b", "ms", 1).row(["only one".into()]);
    }
}
