//! The request that a definition and arguments make.

use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::Secret;
use provost_core::contract::{ToolErrorCode, ToolRequest};
use provost_tool::Credentials;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::transport::excerpt::ErrorExcerpt;

fn tool(endpoint: &str, spec: HttpSpec) -> ToolResource {
    let mut tool = ToolResource::new("t", ToolType::Http, endpoint);
    tool.http = Some(spec);
    tool
}

fn call(tool: ToolResource) -> AttemptContext {
    let request = ToolRequest {
        request_id: "r1".to_owned(),
        trace: provost_core::contract::TraceIds {
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            span_id: "b7ad6b7169203331".to_owned(),
        },
        attempt: 2,
        ..ToolRequest::default()
    };
    AttemptContext {
        tool: Arc::new(tool),
        request: Arc::new(request),
        credentials: Credentials {
            headers: vec![("authorization".to_owned(), Secret::from("Bearer s3cret"))],
        },
        deadline: Instant::now() + Duration::from_secs(5),
        cancel: CancellationToken::new(),
        excerpt: ErrorExcerpt::default(),
        is_read_only: false,
    }
}

fn made(tool: ToolResource, arguments: Value) -> Result<NetRequest, ToolContractError> {
    build_request(&call(tool), &arguments, "key-1")
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

#[test]
fn by_default_the_arguments_are_posted_as_json() {
    let tool = ToolResource::new("t", ToolType::Http, "https://example.com/do");
    let request = made(tool, json!({"a": [1, {"b": "ä"}]})).unwrap();
    assert_eq!(request.method, Method::POST);
    assert_eq!(request.url.as_str(), "https://example.com/do");
    assert_eq!(request.body, r#"{"a":[1,{"b":"ä"}]}"#.as_bytes());
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.headers["x-request-id"], "r1");
    assert_eq!(request.headers["x-tool-attempt"], "2");
    assert_eq!(
        request.headers["traceparent"],
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    );
    assert_eq!(request.headers["authorization"], "Bearer s3cret");
    assert!(request.headers["authorization"].is_sensitive());
    assert_eq!(request.redirects_max, 0);
}

#[test]
fn everything_can_be_a_template() {
    let spec = HttpSpec {
        method: HttpMethod::Patch,
        headers: map([("X-Who", "{{ who }}"), ("X-None", "{{ none|default(\"\") }}")]),
        query: map([("q", "{{ text }}"), ("empty", "{{ none|default(\"\") }}")]),
        body: Some("{\"n\": {{ n }}, \"all\": {{ args }}}".to_owned()),
        idempotency_header: Some("Idempotency-Key".to_owned()),
        envelope: true,
    };
    let tool = tool("https://example.com/u/{{ who }}?x={{ text }}", spec);
    let request = made(tool, json!({"who": "ada", "text": "a&b=c d", "n": 3})).unwrap();
    assert_eq!(request.method, Method::PATCH);
    assert_eq!(request.url.as_str(), "https://example.com/u/ada?x=a%26b%3Dc%20d&q=a%26b%3Dc+d");
    assert_eq!(request.headers["x-who"], "ada");
    assert!(!request.headers.contains_key("x-none"));
    assert_eq!(request.headers["idempotency-key"], "key-1");
    assert_eq!(request.headers["x-tool-contract-version"], "v1");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["n"], 3);
    assert_eq!(body["all"]["text"], "a&b=c d");
}

#[test]
fn no_argument_leaves_its_place_in_the_path() {
    let at = |argument: &str| {
        let tool = tool("https://example.com/a/{{ x }}/b", HttpSpec::default());
        made(tool, json!({ "x": argument }))
    };
    for (argument, path) in [
        ("1/../2", "/a/1%2F..%2F2/b"),
        ("?q=1#f", "/a/%3Fq%3D1%23f/b"),
        ("\\..\\", "/a/%5C..%5C/b"),
        ("@evil.example", "/a/%40evil.example/b"),
        ("...", "/a/.../b"),
        ("%2e%2e", "/a/%252e%252e/b"),
    ] {
        assert_eq!(at(argument).unwrap().url.path(), path);
    }
    for argument in [".", ".."] {
        assert_eq!(at(argument).unwrap_err().code, ToolErrorCode::InvalidInput, "{argument}");
    }
    let split = tool("https://example.com/{{ x }}{{ y }}/admin", HttpSpec::default());
    let fault = made(split, json!({"x": ".", "y": "."})).unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::InvalidInput);
}

