//! The contract, line by line.

use super::*;

fn request() -> ToolRequest {
    ToolRequest {
        request_id: "r-1".into(),
        tool: RequestTool { name: "search".into(), ..RequestTool::default() },
        ..ToolRequest::default()
    }
}

#[test]
fn a_request_gets_one_normal_form() {
    let mut given = request();
    given.tool_contract_version = " V1 ".into();
    given.tool.capabilities = vec![" Web".into(), "web".into(), String::new(), "Net".into()];
    given.tool.risk_level = " HIGH ".into();
    let normal = given.normalized().unwrap();
    assert_eq!(normal.tool_contract_version, "v1");
    assert_eq!(normal.tool.operation, "invoke");
    assert_eq!(normal.tool.capabilities, ["web", "net"]);
    assert_eq!(normal.tool.risk_level, "high");
    assert_eq!(normal.attempt, 1);
    assert_eq!(normal.clone().normalized().unwrap(), normal);
}

#[test]
fn an_unknown_version_and_missing_names_are_invalid_input() {
    let mut wrong = request();
    wrong.tool_contract_version = "v9".into();
    let fault = wrong.normalized().unwrap_err();
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::InvalidInput, false));
    assert_eq!(fault.details["field"], "tool_contract_version");
    assert_eq!(fault.details["expected"], "v1");
    for strip in ["request_id", "tool.name"] {
        let mut missing = request();
        match strip {
            "request_id" => missing.request_id = "  ".into(),
            _ => missing.tool.name = "  ".into(),
        }
        let fault = missing.normalized().unwrap_err();
        assert_eq!(fault.details["field"], strip);
    }
}

#[test]
fn the_raw_input_counts_before_the_flat_one() {
    let mut given = request();
    given.input.insert("a".into(), "1".into());
    assert_eq!(given.encoded_input(), r#"{"a":"1"}"#);
    given.input_raw = r#"{"a":{"b":2}}"#.into();
    assert_eq!(given.encoded_input(), r#"{"a":{"b":2}}"#);
}

#[test]
fn only_timeouts_and_failed_executions_may_be_repeated() {
    let repeatable: Vec<_> = ToolErrorCode::ALL.iter().filter(|code| code.retryable()).collect();
    assert_eq!(repeatable, [&ToolErrorCode::Timeout, &ToolErrorCode::ExecutionFailed]);
    let denied: Vec<_> =
        ToolErrorCode::ALL.iter().filter(|code| code.status() == ToolStatus::Denied).collect();
    assert_eq!(denied, [&ToolErrorCode::PermissionDenied]);
}

#[test]
fn a_fault_survives_the_wire() {
    for code in ToolErrorCode::ALL {
        let fault = ToolContractError::new(*code, "why").detail("k", "v");
        let response = ToolResponse::of(&request(), Err(fault.clone()), 3);
        let text = serde_json::to_string(&response).unwrap();
        let back: ToolResponse = serde_json::from_str(&text).unwrap();
        assert_eq!(back.outcome(&request()), Err(fault));
    }
}

#[test]
fn an_answer_that_contradicts_itself_is_a_failure_that_stays_one() {
    let good = ToolResponse::of(&request(), Ok("fine".into()), 1);
    assert_eq!(good.clone().outcome(&request()), Ok("fine".into()));
    let other_id = ToolResponse { request_id: "r-2".into(), ..good.clone() };
    let other_version = ToolResponse { tool_contract_version: "v9".into(), ..good.clone() };
    let no_error = ToolResponse { status: ToolStatus::Error, ..good.clone() };
    let both = ToolResponse { error: Some(ResponseError::default()), ..good };
    for wrong in [other_id, other_version, no_error, both] {
        let fault = wrong.clone().outcome(&request()).unwrap_err();
        assert_eq!(fault.code, ToolErrorCode::ExecutionFailed, "{wrong:?}");
        assert_eq!(fault.reason, ToolErrorReason::BackendFailure);
        assert!(!fault.retryable);
    }
}

#[test]
fn an_unknown_code_is_a_failed_execution() {
    let mut response = ToolResponse::of(&request(), Err(ToolContractError::final_failure("x")), 1);
    response.error =
        Some(ResponseError { code: "weird".into(), retryable: true, ..ResponseError::default() });
    let fault = response.outcome(&request()).unwrap_err();
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::ExecutionFailed, true));
}
