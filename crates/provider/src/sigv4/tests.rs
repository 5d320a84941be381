//! Tests against the examples that AWS publishes.

use reqwest::Url;
use reqwest::header::CONTENT_TYPE;

use super::*;

const SCOPE: Scope<'_> = Scope { region: "us-east-1", service: "service" };

/// Returns the signature of a request at 2015-08-30 12:36:00.
fn signature(url: &str, content_type: Option<&'static str>, body: &str) -> (String, String) {
    let mut headers = HeaderMap::new();
    if let Some(kind) = content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    headers.insert("user-agent", HeaderValue::from_static("not signed"));
    let url = Url::parse(url).unwrap();
    let credentials = Credentials {
        access_key: "AKIDEXAMPLE",
        secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        session_token: None,
    };
    let mut request = UnsignedRequest {
        url: &url,
        body: body.as_bytes(),
        headers: &mut headers,
        now: Timestamp::from_millis(1_440_938_160_000),
    };
    sign(credentials, SCOPE, &mut request).unwrap();
    assert_eq!(headers["x-amz-date"], "20150830T123600Z");
    let value = headers[AUTHORIZATION].to_str().unwrap().to_owned();
    let prefix = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=";
    let rest = value.strip_prefix(prefix).unwrap();
    let (names, signature) = rest.split_once(", Signature=").unwrap();
    (names.to_owned(), signature.to_owned())
}

#[test]
fn the_published_examples_come_out() {
    for (url, content_type, body, names, expected) in [
        (
            "https://example.amazonaws.com/",
            None,
            "",
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "https://example.amazonaws.com/?Param1=value1",
            None,
            "",
            "host;x-amz-date",
            "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
        ),
        (
            "https://example.amazonaws.com/",
            Some("application/x-www-form-urlencoded"),
            "Param1=value1",
            "content-type;host;x-amz-date",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ] {
        let signed = signature(url, content_type, body);
        assert_eq!(signed, (names.to_owned(), expected.to_owned()), "{url} {body}");
    }
}

#[test]
fn everything_that_matters_is_signed() {
    let plain = signature("https://example.amazonaws.com/model/a%3A0/converse-stream", None, "{}");
    for (url, body) in [
        ("https://example.amazonaws.com/model/a%3A1/converse-stream", "{}"),
        ("https://example.amazonaws.com/model/a%3A0/converse-stream", "{} "),
        ("https://example.amazonaws.com:8443/model/a%3A0/converse-stream", "{}"),
        ("https://other.amazonaws.com/model/a%3A0/converse-stream", "{}"),
    ] {
        assert_ne!(signature(url, None, body), plain, "{url}");
    }
    assert_eq!(escape_segment("anthropic.claude-3:0/ü"), "anthropic.claude-3%3A0%2F%C3%BC");
}

#[test]
fn a_token_is_sent_and_signed_and_kept_out_of_sight() {
    let mut headers = HeaderMap::new();
    let url = Url::parse("https://example.amazonaws.com/").unwrap();
    let credentials =
        Credentials { access_key: "A", secret_key: "B", session_token: Some("token") };
    let now = Timestamp::from_millis(0);
    let mut request = UnsignedRequest { url: &url, body: b"", headers: &mut headers, now };
    sign(credentials, SCOPE, &mut request).unwrap();
    assert!(headers["x-amz-security-token"].is_sensitive());
    assert!(headers[AUTHORIZATION].is_sensitive());
    let value = headers[AUTHORIZATION].to_str().unwrap();
    assert!(value.contains("SignedHeaders=host;x-amz-date;x-amz-security-token,"), "{value}");

    let broken = Credentials { access_key: "A\n", ..credentials };
    let mut request = UnsignedRequest { url: &url, body: b"", headers: &mut headers, now };
    let error = sign(broken, SCOPE, &mut request).unwrap_err();
    assert_eq!(error.class, ModelErrorClass::Auth);
}