#[test]
fn no_template_touches_the_host() {
    let runtime = HttpRuntime::new(ToolHttpClient::new(provost_net::NetPolicy::default()));
    for endpoint in [
        "https://{{ host }}/x",
        "{{ url }}",
        "https://example.com:{{ port }}/",
        "https://{{ user }}@example.com/",
        "https://example.com{{ x }}",
        "https://user:pass@example.com/",
        "ftp://example.com/",
        "nonsense",
        "https://example.com/{{ x",
    ] {
        let tool = tool(endpoint, HttpSpec::default());
        let fault = runtime.check(&tool).unwrap_err();
        assert_eq!(fault.code, ToolErrorCode::RuntimePolicyInvalid, "{endpoint}");
    }
    for endpoint in
        ["https://example.com", "https://example.com?x={{ x }}", "http://[::1]:8080/{{ x }}"]
    {
        assert!(runtime.check(&tool(endpoint, HttpSpec::default())).is_ok(), "{endpoint}");
    }
}

#[test]
fn a_header_is_one_line_and_never_the_connections() {
    let with =
        |name: &str, text: &str| HttpSpec { headers: map([(name, text)]), ..HttpSpec::default() };
    for value in ["a\r\nX-Evil: 1", "a\nb", "a\0b"] {
        let tool = tool("https://example.com", with("X-A", "{{ a }}"));
        assert_eq!(
            made(tool, json!({ "a": value })).unwrap_err().code,
            ToolErrorCode::InvalidInput
        );
    }
    for name in ["Host", "content-length", "Transfer-Encoding", "a b", ""] {
        let tool = tool("https://example.com", with(name, "x"));
        let fault = made(tool, json!({})).unwrap_err();
        assert_eq!(fault.code, ToolErrorCode::RuntimePolicyInvalid, "{name}");
    }
}

#[test]
fn a_template_is_no_way_around_the_credentials() {
    let spec = HttpSpec { headers: map([("Authorization", "{{ a }}")]), ..HttpSpec::default() };
    let request = made(tool("https://example.com", spec), json!({"a": "Bearer mine"})).unwrap();
    assert_eq!(request.headers["authorization"], "Bearer s3cret");
}

#[test]
fn a_body_is_escaped_by_its_kind() {
    let with = |kind: &str, body: &str| HttpSpec {
        headers: map([("Content-Type", kind)]),
        body: Some(body.to_owned()),
        ..HttpSpec::default()
    };
    let of = |spec: HttpSpec, arguments: Value| {
        made(tool("https://example.com", spec), arguments)
            .map(|request| String::from_utf8(request.body.to_vec()).unwrap())
    };
    let nasty = || json!({"x": "a\", \"admin\": true, \"b\": \"&c=d"});
    assert_eq!(
        of(with("application/x-www-form-urlencoded", "x={{ x }}"), nasty()).unwrap(),
        "x=a%22%2C%20%22admin%22%3A%20true%2C%20%22b%22%3A%20%22%26c%3Dd"
    );
    let json_body =
        of(with("application/json; charset=utf-8", "{\"x\": {{ x }}}"), nasty()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&json_body).unwrap(), nasty());
    assert_eq!(of(with("text/plain", "{{ x }}"), json!({"x": "a\nb"})).unwrap(), "a\nb");
    let quoted =
        of(with("application/json", "{\"x\": \"{{ x }}\"}"), json!({"x": "text"})).unwrap_err();
    assert_eq!(quoted.code, ToolErrorCode::RuntimePolicyInvalid);
    assert!(quoted.message.contains("own quotes"), "{quoted}");
}

#[test]
fn what_only_reads_has_no_body_and_may_be_redirected() {
    for (method, redirects) in
        [(HttpMethod::Get, 5), (HttpMethod::Head, 5), (HttpMethod::Delete, 0)]
    {
        let spec = HttpSpec { method, ..HttpSpec::default() };
        let request = made(tool("https://example.com", spec), json!({"a": 1})).unwrap();
        assert!(request.body.is_empty() && !request.headers.contains_key("content-type"));
        assert_eq!(request.redirects_max, redirects);
    }
}

#[test]
fn a_secret_that_is_no_header_is_not_sent_and_not_shown() {
    let mut call = call(ToolResource::new("t", ToolType::Http, "https://example.com"));
    call.credentials.headers = vec![("x-key".to_owned(), Secret::from("s3cret\nvalue"))];
    let fault = build_request(&call, &json!({}), "k").unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::SecretResolutionFailed);
    assert!(!format!("{fault:?}").contains("s3cret"));
}
