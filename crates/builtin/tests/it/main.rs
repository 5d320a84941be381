//! The tools in the hands of an agent.

use std::time::Duration;

use futures::StreamExt as _;
use provost_agent::{Agent, ApprovalMode};
use provost_builtin::shell::{AskPolicy, ExecMode};
use provost_builtin::{ExecPolicy, ShellOptions, calculator, clock, shell_tools, workspace_tools};
use provost_core::resource::IsolationMode;
use provost_core::{Event, EventKind};
use provost_model::{ScriptedModel, call, calls, text};
use provost_sandbox::{IsolationProfile, SandboxRegistry};
use provost_session::InMemorySessionStore;
use provost_tool::CallOrigin;
use provost_workspace::conversation::{ConversationWorkspaces, WorkspaceOptions};
use provost_workspace::{Access, WorkspaceRoot};
use serde_json::json;

#[tokio::test]
async fn an_agent_reads_edits_searches_and_writes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("src")).unwrap();
    std::fs::write(dir.path().join("src/main.rs"), "fn main() {\n    helo();\n}\n").unwrap();
    let workspace = WorkspaceRoot::open(dir.path(), Access::ReadWrite).unwrap();
    let model = ScriptedModel::new()
        .turn(calls([
            ("list", json!({ "glob": "*.rs" })),
            ("read", json!({ "path": "src/main.rs" })),
            ("calculator", json!({ "expression": "0.1 + 0.2" })),
        ]))
        .turn(call(
            "edit",
            json!({ "path": "src/main.rs", "old_string": "helo", "new_string": "hello" }),
        ))
        .turn(call("search", json!({ "pattern": r"hel+o\(" })))
        .turn(call("write", json!({ "path": "docs/notes.md", "content": "# Fixed\n" })))
        .turn(call("read", json!({ "path": "../secret" })))
        .turn(text("Done."));
    let agent = Agent::builder("clerk", model)
        .tools(workspace_tools(&workspace).unwrap())
        .tool(clock().unwrap())
        .tool(calculator().unwrap())
        .build()
        .unwrap();
    let result = agent.run("Fix the typo").approvals(ApprovalMode::AutoApprove).await.unwrap();
    let told: Vec<_> = result.tool_results.iter().map(|result| result.to_text()).collect();
    assert_eq!(
        told,
        [
            "src/main.rs",
            "fn main() {\n    helo();\n}\n",
            "0.3",
            "Edited src/main.rs (27 bytes)",
            "src/main.rs:2:     hello();\n[1 match in 1 file]",
            "Wrote docs/notes.md (8 bytes)",
            "`../secret` contains `..`: a path cannot leave the workspace. Correct the arguments and call again.",
        ]
    );
    let changed = std::fs::read_to_string(dir.path().join("src/main.rs")).unwrap();
    assert_eq!(changed, "fn main() {\n    hello();\n}\n");
    assert_eq!(std::fs::read_to_string(dir.path().join("docs/notes.md")).unwrap(), "# Fixed\n");
}

/// The session that all runs of a test belong to, and what an agent's shell said in one of them.
async fn shell_says(agent: &Agent, line: &str, principal: &str) -> (Vec<String>, Vec<Event>) {
    let origin = CallOrigin { principal: principal.to_owned(), ..CallOrigin::default() };
    let run = agent.run(line).session("chat").origin(origin).approvals(ApprovalMode::AutoApprove);
    let events: Vec<Event> = run.stream().collect().await;
    let said = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolFinished { result, .. } => Some(result.to_text()),
        _ => None,
    });
    (said.collect(), events)
}

#[tokio::test(flavor = "multi_thread")]
async fn g22_the_files_of_a_conversation_stay_or_it_is_told_that_they_are_gone() {
    let home = tempfile::tempdir().unwrap();
    let idle = WorkspaceOptions { idle: Duration::ZERO, ..WorkspaceOptions::in_dir(home.path()) };
    let workspaces = ConversationWorkspaces::open(idle).await.unwrap();
    let options = ShellOptions {
        backends: SandboxRegistry::detect(None).await,
        profile: IsolationProfile::new(IsolationMode::Process),
        workspaces: Some(workspaces.clone()),
        policy: ExecPolicy { mode: ExecMode::Full, ask: AskPolicy::Off, rules: Vec::new() },
        spill: None,
    };
    let lines =
        ["echo one > a", "cat a; echo two > b; pwd -P > where", "cat a b", "cat a", "cat a"];
    let shell = |line: &&str| call("shell", json!({ "command": line }));
    let turns = lines.iter().flat_map(|line| [shell(line), text("Done.")]);
    let model = turns.fold(ScriptedModel::new(), ScriptedModel::turn);
    let agent = Agent::builder("worker", model)
        .tools(shell_tools(options).unwrap())
        .session_store(InMemorySessionStore::default())
        .build()
        .unwrap();
    let is_reset = |event: &Event| matches!(event.kind, EventKind::WorkspaceReset { .. });
    for (line, expected) in [("1", "[no output"), ("2", "one\n"), ("3", "one\ntwo\n")] {
        let (said, events) = shell_says(&agent, line, "anna").await;
        assert!(said[0].starts_with(expected), "{said:?}");
        assert!(!events.iter().any(is_reset), "{said:?}");
        // Nobody is there any more: the directory goes, and the files come back.
        assert_eq!(workspaces.remove_idle().await, 1);
    }
    let (said, _) = shell_says(&agent, "4", "eve").await;
    assert!(said[0].contains("belongs to another principal"), "{said:?}");
    // Storage is lost.
    for entry in std::fs::read_dir(home.path().join("kept")).unwrap() {
        std::fs::remove_dir_all(entry.unwrap().path().join("contents")).unwrap();
    }
    let (said, events) = shell_says(&agent, "5", "anna").await;
    assert!(said[0].starts_with("[the workspace was reset: all files are lost"), "{said:?}");
    assert_eq!(events.iter().filter(|event| is_reset(event)).count(), 1);
}
