//! Renders an entry of the transcript as styled lines.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::markdown;
use super::theme::Theme;
use super::transcript::{EntryBody, ToolCallEntry, ToolCallState, TranscriptEntry};
use super::wrap::{Indent, wrap};
use crate::error::CliError;
use crate::render::output::{one_line, printable};

/// Maximum number of lines of an unfolded entry.
const OPEN_LINES_MAX: usize = 200;
/// Maximum number of characters of a folded entry.
const LINE_CHARS_MAX: usize = 400;

/// Renders an entry at a width.
pub(crate) fn lines(entry: &TranscriptEntry, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    match &entry.body {
        EntryBody::User(text) => {
            let indent = Indent::hanging("› ", theme.user);
            wrap(&[(text.clone(), theme.user)], width, &indent)
        }
        EntryBody::Answer(text) => markdown::render(text, width, theme),
        EntryBody::Notice(text) => markdown::render(text, width, theme)
            .into_iter()
            .map(|line| line.patch_style(theme.dim))
            .collect(),
        EntryBody::Reasoning(text) => reasoning(text, entry.is_open, width, theme),
        EntryBody::Error(problem) => problem_lines(problem, width, theme),
        EntryBody::Tool(tool) => tool_lines(tool, entry.is_open, width, theme),
    }
}

/// Renders reasoning, as one line unless it is open.
fn reasoning(text: &str, is_open: bool, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let style = theme.dim.add_modifier(Modifier::ITALIC);
    if is_open {
        let indent = Indent::same("│ ", theme.dim);
        return wrap(&[(text.trim().to_owned(), style)], width, &indent);
    }
    let tail: String = text
        .graphemes(true)
        .rev()
        .take(LINE_CHARS_MAX)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    let text = format!("∴ thought: {}", one_line(&tail, LINE_CHARS_MAX));
    vec![Line::styled(fit(&text, usize::from(width)), style)]
}

/// Renders an error with its hint.
fn problem_lines(problem: &CliError, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let pieces = [(problem.message.clone(), theme.error)];
    let mut lines = wrap(&pieces, width, &Indent::hanging("✗ ", theme.error));
    if let Some(hint) = &problem.hint {
        let pieces = [(hint.clone(), Style::new())];
        lines.extend(wrap(&pieces, width, &Indent::hanging("→ ", theme.ok)));
    }
    lines
}

/// Renders a tool call, with its arguments and result if it is open.
fn tool_lines(
    tool: &ToolCallEntry,
    is_open: bool,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let mut lines = vec![tool_line(tool, is_open, width, theme)];
    // The user must see the complete arguments of a call that waits for approval.
    if !is_open && tool.state != ToolCallState::AwaitingApproval {
        return lines;
    }
    let indent = Indent::same("  │ ", theme.dim);
    let arguments = pretty(&tool.arguments);
    lines.extend(wrap(&[(arguments, theme.code)], width, &indent));
    if let Some(note) = &tool.note {
        lines.extend(wrap(&[(note.clone(), theme.warn)], width, &indent));
    }
    if !tool.result.is_empty() {
        let style = match tool.state {
            ToolCallState::Failed | ToolCallState::Denied => theme.error,
            _ => Style::new(),
        };
        let indent = Indent::same("  → ", theme.dim);
        lines.extend(wrap(&[(tool.result.clone(), style)], width, &indent));
    }
    if lines.len() > OPEN_LINES_MAX && tool.state != ToolCallState::AwaitingApproval {
        let more = format!("  … {} more lines", lines.len() - OPEN_LINES_MAX);
        lines.truncate(OPEN_LINES_MAX);
        lines.push(Line::styled(more, theme.dim));
    }
    lines
}

/// Renders a tool call as one line: its state, name, arguments and result.
fn tool_line(tool: &ToolCallEntry, is_open: bool, width: u16, theme: &Theme) -> Line<'static> {
    let (mark, style) = match tool.state {
        ToolCallState::Streaming | ToolCallState::Ready | ToolCallState::Running => {
            ("◌", theme.dim)
        }
        ToolCallState::AwaitingApproval => ("?", theme.warn),
        ToolCallState::Done => ("●", theme.ok),
        ToolCallState::Failed | ToolCallState::Denied => ("✗", theme.error),
        ToolCallState::Cancelled => ("■", theme.dim),
    };
    let arguments = one_line(&compact(&tool.arguments), LINE_CHARS_MAX);
    let outcome = match tool.state {
        ToolCallState::Done if !is_open => format!(" → {}", one_line(&tool.result, LINE_CHARS_MAX)),
        ToolCallState::Failed if !is_open => {
            format!(" → {}", one_line(&tool.result, LINE_CHARS_MAX))
        }
        ToolCallState::Running => match &tool.note {
            Some(note) => format!(" {}", one_line(note, LINE_CHARS_MAX)),
            None => " running".to_owned(),
        },
        ToolCallState::Denied => " denied".to_owned(),
        ToolCallState::Cancelled => " cancelled".to_owned(),
        ToolCallState::AwaitingApproval => " needs approval".to_owned(),
        _ => String::new(),
    };
    let outcome = match arguments.is_empty() {
        true => outcome.trim_start().to_owned(),
        false => outcome,
    };
    let fold = if is_open { "▾" } else { "▸" };
    let name = format!(" {} {fold} ", tool.name);
    let width = usize::from(width);
    let left = width.saturating_sub(mark.width() + name.width());
    // The outcome is more important than the arguments, so it gets up to two thirds of the line.
    let outcome_width = outcome.width().min((left * 2 / 3).max(left.min(14)));
    let arguments = fit(&arguments, left.saturating_sub(outcome_width));
    let outcome = fit(&outcome, left.saturating_sub(arguments.width()));
    Line::from(vec![
        Span::styled(mark, style),
        Span::styled(fit(&name, width.saturating_sub(1)), theme.accent),
        Span::styled(arguments, theme.dim),
        Span::styled(outcome, Style::new()),
    ])
}

/// Returns the arguments for one line. Of a single field, only the value is shown.
fn compact(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(fields)) if fields.is_empty() => String::new(),
        Ok(Value::Object(fields)) if fields.len() == 1 => {
            let only = fields.into_iter().next().map(|(_, value)| value);
            match only {
                Some(Value::String(text)) => text,
                Some(other) => other.to_string(),
                None => String::new(),
            }
        }
        _ => arguments.to_owned(),
    }
}

/// Returns the arguments with one field per line. Text that is not JSON is not changed.
fn pretty(arguments: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(arguments) else {
        return arguments.to_owned();
    };
    if fields.is_empty() {
        return "no arguments".to_owned();
    }
    let lines: Vec<String> = fields
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}: {text}"),
            other => format!("{name}: {other}"),
        })
        .collect();
    lines.join("\n")
}

/// Truncates a text to a number of columns and marks the truncation with an ellipsis.
pub(crate) fn fit(text: &str, columns_max: usize) -> String {
    let text = printable(text);
    if text.width() <= columns_max {
        return text.into_owned();
    }
    let mut cut = String::new();
    let mut columns = 0;
    for grapheme in text.graphemes(true) {
        columns += grapheme.width();
        if columns + 1 > columns_max {
            break;
        }
        cut.push_str(grapheme);
    }
    if columns_max > 0 {
        cut.push('…');
    }
    cut
}
