//! Wraps styled text into lines of a width, at word boundaries where possible.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::render::output::printable;

/// Text in one style.
pub(crate) type StyledText = (String, Style);

/// Spaces that replace a tab.
const TAB: &str = "    ";

/// Prefix of the first line and of each further line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Indent {
    /// Prefix of the first line.
    pub(crate) first: Vec<StyledText>,
    /// Prefix of each further line.
    pub(crate) rest: Vec<StyledText>,
}

impl Indent {
    /// Creates an indent that is the same for every line.
    pub(crate) fn same(text: &str, style: Style) -> Self {
        let piece = (text.to_owned(), style);
        Self { first: vec![piece.clone()], rest: vec![piece] }
    }

    /// Creates an indent with a mark before the first line and spaces of the same width before the others.
    pub(crate) fn hanging(mark: &str, style: Style) -> Self {
        Self {
            first: vec![(mark.to_owned(), style)],
            rest: vec![(" ".repeat(mark.width()), style)],
        }
    }
}

/// Wraps styled texts. A line break in the text is kept. The time is linear in the length of the text.
pub(crate) fn wrap(pieces: &[StyledText], width: u16, indent: &Indent) -> Vec<Line<'static>> {
    let mut lines = Wrapper {
        width: usize::from(width.max(1)),
        indent,
        lines: Vec::new(),
        line: Vec::new(),
        columns: 0,
        space: None,
    };
    for (text, style) in pieces {
        for grapheme in printable(text).graphemes(true) {
            match grapheme {
                "\n" => lines.end_line(),
                "\t" => TAB.graphemes(true).for_each(|g| lines.push(g, *style)),
                other => lines.push(other, *style),
            }
        }
    }
    lines.end_line();
    lines.lines
}

struct Wrapper<'a> {
    width: usize,
    indent: &'a Indent,
    lines: Vec<Line<'static>>,
    line: Vec<StyledText>,
    columns: usize,
    /// Index after the last space of the line, where the line can be broken.
    space: Option<usize>,
}

impl Wrapper<'_> {
    /// Returns the indentation of the current line.
    fn indent_now(&self) -> &[StyledText] {
        let indent = if self.lines.is_empty() { &self.indent.first } else { &self.indent.rest };
        let columns: usize = indent.iter().map(|(text, _)| text.width()).sum();
        // On a very narrow screen the indent is omitted to make room for the text.
        if columns * 2 > self.width { &[] } else { indent }
    }

    /// Appends a character, and ends the line before it if it does not fit.
    fn push(&mut self, grapheme: &str, style: Style) {
        let columns = grapheme.width();
        let indent: usize = self.indent_now().iter().map(|(text, _)| text.width()).sum();
        if indent + self.columns + columns > self.width && !self.line.is_empty() {
            if grapheme == " " {
                self.end_line();
                return;
            }
            let carried = match self.space {
                Some(space) => self.line.split_off(space),
                None => Vec::new(),
            };
            self.end_line();
            self.columns = carried.iter().map(|(text, _)| text.width()).sum();
            self.line = carried;
        }
        self.columns += columns;
        self.line.push((grapheme.to_owned(), style));
        if grapheme == " " {
            self.space = Some(self.line.len());
        }
    }

    /// Ends the current line.
    fn end_line(&mut self) {
        let mut spans: Vec<Span<'static>> = self
            .indent_now()
            .iter()
            .map(|(text, style)| Span::styled(text.clone(), *style))
            .collect();
        for (text, style) in self.line.drain(..) {
            match spans.last_mut() {
                Some(last) if last.style == style => {
                    last.content.to_mut().push_str(&text);
                }
                _ => spans.push(Span::styled(text, style)),
            }
        }
        self.lines.push(Line::from(spans));
        self.columns = 0;
        self.space = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, width: u16, indent: &Indent, expected: &[&str]) {
        let pieces = [(text.to_owned(), Style::new())];
        let lines: Vec<String> =
            wrap(&pieces, width, indent).iter().map(ToString::to_string).collect();
        assert_eq!(lines, expected, "{text:?} at {width}");
    }

    #[test]
    fn words_stay_whole_where_they_fit() {
        let none = Indent::default();
        check("one two three", 8, &none, &["one two ", "three"]);
        check("one two", 7, &none, &["one two"]);
        check("one two three", 7, &none, &["one two", "three"]);
        check("", 5, &none, &[""]);
        check("a\n\nb", 5, &none, &["a", "", "b"]);
    }

    #[test]
    fn a_long_word_is_cut_and_wide_characters_count_twice() {
        let none = Indent::default();
        check("abcdefgh", 3, &none, &["abc", "def", "gh"]);
        check("日本語", 4, &none, &["日本", "語"]);
        check("日本", 1, &none, &["日", "本"]);
        check("x 日本語", 4, &none, &["x ", "日本", "語"]);
    }

    #[test]
    fn indents_hang_and_give_way_on_narrow_screens() {
        let indent = Indent::hanging("- ", Style::new());
        check("one two", 6, &indent, &["- one ", "  two"]);
        check("one two", 3, &indent, &["one", "two"]);
    }

    #[test]
    fn tabs_become_spaces_and_controls_vanish() {
        check("a\tb\x1b[1m", 20, &Indent::default(), &["a    b[1m"]);
        check("a\r\nb\u{202e}c\u{200b}", 20, &Indent::default(), &["a", "bc"]);
    }
}
