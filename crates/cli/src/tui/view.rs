//! Draws the chat: transcript, input box and status line.
//!
//! Invariant: drawing changes only the cache of the view. The measures are returned to the app.

use std::collections::HashMap;
use std::time::Duration;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::app::{App, Scroll, ViewMetrics};
use super::entry_view::{fit, lines};
use super::theme::Theme;
use super::transcript::{EntryBody, TranscriptEntry};

/// Maximum number of visible rows of the input box.
const BOX_ROWS_MAX: usize = 8;
/// Maximum number of visible unread messages.
const QUEUED_MAX: usize = 3;
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_STEP: Duration = Duration::from_millis(100);

/// View with a cache of the rendered entries.
pub(crate) struct View {
    theme: Theme,
    width: u16,
    cache: HashMap<u64, CachedLines>,
}

struct CachedLines {
    revision: u64,
    lines: Vec<Line<'static>>,
}

impl View {
    /// Creates a view with a theme.
    pub(crate) fn new(theme: Theme) -> Self {
        Self { theme, width: 0, cache: HashMap::new() }
    }

    /// Draws the app and returns the measures of the frame.
    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>, app: &App) -> ViewMetrics {
        let area = frame.area();
        if area.width == 0 || area.height == 0 {
            return ViewMetrics::default();
        }
        self.refresh(app, area.width);
        let bottom = self.bottom(app, area.width);
        let rows = usize::from(area.height);
        let shown = bottom.lines.len().min(rows);
        // On a screen with too few rows, the end of the input box is shown.
        let skipped = bottom.lines.len() - shown;
        let height = rows - shown;
        let (total, selected) = self.measure(app);
        let top = match app.scroll {
            Scroll::Follow => total.saturating_sub(height),
            Scroll::At(top) => top.min(total.saturating_sub(height)),
        };
        let buffer = frame.buffer_mut();
        self.draw_transcript(buffer, app, area, top, height);
        let begin = height;
        for (row, line) in bottom.lines[skipped..].iter().enumerate() {
            put(buffer, area, begin + row, line);
        }
        let (row, column) = bottom.cursor;
        if row >= skipped {
            let x = area.x + u16::try_from(column).unwrap_or(0).min(area.width - 1);
            let y = area.y + u16::try_from(begin + row - skipped).unwrap_or(0);
            frame.set_cursor_position(Position::new(x, y.min(area.bottom() - 1)));
        }
        let shows_approval = bottom.approval.is_some_and(|row| row >= skipped);
        ViewMetrics { total, height, selected, shows_approval }
    }

    /// Renders changed entries and removes deleted entries from the cache.
    fn refresh(&mut self, app: &App, width: u16) {
        let entries = app.transcript.entries();
        if self.width != width || self.cache.len() > entries.len() {
            self.cache.clear();
            self.width = width;
        }
        for entry in entries {
            let is_fresh =
                self.cache.get(&entry.id).is_some_and(|cached| cached.revision == entry.revision);
            if !is_fresh {
                let cached = CachedLines {
                    revision: entry.revision,
                    lines: lines(entry, width, &self.theme),
                };
                self.cache.insert(entry.id, cached);
            }
        }
    }

    fn lines_of(&self, entry: &TranscriptEntry) -> &[Line<'static>] {
        self.cache.get(&entry.id).map_or(&[], |cached| cached.lines.as_slice())
    }

    /// Returns the number of rows of the transcript, and the first row of the selected entry.
    fn measure(&self, app: &App) -> (usize, Option<usize>) {
        let (mut total, mut selected) = (0, None);
        let entries = app.transcript.entries();
        for (index, entry) in entries.iter().enumerate() {
            total += gap_before(entries, index);
            if app.selected == Some(index) {
                selected = Some(total);
            }
            total += self.lines_of(entry).len();
        }
        (total, selected)
    }

    /// Draws the visible rows of the transcript.
    fn draw_transcript(
        &self,
        buffer: &mut Buffer,
        app: &App,
        area: Rect,
        top: usize,
        height: usize,
    ) {
        let mut row = 0;
        let entries = app.transcript.entries();
        for (index, entry) in entries.iter().enumerate() {
            row += gap_before(entries, index);
            let lines = self.lines_of(entry);
            if row + lines.len() > top {
                for (offset, line) in lines.iter().enumerate() {
                    let at = row + offset;
                    if at >= top + height {
                        return;
                    }
                    if at < top {
                        continue;
                    }
                    if app.selected == Some(index) && offset == 0 {
                        let marked = line.clone().patch_style(self.theme.selected);
                        put(buffer, area, at - top, &marked);
                    } else {
                        put(buffer, area, at - top, line);
                    }
                }
            }
            row += lines.len();
        }
    }

    /// Renders the part below the transcript.
    fn bottom(&self, app: &App, width: u16) -> Bottom {
        let theme = &self.theme;
        let columns = usize::from(width);
        let mut lines: Vec<Line<'static>> = Vec::new();
        for text in app.queued.iter().take(QUEUED_MAX) {
            let text = fit(&format!("… {}", text.replace('\n', " ")), columns);
            lines.push(Line::styled(text, theme.dim));
        }
        let mark = match app.scroll {
            Scroll::Follow => "",
            Scroll::At(_) => "── PgDn ↓ ",
        };
        let mark = fit(mark, columns);
        let rest = "─".repeat(columns.saturating_sub(mark.width()));
        let rule = format!("{mark}{rest}");
        lines.push(Line::styled(rule, theme.dim));
        let approval_line = self.approval_line(app, columns);
        let approval = approval_line.is_some().then_some(lines.len());
        lines.extend(approval_line);
        let mark = if columns > 8 { "› " } else { "" };
        let rows = app.input.rows(columns - mark.width());
        let first = (rows.cursor.0 + 1).saturating_sub(BOX_ROWS_MAX);
        let (above, column) = rows.cursor;
        let cursor = (lines.len() + above - first, mark.width() + column);
        for (index, row) in rows.rows.iter().enumerate().skip(first).take(BOX_ROWS_MAX) {
            let before = if index == 0 { mark } else { &"  "[..mark.width().min(2)] };
            lines.push(Line::from(vec![
                Span::styled(before.to_owned(), theme.user),
                Span::raw(row.clone()),
            ]));
        }
        lines.push(self.status(app, columns));
        Bottom { lines, approval, cursor }
    }

    /// Renders the oldest approval request, and the keys that decide it. `None` if no approval is open.
    fn approval_line(&self, app: &App, columns: usize) -> Option<Line<'static>> {
        let request = app.approvals.front()?;
        if app.wants_text() {
            let text = fit("type the answer, then press Enter", columns);
            return Some(Line::from(Span::styled(text, self.theme.warn)));
        }
        let keys = match app.input.is_empty() {
            true if app.accepts_decision() => " y yes · n no · a always",
            true => "",
            false => " clear the input to decide",
        };
        let text = format!("allow {}?", request.call.name);
        let text = fit(&text, columns.saturating_sub(keys.width()).max(columns / 2));
        let keys = fit(keys, columns.saturating_sub(text.width()));
        Some(Line::from(vec![
            Span::styled(text, self.theme.warn),
            Span::styled(keys, self.theme.dim),
        ]))
    }

    /// Renders the status line with model and usage.
    fn status(&self, app: &App, columns: usize) -> Line<'static> {
        let tokens = app.usage.total();
        let status = if tokens == 0 {
            app.status.model.clone()
        } else {
            let (input, output) = (app.usage.input, app.usage.output);
            format!("{} · {} in {} out", app.status.model, short(input), short(output))
        };
        let (state, style) = match &app.running {
            Some(run) if run.is_cancelling => ("cancelling …".to_owned(), self.theme.warn),
            Some(_) if !app.approvals.is_empty() => {
                ("waiting for approval".to_owned(), self.theme.warn)
            }
            Some(run) => {
                let passed = app.now.saturating_sub(run.since);
                let step = passed.as_millis() / SPINNER_STEP.as_millis();
                let frame = SPINNER[usize::try_from(step).unwrap_or(0) % SPINNER.len()];
                let text = format!("{frame} {:.1} s · Ctrl-C cancels", passed.as_secs_f64());
                (text, self.theme.accent)
            }
            None if app.is_quit_armed => ("press Ctrl-C again to quit".to_owned(), self.theme.warn),
            None => ("/help".to_owned(), self.theme.dim),
        };
        let state = fit(&state, columns);
        let status = fit(&status, columns.saturating_sub(state.width() + 1));
        let space = columns.saturating_sub(state.width() + status.width());
        Line::from(vec![
            Span::styled(state, style),
            Span::raw(" ".repeat(space)),
            Span::styled(status, self.theme.dim),
        ])
    }
}

struct Bottom {
    lines: Vec<Line<'static>>,
    /// Index of the line with the approval request.
    approval: Option<usize>,
    /// Index of the line with the cursor, and its column.
    cursor: (usize, usize),
}

/// Returns the number of empty rows before an entry: none between two tool calls, else one.
fn gap_before(entries: &[TranscriptEntry], index: usize) -> usize {
    let Some(before) = index.checked_sub(1).map(|index| &entries[index]) else {
        return 0;
    };
    let both = (&before.body, &entries[index].body);
    usize::from(!matches!(both, (EntryBody::Tool(_), EntryBody::Tool(_))))
}

/// Draws a line in a row of an area. Does nothing below the area.
fn put(buffer: &mut Buffer, area: Rect, row: usize, line: &Line<'_>) {
    let Ok(row) = u16::try_from(row) else { return };
    if row < area.height {
        buffer.set_line(area.x, area.y + row, line, area.width);
    }
}

/// Formats a count in few characters.
fn short(count: u64) -> String {
    match count {
        0..=9_999 => count.to_string(),
        10_000..=999_999 => format!("{}k", count / 1000),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests;
