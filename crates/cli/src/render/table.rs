//! Tables that fit the width of the terminal.
//!
//! Invariant: a cell is one line without control characters, and an id is never truncated.

use provost_core::Timestamp;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::render::output::one_line;

/// Maximum number of characters in a cell.
const CELL_CHARS_MAX: usize = 200;
/// Minimum width of a column.
const COLUMN_MIN: usize = 6;
/// Number of spaces between two columns.
const GAP: usize = 2;

/// Meaning of a cell, shown as its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// No special meaning.
    #[default]
    Plain,
    /// Success.
    Good,
    /// Failure.
    Bad,
    /// State that waits for an action.
    Warn,
    /// Secondary information.
    Dim,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Warn => Some("33"),
            Self::Dim => Some("2"),
        }
    }

    /// Returns the tone of a state of any resource.
    pub(crate) fn of_state(state: &str) -> Self {
        match state {
            "ok" | "done" | "approved" | "delivered" | "healthy" | "answered" => Self::Good,
            "error" | "timeout" | "failed" | "dropped" | "denied" | "open" | "expired" => Self::Bad,
            "waiting" | "parked" | "pending" | "unknown" | "half_open" => Self::Warn,
            "cancelled" | "sleeping" | "archived" => Self::Dim,
            _ => Self::Plain,
        }
    }
}

/// Cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Creates a cell with a tone.
    pub(crate) fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: one_line(text.as_ref(), CELL_CHARS_MAX), tone }
    }

    /// Creates a cell with a state in its tone.
    pub(crate) fn state(state: &str) -> Self {
        Self::new(state, Tone::of_state(state))
    }

    /// Creates a cell with an optional text. `None` is shown as `-`.
    pub(crate) fn optional(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(|| Self::new("-", Tone::Dim), |text| Self::new(text, Tone::Plain))
    }
}

impl<T: std::fmt::Display> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text.to_string(), Tone::Plain)
    }
}

/// Column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    is_fixed: bool,
}

/// Creates a column whose cells can be truncated.
pub(crate) const fn flexible(title: &'static str) -> Column {
    Column { title, is_fixed: false }
}

/// Creates a column whose cells are never truncated.
pub(crate) const fn fixed(title: &'static str) -> Column {
    Column { title, is_fixed: true }
}

/// Returns a table as text. Without a width no cell is truncated; without colors the text has no ANSI sequences.
pub(crate) fn draw(
    columns: &[Column],
    rows: &[Vec<Cell>],
    width: Option<usize>,
    has_color: bool,
) -> String {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.title.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.width());
        }
    }
    if let Some(width) = width {
        shrink(columns, &mut widths, width);
    }
    let head: Vec<Cell> = columns.iter().map(|column| Cell::new(column.title, Tone::Dim)).collect();
    let mut text = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let shown = truncate(&cell.text, *width);
            let padding = width.saturating_sub(shown.width());
            match cell.tone.code().filter(|_| has_color) {
                Some(code) => line.push_str(&format!("\x1b[{code}m{shown}\x1b[0m")),
                None => line.push_str(&shown),
            }
            if index + 1 < row.len() {
                line.push_str(&" ".repeat(padding + GAP));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Narrows the widest flexible column repeatedly until the table fits, or until no flexible column can be narrowed.
fn shrink(columns: &[Column], widths: &mut [usize], width: usize) {
    loop {
        let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if total <= width {
            return;
        }
        let flexible = (0..widths.len()).filter(|index| !columns[*index].is_fixed);
        let Some(widest) = flexible.max_by_key(|index| widths[*index]) else { return };
        if widths[widest] <= COLUMN_MIN {
            return;
        }
        widths[widest] -= 1;
    }
}

/// Truncates a text to a width.
fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        shown.push(c);
    }
    shown.push('…');
    shown
}

/// Returns the age of a point in time, or the time until it.
pub(crate) fn ago(now: Timestamp, at: Timestamp) -> String {
    let millis = now.as_millis() - at.as_millis();
    let seconds = millis.unsigned_abs() / 1000;
    let span = match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    };
    match millis {
        ..0 if seconds > 0 => format!("in {span}"),
        _ => span,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[fixed("ID"), flexible("STATE"), flexible("MESSAGE")];

    fn row(id: &str, state: &str, message: &str) -> Vec<Cell> {
        vec![Cell::from(id), Cell::state(state), Cell::from(message)]
    }

    #[test]
    fn columns_are_aligned_and_nothing_trails() {
        let rows = [row("task_1", "done", "hi"), row("task_22", "error", "")];
        let table = draw(COLUMNS, &rows, None, false);
        assert_eq!(table, "ID       STATE  MESSAGE\ntask_1   done   hi\ntask_22  error\n");
    }

    #[test]
    fn a_table_fits_and_ids_stay_whole() {
        let rows = [row("task_0123456789", "running", &"words and ".repeat(9))];
        for width in [40, 60, 80] {
            let table = draw(COLUMNS, &rows, Some(width), false);
            assert!(table.lines().all(|line| line.width() <= width), "{table}");
            assert!(table.contains("task_0123456789") && table.contains('…'), "{table}");
        }
        // There is no room for anything: ids are shown all the same.
        assert!(draw(COLUMNS, &rows, Some(5), false).contains("task_0123456789"));
    }

    #[test]
    fn wide_characters_take_two_places_and_colour_takes_none() {
        let rows = [row("a", "done", "漢字漢字漢字漢字")];
        let table = draw(COLUMNS, &rows, Some(20), false);
        assert!(table.lines().all(|line| line.width() <= 20), "{table}");
        let coloured = draw(COLUMNS, &rows, None, true);
        assert!(coloured.contains("\x1b[32mdone\x1b[0m"), "{coloured:?}");
        assert!(!table.contains('\x1b'));
    }

    #[test]
    fn what_others_say_steers_nothing() {
        let table = draw(COLUMNS, &[row("a", "done", "x\x1b[2J\ny\u{202e}z")], None, false);
        assert_eq!(table.lines().nth(1).unwrap(), "a   done   x[2J yz");
    }

    #[test]
    fn times_are_relative() {
        let now = Timestamp::from_millis(1_000_000_000);
        for (before, text) in [
            (0, "0s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (7_200_000, "2h"),
            (200_000_000, "2d"),
            (-90_000, "in 1m"),
            (-10, "0s"),
        ] {
            assert_eq!(ago(now, Timestamp::from_millis(1_000_000_000 - before)), text);
        }
    }
}
