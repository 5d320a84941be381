//! Which part of a page is what people come for.

use super::html::{Document, Element, Kind};

/// Characters that a main part must have to be taken for one.
const MAIN_CHARS_MIN: usize = 200;
/// Characters from which a paragraph counts.
const PARAGRAPH_CHARS_MIN: usize = 25;
/// Elements that are never a part of the text.
const NEVER: [&str; 16] = [
    "script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "aside", "form",
    "button", "input", "select", "object", "canvas", "dialog",
];
/// Words in the name of an element that holds something else.
const OTHER: [&str; 14] = [
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
/// Words in the name of an element that holds the text.
const TEXT: [&str; 6] = ["article", "content", "main", "post", "entry", "story"];

/// Is it left out wherever it is?
pub(super) fn is_left_out(element: &Element) -> bool {
    NEVER.contains(&element.name.as_str())
        || element.attribute("hidden").is_some()
        || element.attribute("aria-hidden") == Some("true")
}

/// The node whose text is to be read.
pub(super) fn main_part(document: &Document) -> usize {
    let sizes = sizes(document);
    let said = (0..document.len()).filter(|index| {
        document.element(*index).is_some_and(|element| {
            matches!(element.name.as_str(), "main" | "article")
                || element.attribute("role") == Some("main")
        })
    });
    let longest = said.max_by_key(|index| (sizes[*index].text, usize::MAX - index));
    if let Some(longest) = longest
        && sizes[longest].text >= MAIN_CHARS_MIN
    {
        return longest;
    }
    best(document, &sizes).unwrap_or(Document::ROOT)
}

/// Characters of a part.
#[derive(Clone, Copy, Default)]
struct Size {
    text: usize,
    in_links: usize,
}

/// The sizes of all parts, without what is left out.
fn sizes(document: &Document) -> Vec<Size> {
    let mut sizes = vec![Size::default(); document.len()];
    // Parts come before those inside of them, so backwards each is complete when it is added to the one above.
    for index in (1..document.len()).rev() {
        let node = document.node(index);
        let mut size = sizes[index];
        match &node.kind {
            Kind::Text(text) => size.text = text.trim().len(),
            Kind::Element(element) if is_left_out(element) => size = Size::default(),
            Kind::Element(element) if element.name == "a" => size.in_links = size.text,
            Kind::Element(_) => {}
        }
        sizes[index] = size;
        sizes[node.parent].text += size.text;
        sizes[node.parent].in_links += size.in_links;
    }
    sizes
}

/// The part with the most paragraphs directly below it, weighed by its name and by how much of it is links.
fn best(document: &Document, sizes: &[Size]) -> Option<usize> {
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
        let by_name = match (has(&TEXT), has(&OTHER)) {
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
    // What is a small part of the page is an advertisement rather than the page.
    let whole = sizes[Document::ROOT].text;
    (sizes[best].text >= MAIN_CHARS_MIN && sizes[best].text * 4 >= whole).then_some(best)
}
