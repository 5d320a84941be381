//! Renders Markdown as styled lines.
//!
//! A pure function of the text, the width and the theme. Incomplete Markdown of a streamed response is also rendered.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use unicode_width::UnicodeWidthStr;

use super::theme::Theme;
use super::wrap::{Indent, StyledText, wrap};

/// Renders a text.
pub(crate) fn render(text: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut renderer = Renderer {
        width,
        theme: *theme,
        lines: Vec::new(),
        inline: Vec::new(),
        styles: Vec::new(),
        blocks: Vec::new(),
        lists: Vec::new(),
        links: Vec::new(),
        code: None,
        table: None,
        is_fresh: true,
    };
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    for event in Parser::new_ext(text, options) {
        renderer.event(event);
    }
    renderer.flush();
    renderer.lines
}

/// Block that contains other blocks: a quote or a list item.
struct Block {
    /// Prefix of the first line. `None` after the first line was written.
    first: Option<String>,
    rest: String,
    style: Style,
}

#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
}

struct Renderer {
    width: u16,
    theme: Theme,
    lines: Vec<Line<'static>>,
    inline: Vec<StyledText>,
    styles: Vec<Style>,
    blocks: Vec<Block>,
    /// Next number of each open list. `None` for a list without numbers.
    lists: Vec<Option<u64>>,
    links: Vec<String>,
    code: Option<String>,
    table: Option<Table>,
    /// True at the start of the text and of each list item, where no empty line is inserted.
    is_fresh: bool,
}

impl Renderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => {
                let style = self.theme.code;
                self.push(&code, style);
            }
            Event::SoftBreak | Event::HardBreak => self.text("\n"),
            Event::Rule => {
                self.gap();
                let rule = "─".repeat(usize::from(self.width.min(24)));
                self.inline.push((rule, self.theme.dim));
                self.flush();
            }
            Event::Html(html) | Event::InlineHtml(html) => self.text(&html),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text),
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
            Event::TaskListMarker(is_done) => self.text(if is_done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.gap(),
            Tag::Heading { level, .. } => {
                self.gap();
                let mut style = self.theme.heading;
                if level == HeadingLevel::H1 {
                    style = style.add_modifier(Modifier::UNDERLINED);
                }
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => {
                self.gap();
                self.blocks.push(Block {
                    first: None,
                    rest: "│ ".to_owned(),
                    style: self.theme.dim,
                });
                self.is_fresh = true;
            }
            Tag::CodeBlock(kind) => {
                self.gap();
                if let CodeBlockKind::Fenced(language) = &kind
                    && !language.is_empty()
                {
                    self.inline.push((language.to_string(), self.theme.dim));
                    self.flush();
                }
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.gap();
                }
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Emphasis => self.style(Modifier::ITALIC),
            Tag::Strong => self.style(Modifier::BOLD),
            Tag::Strikethrough => self.style(Modifier::CROSSED_OUT),
            Tag::Link { dest_url, .. } => {
                self.links.push(dest_url.to_string());
                self.styles.push(self.theme.link);
            }
            Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.to_string());
                self.text("image: ");
            }
            Tag::Table(_) => {
                self.gap();
                self.table = Some(Table::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            _ => {}
        }
    }

    /// Starts an item of a list with its bullet or number.
    fn start_item(&mut self) {
        self.flush();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number += 1;
                mark
            }
            _ => "• ".to_owned(),
        };
        self.blocks.push(Block {
            rest: " ".repeat(mark.width()),
            first: Some(mark),
            style: self.theme.dim,
        });
        self.is_fresh = true;
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.flush();
                self.blocks.pop();
                self.is_fresh = false;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link => {
                self.styles.pop();
                self.end_link();
            }
            TagEnd::Image => self.end_link(),
            TagEnd::Table => self.end_table(),
            TagEnd::TableCell => {
                let cell: String = self.inline.drain(..).map(|(text, _)| text).collect();
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(code) = &mut self.code {
            code.push_str(text);
        } else {
            self.push(text, Style::new());
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        let base = self.styles.iter().fold(Style::new(), |base, next| base.patch(*next));
        self.inline.push((text.to_owned(), base.patch(style)));
    }

    fn style(&mut self, modifier: Modifier) {
        self.styles.push(Style::new().add_modifier(modifier));
    }

    /// Appends the address of a link, unless the text of the link is the address.
    fn end_link(&mut self) {
        let Some(url) = self.links.pop() else { return };
        let is_shown = self.inline.last().is_some_and(|(text, _)| *text == url);
        if !is_shown && !url.is_empty() {
            self.inline.push((format!(" ({url})"), self.theme.dim));
        }
    }

    /// Ends a code block and renders it.
    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        self.blocks.push(Block { first: None, rest: "  ".to_owned(), style: self.theme.code });
        for line in code.trim_end_matches('\n').split('\n') {
            self.inline.push((line.to_owned(), self.theme.code));
            self.flush_always();
        }
        self.blocks.pop();
    }

    /// Ends a table and renders it with aligned columns.
    fn end_table(&mut self) {
        let Some(table) = self.table.take() else {
            return;
        };
        let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = table.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let total = widths.iter().sum::<usize>() + 3 * columns.saturating_sub(1);
        let fits = total <= usize::from(self.width);
        for (index, row) in table.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| {
                let pad = if fits { width - cell.width() } else { 0 };
                format!("{cell}{}", " ".repeat(pad))
            });
            let text = cells.collect::<Vec<_>>().join(" │ ");
            let style = if index == 0 { self.theme.heading } else { Style::new() };
            self.inline.push((text.trim_end().to_owned(), style));
            self.flush_always();
        }
    }

    /// Inserts an empty line before a block, except at the start of the text.
    fn gap(&mut self) {
        self.flush();
        if !self.is_fresh && !self.lines.is_empty() {
            let indent = self.rest_indent();
            let text: String = indent.iter().map(|(text, _)| text.as_str()).collect();
            self.lines.push(Line::styled(text.trim_end().to_owned(), self.theme.dim));
        }
        self.is_fresh = false;
    }

    /// Renders the collected text as lines. Does nothing if there is none.
    fn flush(&mut self) {
        if !self.inline.is_empty() {
            self.flush_always();
        }
    }

    /// Renders the collected text as lines, an empty line if there is none.
    fn flush_always(&mut self) {
        let rest = self.rest_indent();
        let first = self
            .blocks
            .iter_mut()
            .map(|block| {
                let mark = block.first.take();
                (mark.unwrap_or_else(|| block.rest.clone()), block.style)
            })
            .collect();
        let pieces = std::mem::take(&mut self.inline);
        let indent = Indent { first, rest };
        self.lines.extend(wrap(&pieces, self.width, &indent));
        self.is_fresh = false;
    }

    fn rest_indent(&self) -> Vec<StyledText> {
        let blocks = self.blocks.iter();
        blocks.map(|block| (block.rest.clone(), block.style)).collect()
    }
}

#[cfg(test)]
mod tests;
