//! One entry of the transcript as styled lines.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::markdown;
use super::theme::Theme;
use super::transcript::{Body, Entry, ToolEntry, ToolState};
use super::wrap::{Indent, wrap};
use crate::problem::Problem;
use crate::render::output::{one_line, printable};

/// Lines of an open entry that are shown.
const OPEN_LINES_MAX: usize = 200;
/// Characters of a text that one line is made of.
const LINE_CHARS_MAX: usize = 400;

/// The lines of an entry at a width.
pub(crate) fn lines(entry: &Entry, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    match &entry.body {
        Body::User(text) => {
            let indent = Indent::hanging("› ", theme.user);
            wrap(&[(text.clone(), theme.user)], width, &indent)
        }
        Body::Answer(text) => markdown::render(text, width, theme),
        Body::Notice(text) => markdown::render(text, width, theme)
            .into_iter()
            .map(|line| line.patch_style(theme.dim))
            .collect(),
        Body::Reasoning(text) => reasoning(text, entry.is_open, width, theme),
        Body::Problem(problem) => problem_lines(problem, width, theme),
        Body::Tool(tool) => tool_lines(tool, entry.is_open, width, theme),
    }
}

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

fn problem_lines(problem: &Problem, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let pieces = [(problem.what.clone(), theme.error)];
    let mut lines = wrap(&pieces, width, &Indent::hanging("✗ ", theme.error));
    if let Some(help) = &problem.help {
        let pieces = [(help.clone(), Style::new())];
        lines.extend(wrap(&pieces, width, &Indent::hanging("→ ", theme.ok)));
    }
    lines
}

fn tool_lines(tool: &ToolEntry, is_open: bool, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = vec![tool_line(tool, is_open, width, theme)];
    // A person who is asked must see what the question is about, all of it.
    if !is_open && tool.state != ToolState::Asking {
        return lines;
    }
    let indent = Indent::same("  │ ", theme.dim);
    let arguments = pretty(&tool.arguments);
    lines.extend(wrap(&[(arguments, theme.code)], width, &indent));
    if let Some(remark) = &tool.remark {
        lines.extend(wrap(&[(remark.clone(), theme.warn)], width, &indent));
    }
    if !tool.result.is_empty() {
        let style = match tool.state {
            ToolState::Failed | ToolState::Denied => theme.error,
            _ => Style::new(),
        };
        let indent = Indent::same("  → ", theme.dim);
        lines.extend(wrap(&[(tool.result.clone(), style)], width, &indent));
    }
    if lines.len() > OPEN_LINES_MAX && tool.state != ToolState::Asking {
        let more = format!("  … {} more lines", lines.len() - OPEN_LINES_MAX);
        lines.truncate(OPEN_LINES_MAX);
        lines.push(Line::styled(more, theme.dim));
    }
    lines
}

/// A call in one line: how far it is, what it is, and what came of it.
fn tool_line(tool: &ToolEntry, is_open: bool, width: u16, theme: &Theme) -> Line<'static> {
    let (mark, style) = match tool.state {
        ToolState::Writing | ToolState::Ready | ToolState::Running => ("◌", theme.dim),
        ToolState::Asking => ("?", theme.warn),
        ToolState::Done => ("●", theme.ok),
        ToolState::Failed | ToolState::Denied => ("✗", theme.error),
        ToolState::Stopped => ("■", theme.dim),
    };
    let arguments = one_line(&compact(&tool.arguments), LINE_CHARS_MAX);
    let outcome = match tool.state {
        ToolState::Done if !is_open => format!(" → {}", one_line(&tool.result, LINE_CHARS_MAX)),
        ToolState::Failed if !is_open => format!(" → {}", one_line(&tool.result, LINE_CHARS_MAX)),
        ToolState::Running => match &tool.remark {
            Some(remark) => format!(" {}", one_line(remark, LINE_CHARS_MAX)),
            None => " runs".to_owned(),
        },
        ToolState::Denied => " not allowed".to_owned(),
        ToolState::Stopped => " stopped".to_owned(),
        ToolState::Asking => " may it run?".to_owned(),
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
    // The outcome matters more than the arguments: it gets its room first, within reason.
    let outcome_room = outcome.width().min((left * 2 / 3).max(left.min(14)));
    let arguments = fit(&arguments, left.saturating_sub(outcome_room));
    let outcome = fit(&outcome, left.saturating_sub(arguments.width()));
    Line::from(vec![
        Span::styled(mark, style),
        Span::styled(fit(&name, width.saturating_sub(1)), theme.accent),
        Span::styled(arguments, theme.dim),
        Span::styled(outcome, Style::new()),
    ])
}

/// Arguments for one line: the values alone where that is clear.
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

/// Arguments with one field on each line; what is not JSON stays as it is.
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

/// A text cut to a number of columns, with a mark where something is missing.
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
