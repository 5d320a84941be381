//! A plain request, read at a glance.

use axum::body::Body;
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request, Uri};

/// Headers that are looked at: a plain request has no more.
const HEADERS_MAX: usize = 32;

/// The plain request at the beginning of some bytes, and what stands behind it. Nothing if it is not all there, has more headers
/// than it may, or if any of it is not plain: then somebody else has to look at it.
pub(super) fn read(bytes: &Bytes, headers_max: usize) -> Option<(Request<Body>, Bytes)> {
    let mut space = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut space);
    let Ok(httparse::Status::Complete(head)) = parsed.parse(bytes) else { return None };
    if parsed.headers.len() > headers_max {
        return None;
    }
    let method = method(parsed.method?)?;
    let target = parsed.path.filter(|path| parsed.version == Some(1) && path.starts_with('/'))?;
    let uri = Uri::from_maybe_shared(bytes.slice_ref(target.as_bytes())).ok()?;
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    let mut length = None;
    for header in &*parsed.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        match name {
            CONTENT_LENGTH if length.is_none() => length = Some(self::length(header.value)?),
            CONNECTION if header.value.eq_ignore_ascii_case(b"keep-alive") => {}
            CONTENT_LENGTH | CONNECTION | TRANSFER_ENCODING | EXPECT | UPGRADE | TE | TRAILER => {
                return None;
            }
            _ => {}
        }
        headers.append(name, HeaderValue::from_maybe_shared(bytes.slice_ref(header.value)).ok()?);
    }
    let end = head.checked_add(length.unwrap_or(0)).filter(|end| *end <= bytes.len())?;
    let body = if end == head { Body::empty() } else { Body::from(bytes.slice(head..end)) };
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Some((request, bytes.slice(end..)))
}

/// The methods whose answers have bodies.
fn method(name: &str) -> Option<Method> {
    match name {
        "GET" => Some(Method::GET),
        "POST" => Some(Method::POST),
        "PUT" => Some(Method::PUT),
        "PATCH" => Some(Method::PATCH),
        "DELETE" => Some(Method::DELETE),
        _ => None,
    }
}

/// A length in digits and nothing else.
fn length(value: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(value).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    fn plain(text: &str) -> Option<(Request<Body>, Bytes)> {
        read(&Bytes::copy_from_slice(text.as_bytes()), HEADERS_MAX)
    }

    #[test]
    fn a_plain_request_is_read_and_what_follows_it_is_kept() {
        let text =
            "POST /a?b=c HTTP/1.1\r\nHost: x\r\nX: 1\r\nx: 2\r\nContent-Length: 3\r\n\r\n{1}GET";
        let (request, rest) = plain(text).unwrap();
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/a"));
        assert_eq!(request.uri().query(), Some("b=c"));
        assert_eq!(request.headers().get_all("x").iter().count(), 2);
        assert_eq!(request.body().size_hint().exact(), Some(3));
        assert_eq!(rest, "GET");
        let (request, rest) = plain("GET / HTTP/1.1\r\nConnection: Keep-Alive\r\n\r\n").unwrap();
        assert!(request.body().is_end_stream() && rest.is_empty());
    }

    #[test]
    fn what_is_not_plain_is_left_to_others() {
        let with = |head: &str| format!("POST / HTTP/1.1\r\n{head}\r\n\r\n0\r\n\r\n");
        for text in [
            String::new(),
            "GET / HTTP/1.1\r\nHost: x\r\n".to_owned(),
            "GET / HTTP/1.0\r\n\r\n".to_owned(),
            "GET http://x/ HTTP/1.1\r\n\r\n".to_owned(),
            "OPTIONS * HTTP/1.1\r\n\r\n".to_owned(),
            "HEAD / HTTP/1.1\r\n\r\n".to_owned(),
            "CONNECT x:1 HTTP/1.1\r\n\r\n".to_owned(),
            "BREW / HTTP/1.1\r\n\r\n".to_owned(),
            with("Content-Length: 9"),
            with("Content-Length: +1"),
            with("Content-Length: "),
            with("Content-Length: 1, 1"),
            with("Content-Length: 1\r\nContent-Length: 1"),
            with("Content-Length: 18446744073709551615"),
            with("Content-Length: 1\r\nTransfer-Encoding: chunked"),
            with("Transfer-Encoding: chunked"),
            with("Transfer-Encoding: identity\r\nContent-Length: 1"),
            with("Connection: close"),
            with("Connection: keep-alive, upgrade"),
            with("Upgrade: h2c"),
            with("Expect: 100-continue\r\nContent-Length: 1"),
            with("TE: trailers"),
            with("X : y"),
            with("X: y\r\n folded"),
            with("X: a\0b"),
            with(&"X: y\r\n".repeat(HEADERS_MAX + 1)),
        ] {
            assert!(plain(&text).is_none(), "{text:?}");
        }
        let two = Bytes::from_static(b"GET / HTTP/1.1\r\nX: y\r\nX: y\r\n\r\n");
        assert!(read(&two, 2).is_some() && read(&two, 1).is_none());
    }
}
