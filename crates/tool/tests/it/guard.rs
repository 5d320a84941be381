//! The guard: what it lets through, and how it runs it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use provost_core::contract::ToolErrorCode;
use provost_core::usage::limits::{TOOL_ARGUMENTS_BYTES_MAX, TOOL_OUTPUT_BYTES_MAX};
use provost_core::{ErrorInfo, ErrorKind, Image, ToolCall, ToolResultPart};
use provost_tool::{
    FnTool, Guard, GuardDecision, RequiresApproval, Tool, ToolError, ToolFuture, ToolOutput,
    ToolSpec,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::support;

fn spec() -> ToolSpec {
    let schema = json!({
        "properties": {
            "city": {"type": "string"},
            "stops": {"type": "array", "items": {
                "type": "object",
                "properties": {"minutes": {"type": "integer"}},
            }},
        },
        "required": ["city"],
        "additionalProperties": false,
    });
    ToolSpec::new("trip", "Plans a trip", schema).unwrap()
}

fn tool(spec: ToolSpec, body: impl Fn() -> ToolFuture + Send + Sync + 'static) -> Arc<dyn Tool> {
    Arc::new(FnTool::new(spec, move |_, _| body()))
}

fn done() -> ToolFuture {
    async { Ok(ToolOutput::text("done")) }.boxed()
}

fn check(spec: ToolSpec, arguments: &str, approved: bool) -> String {
    let call = ToolCall {
        arguments: arguments.to_owned(),
        ..ToolCall::new("call_1", "trip", &Value::Null)
    };
    support::verdict(Guard::default().check(&tool(spec, done), &call, approved))
}

const OSLO: &str = r#"{"city":"Oslo"}"#;

#[test]
fn arguments_that_are_no_json_are_refused() {
    for arguments in ["{\"city\":", "city", "{}{}", "\u{0}"] {
        let verdict = check(spec(), arguments, true);
        assert!(verdict.starts_with("invalid: the arguments are not valid JSON: "), "{verdict}");
    }
}

#[test]
fn json_that_is_no_object_is_refused() {
    for arguments in ["null", "[]", "3", "\"city\""] {
        let verdict = check(spec(), arguments, true);
        assert!(verdict.starts_with("invalid: the arguments do not match the schema"), "{verdict}");
    }
}

#[test]
fn nothing_means_an_empty_object() {
    let open = ToolSpec::new("trip", "Plans a trip", json!({})).unwrap();
    assert_eq!(check(open.clone(), "", false), "allow {}");
    assert_eq!(check(open, "  \n", false), "allow {}");
    assert!(check(spec(), "", true).contains("\"city\" is a required property"));
}

#[test]
fn faults_are_told_together_and_with_their_place() {
    let arguments = r#"{"city": 4, "stops": [{"minutes": 1}, {"minutes": "2"}], "town": 1}"#;
    let verdict = check(spec(), arguments, true);
    assert!(verdict.contains("city: 4 is not of type \"string\""), "{verdict}");
    assert!(verdict.contains("stops.1.minutes: \"2\" is not of type"), "{verdict}");
    assert!(verdict.contains("'town' was unexpected"), "{verdict}");
}

#[test]
fn a_fault_does_not_repeat_a_huge_value() {
    let arguments = json!({"city": vec![1; 10_000]}).to_string();
    let verdict = check(spec(), &arguments, true);
    assert!(verdict.len() < 2_000, "{}", verdict.len());
}

#[test]
fn too_many_bytes_are_not_even_parsed() {
    let verdict = check(spec(), &"x".repeat(TOOL_ARGUMENTS_BYTES_MAX + 1), true);
    assert!(verdict.starts_with("invalid: the arguments are 1048577 bytes long"), "{verdict}");
}

#[test]
fn approval_never_always_and_when() {
    let allowed = r#"allow {"city":"Oslo"}"#;
    let rule = RequiresApproval::when(|arguments| arguments["city"] == "Oslo");
    assert_eq!(check(spec(), OSLO, false), allowed);
    assert_eq!(check(spec().approval(RequiresApproval::Always), OSLO, false), "ask");
    assert_eq!(check(spec().approval(RequiresApproval::Always), OSLO, true), allowed);
    assert_eq!(check(spec().approval(rule.clone()), OSLO, false), "ask");
    assert_eq!(
        check(spec().approval(rule.clone()), r#"{"city":"Rome"}"#, false),
        r#"allow {"city":"Rome"}"#
    );
    assert_eq!(check(spec().approval(rule), OSLO, true), allowed);
}

#[test]
fn a_rule_that_panics_asks() {
    let rule = RequiresApproval::when(|_| panic!("the rule is broken"));
    assert_eq!(check(spec().approval(rule), OSLO, false), "ask");
}

#[test]
fn approval_does_not_heal_wrong_arguments() {
    assert!(check(spec().approval(RequiresApproval::Always), "{}", true).starts_with("invalid"));
    // Nobody should be asked about a call that cannot run.
    assert!(check(spec().approval(RequiresApproval::Always), "{}", false).starts_with("invalid"));
}

async fn run(tool: &Arc<dyn Tool>) -> Result<ToolOutput, ToolError> {
    support::run(tool, support::cx(), json!({"city": "Oslo"})).await
}

#[tokio::test]
async fn s231_a_panic_becomes_a_failure_and_the_process_goes_on() {
    let later = tool(spec(), || async { panic!("out of {}", "tune") }.boxed());
    let failure = ToolError::failed("the tool panicked: out of tune");
    assert_eq!(run(&later).await, Err(failure));
    let at_once = tool(spec(), || panic!("no future at all"));
    let failure = ToolError::failed("the tool panicked: no future at all");
    assert_eq!(run(&at_once).await, Err(failure));
    let wordless = tool(spec(), || async { std::panic::panic_any(3) }.boxed());
    let failure = ToolError::failed("the tool panicked: without a message");
    assert_eq!(run(&wordless).await, Err(failure));
    assert_eq!(run(&tool(spec(), done)).await.unwrap().to_text(), "done");
}

#[tokio::test(start_paused = true)]
async fn s232_a_timeout_is_a_failure_and_stops_the_tool() {
    let (on_drop, dropped) = oneshot::channel::<()>();
    let on_drop = std::sync::Mutex::new(Some(on_drop));
    let slow = tool(spec().timeout(Duration::from_millis(1500)), move || {
        let held = on_drop.lock().unwrap().take();
        async move {
            let _held = held;
            pending().await
        }
        .boxed()
    });
    let started = tokio::time::Instant::now();
    let error = run(&slow).await.unwrap_err();
    assert_eq!(error.to_contract_error().code, ToolErrorCode::Timeout);
    assert_eq!(error.to_string(), "timeout: the tool did not finish within 1.5 s");
    assert_eq!(started.elapsed(), Duration::from_millis(1500));
    assert!(dropped.await.is_err(), "the tool's own future is gone");
}

#[tokio::test]
async fn s230_dropping_the_call_drops_the_tool() {
    let (on_start, started) = oneshot::channel::<()>();
    let (on_drop, dropped) = oneshot::channel::<()>();
    let ends = std::sync::Mutex::new(Some((on_start, on_drop)));
    let endless = tool(spec(), move || {
        let (on_start, on_drop) = ends.lock().unwrap().take().unwrap();
        async move {
            let _held = on_drop;
            on_start.send(()).unwrap();
            pending().await
        }
        .boxed()
    });
    let running = tokio::spawn(async move { run(&endless).await });
    started.await.unwrap();
    running.abort();
    assert!(dropped.await.is_err(), "the tool's own future is gone");
}

#[tokio::test]
async fn an_output_of_50_mb_is_bounded() {
    let huge =
        tool(spec(), || async { Ok(ToolOutput::text("x".repeat(50 * 1024 * 1024))) }.boxed());
    let text = run(&huge).await.unwrap().to_text();
    assert!(text.len() <= TOOL_OUTPUT_BYTES_MAX + 64, "{}", text.len());
    assert!(text.contains("of 52428800 bytes cut"));
}

#[tokio::test]
async fn an_output_of_many_parts_is_bounded_as_a_whole() {
    let many = tool(spec(), || {
        let part = ToolOutput::text("x".repeat(1024)).parts;
        let parts = part.into_iter().cycle().take(10_000).collect();
        let output = ToolOutput { parts, ..ToolOutput::default() };
        async { Ok(output) }.boxed()
    });
    let text = run(&many).await.unwrap().to_text();
    assert!(text.len() <= TOOL_OUTPUT_BYTES_MAX + 256, "{}", text.len());
    assert!(text.ends_with("[9950 further parts omitted]"), "{}", &text[text.len() - 60..]);
}

#[tokio::test]
async fn pictures_are_bounded_as_a_whole() {
    let pictures = tool(spec(), || {
        let picture = Image::bytes("image/png", vec![0; 6 * 1024 * 1024]);
        let parts = vec![ToolResultPart::Image(picture); 5];
        let output = ToolOutput { parts, ..ToolOutput::default() };
        async { Ok(output) }.boxed()
    });
    let output = run(&pictures).await.unwrap();
    let kept = |part: &&ToolResultPart| matches!(part, ToolResultPart::Image(_));
    assert_eq!(output.parts.iter().filter(kept).count(), 3);
    assert!(output.to_text().contains("a image/png of 6291456 bytes omitted"));
}

#[tokio::test]
async fn an_error_of_50_mb_is_bounded() {
    let loud =
        tool(spec(), || async { Err(ToolError::failed("x".repeat(50 * 1024 * 1024))) }.boxed());
    let text = run(&loud).await.unwrap_err().to_string();
    assert!(text.len() <= TOOL_OUTPUT_BYTES_MAX + 64, "{}", text.len());
}

#[tokio::test]
async fn a_fatal_error_of_50_mb_is_bounded() {
    let huge = || "x".repeat(50 * 1024 * 1024);
    let fatal = tool(spec(), move || {
        let error = ErrorInfo::new(ErrorKind::Bug, huge(), huge());
        async { Err(ToolError::Fatal(error)) }.boxed()
    });
    match run(&fatal).await {
        Err(ToolError::Fatal(error)) => {
            assert!(error.message.len() <= TOOL_OUTPUT_BYTES_MAX + 64, "{}", error.message.len());
            assert!(error.code.len() <= TOOL_OUTPUT_BYTES_MAX + 64, "{}", error.code.len());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_question_too_large_to_show_is_a_failure_and_not_a_question() {
    let asks = |hint: String, payload: Option<Value>| {
        tool(spec(), move || {
            let (hint, payload) = (hint.clone(), payload.clone());
            async { Err(ToolError::NeedsApproval { hint, payload }) }.boxed()
        })
    };
    let small = asks("pay?".to_owned(), Some(json!({"amount": 3})));
    assert!(matches!(run(&small).await, Err(ToolError::NeedsApproval { .. })));
    for (large, what) in [
        (asks("x".repeat(TOOL_OUTPUT_BYTES_MAX + 1), None), "the hint of the question has 51201"),
        (
            asks("pay?".to_owned(), Some(json!("x".repeat(TOOL_ARGUMENTS_BYTES_MAX)))),
            "the payload of the question has 1048578",
        ),
    ] {
        match run(&large).await {
            Err(ToolError::Failed(text)) => assert!(text.starts_with(what), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_the_tool_says_comes_through() {
    for error in [
        ToolError::retry("again"),
        ToolError::failed("no"),
        ToolError::Rejected("not today".to_owned()),
    ] {
        let given = error.clone();
        let failing = tool(spec(), move || std::future::ready(Err(given.clone())).boxed());
        assert_eq!(run(&failing).await, Err(error));
    }
}

#[test]
fn a_permit_tells_what_it_permits() {
    let tool = tool(spec(), done);
    let call = support::call(&tool, &json!({"city": "Oslo"}));
    let GuardDecision::Allow(permit) = Guard::default().check(&tool, &call, false) else {
        panic!("not allowed");
    };
    assert_eq!(permit.arguments(), &json!({"city": "Oslo"}));
    match permit.parse::<std::collections::HashMap<String, u32>>() {
        Err(ToolError::Retry(text)) => assert!(text.starts_with("argument `city`: "), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn of_several_rules_the_strictest_counts_and_approval_cannot_overrule_a_denial() {
    use provost_tool::{Guard, GuardDecision, RequiresApproval, RuleDecision, Tool};
    use std::sync::Arc;

    let tool = |approval: RequiresApproval| -> Arc<dyn Tool> {
        let quiet = provost_tool::tool_fn("quiet", "Does nothing", |_cx, (): ()| async { Ok(()) });
        Arc::new(quiet.unwrap().with_spec(|spec| spec.approval(approval)))
    };
    let call = provost_core::ToolCall::new("c1", "quiet", &serde_json::json!({}));
    let verdict =
        |guard: &Guard, approval, approved| match guard.check(&tool(approval), &call, approved) {
            GuardDecision::Allow(_) => "allow".to_owned(),
            GuardDecision::Ask(_) => "ask".to_owned(),
            GuardDecision::Deny(fault) => format!("deny: {}", fault.message),
            GuardDecision::Invalid(problem) => format!("invalid: {problem}"),
        };
    let mut guard = Guard::default();
    assert_eq!(verdict(&guard, RequiresApproval::Never, false), "allow");
    guard.add_rule(|_| RuleDecision::Ask);
    guard.add_rule(|_| RuleDecision::Allow);
    assert_eq!(verdict(&guard, RequiresApproval::Never, false), "ask");
    assert_eq!(verdict(&guard, RequiresApproval::Never, true), "allow");
    guard.add_rule(|facts| RuleDecision::Deny(format!("no {}", facts.spec.name())));
    assert_eq!(verdict(&guard, RequiresApproval::Always, true), "deny: no quiet");
    let mut broken = Guard::default();
    broken.add_rule(|_| panic!("a broken rule"));
    assert!(verdict(&broken, RequiresApproval::Never, true).starts_with("deny: a rule failed"));
}
