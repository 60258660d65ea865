//! Which processes there are, and what they have used: as the kernel tells under `/proc`.

use std::collections::HashMap;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: i32,
    /// The id of its parent.
    pub parent: i32,
    /// Time on processors, of its reaped children too, in clock ticks.
    pub ticks: u64,
}

/// All processes that this one may see.
pub fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|id| parse(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?))
        .collect()
}

/// Clock ticks used by a process and all that came of it.
pub fn ticks_of_tree(root: i32) -> u64 {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    let mut open = Vec::new();
    for process in all() {
        if process.id == root {
            open.push(process);
        }
        children.entry(process.parent).or_default().push(process);
    }
    let mut ticks = 0;
    while let Some(process) = open.pop() {
        ticks += process.ticks;
        open.extend(children.remove(&process.id).unwrap_or_default());
    }
    ticks
}

/// Reads a line of `/proc/PID/stat`. The name, in brackets, may hold anything, brackets and blanks too.
fn parse(stat: &str) -> Option<Process> {
    let (id, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        id: id.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = "42 (a) R 7 (b) S 41 42 42 0 -1 4194304 5 0 0 0 11 22 33 44 20 0 1 0 9\n";
        assert_eq!(parse(stat), Some(Process { id: 42, parent: 41, ticks: 110 }));
        assert_eq!(parse("42 (a) S"), None);
    }

    #[test]
    fn this_process_is_seen_with_its_parent() {
        let own = std::process::id().cast_signed();
        let found = all().into_iter().find(|process| process.id == own).expect("own entry");
        assert_eq!(found.parent, std::os::unix::process::parent_id().cast_signed());
    }
}
