use reqwest::header::{HeaderName, HeaderValue};

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

#[test]
fn retry_after_is_read_in_all_its_forms() {
    // 1994-11-06 08:49:37 UTC is ten seconds later.
    let now = Timestamp::from_millis(784_111_767_000);
    for (pairs, expected) in [
        (vec![("retry-after", "7")], Some(7_000)),
        (vec![("retry-after", "0.5")], Some(500)),
        (vec![("retry-after-ms", "250"), ("retry-after", "7")], Some(250)),
        (vec![("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(10_000)),
        (vec![("retry-after", "Sun, 06 Nov 1994 08:49:17 GMT")], Some(0)),
        (vec![("retry-after", "soon")], None),
        (vec![("retry-after", "-1")], None),
        (vec![], None),
    ] {
        let found = retry_after(&headers(&pairs), now);
        assert_eq!(found, expected.map(Duration::from_millis), "{pairs:?}");
    }
}

#[test]
fn s226_request_id_and_rate_limits_are_kept() {
    let headers = headers(&[
        ("request-id", "req_1"),
        ("x-ratelimit-remaining-requests", "9"),
        ("set-cookie", "secret"),
    ]);
    let mut out = Vec::new();
    metadata(&headers, request_id(&headers).as_deref(), &mut out);
    assert_eq!(
        out,
        [
            ModelEvent::Metadata("request_id".into(), "req_1".into()),
            ModelEvent::Metadata(
                "rate_limits".into(),
                serde_json::json!({"x-ratelimit-remaining-requests": "9"})
            ),
        ]
    );
}
