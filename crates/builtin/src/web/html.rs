//! A lenient HTML parser.
//!
//! Invariant: one pass over the text in linear time. The number and depth of nodes are limited, and no input is an
//! error.

use super::entity;
use crate::limits::{PAGE_DEPTH_MAX, PAGE_NODES_MAX};

/// Maximum length of an attribute value, in bytes.
const ATTRIBUTE_BYTES_MAX: usize = 4_096;
/// Attributes that are kept.
const ATTRIBUTES: [&str; 8] =
    ["href", "src", "alt", "class", "id", "role", "hidden", "aria-hidden"];
/// Elements whose text is not HTML and is not displayed.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];
/// Elements without an end tag.
const VOID: [&str; 13] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
];
/// Elements that end a paragraph.
const BLOCKS: [&str; 27] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "div",
    "dl",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "ul",
    "details",
];

/// A parsed page: its title and its nodes.
pub(super) struct Document {
    nodes: Vec<Node>,
    title: String,
}

/// A node of a page.
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) parent: usize,
    pub(super) children: Vec<usize>,
}

/// Content of a node.
pub(super) enum Kind {
    Text(String),
    Element(Element),
}

/// An element with the relevant attributes.
#[derive(Default)]
pub(super) struct Element {
    /// Name in lower case.
    pub(super) name: String,
    attributes: Vec<(&'static str, String)>,
}

impl Element {
    /// Returns the value of an attribute. `None` if the element does not have it.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

impl Document {
    /// The root node.
    pub(super) const ROOT: usize = 0;

    /// Parses a page. It never fails; a page with too many nodes is cut.
    pub(super) fn parse(text: &str) -> Self {
        let root =
            Node { kind: Kind::Element(Element::default()), parent: 0, children: Vec::new() };
        let document = Self { nodes: vec![root], title: String::new() };
        let mut builder = Builder { document, open: vec![Self::ROOT] };
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            builder.add_text(&rest[..at]);
            rest = builder.parse_markup(&rest[at..]);
            if builder.document.nodes.len() >= PAGE_NODES_MAX {
                return builder.document;
            }
        }
        builder.add_text(rest);
        builder.document
    }

    /// Returns the title of the page.
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// Returns a node.
    pub(super) fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// Returns the number of nodes. A node precedes its children.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the element at an index. `None` for a text.
    pub(super) fn element(&self, index: usize) -> Option<&Element> {
        match &self.nodes[index].kind {
            Kind::Element(element) => Some(element),
            Kind::Text(_) => None,
        }
    }
}

/// Nodes so far, with the open elements.
struct Builder {
    document: Document,
    /// The open elements, beginning with the root.
    open: Vec<usize>,
}

impl Builder {
    /// Adds a node to the innermost open element. Returns its index.
    fn add(&mut self, kind: Kind) -> usize {
        let index = self.document.nodes.len();
        let parent = self.open.last().copied().unwrap_or(Document::ROOT);
        self.document.nodes.push(Node { kind, parent, children: Vec::new() });
        self.document.nodes[parent].children.push(index);
        index
    }

