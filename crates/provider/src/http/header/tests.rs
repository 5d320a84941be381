use reqwest::header::{HeaderName, HeaderValue};

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

#[test]
fn s226_request_id_and_rate_limits_are_kept() {
    let headers = headers(&[
        ("request-id", "req_1"),
        ("x-ratelimit-remaining-requests", "9"),
        ("set-cookie", "secret"),
    ]);
    assert_eq!(
        metadata_events(&headers, request_id(&headers).as_deref()),
        [
            ModelEvent::Metadata("request_id".into(), "req_1".into()),
            ModelEvent::Metadata(
                "rate_limits".into(),
                serde_json::json!({"x-ratelimit-remaining-requests": "9"})
            ),
        ]
    );
}
