//! The scenarios of the suite, run through the guard.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::contract::ToolErrorCode;
use provost_core::resource::{HumanDuration, IsolationMode};
use provost_tool::{Credentials, NoCredentials, RuleDecision, ToolInvocation};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::call::{
    CheckResult, MAX_WAIT, ScenarioCall, TIMEOUT, TOKEN, assert_not_called, expect_error,
    expect_success, wait_until,
};
use super::expect::{self, Expected, FINAL, code};
use super::{Check, Group, ObservedCall, Outcome, Report, Scenario, TestBackend};

/// Timeout of a call that hangs.
const TIMEOUT_SHORT: Duration = Duration::from_millis(400);
/// Maximum delay of a response after its deadline.
const GRACE: Duration = Duration::from_millis(100);
/// Number of attempts for timing checks, in case the machine is busy.
const TRIES: usize = 5;
/// Number of concurrent calls.
const PARALLEL: usize = 8;

/// Runs all scenarios against a backend, and returns the results.
pub async fn run_conformance(backend: &dyn TestBackend) -> Report {
    let mut report = Report { backend: backend.name().to_owned(), checks: Vec::new() };
    contract(backend, &mut report).await;
    timeout_and_cancel(backend, &mut report).await;
    retry(backend, &mut report).await;
    auth(backend, &mut report).await;
    policy(backend, &mut report).await;
    observability(backend, &mut report).await;
    determinism(backend, &mut report).await;
    report
}

impl Report {
    /// Executes a check with a time limit, and adds its result to the report.
    async fn check(
        &mut self,
        group: Group,
        name: &'static str,
        call: impl Future<Output = CheckResult>,
    ) {
        let outcome = match tokio::time::timeout(3 * MAX_WAIT, call).await {
            Ok(Ok(Some(()))) => Outcome::Passed,
            Ok(Ok(None)) => Outcome::Skipped,
            Ok(Err(why)) => Outcome::Failed(why),
            Err(_) => Outcome::Failed("the check did not end".to_owned()),
        };
        self.checks.push(Check { group, name, outcome });
    }
}

async fn contract(backend: &dyn TestBackend, report: &mut Report) {
    let group = Group::Contract;
    report
        .check(group, "success", expect_success(ScenarioCall::new(backend, Scenario::Echo)))
        .await;
    let changed = |change: fn(&mut ScenarioCall<'_>)| {
        ScenarioCall::new(backend, Scenario::Echo).map(|mut call| {
            change(&mut call);
            call
        })
    };
    let version = changed(|call| call.request.tool_contract_version = "v9".to_owned());
    let invalid = code(ToolErrorCode::InvalidInput);
    report
        .check(group, "unknown version", assert_not_called(backend, expect_error(version, invalid)))
        .await;
    let unsupported = changed(|call| call.request.tool.name = "nonsense".to_owned());
    let expected = code(ToolErrorCode::UnsupportedTool);
    report
        .check(
            group,
            "unknown tool",
            assert_not_called(backend, expect_error(unsupported, expected)),
        )
        .await;
    let definition = changed(|call| {
        call.tool.endpoint = "nonsense://".to_owned();
        if let Some(named) = &mut call.tool.mcp {
            named.server = "nonsense".to_owned();
        }
    });
    let is_mcp = backend.runtime().kind() == provost_core::resource::ToolType::Mcp;
    let wrong =
        if is_mcp { ToolErrorCode::UnsupportedTool } else { ToolErrorCode::RuntimePolicyInvalid };
    report
        .check(
            group,
            "impossible definition",
            assert_not_called(backend, expect_error(definition, code(wrong))),
        )
        .await;
    let protocol_error = Expected { code: backend.protocol_error_code(), ..FINAL };
    for (name, scenario, expected) in [
        ("a failure that stays", Scenario::Broken, FINAL),
        ("garbage", Scenario::Garbage, protocol_error),
        ("another request's id", Scenario::WrongId, protocol_error),
        ("an endless answer", Scenario::Endless, FINAL),
    ] {
        report
            .check(group, name, expect_error(ScenarioCall::new(backend, scenario), expected))
            .await;
    }
}