    /// Adds a text with decoded character references. Does nothing for an empty text.
    fn add_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.add(Kind::Text(entity::decode(text)));
        }
    }

    /// Parses markup that begins with `<`. Returns the remaining text.
    fn parse_markup<'a>(&mut self, text: &'a str) -> &'a str {
        if let Some(comment) = text.strip_prefix("<!--") {
            return comment.find("-->").map_or("", |end| &comment[end + 3..]);
        }
        let second = text.as_bytes().get(1).copied().unwrap_or(b' ');
        match second {
            b'!' | b'?' => text.find('>').map_or("", |end| &text[end + 1..]),
            b'/' => {
                let Some(end) = text.find('>') else { return "" };
                let name = text[2..end].split_ascii_whitespace().next().unwrap_or_default();
                self.close_element(&name.to_ascii_lowercase());
                &text[end + 1..]
            }
            b if b.is_ascii_alphabetic() => self.parse_tag(text),
            _ => {
                self.add_text("<");
                &text[1..]
            }
        }
    }

    /// Parses a start tag and adds its element. Returns the remaining text.
    fn parse_tag<'a>(&mut self, text: &'a str) -> &'a str {
        let inner = &text[1..];
        let is_end = |c: char| c.is_ascii_whitespace() || c == '/' || c == '>';
        let length = inner.find(is_end).unwrap_or(inner.len());
        let mut element =
            Element { name: inner[..length].to_ascii_lowercase(), attributes: Vec::new() };
        let (rest, is_closed) = parse_attributes(&inner[length..], &mut element);
        let name = element.name.clone();
        if RAW.contains(&name.as_str()) {
            return self.skip_raw(&name, rest);
        }
        self.end_implied(&name);
        let index = self.add(Kind::Element(element));
        let is_void = VOID.contains(&name.as_str()) || is_closed;
        if !is_void && self.open.len() < PAGE_DEPTH_MAX {
            self.open.push(index);
        }
        rest
    }

    /// Skips the text of a raw element, and keeps the text of the first title. Returns the remaining text.
    fn skip_raw<'a>(&mut self, name: &str, text: &'a str) -> &'a str {
        let mut from = 0;
        while let Some(at) = text[from..].find("</") {
            let start = from + at + 2;
            let found = text.as_bytes().get(start..start + name.len());
            if found.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes())) {
                if name == "title" && self.document.title.is_empty() {
                    self.document.title = entity::decode(&text[..start - 2]);
                }
                return text[start..].find('>').map_or("", |end| &text[start + end + 1..]);
            }
            from = start;
        }
        ""
    }

    /// Closes the elements that a new element ends implicitly, such as a paragraph before a heading.
    fn end_implied(&mut self, name: &str) {
        let Some(last) = self.open.last().and_then(|last| self.document.element(*last)) else {
            return;
        };
        let ends = match last.name.as_str() {
            "p" => BLOCKS.contains(&name),
            "li" => name == "li",
            "dt" | "dd" => matches!(name, "dt" | "dd"),
            "td" | "th" => matches!(name, "td" | "th" | "tr" | "tbody" | "tfoot"),
            "tr" => matches!(name, "tr" | "tbody" | "tfoot"),
            "option" => name == "option",
            _ => false,
        };
        if ends {
            self.open.pop();
            // A row ends with its last cell.
            if matches!(name, "tr" | "tbody" | "tfoot") {
                self.end_implied(name);
            }
        }
    }

    /// Closes the innermost open element with this name and the elements inside it. Does nothing if there is none.
    fn close_element(&mut self, name: &str) {
        let has_name = |index: &usize| {
            self.document.element(*index).is_some_and(|element| element.name == name)
        };
        if let Some(at) = self.open.iter().rposition(has_name)
            && at > 0
        {
            self.open.truncate(at);
        }
    }
}

/// Parses attributes up to the end of the tag. Returns the remaining text, and whether the tag is self-closing.
fn parse_attributes<'a>(text: &'a str, element: &mut Element) -> (&'a str, bool) {
    let mut rest = text;
    let mut is_closed = false;
    loop {
        rest = rest.trim_ascii_start();
        match rest.as_bytes().first() {
            None => return ("", is_closed),
            Some(b'>') => return (&rest[1..], is_closed),
            Some(b'/') => {
                is_closed = true;
                rest = &rest[1..];
                continue;
            }
            Some(_) => is_closed = false,
        }
        let is_end = |c: char| c.is_ascii_whitespace() || "=>/".contains(c);
        // The parser must advance even if an attribute begins with `=`.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = rest[first..].find(is_end).map_or(rest.len(), |at| at + first);
        let (name, after) = rest.split_at(length);
        let value;
        (value, rest) = match after.trim_ascii_start().strip_prefix('=') {
            Some(after) => attribute_value(after.trim_ascii_start()),
            None => ("", after),
        };
        let known = ATTRIBUTES.iter().find(|known| known.eq_ignore_ascii_case(name));
        if let Some(known) = known
            && element.attribute(known).is_none()
            && value.len() <= ATTRIBUTE_BYTES_MAX
        {
            element.attributes.push((known, entity::decode(value)));
        }
    }
}

/// Splits a quoted or unquoted value from the text. Returns the value and the remaining text.
fn attribute_value(text: &str) -> (&str, &str) {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    match quote {
        Some(quote) => match text[1..].split_once(quote) {
            Some((value, rest)) => (value, rest),
            None => ("", ""),
        },
        None => {
            let is_end = |c: char| c.is_ascii_whitespace() || c == '>';
            text.split_at(text.find(is_end).unwrap_or(text.len()))
        }
    }
}
