//! What every answer carries: the id of its request, and headers that keep browsers from guessing.

use axum::extract::Request;
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};

use crate::app::App;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Characters of an id that a caller chooses.
const REQUEST_ID_LEN_MAX: usize = 64;

/// The id of a request: the caller's, or a new one. Always visible ASCII.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// As text.
    pub(crate) fn text(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The id of this request.
    pub(super) fn of(app: &App, request: &Request) -> Self {
        let given = request.headers().get(REQUEST_ID).filter(|value| {
            let bytes = value.as_bytes();
            (1..=REQUEST_ID_LEN_MAX).contains(&bytes.len())
                && bytes.iter().all(u8::is_ascii_graphic)
        });
        Self(given.cloned().unwrap_or_else(|| fresh(app.shared.options.env.random())))
    }
}

/// A new id: `req_` and a number in base 16.
fn fresh(number: u64) -> HeaderValue {
    let mut text = *b"req_0000000000000000";
    for (place, digit) in text.iter_mut().rev().take(16).enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * place) & 15) as usize];
    }
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("req"))
}

/// An answer, and the id of its request, without what every answer carries.
pub(crate) struct Unsealed {
    pub(super) response: Response,
    pub(super) id: RequestId,
}

/// What every answer carries, as headers.
const SEAL: [(HeaderName, &str); 3] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
];

/// The same in words, for an answer that says nothing of its own about it.
const SEAL_WORDS: &str = "x-content-type-options: nosniff\r\ncache-control: no-store\r\n\
content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n";

impl Unsealed {
    /// With what every answer carries.
    pub(crate) fn sealed(self) -> Response {
        let Self { mut response, id } = self;
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, id.0);
        for (name, value) in SEAL {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
        response
    }

    /// With what every answer carries, partly in words: these lines belong to its head.
    pub(crate) fn in_words(self) -> (Response, Seal) {
        let headers = self.response.headers();
        if SEAL.iter().any(|(name, _)| headers.contains_key(name)) {
            return (self.sealed(), Seal { id: None, words: "" });
        }
        (self.response, Seal { id: Some(self.id.0), words: SEAL_WORDS })
    }
}

/// Lines that belong to the head of an answer.
pub(crate) struct Seal {
    id: Option<HeaderValue>,
    words: &'static str,
}

impl Seal {
    /// Puts the lines where the head is made.
    pub(crate) fn put(&self, head: &mut Vec<u8>) {
        if let Some(id) = &self.id {
            head.extend_from_slice(b"x-request-id: ");
            head.extend_from_slice(id.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(self.words.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seal_says_the_same_in_words() {
        let lines = SEAL.map(|(name, value)| format!("{name}: {value}\r\n"));
        assert_eq!(lines.concat(), SEAL_WORDS);
    }

    #[test]
    fn a_fresh_id_is_its_number() {
        assert_eq!(fresh(0x00ab_cdef_0123_4567), "req_00abcdef01234567");
        assert_eq!(fresh(u64::MAX), "req_ffffffffffffffff");
    }
}
