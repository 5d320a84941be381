//! Renders a node as Markdown or plain text.

use provost_net::Url;

use super::html::{Document, Element, Kind};
use super::readability::is_hidden;
use crate::limits::FETCH_TEXT_BYTES_MAX;

/// Renders the title of the page and a node as Markdown or as plain text.
pub(super) fn render_page(
    document: &Document,
    main: usize,
    base: &Url,
    is_markdown: bool,
) -> String {
    let mut renderer = Renderer {
        document,
        base,
        is_markdown,
        out: String::new(),
        prefixes: Vec::new(),
        breaks: 0,
        has_space: false,
        is_pre: false,
        is_fresh: false,
    };
    let title = document.title().split_whitespace().collect::<Vec<_>>().join(" ");
    if !title.is_empty() {
        let mark = if is_markdown { "# " } else { "" };
        renderer.write_word(&format!("{mark}{title}"));
        renderer.breaks = 2;
    }
    renderer.render_node(main);
    let mut text = renderer.out;
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Text so far, with the pending separators and line prefixes.
struct Renderer<'a> {
    document: &'a Document,
    base: &'a Url,
    is_markdown: bool,
    out: String,
    /// Prefix of each line: quote marks and indentation.
    prefixes: Vec<&'static str>,
    /// Number of line breaks before the next text.
    breaks: usize,
    /// True if a space precedes the next text.
    has_space: bool,
    is_pre: bool,
    /// True directly after the marker of an item or a quote: the first block there starts on the same line.
    is_fresh: bool,
}

