//! The contract in process: whatever happens, the answer is an envelope.

use std::sync::Arc;
use std::time::Duration;

use provost_core::Env;
use provost_core::contract::{
    CONTRACT_VERSION, RequestTool, ToolContractError, ToolErrorCode, ToolRequest, ToolResponse,
    ToolStatus, TraceIds,
};
use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
use provost_tool::{
    EnvelopeExecutor, Guard, RequiresApproval, Tool, ToolError, ToolOutput, tool_fn,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fakes::{FakeAttempt, FakeRuntime, governed, host};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

fn tools() -> Vec<Arc<dyn Tool>> {
    let echo = tool_fn("echo", "Echoes", |_cx, echo: Echo| async move {
        match echo.text.as_str() {
            "fail" => Err(ToolError::failed("it broke")),
            "retry" => Err(ToolError::retry("say something else")),
            "reject" => Err(ToolError::Rejected("no".to_owned())),
            "report" => Ok(ToolOutput::error("reported")),
            "hang" => std::future::pending().await,
            "panic" => panic!("fell"),
            text => Ok(ToolOutput::text(text)),
        }
    });
    let asks = tool_fn("asks", "Asks", |cx, (): ()| async move {
        cx.confirm("sure?").await?;
        Ok::<_, ToolError>(())
    });
    let wants = tool_fn("wants", "Wants", |_cx, (): ()| async { Ok::<_, ToolError>(()) });
    let wants = wants.unwrap().with_spec(|spec| spec.approval(RequiresApproval::Always));
    let acts = [FakeAttempt::Respond(Err(ToolContractError::new(
        ToolErrorCode::AuthForbidden,
        "not you",
    )))];
    let declared = governed(json!({}), host(FakeRuntime::new(acts)));
    vec![Arc::new(echo.unwrap()), Arc::new(asks.unwrap()), Arc::new(wants), declared]
}

fn executor() -> EnvelopeExecutor {
    EnvelopeExecutor::new(Guard::default(), tools(), Env::simulated(1))
}

fn request(tool: &str, text: &str) -> ToolRequest {
    ToolRequest {
        request_id: " req-1 ".to_owned(),
        namespace: "default".to_owned(),
        agent: "clerk".to_owned(),
        tool: RequestTool { name: tool.to_owned(), ..RequestTool::default() },
        input: [("text".to_owned(), text.to_owned())].into(),
        trace: TraceIds { trace_id: "t".to_owned(), span_id: "s".to_owned() },
        attempt: 3,
        ..ToolRequest::default()
    }
}

async fn execute(request: ToolRequest) -> ToolResponse {
    executor().execute(request, CancellationToken::new()).await
}

fn check_envelope(response: &ToolResponse) {
    assert_eq!(response.tool_contract_version, CONTRACT_VERSION);
    assert_eq!(response.request_id, "req-1");
    assert_eq!((response.usage.attempt, response.trace.trace_id.as_str()), (3, "t"));
    assert_eq!(response.status == ToolStatus::Ok, response.error.is_none());
    if let Some(error) = &response.error {
        assert!(!error.code.is_empty() && !error.reason.is_empty() && !error.message.is_empty());
    }
}

#[tokio::test]
async fn a_request_is_answered() {
    let response = execute(request("echo", "hello")).await;
    check_envelope(&response);
    assert_eq!((response.status, response.output.result.as_str()), (ToolStatus::Ok, "hello"));
    let raw = ToolRequest { input_raw: r#"{"text":"raw"}"#.to_owned(), ..request("echo", "no") };
    assert_eq!(execute(raw).await.output.result, "raw");
}

#[tokio::test(start_paused = true)]
async fn every_failure_has_its_code() {
    for (tool, text, code, retryable) in [
        ("echo", "fail", "execution_failed", true),
        ("echo", "panic", "execution_failed", true),
        ("echo", "report", "execution_failed", false),
        ("echo", "retry", "invalid_input", false),
        ("echo", "reject", "approval_denied", false),
        ("echo", "hang", "timeout", true),
        ("asks", "", "approval_pending", false),
        ("wants", "", "approval_pending", false),
        ("pay", "", "auth_forbidden", false),
        ("gone", "", "unsupported_tool", false),
    ] {
        let mut request = request(tool, text);
        if tool != "echo" {
            request.input.clear();
        }
        let response = execute(request).await;
        check_envelope(&response);
        let error = response.error.unwrap();
        assert_eq!((error.code.as_str(), error.retryable), (code, retryable), "{tool} {text}");
    }
    let wrong = ToolRequest { input_raw: r#"{"text": 3}"#.to_owned(), ..request("echo", "") };
    assert_eq!(execute(wrong).await.error.unwrap().code, "invalid_input");
    let other = ToolRequest { tool_contract_version: "v9".to_owned(), ..request("echo", "x") };
    let response = execute(other).await;
    let error = response.error.unwrap();
    assert_eq!((error.code.as_str(), error.details["expected"].as_str()), ("invalid_input", "v1"));
    let nameless = execute(ToolRequest::default()).await;
    assert_eq!(nameless.error.unwrap().code, "invalid_input");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_the_request_and_a_cancel_are_answers_too() {
    let mut hang = request("echo", "hang");
    hang.runtime.timeout_ms = 250;
    let response = execute(hang).await;
    check_envelope(&response);
    assert_eq!(
        (response.usage.duration_ms, response.error.unwrap().code.as_str()),
        (250, "timeout")
    );
    let cancel = CancellationToken::new();
    let executor = executor();
    let stops = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    };
    let running = executor.execute(request("echo", "hang"), cancel.clone());
    let (response, ()) = futures::join!(running, stops);
    check_envelope(&response);
    let error = response.error.unwrap();
    assert_eq!((error.code.as_str(), error.retryable), ("canceled", false));
    assert!(response.usage.duration_ms <= 150);
}

#[tokio::test]
async fn the_same_rules_count_and_a_denial_is_a_status() {
    use provost_core::resource::{OperationRule, ToolPermission};
    let mut parts = PolicySources::new("r", PolicySubject::new("default", "clerk"));
    parts.permissions.push(ToolPermission {
        action: "preview".to_owned(),
        operation_rules: vec![OperationRule::default()],
        ..ToolPermission::new("default", "may-look", "echo")
    });
    let governance = Arc::new(CompiledPolicy::compile(parts).unwrap());
    struct Fixed(Arc<CompiledPolicy>);
    impl provost_tool::PolicyProvider for Fixed {
        fn policy<'a>(
            &'a self,
            _origin: &'a provost_tool::CallOrigin,
        ) -> futures::future::BoxFuture<
            'a,
            Result<Arc<CompiledPolicy>, provost_tool::PolicyProviderError>,
        > {
            Box::pin(std::future::ready(Ok(Arc::clone(&self.0))))
        }
    }
    let services = provost_tool::GuardServices {
        policies: Some(Arc::new(Fixed(governance))),
        ..Default::default()
    };
    let guard = Guard::default().with_services(services);
    let executor = EnvelopeExecutor::new(guard, tools(), Env::simulated(1));
    let response = executor.execute(request("echo", "x"), CancellationToken::new()).await;
    check_envelope(&response);
    assert_eq!(response.status, ToolStatus::Denied);
    let mut preview = request("echo", "x");
    preview.tool.operation = " Preview ".to_owned();
    let response = executor.execute(preview, CancellationToken::new()).await;
    let code = response.error.unwrap().code;
    assert_eq!(code, "invalid_input", "another word must not lead around the rules");
    let stranger = ToolRequest { agent: "boss".to_owned(), ..request("echo", "x") };
    let response = executor.execute(stranger, CancellationToken::new()).await;
    assert!(response.error.unwrap().message.contains("the policy could not be loaded"));
}
