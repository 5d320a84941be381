//! The tools with real sandboxes behind them.

use std::sync::Arc;
use std::time::Duration;

use provost_core::contract::ToolErrorCode;
use provost_core::resource::IsolationMode;
use provost_sandbox::WorkspaceMount as Files;
use provost_tool::Tool;
use serde_json::json;

use super::*;
use crate::testing::{call_async, key};

async fn options(dir: &std::path::Path, policy: ExecPolicy) -> ShellOptions {
    let backends = SandboxRegistry::detect(None).await;
    let mut profile =
        IsolationProfile::new(IsolationMode::Process).workspace(Files::ReadWrite(dir.to_owned()));
    profile.limits.time = Duration::from_secs(20);
    ShellOptions { backends, profile, workspaces: None, policy, spill: None }
}

fn full() -> ExecPolicy {
    ExecPolicy { mode: ExecMode::Full, ask: AskPolicy::Off, rules: Vec::new() }
}

async fn run(tool: &Arc<dyn Tool>, arguments: Value) -> Result<ToolOutput, ToolError> {
    call_async(tool, arguments, &key(1)).await
}

async fn output_of(tool: &Arc<dyn Tool>, command: &str) -> String {
    run(tool, json!({ "command": command })).await.unwrap().to_text()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_runs_in_the_sandbox_and_tells_how_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let tools = shell_tools(options(dir.path(), full()).await).unwrap();
    let shell = &tools[0];
    assert_eq!(
        output_of(shell, "echo a; echo b >&2 | cat; echo $((1+1)) > out; cat out")
            .await
            .lines()
            .count(),
        3
    );
    assert_eq!(std::fs::read_to_string(dir.path().join("out")).unwrap(), "2\n");
    let failed = run(shell, json!({ "command": "echo no; exit 3" })).await.unwrap();
    assert!(failed.is_error);
    assert_eq!(failed.to_text(), "no\n[exited with code 3]");
    assert_eq!(failed.metadata.unwrap()["exit_code"], 3);
    assert_eq!(output_of(shell, "true").await, "[no output; exited with code 0]");
    let late = run(shell, json!({ "command": "sleep 100", "timeout_seconds": 1 })).await.unwrap();
    assert!(
        late.is_error && late.to_text().contains("timed out and was killed"),
        "{}",
        late.to_text()
    );
    let outside = dir.path().parent().unwrap().join("shell-escape");
    output_of(shell, &format!("echo x > {}", outside.display())).await;
    assert!(!outside.exists(), "the sandbox confines the command whatever the policy says");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_rule_allows_is_denied_or_asked_about() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "content").unwrap();
    let rules = vec![CommandRule::parse("pure: cat").unwrap()];
    let policy = ExecPolicy { mode: ExecMode::Allowlist, ask: AskPolicy::Off, rules };
    let asking = ExecPolicy { ask: AskPolicy::OnMiss, ..policy.clone() };
    let strict = shell_tools(options(dir.path(), policy).await).unwrap();
    assert_eq!(output_of(&strict[0], "cat a").await, "content");
    let denied = run(&strict[0], json!({ "command": "rm a" })).await.unwrap_err();
    assert_eq!(denied.to_contract_error().code, ToolErrorCode::PermissionDenied, "{denied}");
    assert!(dir.path().join("a").exists());
    let tools = shell_tools(options(dir.path(), asking).await).unwrap();
    // What repeating a call would do is what its rule declares.
    assert_eq!(tools[0].spec().effect, EffectClass::Opaque);
    let effect = |command: &str| tools[0].spec().effect_for(&json!({ "command": command }));
    assert_eq!(effect("cat a"), EffectClass::Pure);
    assert_eq!(effect("cat a; rm a"), EffectClass::Opaque);
    let RequiresApproval::When(needs) = &tools[0].spec().approval else {
        panic!("nobody is asked")
    };
    assert!(!needs(&json!({ "command": "cat a" })));
    assert!(needs(&json!({ "command": "cat a; rm a" })));
    // The one who calls here has agreed.
    assert_eq!(output_of(&tools[0], "cat a; rm a").await, "content");
    assert!(!dir.path().join("a").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_the_background_is_read_and_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let tools = shell_tools(options(dir.path(), full()).await).unwrap();
    let started = json!({ "command": "echo up; touch ready; sleep 600", "background": true });
    let started = run(&tools[0], started).await.unwrap();
    let job = started.metadata.unwrap()["job"].clone();
    let mut heard = String::new();
    while !heard.contains("up") {
        heard.push_str(&run(&tools[1], json!({ "job": job })).await.unwrap().to_text());
        tokio::task::yield_now().await;
    }
    assert!(heard.contains("[running]"), "{heard}");
    run(&tools[2], json!({ "job": job })).await.unwrap();
    let last = run(&tools[1], json!({ "job": job })).await.unwrap().to_text();
    assert_eq!(last, "[stopped]");
    let unknown = run(&tools[1], json!({ "job": "job-99" })).await.unwrap_err();
    assert!(matches!(unknown, ToolError::Retry(_)), "{unknown}");
    // Also those that are started at the same time are no more than there is room for.
    let max = crate::limits::SHELL_JOBS_MAX;
    let many =
        (0..2 * max).map(|_| run(&tools[0], json!({ "command": "sleep 600", "background": true })));
    let (started, refused): (Vec<_>, Vec<_>) =
        futures::future::join_all(many).await.into_iter().partition(Result::is_ok);
    assert_eq!((started.len(), refused.len()), (max, max));
    for full in refused {
        assert!(full.unwrap_err().to_string().contains("jobs are running"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_output_is_cut_and_without_a_backend_nothing_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path(), full()).await;
    let tools = shell_tools(options.clone()).unwrap();
    let long = output_of(&tools[0], "head -c 200000 /dev/zero | tr '\\0' x").await;
    assert!(long.len() < 60_000 && long.contains("bytes cut"), "{}", long.len());
    options.backends = SandboxRegistry::default();
    let tools = shell_tools(options).unwrap();
    let refused = run(&tools[0], json!({ "command": "true" })).await.unwrap_err();
    assert_eq!(refused.to_contract_error().code, ToolErrorCode::IsolationUnavailable);
}
