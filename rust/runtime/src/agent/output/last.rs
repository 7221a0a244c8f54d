//! The last few lines of a process, for the news of its death.

use std::collections::VecDeque;

const LINES: usize = 5;
const BYTES: usize = 1 << 10;
/// Stands where something was left out.
const CUT: &str = "...";

/// See the module.
#[derive(Debug, Default)]
pub struct LastLines(VecDeque<String>);

impl LastLines {
    pub fn push(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        if self.0.len() == LINES {
            self.0.pop_front();
        }
        self.0.push_back(beginning(line));
    }

    /// The lines, oldest first.
    pub fn text(self) -> String {
        let mut room = BYTES;
        let fits = |line: &&String| {
            let left = room.checked_sub(line.len() + 1);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let mut lines: Vec<&str> = self.0.iter().rev().take_while(fits).map(String::as_str).collect();
        lines.reverse();
        lines.join("\n")
    }
}

/// Not more of a line than all are to have.
fn beginning(line: &str) -> String {
    const MOST: usize = BYTES / 2;
    match line.char_indices().map(|(at, _)| at).take_while(|at| *at <= MOST).last() {
        Some(end) if line.len() > MOST => format!("{}{CUT}", line.get(..end).unwrap_or_default()),
        _ => line.to_owned(),
    }
}
