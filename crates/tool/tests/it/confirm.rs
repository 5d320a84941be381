//! Questions that a tool asks while it runs, and what else its context tells.

use std::sync::Arc;
use std::time::Duration;

use provost_core::ApprovalDecision;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::recovery::EffectKey;
use provost_tool::{Deps, Tool, ToolContext, ToolError, ToolOutput, tool_fn};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::{self, FakeApprover};

fn asking() -> Arc<dyn Tool> {
    let tool = tool_fn("pay", "Pays", |cx: ToolContext, ()| async move {
        cx.confirm("go on?").await?;
        cx.confirm_with("pay?", json!({"amount": 3})).await?;
        Ok::<_, ToolError>("paid")
    });
    Arc::new(tool.unwrap())
}

async fn ask(approver: &Arc<FakeApprover>) -> Result<ToolOutput, ToolError> {
    let cx = support::cx_with(Arc::clone(approver), Deps::default());
    support::run(&asking(), cx, json!({})).await
}

#[tokio::test]
async fn s215_an_approval_lets_the_tool_go_on() {
    let approver = FakeApprover::approving();
    assert_eq!(ask(&approver).await.unwrap().to_text(), "paid");
    assert_eq!(
        *approver.questions.lock().unwrap(),
        [("go on?".to_owned(), None), ("pay?".to_owned(), Some(json!({"amount": 3})))]
    );
}

#[tokio::test]
async fn s215_a_rejection_ends_the_tool_with_its_reason() {
    let approver =
        FakeApprover::answering(Ok(ApprovalDecision::Deny { reason: "too much".to_owned() }));
    let error = ask(&approver).await.unwrap_err();
    assert_eq!(error, ToolError::Rejected("too much".to_owned()));
    assert_eq!(error.to_string(), "the call was not approved: too much");
    assert_eq!(approver.questions.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn s215_a_question_that_must_wait_ends_the_tool_as_it_is() {
    let waits = ToolError::NeedsApproval { hint: "go on?".to_owned(), payload: Some(json!([1])) };
    let approver = FakeApprover::answering(Err(waits.clone()));
    assert_eq!(ask(&approver).await, Err(waits));
}

#[tokio::test]
async fn a_payload_without_a_json_form_is_not_asked() {
    let cx = support::cx();
    let payload = std::collections::HashMap::from([((1, 2), 3)]);
    assert!(matches!(cx.confirm_with("go on?", payload).await, Err(ToolError::Failed(_))));
}

/// What became of a tool whose approver take ten minutes for each answer, and how long it took.
async fn asked_slowly<F>(
    body: impl Fn(ToolContext) -> F + Send + Sync + 'static,
) -> (Result<ToolOutput, ToolError>, Duration)
where
    F: Future<Output = Result<(), ToolError>> + Send + 'static,
{
    let tool = tool_fn("pay", "Pays", move |cx: ToolContext, ()| body(cx)).unwrap();
    let tool: Arc<dyn Tool> = Arc::new(tool);
    assert_eq!(tool.spec().timeout, Duration::from_secs(60));
    let approver = FakeApprover::approving_after(Duration::from_secs(600));
    let started = Instant::now();
    let ended = support::run(&tool, support::cx_with(approver, Deps::default()), json!({})).await;
    (ended, started.elapsed())
}

fn too_late() -> ToolError {
    let message = "the tool did not finish within 60 s";
    ToolError::Fault(ToolContractError::new(ToolErrorCode::Timeout, message))
}

#[tokio::test(start_paused = true)]
async fn time_that_people_take_is_not_the_tools() {
    let (ended, took) = asked_slowly(|cx| async move {
        sleep(Duration::from_secs(29)).await;
        cx.confirm("go on?").await?;
        sleep(Duration::from_secs(29)).await;
        // Asked together, they wait together.
        futures::future::try_join(cx.confirm("this?"), cx.confirm("and this?")).await?;
        Ok(())
    })
    .await;
    assert_eq!(ended.unwrap().to_text(), "done");
    assert_eq!(took, Duration::from_secs(29 + 600 + 29 + 600));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_after_the_answer_times_out() {
    let (ended, took) = asked_slowly(|cx| async move {
        sleep(Duration::from_secs(20)).await;
        cx.confirm("go on?").await?;
        std::future::pending().await
    })
    .await;
    assert_eq!(ended, Err(too_late()));
    assert_eq!(took, Duration::from_secs(660));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_given_up_does_not_stop_the_clock() {
    let (ended, took) = asked_slowly(|cx| async move {
        let patience = Duration::from_secs(5);
        assert!(tokio::time::timeout(patience, cx.confirm("go on?")).await.is_err());
        std::future::pending().await
    })
    .await;
    assert_eq!(ended, Err(too_late()));
    assert_eq!(took, Duration::from_secs(65));
}

#[tokio::test]
async fn a_question_too_large_to_show_is_not_asked() {
    let approver = FakeApprover::approving();
    let cx = support::cx_with(Arc::clone(&approver), Deps::default());
    let huge = "x".repeat(2 * 1024 * 1024);
    assert!(matches!(cx.confirm(huge.clone()).await, Err(ToolError::Failed(_))));
    assert!(matches!(cx.confirm_with("pay?", huge).await, Err(ToolError::Failed(_))));
    assert!(approver.questions.lock().unwrap().is_empty());
}

#[test]
fn a_long_report_of_progress_is_cut() {
    let approver = FakeApprover::approving();
    let cx = support::cx_with(Arc::clone(&approver), Deps::default());
    cx.progress("x".repeat(1024 * 1024));
    let told = approver.progress.lock().unwrap();
    assert!(told[0].len() < 4 * 1024 + 64 && told[0].contains("of 1048576 bytes cut"));
}

#[test]
fn the_context_tells_about_the_call() {
    let approver = FakeApprover::approving();
    let cx = support::cx_with(Arc::clone(&approver), Deps::default().with(5u8));
    assert_eq!(cx.run_id(), support::run_id());
    assert_eq!(
        (cx.agent(), cx.call_id(), cx.tool(), cx.retries_left()),
        ("lead/clerk", "call_1", "tool", 2)
    );
    assert_eq!(*cx.effect_key(), EffectKey::new(support::run_id(), 1, 0));
    assert!(!cx.cancelled().is_cancelled());
    assert_eq!(*cx.dep::<u8>().unwrap(), 5);
    let missing = cx.dep::<u16>().unwrap_err().to_string();
    assert!(missing.contains("`u16`"), "{missing}");
    cx.progress("half");
    assert_eq!(*approver.progress.lock().unwrap(), ["half"]);
    let same = cx.clone();
    cx.state().set("seen", true).unwrap();
    assert_eq!(same.state().get("seen"), Some(true));
    assert_eq!(same.effect_key(), cx.effect_key());
}

#[test]
fn an_error_tells_its_causes_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the file")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read: {0}")]
    struct Repeating(#[source] std::io::Error);

    let cause = || std::io::Error::other("disk on fire");
    assert_eq!(
        ToolError::from(Outer(cause())),
        ToolError::failed("cannot read the file: disk on fire")
    );
    assert_eq!(ToolError::from(Repeating(cause())), ToolError::failed("cannot read: disk on fire"));
}
