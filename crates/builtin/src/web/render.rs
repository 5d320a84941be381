//! Renders a node as Markdown or plain text.

use provost_net::Url;

use super::html::{Document, Element, Kind};
use super::readability::is_hidden;
use crate::limits::FETCH_TEXT_BYTES_MAX;

/// Renders a node after the title of the page.
pub(super) fn render(document: &Document, main: usize, base: &Url, is_markdown: bool) -> String {
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
        renderer.word(&format!("{mark}{title}"));
        renderer.breaks = 2;
    }
    renderer.node(main);
    let mut text = renderer.out;
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

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
    /// The depth is limited by the parser.
    fn node(&mut self, index: usize) {
        if self.out.len() > FETCH_TEXT_BYTES_MAX {
            return;
        }
        match &self.document.node(index).kind {
            Kind::Text(text) if self.is_pre => self.verbatim(text),
            Kind::Text(text) => self.flow(text),
            Kind::Element(element) if is_hidden(element) => {}
            Kind::Element(element) => self.element(index, element),
        }
    }

    fn children(&mut self, index: usize) {
        let document = self.document;
        for child in &document.node(index).children {
            self.node(*child);
        }
    }

    fn element(&mut self, index: usize, element: &Element) {
        match element.name.as_str() {
            "head" => {}
            "br" => self.end_lines(1),
            "hr" => self.block(index, "---"),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(element.name.as_bytes()[1] - b'0');
                self.block(index, &format!("{} ", "#".repeat(level)));
            }
            "li" => self.item(index),
            "blockquote" => self.indented(index, "> "),
            "pre" => self.pre(index),
            "strong" | "b" => self.inline(index, "**"),
            "em" | "i" => self.inline(index, "*"),
            "code" if !self.is_pre => self.inline(index, "`"),
            "a" => self.link(index, element),
            "img" => self.image(element),
            "tr" => self.row(index),
            "td" | "th" => {
                self.children(index);
                self.word(" | ");
            }
            "ul" | "ol" => {
                let is_inner = !self.prefixes.is_empty();
                self.end_lines(if is_inner { 1 } else { 2 });
                self.children(index);
                self.end_lines(if is_inner { 1 } else { 2 });
            }
            "p" | "div" | "section" | "article" | "main" | "table" | "dl" | "figure" | "header"
            | "details" | "address" | "fieldset" => self.block(index, ""),
            "dt" | "dd" | "figcaption" | "summary" | "tbody" | "thead" | "tfoot" | "caption"
            | "option" => {
                self.end_lines(1);
                self.children(index);
                self.end_lines(1);
            }
            _ => self.children(index),
        }
    }

    /// Renders a block between blank lines.
    fn block(&mut self, index: usize, mark: &str) {
        self.end_lines(2);
        if self.is_markdown && !mark.is_empty() {
            self.word(mark);
        }
        self.children(index);
        self.end_lines(2);
    }

    fn item(&mut self, index: usize) {
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
            self.word(&format!("{number}. "));
        } else {
            self.word("- ");
        }
        self.prefixes.push("  ");
        self.fresh_children(index);
        self.end_lines(1);
    }

    fn indented(&mut self, index: usize, prefix: &'static str) {
        self.end_lines(2);
        self.word("");
        self.prefixes.push(prefix);
        self.out.push_str(prefix);
        self.fresh_children(index);
        self.end_lines(2);
    }

    /// Renders the children of an item or a quote. The last prefix applies to all lines except the first.
    fn fresh_children(&mut self, index: usize) {
        self.is_fresh = true;
        self.children(index);
        self.is_fresh = false;
        self.prefixes.pop();
    }

    fn pre(&mut self, index: usize) {
        self.end_lines(2);
        let was_pre = std::mem::replace(&mut self.is_pre, true);
        if self.is_markdown {
            self.word("```\n");
        }
        self.children(index);
        if self.is_markdown {
            let newline = if self.out.ends_with('\n') { "" } else { "\n" };
            self.out.push_str(newline);
            self.out.push_str("```");
        }
        self.is_pre = was_pre;
        self.end_lines(2);
    }

    fn inline(&mut self, index: usize, mark: &str) {
        let mark = if self.is_markdown { mark } else { "" };
        let start = self.mark(mark);
        self.children(index);
        self.close_mark(start, mark);
    }

    fn link(&mut self, index: usize, element: &Element) {
        let target = element.attribute("href").and_then(|href| self.absolute(href));
        let Some(target) = target.filter(|_| self.is_markdown) else {
            return self.children(index);
        };
        let start = self.mark("[");
        self.children(index);
        self.close_mark(start, &format!("]({target})"));
    }

    fn image(&mut self, element: &Element) {
        let alt = element.attribute("alt").unwrap_or_default().trim();
        if alt.is_empty() {
            return;
        }
        match element.attribute("src").and_then(|src| self.absolute(src)) {
            Some(source) if self.is_markdown => self.word(&format!("![{alt}]({source})")),
            _ => self.word(alt),
        }
    }

    fn row(&mut self, index: usize) {
        self.end_lines(1);
        if self.is_markdown {
            self.word("| ");
        }
        self.children(index);
        let cells = &self.document.node(index).children;
        let heads = cells.iter().filter(|cell| {
            self.document.element(**cell).is_some_and(|element| element.name == "th")
        });
        let heads = heads.count();
        if self.is_markdown && heads > 1 {
            self.end_lines(1);
            self.word(&format!("|{}", " --- |".repeat(heads)));
        }
        self.end_lines(1);
    }

    /// Returns an absolute URL. `None` for links within the page and other schemes.
    fn absolute(&self, address: &str) -> Option<String> {
        let address = address.trim();
        if address.starts_with('#') {
            return None;
        }
        let url = self.base.join(address).ok()?;
        matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.to_string())
    }

    /// Writes an opening marker. Returns the start of its content.
    fn mark(&mut self, mark: &str) -> usize {
        self.word(mark);
        self.out.len()
    }

    /// Writes a closing marker if there is content.
    fn close_mark(&mut self, start: usize, mark: &str) {
        if self.out.len() > start {
            self.out.push_str(mark);
        }
    }

    /// Requests at least this many line breaks before the next text.
    fn end_lines(&mut self, breaks: usize) {
        if !self.is_pre && !self.is_fresh {
            self.breaks = self.breaks.max(breaks);
            self.has_space = false;
        }
    }

    /// Writes text with collapsed white space.
    fn flow(&mut self, text: &str) {
        if text.starts_with(char::is_whitespace) {
            self.has_space = true;
        }
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            self.word(word);
            self.has_space = words.peek().is_some() || text.ends_with(char::is_whitespace);
        }
    }

    fn verbatim(&mut self, text: &str) {
        self.word("");
        self.out.push_str(text);
    }

    /// Writes the pending separators and a word.
    fn word(&mut self, word: &str) {
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
