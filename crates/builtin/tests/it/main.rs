//! The tools in the hands of an agent.

use provost_agent::{Agent, OnApproval};
use provost_builtin::{Access, Workspace, calculator, clock, workspace_tools};
use provost_model::{ScriptedModel, call, calls, text};
use serde_json::json;

#[tokio::test]
async fn an_agent_reads_edits_searches_and_writes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("src")).unwrap();
    std::fs::write(dir.path().join("src/main.rs"), "fn main() {\n    helo();\n}\n").unwrap();
    let workspace = Workspace::open(dir.path(), Access::ReadWrite).unwrap();
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
    let result = agent.run("Fix the typo").on_approval(OnApproval::Approve).await.unwrap();
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
            "`../secret` has `..`: no path leaves the workspace. Correct the arguments and call again.",
        ]
    );
    let changed = std::fs::read_to_string(dir.path().join("src/main.rs")).unwrap();
    assert_eq!(changed, "fn main() {\n    hello();\n}\n");
    assert_eq!(std::fs::read_to_string(dir.path().join("docs/notes.md")).unwrap(), "# Fixed\n");
}
