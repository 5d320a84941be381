//! The input box: text of several lines, a cursor and a history.
//!
//! The box is pure: method calls change it, and [`Input::rows`] returns its content.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Maximum size of a message in bytes.
const INPUT_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of messages in the history.
const HISTORY_MAX: usize = 500;

/// Input box with its history.
#[derive(Debug, Default)]
pub(crate) struct Input {
    text: String,
    /// Byte position of the cursor, always between two graphemes.
    cursor: usize,
    history: Vec<String>,
    /// Index of the shown message in the history. `None` if the draft is shown.
    history_index: Option<usize>,
    draft: String,
}

/// Visible content of the input box.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Text of each row.
    pub(crate) rows: Vec<String>,
    /// Row and column of the cursor.
    pub(crate) cursor: (usize, usize),
}

impl Input {
    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the box is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Empties the box, adds its text to the history and returns it.
    pub(crate) fn submit(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.history_index = None;
        self.draft.clear();
        if self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        if self.history.len() > HISTORY_MAX {
            self.history.remove(0);
        }
        text
    }

    /// Discards the text.
    pub(crate) fn clear(&mut self) {
        self.set(String::new());
        self.history_index = None;
    }

    /// Inserts typed or pasted text at the cursor. Line ends become `\n`, other control characters are removed, and
    /// text over the size limit is truncated.
    pub(crate) fn insert(&mut self, text: &str) {
        let unified = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut clean: String =
            unified.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect();
        let available = INPUT_BYTES_MAX.saturating_sub(self.text.len());
        clean.truncate(clean.floor_char_boundary(available));
        self.text.insert_str(self.cursor, &clean);
        self.cursor += clean.len();
    }

    /// Removes the character before the cursor.
    pub(crate) fn backspace(&mut self) {
        let to = self.previous_boundary();
        self.text.replace_range(to..self.cursor, "");
        self.cursor = to;
    }

    /// Removes the character after the cursor.
    pub(crate) fn delete(&mut self) {
        let to = self.next_boundary();
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

    /// Moves the cursor one character to the left.
    pub(crate) fn left(&mut self) {
        self.cursor = self.previous_boundary();
    }

    /// Moves the cursor one character to the right.
    pub(crate) fn right(&mut self) {
        self.cursor = self.next_boundary();
    }

    /// Moves the cursor one word to the left.
    pub(crate) fn word_left(&mut self) {
        self.cursor = self.word_before();
    }

    /// Moves the cursor one word to the right.
    pub(crate) fn word_right(&mut self) {
        let rest = &self.text[self.cursor..];
        let word = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |length| word + length);
        self.cursor += end;
    }

    /// Moves the cursor to the start of the line.
    pub(crate) fn home(&mut self) {
        self.cursor = self.line_start();
    }

    /// Moves the cursor to the end of the line.
    pub(crate) fn end(&mut self) {
        self.cursor = self.line_end();
    }

    /// Moves the cursor one line up, or shows the previous message of the history.
    pub(crate) fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            let column = self.text[start..self.cursor].width();
            let above = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
            self.cursor = self.at_column(above, start - 1, column);
            return;
        }
        let older = match self.history_index {
            None => self.history.len().checked_sub(1),
            Some(place) => place.checked_sub(1),
        };
        if let Some(place) = older {
            if self.history_index.is_none() {
                self.draft = self.text.clone();
            }
            self.history_index = Some(place);
            self.set(self.history[place].clone());
        }
    }

    /// Moves the cursor one line down, or shows the next message of the history.
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
        let Some(place) = self.history_index else { return };
        if place + 1 < self.history.len() {
            self.history_index = Some(place + 1);
            self.set(self.history[place + 1].clone());
        } else {
            self.history_index = None;
            let draft = std::mem::take(&mut self.draft);
            self.set(draft);
        }
    }

    /// Returns the rows at a width, with the position of the cursor.
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

    fn previous_boundary(&self) -> usize {
        let last = self.text[..self.cursor].graphemes(true).next_back();
        self.cursor - last.map_or(0, str::len)
    }

    fn next_boundary(&self) -> usize {
        let next = self.text[self.cursor..].graphemes(true).next();
        self.cursor + next.map_or(0, str::len)
    }

    /// Returns the start of the word before the cursor.
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

    /// Returns the byte position in a line that is nearest to a column.
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
