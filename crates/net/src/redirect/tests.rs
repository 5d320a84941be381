//! Redirects by the rules.

use std::time::Instant;

use http::header::{AUTHORIZATION, COOKIE, HeaderValue};

use super::*;

fn request_to(method: Method, url: &str, body: &'static str) -> NetRequest {
    let mut request = NetRequest::new(method, Url::parse(url).unwrap(), Instant::now());
    request.body = Bytes::from_static(body.as_bytes());
    for (name, value) in [
        (AUTHORIZATION, "Bearer secret"),
        (COOKIE, "a=b"),
        (HeaderName::from_static("x-api-key"), "secret"),
        (CONTENT_TYPE, "text/plain"),
        (ACCEPT, "text/html"),
    ] {
        request.headers.insert(name, HeaderValue::from_static(value));
    }
    request
}

fn follow(request: &NetRequest, status: u16, to: &str) -> Result<Option<NetRequest>, NetError> {
    let mut headers = HeaderMap::new();
    headers.insert(LOCATION, HeaderValue::from_str(to).unwrap());
    next(request, StatusCode::from_u16(status).unwrap(), &headers)
}

#[test]
fn methods_change_as_the_status_says() {
    let table = [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
        (301, "PUT", "PUT"),
        (303, "DELETE", "GET"),
        (303, "HEAD", "HEAD"),
        (302, "GET", "GET"),
    ];
    for (status, before, after) in table {
        let method = Method::from_bytes(before.as_bytes()).unwrap();
        let request = request_to(method, "https://a.test/x", "body");
        let next = follow(&request, status, "/y").unwrap().unwrap();
        assert_eq!(next.method.as_str(), after, "{status} {before}");
        assert_eq!(next.url.as_str(), "https://a.test/y");
        let keeps = before == after;
        assert_eq!(!next.body.is_empty(), keeps, "{status} {before}");
        assert_eq!(next.headers.contains_key(CONTENT_TYPE), keeps, "{status} {before}");
        assert!(next.headers.contains_key(AUTHORIZATION), "the same host keeps them");
    }
}

#[test]
fn nothing_that_could_be_a_key_goes_to_another_host() {
    let request = request_to(Method::GET, "https://a.test/x", "");
    for to in ["https://b.test/", "https://a.test:8443/", "//b.test/", "https://sub.a.test/"] {
        let next = follow(&request, 302, to).unwrap().unwrap();
        let names: Vec<_> = next.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-type", "accept"], "{to}");
    }
    let mut request = request_to(Method::GET, "https://a.test/x", "");
    let mut accept = HeaderValue::from_static("a secret in a strange place");
    accept.set_sensitive(true);
    request.headers.insert(ACCEPT, accept);
    let next = follow(&request, 302, "https://b.test/").unwrap().unwrap();
    assert!(!next.headers.contains_key(ACCEPT));
}

#[test]
fn a_body_is_not_given_to_another_host() {
    let request = request_to(Method::POST, "https://a.test/token", "client_secret=x");
    let refused = follow(&request, 307, "https://b.test/token").unwrap_err();
    assert!(
        matches!(refused, NetError::Refused { reason: RefusalReason::BodyElsewhere, .. }),
        "{refused:?}"
    );
    // As a GET it may go: the body stays here.
    let next = follow(&request, 303, "https://b.test/token").unwrap().unwrap();
    assert!(next.body.is_empty());
}

#[test]
fn https_never_becomes_http() {
    let request = request_to(Method::GET, "https://a.test/x", "");
    let refused = follow(&request, 302, "http://a.test/x").unwrap_err();
    assert!(
        matches!(refused, NetError::Refused { reason: RefusalReason::Downgrade, .. }),
        "{refused:?}"
    );
}

#[test]
fn what_is_no_redirect_is_an_answer() {
    let request = request_to(Method::GET, "https://a.test/x", "");
    for status in [200, 300, 304, 305, 306, 404] {
        assert!(follow(&request, status, "/y").unwrap().is_none(), "{status}");
    }
    let nowhere = next(&request, StatusCode::FOUND, &HeaderMap::new());
    assert!(nowhere.unwrap().is_none());
    for to in ["https://", "https://[::zz]/", "http://1.2.3.4.5/"] {
        let error = follow(&request, 302, to).unwrap_err();
        assert!(
            matches!(error, NetError::Redirects { .. }) && error.may_have_arrived(),
            "{to}: {error:?}"
        );
    }
}

#[test]
fn a_fragment_is_carried_along() {
    let request = request_to(Method::GET, "https://a.test/x#here", "");
    let next = follow(&request, 302, "/y").unwrap().unwrap();
    assert_eq!(next.url.as_str(), "https://a.test/y#here");
    let next = follow(&request, 302, "/y#there").unwrap().unwrap();
    assert_eq!(next.url.as_str(), "https://a.test/y#there");
}
