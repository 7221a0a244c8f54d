//! Cutting a stream of bytes into lines.

/// Starts a line that names who prints the next one (`raymesh/_worker/output.py` writes them).
const MARK: &[u8] = b"\x00\x1braymesh-name:";

/// A longer line is cut.
const MAX_LINE: usize = 64 << 10;

/// Who prints lines that do not say so: what does not go through Python's streams.
pub type Unnamed = Box<dyn Fn() -> String + Send>;

/// The lines of one stream.
pub struct Lines {
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    /// Who prints the line that has begun, if it was said.
    name: Option<String>,
    unnamed: Unnamed,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("partial", &self.partial.len()).field("name", &self.name).finish()
    }
}

impl Lines {
    pub fn new(unnamed: Unnamed) -> Self {
        Self { partial: Vec::new(), name: None, unnamed }
    }

    /// Takes in what was read and gives each complete line, with the name of who printed it, to `emit`.
    pub fn feed(&mut self, bytes: &[u8], emit: &mut dyn FnMut(&str, String)) {
        let mut searched = self.partial.len();
        self.partial.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(at) = self.partial[searched..].iter().position(|byte| *byte == b'\n') {
            let end = searched + at;
            let line = self.partial[start..end].to_vec();
            self.line(&line, emit);
            start = end + 1;
            searched = start;
        }
        while self.partial.len() - start > MAX_LINE {
            let end = start + MAX_LINE;
            let name = self.name.clone().unwrap_or_else(&self.unnamed);
            emit(&name, text(&self.partial[start..end]));
            start = end;
        }
        self.partial.drain(..start);
    }

    /// The stream has ended: a last line without its end is a line.
    pub fn finish(&mut self, emit: &mut dyn FnMut(&str, String)) {
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            self.line(&rest, emit);
        }
    }

    fn line(&mut self, line: &[u8], emit: &mut dyn FnMut(&str, String)) {
        let Some(at) = line.windows(MARK.len()).position(|window| window == MARK) else {
            let name = self.name.take().unwrap_or_else(&self.unnamed);
            return emit(&name, text(line));
        };
        // Something that does not go through Python's streams had begun a line.
        if at > 0 {
            let name = self.name.take().unwrap_or_else(&self.unnamed);
            emit(&name, text(&line[..at]));
        }
        self.name = Some(text(&line[at + MARK.len()..]));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