async fn timeout_and_cancel(backend: &dyn TestBackend, report: &mut Report) {
    let group = Group::TimeoutCancel;
    let ends = async || {
        let Some(mut call) = ScenarioCall::new(backend, Scenario::Hang) else { return Ok(None) };
        call.tool.runtime.timeout = HumanDuration(TIMEOUT_SHORT);
        let started = Instant::now();
        let response = call.execute_boxed().await?;
        expect::failed(&response, code(ToolErrorCode::Timeout))?;
        Ok(Some(started.elapsed()))
    };
    report.check(group, "deadline + 100 ms", ends_within(ends, TIMEOUT_SHORT + GRACE)).await;
    let at_once = async || {
        let Some(call) = ScenarioCall::new(backend, Scenario::Hang) else { return Ok(None) };
        call.cancel.cancel();
        let started = Instant::now();
        let response = call.execute_boxed().await?;
        expect::failed(&response, code(ToolErrorCode::Canceled))?;
        Ok(Some(started.elapsed()))
    };
    report.check(group, "stopped before it began", ends_within(at_once, GRACE)).await;
    let midway = async || {
        wait_until(|| backend.active_calls().is_none_or(|busy| busy == 0)).await;
        let Some(call) = ScenarioCall::new(backend, Scenario::Hang) else { return Ok(None) };
        let cancel = call.cancel.clone();
        let arrived = async {
            match backend.active_calls() {
                Some(_) => wait_until(|| backend.active_calls() != Some(0)).await,
                None => tokio::time::sleep(TIMEOUT_SHORT).await,
            }
            cancel.cancel();
            Instant::now()
        };
        let called = async { (call.execute_boxed().await, Instant::now()) };
        let ((response, ended), stopped) = tokio::join!(called, arrived);
        expect::failed(&response?, code(ToolErrorCode::Canceled))?;
        Ok(Some(ended.saturating_duration_since(stopped)))
    };
    report.check(group, "stopped midway within 100 ms", ends_within(midway, GRACE)).await;
    let nothing = async {
        if backend.active_calls().is_none() || backend.tool(Scenario::Hang).is_none() {
            return Ok(None);
        }
        wait_until(|| backend.active_calls() == Some(0)).await;
        match backend.active_calls() {
            Some(0) => Ok(Some(())),
            busy => Err(format!("{busy:?} calls go on at the backend")),
        }
    };
    report.check(group, "nothing left behind", nothing).await;
}

/// Expects a call to end within a time. One late attempt may be caused by a busy machine; the check fails if all
/// attempts are late.
async fn ends_within(
    call: impl AsyncFn() -> Result<Option<Duration>, String>,
    limit: Duration,
) -> CheckResult {
    let mut late = Vec::new();
    for _ in 0..TRIES {
        match call().await? {
            None => return Ok(None),
            Some(took) if took <= limit => return Ok(Some(())),
            Some(took) => late.push(took),
        }
    }
    Err(format!("{late:?} instead of {limit:?}"))
}

async fn retry(backend: &dyn TestBackend, report: &mut Report) {
    let group = Group::Retry;
    let tried = |scenario: Scenario, attempts: u32| {
        ScenarioCall::new(backend, scenario).map(|call| call.with_attempts(attempts))
    };
    let mends = async {
        let before = backend.observed_calls().map_or(0, |seen| seen.len());
        let played = expect_success(tried(Scenario::Flaky, 3)).await?;
        match backend.observed_calls().filter(|_| played.is_some()) {
            Some(seen) => attempts(&seen[before..], &[1, 2, 3]).map(Some),
            None => Ok(played),
        }
    };
    report.check(group, "a failure that passes is tried again", mends).await;
    let passing = Expected { code: ToolErrorCode::ExecutionFailed, retryable: true };
    let bounded = expect_error(tried(Scenario::Flaky, 2), passing);
    report.check(group, "no more often than declared", bounded).await;
    let stays = async {
        let before = backend.observed_calls().map_or(0, |seen| seen.len());
        let played = expect_error(tried(Scenario::Broken, 3), FINAL).await?;
        match backend.observed_calls().filter(|_| played.is_some()) {
            Some(seen) => attempts(&seen[before..], &[1]).map(Some),
            None => Ok(played),
        }
    };
    report.check(group, "a failure that stays is not", stays).await;
}

/// Returns a message unless the calls have these attempt numbers.
fn attempts(seen: &[ObservedCall], expected: &[u32]) -> Result<(), String> {
    let numbers: Vec<u32> = seen.iter().map(|seen| seen.attempt).collect();
    if numbers == expected {
        Ok(())
    } else {
        Err(format!("attempts {numbers:?}, not {expected:?}"))
    }
}

async fn auth(backend: &dyn TestBackend, report: &mut Report) {
    let group = Group::AuthSecret;
    if !backend.supports_credentials() {
        let call = ScenarioCall::new(backend, Scenario::Echo).map(ScenarioCall::with_token);
        let refused = assert_not_called(
            backend,
            expect_error(call, code(ToolErrorCode::RuntimePolicyInvalid)),
        );
        return report.check(group, "a credential that cannot be sent is refused", refused).await;
    }
    let arrives = async {
        let Some(call) = ScenarioCall::new(backend, Scenario::Echo).map(ScenarioCall::with_token)
        else {
            return Ok(None);
        };
        let response = call.execute_boxed().await?;
        expect::succeeded(&response, "grüezi")?;
        let Some(seen) = backend.observed_calls() else { return Ok(None) };
        let last = seen.last().cloned().unwrap_or_default();
        if last.authorization != format!("Bearer {TOKEN}") {
            return Err("the credential did not arrive".to_owned());
        }
        if last.body.contains(TOKEN) || format!("{response:?}").contains(TOKEN) {
            return Err("the credential is in an envelope".to_owned());
        }
        Ok(Some(()))
    };
    report.check(group, "a credential arrives, and in no envelope", arrives).await;
    let missing = ScenarioCall::new(backend, Scenario::Echo)
        .map(|call| ScenarioCall { authenticator: Arc::new(NoCredentials), ..call.with_token() });
    let expected = code(ToolErrorCode::SecretResolutionFailed);
    report
        .check(
            group,
            "no secret, no call",
            assert_not_called(backend, expect_error(missing, expected)),
        )
        .await;
    for (name, scenario, expected) in [
        ("not valid", Scenario::Unauthorised, ToolErrorCode::AuthInvalid),
        ("may not do this", Scenario::Forbidden, ToolErrorCode::AuthForbidden),
    ] {
        let call = ScenarioCall::new(backend, scenario).map(ScenarioCall::with_token);
        report.check(group, name, expect_error(call, code(expected))).await;
    }
}

