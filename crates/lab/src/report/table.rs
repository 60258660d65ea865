//! Decides what a table is: columns of text or numbers with a unit, and rows that fit them.
//!
//! Knows nothing of how it is shown; the text and the page of a report do.

use serde::{Serialize, Serializer};

use super::number;

/// A table with a caption.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
pub struct Column {
    /// Its name.
    pub name: String,
    /// The unit of its numbers; may be empty.
    pub unit: String,
    /// What its cells are.
    pub kind: Kind,
}

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Words.
    Text,
    /// Numbers, shown with this many decimals.
    Number {
        /// Decimals.
        precision: usize,
    },
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
        self.columns.push(Column { name: name.into(), unit: String::new(), kind: Kind::Text });
        self
    }

    /// Adds a column of numbers.
    pub fn number(
        mut self,
        name: impl Into<String>,
        unit: impl Into<String>,
        precision: usize,
    ) -> Self {
        let kind = Kind::Number { precision };
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
    pub(crate) fn heading(&self) -> String {
        if self.unit.is_empty() {
            return self.name.clone();
        }
        format!("{} ({})", self.name, self.unit)
    }

    /// Whether its cells stand at the right.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Number { .. })
    }

    /// A cell of it in words.
    pub(crate) fn show(&self, cell: &Cell) -> String {
        match (cell, self.kind) {
            (Cell::Text(text), _) => text.clone(),
            (Cell::Number(value), Kind::Number { precision }) => number::decimal(*value, precision),
            (Cell::Number(value), Kind::Text) => number::brief(*value),
            (Cell::Empty, _) => "–".into(),
        }
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
