//! Decoding of a response body.

use encoding_rs::{Encoding, UTF_8};
use provost_net::Url;
use provost_workspace::{Error, Result};
use serde::de::IgnoredAny;

use super::html::Document;
use super::{PageFormat, readability, render};
use crate::files::read::is_binary;

/// Number of bytes of a page that may declare its encoding.
const META_BYTES: usize = 1024;

/// Body of a response, with its content type and URL.
pub(super) struct PageBody<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) content_type: &'a str,
    pub(super) url: &'a Url,
}

impl PageBody<'_> {
    /// Converts the body to text in a format. Returns an error if it is not text, or not the requested JSON.
    pub(super) fn to_text(&self, format: PageFormat) -> Result<String> {
        let media = self.content_type.split(';').next().unwrap_or_default().trim();
        let media = media.to_ascii_lowercase();
        let is_text = media.is_empty()
            || media.starts_with("text/")
            || ["json", "xml", "javascript", "yaml", "toml", "x-sh", "graphql"]
                .iter()
                .any(|word| media.contains(word));
        let encoding = self.encoding();
        let has_zeros = encoding == UTF_8 && is_binary(self.bytes);
        if !is_text || has_zeros {
            let what = if media.is_empty() { "binary" } else { &media };
            return Err(Error::Content(format!("the page is {what}; only text is supported")));
        }
        let (text, _, _) = encoding.decode(self.bytes);
        let is_html = media.contains("html") || (media.is_empty() && looks_like_html(&text));
        match format {
            PageFormat::Html => Ok(text.into_owned()),
            PageFormat::Json => match serde_json::from_str::<IgnoredAny>(&text) {
                Ok(_) => Ok(text.into_owned()),
                Err(error) => Err(Error::Content(format!("the page is not JSON: {error}"))),
            },
            PageFormat::Markdown | PageFormat::Text if is_html => {
                let document = Document::parse(&text);
                let main = readability::main_part(&document);
                Ok(render::render_page(&document, main, self.url, format == PageFormat::Markdown))
            }
            PageFormat::Markdown | PageFormat::Text => Ok(text.into_owned()),
        }
    }

    /// Returns the encoding of the header, else of the page, else UTF-8. A byte order mark takes precedence in the
    /// decoder.
    fn encoding(&self) -> &'static Encoding {
        let start = &self.bytes[..self.bytes.len().min(META_BYTES)];
        let start = String::from_utf8_lossy(start).to_ascii_lowercase();
        [self.content_type.to_ascii_lowercase(), start]
            .iter()
            .find_map(|text| named_encoding(text))
            .unwrap_or(UTF_8)
    }
}

/// Returns the encoding that a header or the start of a page names. `None` if it names none.
fn named_encoding(text: &str) -> Option<&'static Encoding> {
    let (_, after) = text.split_once("charset=")?;
    let after = after.trim_start_matches(['"', '\'']);
    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:".contains(c)));
    Encoding::for_label(&after.as_bytes()[..end.unwrap_or(after.len())])
}

/// Returns true if the text begins like an HTML page.
fn looks_like_html(text: &str) -> bool {
    let start = text.trim_start();
    let start = &start[..start.floor_char_boundary(200)].to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.contains("<head")
}
