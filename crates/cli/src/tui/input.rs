//! The box a person types into: several lines, a cursor, a history.
//!
//! Pure: keys come in as method calls, the picture goes out as rows.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Bytes a message may have.
const INPUT_BYTES_MAX: usize = 1024 * 1024;
/// Messages that are remembered.
const HISTORY_MAX: usize = 500;

/// Text, cursor and history.
#[derive(Debug, Default)]
pub(crate) struct Input {
    text: String,
    /// Byte position of the cursor, always between two graphemes.
    cursor: usize,
    history: Vec<String>,
    /// Where in the history the box is; `None` is the draft.
    place: Option<usize>,
    draft: String,
}

/// The box as it looks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Each row's text.
    pub(crate) rows: Vec<String>,
    /// Row and column of the cursor.
    pub(crate) cursor: (usize, usize),
}

impl Input {
    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// True if nothing is typed.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Empties the box and remembers what was in it.
    pub(crate) fn submit(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.place = None;
        self.draft.clear();
        if self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        if self.history.len() > HISTORY_MAX {
            self.history.remove(0);
        }
        text
    }

    /// Throws the text away.
    pub(crate) fn clear(&mut self) {
        self.set(String::new());
        self.place = None;
    }

    /// Puts text in at the cursor: typed or pasted. Line ends become `\n`, other control characters vanish, too much is cut.
    pub(crate) fn insert(&mut self, text: &str) {
        let unified = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut clean: String =
            unified.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect();
        let room = INPUT_BYTES_MAX.saturating_sub(self.text.len());
        clean.truncate(clean.floor_char_boundary(room));
        self.text.insert_str(self.cursor, &clean);
        self.cursor += clean.len();
    }

    /// Removes what is before the cursor.
    pub(crate) fn backspace(&mut self) {
        let to = self.before();
        self.text.replace_range(to..self.cursor, "");
        self.cursor = to;
    }

    /// Removes what is behind the cursor.
    pub(crate) fn delete(&mut self) {
        let to = self.behind();
        self.text.replace_range(self.cursor..to, "");
    }

    /// Removes the word before the cursor.
    pub(crate) fn delete_word(&mut self) {
        let to = self.word_before();
        self.text.replace_range(to..self.cursor, "");
        self.cursor = to;
    }

    /// Removes from the start of the line to the cursor.
    pub(crate) fn delete_to_start(&mut self) {
        let to = self.line_start();
        self.text.replace_range(to..self.cursor, "");
        self.cursor = to;
    }

    /// Removes from the cursor to the end of the line.
    pub(crate) fn delete_to_end(&mut self) {
        let to = self.line_end();
        self.text.replace_range(self.cursor..to, "");
    }

    /// One to the left.
    pub(crate) fn left(&mut self) {
        self.cursor = self.before();
    }

    /// One to the right.
    pub(crate) fn right(&mut self) {
        self.cursor = self.behind();
    }

    /// One word to the left.
    pub(crate) fn word_left(&mut self) {
        self.cursor = self.word_before();
    }

    /// One word to the right.
    pub(crate) fn word_right(&mut self) {
        let rest = &self.text[self.cursor..];
        let word = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |length| word + length);
        self.cursor += end;
    }

    /// To the start of the line.
    pub(crate) fn home(&mut self) {
        self.cursor = self.line_start();
    }

    /// To the end of the line.
    pub(crate) fn end(&mut self) {
        self.cursor = self.line_end();
    }

    /// A line up, or an older message.
    pub(crate) fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            let column = self.text[start..self.cursor].width();
            let above = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
            self.cursor = self.at_column(above, start - 1, column);
            return;
        }
        let older = match self.place {
            None => self.history.len().checked_sub(1),
            Some(place) => place.checked_sub(1),
        };
        if let Some(place) = older {
            if self.place.is_none() {
                self.draft = self.text.clone();
            }
            self.place = Some(place);
            self.set(self.history[place].clone());
        }
    }

    /// A line down, or a newer message.
    pub(crate) fn down(&mut self) {
        let end = self.line_end();
        if end < self.text.len() {
            let column = self.text[self.line_start()..self.cursor].width();
            let below = end + 1;
            let below_end =
                self.text[below..].find('\n').map_or(self.text.len(), |length| below + length);
            self.cursor = self.at_column(below, below_end, column);
            return;
        }
        let Some(place) = self.place else { return };
        if place + 1 < self.history.len() {
            self.place = Some(place + 1);
            self.set(self.history[place + 1].clone());
        } else {
            self.place = None;
            let draft = std::mem::take(&mut self.draft);
            self.set(draft);
        }
    }

    /// The rows at a width, and where the cursor is in them.
    pub(crate) fn rows(&self, width: usize) -> Rows {
        let width = width.max(1);
        let mut rows = vec![String::new()];
        let (mut column, mut cursor) = (0, (0, 0));
        for (place, grapheme) in self.text.grapheme_indices(true) {
            let shown = if grapheme == "\t" { "    " } else { grapheme };
            let columns = shown.width();
            let is_break = grapheme == "\n";
            if !is_break && column + columns > width && column > 0 {
                rows.push(String::new());
                column = 0;
            }
            if place == self.cursor {
                cursor = (rows.len() - 1, column);
            }
            if is_break {
                rows.push(String::new());
                column = 0;
            } else if let Some(row) = rows.last_mut() {
                row.push_str(shown);
                column += columns;
            }
        }
        if self.cursor == self.text.len() {
            if column >= width {
                rows.push(String::new());
                column = 0;
            }
            cursor = (rows.len() - 1, column);
        }
        Rows { rows, cursor }
    }

    fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    fn before(&self) -> usize {
        let last = self.text[..self.cursor].graphemes(true).next_back();
        self.cursor - last.map_or(0, str::len)
    }

    fn behind(&self) -> usize {
        let next = self.text[self.cursor..].graphemes(true).next();
        self.cursor + next.map_or(0, str::len)
    }

    fn word_before(&self) -> usize {
        let word = self.text[..self.cursor].trim_end();
        let space = word.char_indices().rev().find(|(_, c)| c.is_whitespace());
        space.map_or(0, |(place, c)| place + c.len_utf8())
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        let rest = &self.text[self.cursor..];
        rest.find('\n').map_or(self.text.len(), |length| self.cursor + length)
    }

    /// The place in a line that is nearest to a column.
    fn at_column(&self, start: usize, end: usize, column: usize) -> usize {
        let mut passed = 0;
        for (place, grapheme) in self.text[start..end].grapheme_indices(true) {
            if passed >= column {
                return start + place;
            }
            passed += grapheme.width();
        }
        end
    }
}

#[cfg(test)]
mod tests;
