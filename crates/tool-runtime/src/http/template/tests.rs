//! Values stay in their escape, whatever they hold.

use proptest::prelude::*;
use provost_core::contract::ToolErrorCode;
use serde_json::json;

use super::*;

fn filled(escape: Escape, template: &str, arguments: Value) -> String {
    render(escape, "t", template, &arguments).unwrap()
}

fn code(escape: Escape, template: &str, arguments: Value) -> ToolErrorCode {
    render(escape, "t", template, &arguments).unwrap_err().code
}

#[test]
fn values_are_escaped_for_their_place() {
    let arguments = || json!({"id": "a/b?c#d ä", "n": 3, "deep": {"x": [1, "\""]}, "none": null});
    assert_eq!(filled(Escape::Url, "/u/{{ id }}", arguments()), "/u/a%2Fb%3Fc%23d%20%C3%A4");
    assert_eq!(filled(Escape::Url, "/u/{{ id|safe }}", arguments()), "/u/a%2Fb%3Fc%23d%20%C3%A4");
    assert_eq!(filled(Escape::None, "{{ id }}-{{ n }}-{{ none }}", arguments()), "a/b?c#d ä-3-");
    assert_eq!(
        filled(Escape::Json, "[{{ id }}, {{ none }}]", arguments()),
        "[\"a/b?c#d ä\", null]"
    );
    assert_eq!(filled(Escape::Json, "{{ deep }}", arguments()), r#"{"x":[1,"\""]}"#);
    assert_eq!(filled(Escape::None, "{{ deep }}", arguments()), r#"{"x":[1,"\""]}"#);
}

#[test]
fn members_can_be_left_out() {
    let arguments = json!({"a": 1, "b": 2, "id": 3});
    let filled_in = filled(Escape::Json, "{{ args|without(\"id\", \"zz\") }}", arguments);
    assert_eq!(filled_in, r#"{"a":1,"b":2}"#);
    assert_eq!(filled(Escape::Json, "{{ args|without(\"id\") }}", json!({})), "{}");
}

#[test]
fn a_missing_name_is_an_error_unless_the_template_says_what_to_do() {
    assert_eq!(code(Escape::None, "{{ x }}", json!({})), ToolErrorCode::InvalidInput);
    assert_eq!(code(Escape::Url, "{{ args[\"x-y\"] }}", json!({})), ToolErrorCode::InvalidInput);
    assert_eq!(filled(Escape::None, "{{ args[\"x-y\"]|default(\"\") }}", json!({})), "");
    assert_eq!(filled(Escape::Url, "{% if x is defined %}{{ x }}{% endif %}", json!({})), "");
    assert_eq!(filled(Escape::None, "{{ args[\"x-y\"]|default(\"\") }}", json!({"x-y": 1})), "1");
}

#[test]
fn a_template_cannot_run_for_ever_or_grow_without_end() {
    let endless =
        "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}";
    assert_eq!(code(Escape::None, endless, json!({})), ToolErrorCode::InvalidInput);
    let large = "x".repeat(1024 * 1024);
    let many = "{{ a }}".repeat(5);
    assert_eq!(code(Escape::None, &many, json!({ "a": large })), ToolErrorCode::InvalidInput);
}

#[test]
fn a_template_that_is_wrong_is_the_definitions_fault() {
    for template in ["{{ a", "{% if %}", "{{ a|nonsense }}", "{{ nonsense() }}"] {
        let fault = check(Escape::None, "body", template)
            .and_then(|()| render(Escape::None, "body", template, &json!({"a": 1})).map(drop))
            .unwrap_err();
        assert!(
            matches!(fault.code, ToolErrorCode::RuntimePolicyInvalid | ToolErrorCode::InvalidInput),
            "{template}: {fault}"
        );
    }
    assert_eq!(
        check(Escape::None, "b", "{{ a").unwrap_err().code,
        ToolErrorCode::RuntimePolicyInvalid
    );
}

proptest! {
    #[test]
    fn no_text_leaves_a_url_segment(text in ".{0,40}") {
        let path = filled(Escape::Url, "{{ a }}", json!({ "a": text }));
        prop_assert!(path.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)), "{path}");
    }

    #[test]
    fn no_text_leaves_a_json_string(text in ".{0,40}") {
        let body = filled(Escape::Json, "{\"a\": {{ a }}}", json!({ "a": text }));
        prop_assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), json!({ "a": text }));
    }
}