async fn policy(backend: &dyn TestBackend, report: &mut Report) {
    let group = Group::PolicyHooks;
    let ruled = |ruling: RuleDecision| {
        ScenarioCall::new(backend, Scenario::Echo).map(|mut call| {
            call.guard.add_rule(move |_| ruling.clone());
            call
        })
    };
    let denied = expect_error(
        ruled(RuleDecision::Deny("no".to_owned())),
        code(ToolErrorCode::PermissionDenied),
    );
    report.check(group, "what is denied does not run", assert_not_called(backend, denied)).await;
    let asked = expect_error(ruled(RuleDecision::Ask), code(ToolErrorCode::ApprovalPending));
    report
        .check(group, "what must be approved does not run", assert_not_called(backend, asked))
        .await;
    let schema = ScenarioCall::new(backend, Scenario::Echo).map(|mut call| {
        call.tool.input_schema = json!({ "type": "object", "required": ["never"] });
        call
    });
    let refused = expect_error(schema, code(ToolErrorCode::InvalidInput));
    report.check(group, "wrong arguments do not run", assert_not_called(backend, refused)).await;
    let other = match backend.runtime().isolation() {
        IsolationMode::Container => IsolationMode::Process,
        _ => IsolationMode::Container,
    };
    let isolated = ScenarioCall::new(backend, Scenario::Echo).map(|mut call| {
        call.tool.runtime.isolation_mode = Some(other);
        call
    });
    let refused = expect_error(isolated, code(ToolErrorCode::IsolationUnavailable));
    let name = "another isolation than asked for does not run";
    report.check(Group::Isolation, name, assert_not_called(backend, refused)).await;
}

async fn observability(backend: &dyn TestBackend, report: &mut Report) {
    let follows = async {
        let (Some(mut call), Some(_)) =
            (ScenarioCall::new(backend, Scenario::Echo), backend.observed_calls())
        else {
            return Ok(None);
        };
        call.request.attempt = 2;
        let request = call.request.clone().normalized().map_err(|fault| fault.to_string())?;
        let attempt = ToolInvocation {
            arguments: Arc::new(backend.arguments(Scenario::Echo, "grüezi")),
            tool: Arc::new(call.tool),
            request: Arc::new(request.clone()),
            effect_key: "conformance".to_owned(),
            conversation: None,
            credentials: Credentials::default(),
            deadline: Instant::now() + TIMEOUT,
            cancel: CancellationToken::new(),
            progress: Arc::new(|_| {}),
            redact: None,
        };
        backend.runtime().invoke(attempt).await.map_err(|fault| fault.to_string())?;
        let seen =
            backend.observed_calls().and_then(|seen| seen.last().cloned()).unwrap_or_default();
        let is = (&seen.request_id, &seen.trace_id, seen.attempt);
        let should = (&request.request_id, &request.trace.trace_id, 2);
        if is == should { Ok(Some(())) } else { Err(format!("{is:?} instead of {should:?}")) }
    };
    report.check(Group::Observability, "request id, trace and attempt arrive", follows).await;
    let echoed = expect_success(ScenarioCall::new(backend, Scenario::Echo));
    report.check(Group::Observability, "request id, trace and attempt come back", echoed).await;
}

async fn determinism(backend: &dyn TestBackend, report: &mut Report) {
    let group = Group::Determinism;
    let same = async {
        let mut results = Vec::new();
        for _ in 0..3 {
            let Some(call) = ScenarioCall::new(backend, Scenario::Echo) else { return Ok(None) };
            results.push(call.execute_boxed().await?.output.result);
        }
        match results.iter().all(|result| *result == results[0]) {
            true => Ok(Some(())),
            false => Err(format!("{results:?}")),
        }
    };
    report.check(group, "the same call has the same result", same).await;
    let apart = async {
        let calls = (0..PARALLEL).map(|at| async move {
            let text = format!("text-{at}-");
            let Some(mut call) = ScenarioCall::new(backend, Scenario::Echo) else {
                return Ok(None);
            };
            call.request.request_id.push_str(&text);
            call.request.input_raw = backend.arguments(Scenario::Echo, &text).to_string();
            expect::succeeded(&call.execute_boxed().await?, &text).map(Some)
        });
        let played = futures::future::join_all(calls).await;
        played.into_iter().reduce(Result::and).unwrap_or(Ok(None))
    };
    report.check(group, "calls at the same time are kept apart", apart).await;
}
