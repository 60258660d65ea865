//! Rows to ask about, and the same answer computed here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Files that the rows are spread over.
const FILES: u64 = 16;
/// Groups.
const KEYS: u64 = 500;

/// A query whose every figure is a whole number, so that no order of adding changes it.
pub(crate) const QUERY: &str = "select k, count(*) as n, sum(v) as total, min(v) as low, max(v) as high, \
     count(distinct u) as users from t group by k order by k";

/// Row `number`: key, value, user. The first keys have most of the rows.
fn row(number: u64) -> (u64, u64, u64) {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) >> 8;
    ((mixed % KEYS) * ((mixed >> 20) % KEYS) / KEYS, (mixed >> 7) % 10_007, (mixed >> 13) % 97)
}

/// Writes rows as CSV files into a folder.
pub(crate) fn write_csv(folder: &Path, rows: u64) {
    fs::create_dir_all(folder).unwrap();
    for file in 0..FILES {
        let mut text = String::from("k,v,u\n");
        for number in (file..rows).step_by(FILES as usize) {
            let (key, value, user) = row(number);
            writeln!(text, "{key},{value},{user}").unwrap();
        }
        fs::write(folder.join(format!("part-{file:02}.csv")), text).unwrap();
    }
}

/// The answer to [`QUERY`] as CSV.
pub(crate) fn expected(rows: u64) -> String {
    let mut groups: BTreeMap<u64, (Vec<u64>, BTreeSet<u64>)> = BTreeMap::new();
    for number in 0..rows {
        let (key, value, user) = row(number);
        let (values, users) = groups.entry(key).or_default();
        values.push(value);
        users.insert(user);
    }
    let mut text = String::from("k,n,total,low,high,users\n");
    for (key, (values, users)) in groups {
        let total: u64 = values.iter().sum();
        let (low, high) = (values.iter().min().unwrap(), values.iter().max().unwrap());
        writeln!(text, "{key},{},{total},{low},{high},{}", values.len(), users.len()).unwrap();
    }
    text
}