impl Renderer<'_> {
    /// Renders a node, unless it is hidden or the text is full. The parser limits the depth.
    fn render_node(&mut self, index: usize) {
        if self.out.len() > FETCH_TEXT_BYTES_MAX {
            return;
        }
        match &self.document.node(index).kind {
            Kind::Text(text) if self.is_pre => self.write_verbatim(text),
            Kind::Text(text) => self.write_flow(text),
            Kind::Element(element) if is_hidden(element) => {}
            Kind::Element(element) => self.render_element(index, element),
        }
    }

    /// Renders the children of a node.
    fn render_children(&mut self, index: usize) {
        let document = self.document;
        for child in &document.node(index).children {
            self.render_node(*child);
        }
    }

    /// Renders an element by its name.
    fn render_element(&mut self, index: usize, element: &Element) {
        match element.name.as_str() {
            "head" => {}
            "br" => self.end_lines(1),
            "hr" => self.render_block(index, "---"),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(element.name.as_bytes()[1] - b'0');
                self.render_block(index, &format!("{} ", "#".repeat(level)));
            }
            "li" => self.render_item(index),
            "blockquote" => self.render_indented(index, "> "),
            "pre" => self.render_preformatted(index),
            "strong" | "b" => self.render_inline(index, "**"),
            "em" | "i" => self.render_inline(index, "*"),
            "code" if !self.is_pre => self.render_inline(index, "`"),
            "a" => self.render_link(index, element),
            "img" => self.render_image(element),
            "tr" => self.render_row(index),
            "td" | "th" => {
                self.render_children(index);
                self.write_word(" | ");
            }
            "ul" | "ol" => {
                let is_inner = !self.prefixes.is_empty();
                self.end_lines(if is_inner { 1 } else { 2 });
                self.render_children(index);
                self.end_lines(if is_inner { 1 } else { 2 });
            }
            "p" | "div" | "section" | "article" | "main" | "table" | "dl" | "figure" | "header"
            | "details" | "address" | "fieldset" => self.render_block(index, ""),
            "dt" | "dd" | "figcaption" | "summary" | "tbody" | "thead" | "tfoot" | "caption"
            | "option" => {
                self.end_lines(1);
                self.render_children(index);
                self.end_lines(1);
            }
            _ => self.render_children(index),
        }
    }

    /// Renders a block between blank lines.
    fn render_block(&mut self, index: usize, mark: &str) {
        self.end_lines(2);
        if self.is_markdown && !mark.is_empty() {
            self.write_word(mark);
        }
        self.render_children(index);
        self.end_lines(2);
    }

    /// Renders an item of a list with its bullet or number.
    fn render_item(&mut self, index: usize) {
        let parent = self.document.node(index).parent;
        let is_ordered = self.document.element(parent).is_some_and(|list| list.name == "ol");
        self.end_lines(1);
        if is_ordered {
            let siblings = &self.document.node(parent).children;
            let is_item = |child: &&usize| {
                self.document.element(**child).is_some_and(|element| element.name == "li")
            };
            // Only the first entries of a long list are counted, because counting all of them for each item takes
            // quadratic time.
            let number =
                siblings.iter().take(1000).filter(is_item).take_while(|child| **child != index);
            let number = number.count() + 1;
            self.write_word(&format!("{number}. "));
        } else {
            self.write_word("- ");
        }
        self.prefixes.push("  ");
        self.fresh_children(index);
        self.end_lines(1);
    }

    /// Renders a block with a prefix before each line.
    fn render_indented(&mut self, index: usize, prefix: &'static str) {
        self.end_lines(2);
        self.write_word("");
        self.prefixes.push(prefix);
        self.out.push_str(prefix);
        self.fresh_children(index);
        self.end_lines(2);
    }

    /// Renders the children of an item or a quote. The last prefix applies to all lines except the first.
    fn fresh_children(&mut self, index: usize) {
        self.is_fresh = true;
        self.render_children(index);
        self.is_fresh = false;
        self.prefixes.pop();
    }

    /// Renders a block whose white space is kept.
    fn render_preformatted(&mut self, index: usize) {
        self.end_lines(2);
        let was_pre = std::mem::replace(&mut self.is_pre, true);
        if self.is_markdown {
            self.write_word("```\n");
        }
        self.render_children(index);
        if self.is_markdown {
            let newline = if self.out.ends_with('\n') { "" } else { "\n" };
            self.out.push_str(newline);
            self.out.push_str("```");
        }
        self.is_pre = was_pre;
        self.end_lines(2);
    }

    /// Renders an element between markers. Without content, the closing marker is omitted.
    fn render_inline(&mut self, index: usize, mark: &str) {
        let mark = if self.is_markdown { mark } else { "" };
        let start = self.open_mark(mark);
        self.render_children(index);
        self.close_mark(start, mark);
    }

    /// Renders a link. In plain text, only its text.
    fn render_link(&mut self, index: usize, element: &Element) {
        let target = element.attribute("href").and_then(|href| self.absolute_url(href));
        let Some(target) = target.filter(|_| self.is_markdown) else {
            return self.render_children(index);
        };
        let start = self.open_mark("[");
        self.render_children(index);
        self.close_mark(start, &format!("]({target})"));
    }

    /// Renders an image with its alternative text. Does nothing without one.
    fn render_image(&mut self, element: &Element) {
        let alt = element.attribute("alt").unwrap_or_default().trim();
        if alt.is_empty() {
            return;
        }
        match element.attribute("src").and_then(|src| self.absolute_url(src)) {
            Some(source) if self.is_markdown => self.write_word(&format!("![{alt}]({source})")),
            _ => self.write_word(alt),
        }
    }

    /// Renders a row of a table, and the separator after a row of headings.
    fn render_row(&mut self, index: usize) {
        self.end_lines(1);
        if self.is_markdown {
            self.write_word("| ");
        }
        self.render_children(index);
        let cells = &self.document.node(index).children;
        let heads = cells.iter().filter(|cell| {
            self.document.element(**cell).is_some_and(|element| element.name == "th")
        });
        let heads = heads.count();
        if self.is_markdown && heads > 1 {
            self.end_lines(1);
            self.write_word(&format!("|{}", " --- |".repeat(heads)));
        }
        self.end_lines(1);
    }

    /// Returns an absolute URL. `None` for links within the page and for schemes other than HTTP and mail.
    fn absolute_url(&self, address: &str) -> Option<String> {
        let address = address.trim();
        if address.starts_with('#') {
            return None;
        }
        let url = self.base.join(address).ok()?;
        matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.to_string())
    }

    /// Writes an opening marker. Returns the start of its content.
    fn open_mark(&mut self, mark: &str) -> usize {
        self.write_word(mark);
        self.out.len()
    }

    /// Writes a closing marker if there is content.
    fn close_mark(&mut self, start: usize, mark: &str) {
        if self.out.len() > start {
            self.out.push_str(mark);
        }
    }

    /// Requests at least this many line breaks before the next text. Does nothing within preformatted text.
    fn end_lines(&mut self, breaks: usize) {
        if !self.is_pre && !self.is_fresh {
            self.breaks = self.breaks.max(breaks);
            self.has_space = false;
        }
    }

    /// Writes text with collapsed white space.
    fn write_flow(&mut self, text: &str) {
        if text.starts_with(char::is_whitespace) {
            self.has_space = true;
        }
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            self.write_word(word);
            self.has_space = words.peek().is_some() || text.ends_with(char::is_whitespace);
        }
    }

    /// Writes text unchanged.
    fn write_verbatim(&mut self, text: &str) {
        self.write_word("");
        self.out.push_str(text);
    }

    /// Writes the pending separators and a word.
    fn write_word(&mut self, word: &str) {
        let breaks = std::mem::take(&mut self.breaks);
        let has_space = std::mem::take(&mut self.has_space);
        if self.out.is_empty() {
            self.out.extend(self.prefixes.iter().copied());
        } else if breaks > 0 {
            self.out.truncate(self.out.trim_end_matches(' ').len());
            for _ in 0..breaks {
                self.out.push('\n');
                self.out.extend(self.prefixes.iter().copied());
            }
        } else if has_space && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
        self.out.push_str(word);
        self.is_fresh &= word.is_empty();
    }
}
