//! "Did you mean": the known word that is nearest to a mistyped one.

/// Words further away than a third of their length are no likely typing errors.
const DISTANCE_SHARE: usize = 3;

/// The nearest of `known` to `typed`, if one is near enough.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (typed.chars().count() / DISTANCE_SHARE).max(1);
    known
        .into_iter()
        .map(|word| (distance(typed, word), word))
        .filter(|(distance, word)| {
            *distance <= allowed || (typed.len() >= 3 && word.starts_with(typed))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// The same as an end of a sentence: `; did you mean …?`, or nothing.
pub fn hint<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(typed, known).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other
/// (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for (index, row) in rows.iter_mut().enumerate() {
        row[0] = index;
    }
    for (index, cell) in rows[0].iter_mut().enumerate() {
        *cell = index;
    }
    for i in 1..=left.len() {
        for j in 1..=right.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_recognised_and_other_words_are_not() {
        let known = ["retries", "timeout", "payload", "after"];
        assert_eq!(nearest("retrys", known), Some("retries"));
        assert_eq!(nearest("tiemout", known), Some("timeout"));
        assert_eq!(nearest("aftre", known), Some("after"));
        assert_eq!(nearest("pay", known), Some("payload"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(hint("paylod", known), "; did you mean `payload`?");
        assert_eq!(hint("x", known), "");
    }
}
