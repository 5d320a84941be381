//! Finds the main content of a page.

use super::html::{Document, Element, Kind};

/// Minimum length of the main content, in characters.
const MAIN_CHARS_MIN: usize = 200;
/// Minimum length of a paragraph that counts, in characters.
const PARAGRAPH_CHARS_MIN: usize = 25;
/// Elements that are never part of the text.
const HIDDEN_ELEMENTS: [&str; 16] = [
    "script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "aside", "form",
    "button", "input", "select", "object", "canvas", "dialog",
];
/// Words in the names of elements with secondary content.
const NEGATIVE_NAMES: [&str; 14] = [
    "comment",
    "sidebar",
    "footer",
    "navbar",
    "menu",
    "share",
    "social",
    "promo",
    "banner",
    "cookie",
    "related",
    "breadcrumb",
    "advert",
    "newsletter",
];
/// Words in the names of elements with the main content.
const POSITIVE_NAMES: [&str; 6] = ["article", "content", "main", "post", "entry", "story"];

/// Returns true if the element is never part of the text.
pub(super) fn is_hidden(element: &Element) -> bool {
    HIDDEN_ELEMENTS.contains(&element.name.as_str())
        || element.attribute("hidden").is_some()
        || element.attribute("aria-hidden") == Some("true")
}

/// Returns the node of the main content, or the root if no node qualifies.
pub(super) fn main_part(document: &Document) -> usize {
    let sizes = measure(document);
    let candidates = (0..document.len()).filter(|index| {
        document.element(*index).is_some_and(|element| {
            matches!(element.name.as_str(), "main" | "article")
                || element.attribute("role") == Some("main")
        })
    });
    let longest = candidates.max_by_key(|index| (sizes[*index].text, usize::MAX - index));
    if let Some(longest) = longest
        && sizes[longest].text >= MAIN_CHARS_MIN
    {
        return longest;
    }
    best_scored(document, &sizes).unwrap_or(Document::ROOT)
}

/// Text lengths of a node, in characters.
#[derive(Clone, Copy, Default)]
struct Size {
    text: usize,
    in_links: usize,
}

/// Returns the text lengths of all nodes. Hidden nodes have length 0.
fn measure(document: &Document) -> Vec<Size> {
    let mut sizes = vec![Size::default(); document.len()];
    // A node precedes its children, so in reverse order each size is complete before it is added to the parent.
    for index in (1..document.len()).rev() {
        let node = document.node(index);
        let mut size = sizes[index];
        match &node.kind {
            Kind::Text(text) => size.text = text.trim().len(),
            Kind::Element(element) if is_hidden(element) => size = Size::default(),
            Kind::Element(element) if element.name == "a" => size.in_links = size.text,
            Kind::Element(_) => {}
        }
        sizes[index] = size;
        sizes[node.parent].text += size.text;
        sizes[node.parent].in_links += size.in_links;
    }
    sizes
}

/// Returns the node with the most text in direct paragraphs, weighted by its name and its share of links. `None` if no
/// paragraph is long enough.
fn best_scored(document: &Document, sizes: &[Size]) -> Option<usize> {
    let mut scores = vec![0.0f64; document.len()];
    for (index, size) in sizes.iter().enumerate().skip(1) {
        let is_paragraph = document
            .element(index)
            .is_some_and(|element| matches!(element.name.as_str(), "p" | "pre" | "blockquote"));
        let own = size.text.saturating_sub(size.in_links);
        if !is_paragraph || own < PARAGRAPH_CHARS_MIN {
            continue;
        }
        let parent = document.node(index).parent;
        scores[parent] += own as f64;
        scores[document.node(parent).parent] += own as f64 / 2.0;
    }
    let weighed = |index: usize| {
        let Some(element) = document.element(index) else { return 0.0 };
        let name = [element.attribute("class"), element.attribute("id")]
            .map(Option::unwrap_or_default)
            .join(" ")
            .to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let by_name = match (has(&POSITIVE_NAMES), has(&NEGATIVE_NAMES)) {
            (true, false) => 1.5,
            (false, true) => 0.2,
            _ => 1.0,
        };
        let size = sizes[index];
        let links = size.in_links as f64 / size.text.max(1) as f64;
        scores[index] * by_name * (1.0 - links)
    };
    let (best, _) = (0..document.len())
        .map(|index| (index, weighed(index)))
        .filter(|(_, score)| *score > 0.0)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    // A small part of the page is more likely an advertisement than the main content.
    let whole = sizes[Document::ROOT].text;
    (sizes[best].text >= MAIN_CHARS_MIN && sizes[best].text * 4 >= whole).then_some(best)
}
