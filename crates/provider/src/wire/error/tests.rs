use super::*;
use ModelErrorClass as Class;

const CASES: &[(u16, &str, Class)] = &[
    (
        401,
        r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        Class::Auth,
    ),
    (
        401,
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
        Class::Auth,
    ),
    (403, r#"{"type":"error","error":{"type":"permission_error","message":"no"}}"#, Class::Auth),
    (
        429,
        r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
        Class::RateLimited,
    ),
    (
        429,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#,
        Class::RateLimited,
    ),
    (429, "", Class::RateLimited),
    (
        429,
        r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        Class::QuotaExceeded,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
        Class::QuotaExceeded,
    ),
    (
        402,
        r#"{"type":"error","error":{"type":"billing_error","message":"pay"}}"#,
        Class::QuotaExceeded,
    ),
    (
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        Class::Overloaded,
    ),
    (
        500,
        r#"{"error":{"message":"The server had an error","type":"server_error"}}"#,
        Class::Overloaded,
    ),
    (502, "<html>bad gateway</html>", Class::Overloaded),
    (503, "", Class::Overloaded),
    (
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        Class::ContextLength,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        Class::ContextLength,
    ),
    (400, r#"{"error":{"message":"blocked","code":"content_filter"}}"#, Class::ContentFilter),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}"#,
        Class::ContentFilter,
    ),
    (
        404,
        r#"{"error":{"message":"The model `x` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
        Class::ModelNotFound,
    ),
    (
        404,
        r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}"#,
        Class::ModelNotFound,
    ),
    (404, r#"{"error":"model 'x' not found, try pulling it first"}"#, Class::ModelNotFound),
    (404, "404 page not found", Class::InvalidRequest),
    (
        400,
        r#"{"error":{"message":"Invalid value","type":"invalid_request_error"}}"#,
        Class::InvalidRequest,
    ),
    (422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, Class::InvalidRequest),
    (
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"too big"}}"#,
        Class::InvalidRequest,
    ),
    (408, "", Class::Timeout),
    (504, r#"{"type":"error","error":{"type":"timeout_error","message":"late"}}"#, Class::Timeout),
    (301, "", Class::InvalidRequest),
];

#[test]
fn every_class_is_told_by_what_vendors_really_send() {
    for &(status, body, class) in CASES {
        let error = parse(Some(status), body.as_bytes());
        assert_eq!(error.class, class, "{status} {body}");
        assert_eq!(error.status, Some(status));
    }
}

#[test]
fn an_error_inside_a_stream_has_no_status_of_its_own() {
    let parse_streamed = |body: &str| parse(None, body.as_bytes());
    let error = parse_streamed(
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    );
    assert_eq!((error.class, error.status), (ModelErrorClass::Overloaded, None));
    let error = parse_streamed(r#"{"error":{"message":"slow down","code":429}}"#);
    assert_eq!((error.class, error.status), (ModelErrorClass::RateLimited, Some(429)));
    let error = parse_streamed(r#"{"error":{"message":"bad","type":"invalid_request_error"}}"#);
    assert_eq!(error.class, ModelErrorClass::InvalidRequest);
}

#[test]
fn long_bodies_are_cut() {
    let error = parse(Some(500), "ä".repeat(10_000).as_bytes());
    assert!(error.message.chars().count() < 600, "{}", error.message);
}
