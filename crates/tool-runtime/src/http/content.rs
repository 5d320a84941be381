//! Conversion of a response body into parts for a model: text, an image, or a file.

use encoding_rs::Encoding;
use http::{HeaderMap, header};
use provost_core::{Document, Image, MediaSource, ToolResultPart};
use provost_tool::ToolOutput;
use serde_json::{Map, Value};
use url::Url;

use crate::limits::FILE_NAME_CHARS_MAX;

/// Headers that are hidden from models.
const HIDDEN_HEADERS: [&str; 2] = ["set-cookie", "www-authenticate"];

/// Converts the body of a response to text, an image or a file, by its content type. An empty body becomes `done`.
pub(crate) fn to_output(headers: &HeaderMap, url: &Url, body: &[u8]) -> ToolOutput {
    let media = Media::of(headers);
    if body.is_empty() {
        return ToolOutput::text("done");
    }
    if media.is_image() {
        return ToolOutput::image(Image::bytes(media.kind, body));
    }
    match media.text(body) {
        Some(text) => ToolOutput::text(text),
        None => file_output(headers, url, media.kind, body),
    }
}

/// Returns the headers as the result of a `HEAD` request. Headers of the connection are omitted.
pub(crate) fn headers_output(headers: &HeaderMap) -> ToolOutput {
    let mut visible = Map::new();
    for (name, value) in headers {
        if !HIDDEN_HEADERS.contains(&name.as_str()) {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            visible.insert(name.as_str().to_owned(), Value::String(value));
        }
    }
    ToolOutput::json(&visible)
}

/// Content type of a response.
struct Media {
    kind: String,
    charset: Option<String>,
}

impl Media {
    fn of(headers: &HeaderMap) -> Self {
        let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let mut parts = text.unwrap_or_default().split(';');
        let kind = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let is_charset = name.trim().eq_ignore_ascii_case("charset");
            is_charset.then(|| value.trim().trim_matches('"').to_owned())
        });
        Self { kind, charset }
    }

    /// Returns true for images that models accept.
    fn is_image(&self) -> bool {
        // An SVG image is text.
        self.kind.starts_with("image/") && self.kind != "image/svg+xml"
    }

    /// Returns true if the type is text. A missing type counts as text.
    fn is_text(&self) -> bool {
        let kind = self.kind.as_str();
        kind.is_empty()
            || kind.starts_with("text/")
            || kind.ends_with("+json")
            || kind.ends_with("+xml")
            || kind.ends_with("+yaml")
            || matches!(
                kind,
                "application/json"
                    | "application/xml"
                    | "application/yaml"
                    | "application/x-yaml"
                    | "application/toml"
                    | "application/javascript"
                    | "application/x-ndjson"
                    | "application/graphql"
                    | "application/sql"
                    | "application/x-www-form-urlencoded"
            )
    }

    /// Decodes a body as text. `None` if it is not text or not validly encoded.
    fn text(&self, body: &[u8]) -> Option<String> {
        if !self.is_text() {
            return None;
        }
        let Some(label) = &self.charset else {
            return String::from_utf8(body.to_vec()).ok();
        };
        let encoding = Encoding::for_label(label.as_bytes())?;
        let (text, _, malformed) = encoding.decode(body);
        (!malformed).then(|| text.into_owned())
    }
}

/// Returns the body as a file, named by the header or the URL.
fn file_output(headers: &HeaderMap, url: &Url, kind: String, body: &[u8]) -> ToolOutput {
    let media_type = if kind.is_empty() { "application/octet-stream".to_owned() } else { kind };
    let name = file_name(headers).or_else(|| {
        let last = url.path_segments()?.next_back()?.to_owned();
        Some(last).filter(|last| !last.is_empty())
    });
    let name = name.map(|name| name.chars().take(FILE_NAME_CHARS_MAX).collect());
    let source = MediaSource::bytes(media_type, body);
    ToolOutput {
        parts: vec![ToolResultPart::File(Document { source, name })],
        ..ToolOutput::default()
    }
}

/// Returns the file name from `content-disposition`, without any path. `None` if there is none.
fn file_name(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_DISPOSITION)?.to_str().ok()?;
    let name = text.split(';').find_map(|part| part.trim().strip_prefix("filename="))?;
    let name = name.trim().trim_matches('"');
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    (!name.is_empty() && name != "..").then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(kind: &'static str, body: &[u8]) -> ToolOutput {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        to_output(&headers, &Url::parse("https://example.com/a/report.pdf?x=1").unwrap(), body)
    }

    fn file_of(output: &ToolOutput) -> &Document {
        match &output.parts[..] {
            [ToolResultPart::File(file)] => file,
            other => panic!("no file: {other:?}"),
        }
    }

    #[test]
    fn bodies_become_what_they_are() {
        assert_eq!(of("application/json", b"{\"status\":\"ok\"}").to_text(), "{\"status\":\"ok\"}");
        assert_eq!(of("", "grüezi".as_bytes()).to_text(), "grüezi");
        assert_eq!(of("text/plain; charset=ISO-8859-1", b"gr\xfcezi").to_text(), "grüezi");
        assert_eq!(of("text/plain; charset=\"shift_jis\"", b"\x82\xa0").to_text(), "あ");
        assert_eq!(of("text/plain", b"").to_text(), "done");
        assert_eq!(of("image/svg+xml", b"<svg/>").to_text(), "<svg/>");
        let picture = of("image/png", b"\x89PNG");
        assert!(matches!(&picture.parts[..], [ToolResultPart::Image(_)]));
        let file = of("application/pdf", b"%PDF");
        assert_eq!(file_of(&file).name.as_deref(), Some("report.pdf"));
        assert_eq!(file_of(&file).source.decode().unwrap(), b"%PDF");
    }

    #[test]
    fn bytes_that_are_no_text_are_a_file() {
        for kind in [
            "text/plain",
            "application/json",
            "",
            "text/plain; charset=utf-8",
            "text/plain; charset=nonsense",
        ] {
            let output = of(kind, b"a\xff\xfeb");
            assert_eq!(file_of(&output).source.decode().unwrap(), b"a\xff\xfeb", "{kind}");
        }
    }

    #[test]
    fn the_name_of_a_file_holds_no_path() {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_static("attachment; filename=\"../../etc/passwd\"");
        headers.insert(header::CONTENT_DISPOSITION, value);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
        let output = to_output(&headers, &Url::parse("https://example.com/").unwrap(), b"x");
        assert_eq!(file_of(&output).name.as_deref(), Some("passwd"));
    }

    #[test]
    fn a_head_gives_headers_and_no_cookies() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ETAG, HeaderValue::from_static("\"1\""));
        headers.insert(header::SET_COOKIE, HeaderValue::from_static("session=1"));
        assert_eq!(headers_output(&headers).to_text(), r#"{"etag":"\"1\""}"#);
    }
}
