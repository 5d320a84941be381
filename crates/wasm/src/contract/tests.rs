use super::*;

fn request() -> ToolRequest {
    ToolRequest { request_id: "r1".to_owned(), ..ToolRequest::default() }
}

fn said(answer: &str) -> Result<String, ToolContractError> {
    parse_response(answer.as_bytes(), &request(), &str::to_owned)
}

#[test]
fn what_breaks_the_contract_is_told_apart_from_what_fails() {
    assert_eq!(said(r#"{"contract_version":"v1","status":"ok","output":"x"}"#).unwrap(), "x");
    assert_eq!(
        said(r#" {"contract_version":" V1 ","request_id":"r1","status":"ok"} "#).unwrap(),
        ""
    );
    for breach in [
        "",
        "  \n",
        "no json",
        "[]",
        r#"{"status":"ok"}"#,
        r#"{"contract_version":"v2","status":"ok"}"#,
        r#"{"contract_version":"v1"}"#,
        r#"{"contract_version":"v1","status":"fine"}"#,
        r#"{"contract_version":"v1","status":"ok","output":7}"#,
        r#"{"contract_version":"v1","status":"ok","request_id":"r2"}"#,
        r#"{"contract_version":"v1","status":"ok","error":{"code":"timeout"}}"#,
        r#"{"contract_version":"v1","status":"ok"} {}"#,
    ] {
        let fault = said(breach).unwrap_err();
        assert_eq!(
            (fault.code, fault.retryable),
            (ToolErrorCode::RuntimePolicyInvalid, false),
            "{breach}"
        );
    }
    let failed = |answer: &str| {
        let fault = said(answer).unwrap_err();
        (fault.code, fault.retryable)
    };
    let with = |status: &str, error: &str| {
        failed(&format!(r#"{{"contract_version":"v1","status":"{status}","error":{error}}}"#))
    };
    assert_eq!(
        with("error", r#"{"code":"timeout","retryable":true}"#),
        (ToolErrorCode::Timeout, true)
    );
    assert_eq!(with("error", r#"{"code":"nonsense"}"#), (ToolErrorCode::ExecutionFailed, false));
    assert_eq!(with("denied", r#"{"code":"nonsense"}"#), (ToolErrorCode::PermissionDenied, false));
    assert_eq!(
        failed(r#"{"contract_version":"v1","status":"error"}"#),
        (ToolErrorCode::ExecutionFailed, false)
    );
}

#[test]
fn a_request_has_the_names_of_the_contract() {
    let tool = ToolResource::new("count", provost_core::resource::ToolType::Wasm, "");
    let spec = WasmSpec { fuel: 7, ..WasmSpec::default() };
    let request = ToolRequest { input_raw: r#"{"a":1}"#.to_owned(), attempt: 2, ..request() };
    let made = serde_json::to_value(ModuleRequest::new(&tool, &spec, &request, "run")).unwrap();
    assert_eq!(made["contract_version"], "v1");
    assert_eq!(made["input"], r#"{"a":1}"#);
    assert_eq!(
        (&made["tool"], &made["attempt"], &made["risk_level"]),
        (&"count".into(), &2.into(), &"low".into())
    );
    assert_eq!(
        (&made["runtime"]["entrypoint"], &made["runtime"]["fuel"]),
        (&"run".into(), &7.into())
    );
    assert_eq!(made["auth"], serde_json::json!({}));
}
