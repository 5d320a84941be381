//! Declared tools: which runtime, how often, how long, and what comes of a failure.

use std::sync::Arc;
use std::time::Duration;

use provost_core::contract::{ToolContractError, ToolErrorCode, ToolErrorReason};
use provost_core::resource::{IsolationMode, ToolType};
use provost_tool::{
    CallOrigin, DeclaredTool, Deps, Guard, GuardDecision, RETRY_AFTER_DETAIL, RegistryError,
    RuntimeRegistry, RuntimeServices, Tool, ToolError,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fakes::{FakeAttempt, FakeRuntime, Tokens, fault, governed, host, resource, run};
use crate::support::{self, FakeApprover};

fn failure(code: ToolErrorCode) -> FakeAttempt {
    FakeAttempt::Respond(Err(ToolContractError::new(code, "it broke")))
}

fn tries(effect: &str, max_attempts: u32) -> Value {
    json!({"effect": effect, "runtime": {"timeout": "2s", "retry": {
        "max_attempts": max_attempts, "backoff": "1s", "max_backoff": "3s"}}})
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_may_pass_is_tried_again_with_growing_pauses() {
    let acts = (0..4).map(|_| failure(ToolErrorCode::ExecutionFailed));
    let runtime = FakeRuntime::new(acts.chain([FakeAttempt::Respond(Ok("done"))]));
    let tool = governed(tries("opaque", 5), host(Arc::clone(&runtime)));
    let output = run(&Guard::default(), &tool, support::cx()).await.unwrap();
    assert_eq!(output.to_text(), "done");
    let seen = runtime.seen.lock().unwrap();
    let attempts: Vec<u32> = seen.iter().map(|seen| seen.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5]);
    let pauses: Vec<u64> =
        seen.windows(2).map(|pair| (pair[1].at - pair[0].at).as_millis() as u64).collect();
    assert_eq!(pauses.iter().map(|ms| ms / 1000).collect::<Vec<_>>(), [1, 2, 3, 3]);
    assert!(seen.iter().all(|one| one.effect_key == seen[0].effect_key), "one effect, one key");
    assert!(seen.iter().all(|one| one.request.request_id == one.effect_key));
    let request = &seen[0].request;
    assert_eq!((request.namespace.as_str(), request.agent.as_str()), ("default", "lead/clerk"));
    assert_eq!((request.input_raw.as_str(), request.runtime.max_attempts), ("{}", 5));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_a_pause_gets_it_up_to_the_longest() {
    let asks = |millis: &str| {
        let fault = ToolContractError::new(ToolErrorCode::ExecutionFailed, "busy");
        FakeAttempt::Respond(Err(fault.detail(RETRY_AFTER_DETAIL, millis)))
    };
    // Less than our own pause, more than it, and as long as we wait at most.
    let acts = [asks("10"), asks("2500"), asks("3000"), FakeAttempt::Respond(Ok("done"))];
    let runtime = FakeRuntime::new(acts);
    let tool = governed(tries("opaque", 4), host(Arc::clone(&runtime)));
    assert_eq!(run(&Guard::default(), &tool, support::cx()).await.unwrap().to_text(), "done");
    let seen = runtime.seen.lock().unwrap().clone();
    let pauses: Vec<u128> =
        seen.windows(2).map(|pair| (pair[1].at - pair[0].at).as_millis() / 100).collect();
    assert_eq!(pauses, [10, 25, 30]);
    // So long nobody waits here; whoever asked is told how long.
    let runtime = FakeRuntime::new([asks("3001")]);
    let tool = governed(tries("pure", 4), host(Arc::clone(&runtime)));
    let started = Instant::now();
    let fault = fault(&tool).await;
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::ExecutionFailed, true));
    assert_eq!(fault.details[RETRY_AFTER_DETAIL], "3001");
    assert_eq!(fault.details["attempts"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_final_failure_tells_how_often_it_was_tried() {
    for (code, tried) in [
        (ToolErrorCode::ExecutionFailed, 3),
        (ToolErrorCode::InvalidInput, 1),
        (ToolErrorCode::AuthForbidden, 1),
        (ToolErrorCode::PermissionDenied, 1),
    ] {
        let runtime = FakeRuntime::new((0..tried).map(|_| failure(code)));
        let tool = governed(tries("pure", 3), host(Arc::clone(&runtime)));
        let fault = fault(&tool).await;
        assert_eq!((fault.code, fault.reason), (code, code.reason()));
        assert_eq!(fault.details["attempts"], tried.to_string());
        assert_eq!(runtime.calls(), tried);
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_its_own_deadline_that_a_runtime_cannot_ignore() {
    for (effect, tried) in [
        ("pure", 3),
        ("idempotent", 3),
        ("keyed", 3),
        ("provable", 1),
        ("transactional", 1),
        ("opaque", 1),
    ] {
        let runtime = FakeRuntime::new((0..tried).map(|_| FakeAttempt::Hang));
        let tool = governed(tries(effect, 3), host(Arc::clone(&runtime)));
        let started = Instant::now();
        let fault = fault(&tool).await;
        assert_eq!(fault.code, ToolErrorCode::Timeout, "{effect}");
        assert_eq!(fault.reason, ToolErrorReason::ExecutionTimeout);
        assert_eq!(fault.details["outcome"], "unknown");
        assert_eq!(runtime.calls(), tried, "{effect}");
        let pauses = if tried == 3 { 3 } else { 0 };
        assert_eq!(started.elapsed().as_secs(), tried as u64 * 2 + pauses, "{effect}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_blocks_its_thread_does_not_hold_the_caller() {
    struct Blocks;
    impl provost_tool::ToolRuntime for Blocks {
        fn kind(&self) -> ToolType {
            ToolType::Http
        }
        fn invoke(
            &self,
            _attempt: provost_tool::ToolInvocation,
        ) -> futures::future::BoxFuture<'static, Result<provost_tool::ToolOutput, ToolContractError>>
        {
            Box::pin(async {
                let (_held, never) = std::sync::mpsc::channel::<()>();
                // Longer than any deadline of the test, and it ends.
                assert!(never.recv_timeout(Duration::from_secs(2)).is_err());
                Err(ToolContractError::final_failure("too late"))
            })
        }
    }
    let mut runtimes = RuntimeRegistry::default();
    runtimes.add(Arc::new(Blocks)).unwrap();
    let tool_host = RuntimeServices { runtimes: Arc::new(runtimes), ..host(FakeRuntime::new([])) };
    let tool = governed(json!({"runtime": {"timeout": "50ms"}}), tool_host);
    let started = std::time::Instant::now();
    assert_eq!(fault(&tool).await.code, ToolErrorCode::Timeout);
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_run_stops_the_call_at_once() {
    let runtime = FakeRuntime::new([FakeAttempt::Hang]);
    let tool = governed(tries("pure", 3), host(Arc::clone(&runtime)));
    let cx = support::cx();
    let cancel = cx.cancelled().clone();
    let started = Instant::now();
    let stops = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cancel.cancel();
    };
    let guard = Guard::default();
    let (ended, ()) = futures::join!(run(&guard, &tool, cx), stops);
    let fault = ended.unwrap_err().to_contract_error();
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::Canceled, false));
    assert!(started.elapsed() < Duration::from_millis(600));
    // Before it starts, and while it waits for the next attempt.
    let cx = support::cx();
    cx.cancelled().cancel();
    let ended = run(&Guard::default(), &tool, cx).await;
    assert_eq!(ended.unwrap_err().to_contract_error().code, ToolErrorCode::Canceled);
    assert_eq!(runtime.calls(), 1);
    runtime.acts.lock().unwrap().push_back(failure(ToolErrorCode::ExecutionFailed));
    let cx = support::cx();
    let cancel = cx.cancelled().clone();
    let stops = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    };
    let (ended, ()) = futures::join!(run(&guard, &tool, cx), stops);
    let fault = ended.unwrap_err().to_contract_error();
    assert_eq!((fault.code, fault.details["attempts"].as_str()), (ToolErrorCode::Canceled, "1"));
}

#[tokio::test]
async fn a_runtime_that_panics_fails_the_call_and_nothing_else() {
    let tool = governed(json!({}), host(FakeRuntime::new([FakeAttempt::Panic])));
    let fault = fault(&tool).await;
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::ExecutionFailed, false));
    assert!(fault.message.contains("the runtime fell"), "{fault}");
}

#[tokio::test]
async fn a_dropped_call_leaves_no_task_behind() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let runtime = FakeRuntime::new([FakeAttempt::Hang]);
    let tool = governed(json!({}), host(Arc::clone(&runtime)));
    let guard = Guard::default();
    let mut call = Box::pin(run(&guard, &tool, support::cx()));
    while runtime.calls() == 0 {
        assert!(futures::poll!(&mut call).is_pending());
        tokio::task::yield_now().await;
    }
    assert!(tasks() > before);
    drop(call);
    // The task of the call ends first, then the task of its attempt.
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    assert_eq!(tasks(), before);
}

#[tokio::test]
async fn a_credential_that_is_no_longer_valid_is_invalidated_once() {
    let auth = json!({"auth": {"secretRef": "bank"}});
    for code in [ToolErrorCode::AuthInvalid, ToolErrorCode::AuthExpired] {
        let runtime = FakeRuntime::new([failure(code), FakeAttempt::Respond(Ok("paid"))]);
        let tokens = Arc::new(Tokens::default());
        let tool_host =
            RuntimeServices { credentials: Arc::clone(&tokens) as _, ..host(Arc::clone(&runtime)) };
        let tool = governed(auth.clone(), tool_host);
        assert!(run(&Guard::default(), &tool, support::cx()).await.is_ok());
        let sent: Vec<_> =
            runtime.seen.lock().unwrap().iter().map(|seen| seen.token.clone().unwrap()).collect();
        assert_eq!(sent, ["token-0", "token-1"]);
        *runtime.acts.lock().unwrap() = [failure(code), failure(code)].into();
        let fault = fault(&tool).await;
        assert_eq!((fault.code, fault.details["attempts"].as_str()), (code, "2"), "only once");
    }
    let runtime = FakeRuntime::new([failure(ToolErrorCode::AuthInvalid)]);
    let tokens = Arc::new(Tokens { keeps: true, ..Tokens::default() });
    let tool_host = RuntimeServices { credentials: tokens, ..host(runtime) };
    let tool = governed(auth, tool_host);
    assert_eq!(fault(&tool).await.details["attempts"], "1", "nothing was cached");
}

#[tokio::test]
async fn without_its_secret_a_tool_is_never_called() {
    let auth = json!({"auth": {"secretRef": "bank"}});
    let runtime = FakeRuntime::new([]);
    let fails = Arc::new(Tokens { fails: true, ..Tokens::default() });
    let broken = RuntimeServices { credentials: fails, ..host(Arc::clone(&runtime)) };
    for tool_host in [host(Arc::clone(&runtime)), broken] {
        let fault = fault(&governed(auth.clone(), tool_host)).await;
        assert_eq!(fault.code, ToolErrorCode::SecretResolutionFailed);
    }
    assert_eq!(runtime.calls(), 0);
}

#[test]
fn a_runtime_is_found_by_type_and_isolation_and_there_is_no_second_best() {
    use IsolationMode::{Container, None as Open, Process, Sandboxed, Wasm};
    let mut runtimes = RuntimeRegistry::default();
    let runtime = |kind, isolation| Arc::new(FakeRuntime::with(kind, isolation, []));
    runtimes.add(runtime(ToolType::Http, Open)).unwrap();
    runtimes.add(runtime(ToolType::Cli, Container)).unwrap();
    runtimes.add(runtime(ToolType::Cli, Process)).unwrap();
    let found = |runtimes: &RuntimeRegistry, kind: &str, isolation: Option<&str>, risk: &str| {
        let tool = resource(json!({
            "type": kind, "risk_level": risk, "runtime": {"isolation_mode": isolation}
        }));
        let found = runtimes.select(&tool).map(|runtime| runtime.isolation());
        found.map_err(|fault| fault.code)
    };
    let no_isolation = Err(ToolErrorCode::IsolationUnavailable);
    assert_eq!(found(&runtimes, "http", None, "low"), Ok(Open));
    assert_eq!(found(&runtimes, "http", None, "high"), no_isolation);
    assert_eq!(found(&runtimes, "http", Some("container"), "low"), no_isolation);
    assert_eq!(found(&runtimes, "grpc", None, "low"), Err(ToolErrorCode::UnsupportedTool));
    assert_eq!(found(&runtimes, "grpc", Some("wasm"), "low"), no_isolation);
    assert_eq!(found(&runtimes, "cli", Some("container"), "low"), Ok(Container));
    assert_eq!(found(&runtimes, "cli", Some("wasm"), "low"), no_isolation);
    assert_eq!(found(&runtimes, "cli", Some("none"), "low"), no_isolation, "not even a better one");
    assert_eq!(found(&runtimes, "cli", Some("sandboxed"), "low"), no_isolation);
    runtimes.set_default_sandbox(Process).unwrap();
    assert_eq!(found(&runtimes, "cli", Some("sandboxed"), "low"), Ok(Process));
    assert_eq!(found(&runtimes, "cli", None, "critical"), Ok(Process));
    assert_eq!(found(&runtimes, "http", Some("sandboxed"), "low"), no_isolation);
    runtimes.set_default_sandbox(Wasm).unwrap();
    assert_eq!(found(&runtimes, "cli", Some("sandboxed"), "low"), no_isolation);
    for wrong in [Open, Sandboxed] {
        assert_eq!(runtimes.set_default_sandbox(wrong), Err(RegistryError::NoIsolation(wrong)));
    }
    assert!(runtimes.add(runtime(ToolType::Http, Sandboxed)).is_err());
    assert!(runtimes.add(runtime(ToolType::Http, Open)).is_err());
    assert!(runtimes.supports(ToolType::Http) && runtimes.supports(ToolType::Cli));
    assert!(
        runtimes.supports_isolation(IsolationMode::Container) && !runtimes.supports(ToolType::Grpc)
    );
    assert!(!runtimes.supports_isolation(Wasm) && !runtimes.supports_isolation(Sandboxed));
}

#[tokio::test]
async fn what_no_runtime_can_run_is_told_when_it_is_called() {
    let tool = governed(json!({"type": "grpc"}), host(FakeRuntime::new([])));
    assert_eq!(fault(&tool).await.code, ToolErrorCode::UnsupportedTool);
    let mut runtime = FakeRuntime::with(ToolType::Http, IsolationMode::None, []);
    let refusal =
        ToolContractError::new(ToolErrorCode::RuntimePolicyInvalid, "that is no endpoint");
    runtime.refuses = Some(refusal.clone());
    let tool = DeclaredTool::new(resource(json!({})), "default", host(Arc::new(runtime))).unwrap();
    assert_eq!(tool.verify(), Err(refusal));
    let tool: Arc<dyn Tool> = Arc::new(tool);
    assert_eq!(fault(&tool).await.code, ToolErrorCode::RuntimePolicyInvalid);
    for wrong in [json!({"name": "a b"}), json!({"input_schema": {"type": "array"}})] {
        assert!(DeclaredTool::new(resource(wrong), "default", host(FakeRuntime::new([]))).is_err());
    }
}

#[tokio::test]
async fn a_tool_of_another_namespace_is_not_called() {
    let runtime = FakeRuntime::new([FakeAttempt::Respond(Ok("done"))]);
    let tool = governed(json!({}), host(Arc::clone(&runtime)));
    let from =
        |namespace: &str| CallOrigin { namespace: namespace.to_owned(), ..CallOrigin::default() };
    let stranger = Guard::default().for_run(from("elsewhere")).await;
    let error = run(&stranger, &tool, support::cx()).await.unwrap_err();
    assert_eq!(error.to_contract_error().code, ToolErrorCode::PermissionDenied);
    assert_eq!(runtime.calls(), 0);
    let own = Guard::default().for_run(from("default")).await;
    assert!(run(&own, &tool, support::cx()).await.is_ok());
}

#[tokio::test]
async fn the_fault_stays_typed_on_its_way_to_the_application() {
    let acts = [FakeAttempt::Respond(Err(
        ToolContractError::final_failure("no money").detail("field", "amount")
    ))];
    let tool = governed(json!({}), host(FakeRuntime::new(acts)));
    let error = run(&Guard::default(), &tool, support::cx()).await.unwrap_err();
    assert_eq!(error.to_string(), "execution_failed: no money");
    let output = error.into_output();
    assert!(output.is_error && output.to_text() == "execution_failed: no money");
    let fault = &output.metadata.unwrap()["fault"];
    assert_eq!(
        (&fault["code"], &fault["reason"]),
        (&json!("execution_failed"), &json!("tool_backend_failure"))
    );
    assert_eq!(
        (&fault["retryable"], &fault["details"]["field"]),
        (&json!(false), &json!("amount"))
    );
    assert!(ToolError::failed("x").into_output().metadata.is_none());
}

#[tokio::test]
async fn progress_of_a_runtime_reaches_whoever_watches() {
    let tool = governed(json!({}), host(FakeRuntime::new([FakeAttempt::Slow(Duration::ZERO)])));
    let approver = FakeApprover::approving();
    let cx = support::cx_with(Arc::clone(&approver), Deps::default());
    run(&Guard::default(), &tool, cx).await.unwrap();
    assert_eq!(*approver.progress.lock().unwrap(), ["half way with hunter2"]);
}

#[test]
fn a_declared_tool_tells_policies_what_it_is() {
    let tool = governed(
        json!({"risk_level": "high", "capabilities": ["Net"], "effect": "keyed",
               "runtime": {"timeout": "2s", "retry": {"max_attempts": 3, "backoff": "1s"}}}),
        host(FakeRuntime::new([])),
    );
    let facts = tool.spec().tool_attributes();
    assert_eq!(facts.kind, Some(ToolType::Http));
    assert_eq!(facts.capabilities, ["net"]);
    assert_eq!(facts.operations, [provost_core::resource::OperationClass::Write]);
    assert!(tool.spec().timeout >= Duration::from_secs(4 * 2 + 3), "all attempts fit");
    let call = support::call(&tool, &json!([]));
    assert!(matches!(Guard::default().check(&tool, &call, false), GuardDecision::Invalid(_)));
}
