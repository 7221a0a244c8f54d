//! Cutting a stream of bytes into lines.

use std::sync::Arc;

/// Starts a line that names who prints from now on (`raymesh/_worker/output.py` writes them).
const MARK: &[u8] = b"\x00\x1braymesh-name:";

/// A longer line is cut.
const MAX_LINE: usize = 64 << 10;

/// The lines of one stream.
#[derive(Debug)]
pub struct Lines {
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    name: Arc<str>,
}

impl Lines {
    pub fn new(name: &str) -> Self {
        Self { partial: Vec::new(), name: Arc::from(name) }
    }

    /// Takes in what was read and gives each complete line, with the name of who printed it, to `emit`.
    pub fn feed(&mut self, bytes: &[u8], emit: &mut dyn FnMut(&str, String)) {
        let mut searched = self.partial.len();
        self.partial.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(at) = self.partial[searched..].iter().position(|byte| *byte == b'\n') {
            let end = searched + at;
            Self::line(&mut self.name, &self.partial[start..end], emit);
            start = end + 1;
            searched = start;
        }
        while self.partial.len() - start > MAX_LINE {
            let end = start + MAX_LINE;
            emit(&self.name, text(&self.partial[start..end]));
            start = end;
        }
        self.partial.drain(..start);
    }

    /// The stream has ended: a last line without its end is a line.
    pub fn finish(&mut self, emit: &mut dyn FnMut(&str, String)) {
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            Self::line(&mut self.name, &rest, emit);
        }
    }

    fn line(name: &mut Arc<str>, line: &[u8], emit: &mut dyn FnMut(&str, String)) {
        let Some(at) = line.windows(MARK.len()).position(|window| window == MARK) else {
            return emit(name, text(line));
        };
        // Something that does not go through Python's streams had begun a line.
        if at > 0 {
            emit(name, text(&line[..at]));
        }
        *name = Arc::from(text(&line[at + MARK.len()..]));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
