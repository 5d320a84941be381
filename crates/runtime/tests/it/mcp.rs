//! MCP servers as tools: a small one of ours, and the reference one where it is installed.

use std::path::PathBuf;
use std::sync::Arc;

use provost_core::contract::ToolCode;
use provost_core::resource::{McpRef, ToolResource, ToolType};
use provost_core::{ResultPart, Secret};
use provost_mcp::McpPool;
use provost_runtime::conformance::{Scene, Seen, Stage};
use provost_runtime::{CommandAllowList, McpRuntime, Program};
use provost_tool::ToolRuntime;
use serde_json::{Value, json};

use crate::stage::call;

/// A stage whose tools are picked by scene.
pub(crate) struct McpStage {
    name: &'static str,
    runtime: Arc<McpRuntime>,
    tools: fn(Scene) -> Option<&'static str>,
    arguments: fn(Scene, &str) -> Value,
}

impl Stage for McpStage {
    fn name(&self) -> &str {
        self.name
    }

    fn runtime(&self) -> Arc<dyn ToolRuntime> {
        Arc::clone(&self.runtime) as Arc<dyn ToolRuntime>
    }

    fn tool(&self, scene: Scene) -> Option<ToolResource> {
        Some(tool((self.tools)(scene)?))
    }

    fn arguments(&self, scene: Scene, text: &str) -> Value {
        (self.arguments)(scene, text)
    }

    fn seen(&self) -> Option<Vec<Seen>> {
        None
    }

    fn busy(&self) -> Option<usize> {
        None
    }
}

fn tool(name: &str) -> ToolResource {
    let mut tool = ToolResource::new("acting", ToolType::Mcp, "");
    tool.mcp = Some(McpRef { server: "server".to_owned(), tool: name.to_owned() });
    tool
}

fn runtime(program: Program) -> McpRuntime {
    let allowed = CommandAllowList::of([program.command.clone()]);
    let mut runtime = McpRuntime::new(McpPool::new(), allowed);
    runtime.add_program("default", "server", program).unwrap();
    runtime
}

/// The interpreter itself: what is called `python3` may be a script that adds to the environment.
fn python() -> String {
    let mut command = std::process::Command::new("python3");
    let output = command.args(["-c", "import sys; print(sys.executable)"]).output();
    String::from_utf8(output.expect("python3 is needed").stdout).unwrap().trim().to_owned()
}

fn small() -> Program {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/it/server.py");
    Program::new(python()).arg(script).arg("plain")
}

/// A small server in Python.
pub(crate) async fn own() -> McpStage {
    McpStage {
        name: "mcp, stdio",
        runtime: Arc::new(runtime(small())),
        tools: |scene| match scene {
            Scene::Echo => Some("echo"),
            Scene::Hang => Some("slow"),
            Scene::Broken => Some("fail"),
            _ => None,
        },
        arguments: |_, text| json!({ "message": text }),
    }
}

/// The reference server that speaks everything, if it is installed.
pub(crate) fn everything() -> Option<McpStage> {
    let dir = std::env::var_os("PROVOST_MCP_SERVERS").filter(|dir| !dir.is_empty())?;
    let script = PathBuf::from(dir)
        .join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let program = Program::new("node").arg(script.to_str()?).arg("stdio");
    Some(McpStage {
        name: "mcp, server-everything",
        runtime: Arc::new(runtime(program)),
        tools: |scene| match scene {
            Scene::Echo => Some("echo"),
            Scene::Hang => Some("trigger-long-running-operation"),
            _ => None,
        },
        arguments: |scene, text| match scene {
            Scene::Hang => json!({ "duration": 600, "steps": 2 }),
            _ => json!({ "message": text }),
        },
    })
}

#[test]
fn no_program_is_started_that_was_not_allowed() {
    let mut runtime = McpRuntime::new(McpPool::new(), CommandAllowList::default());
    let fault = runtime.add_program("default", "server", Program::new("/bin/sh")).unwrap_err();
    assert_eq!(fault.code, ToolCode::PermissionDenied);
    let mut runtime = McpRuntime::new(McpPool::new(), CommandAllowList::of(["/usr/bin/node"]));
    for command in ["node", "/usr/bin/../bin/node", "/usr/bin/node ", "/usr/bin/node;sh", ""] {
        assert!(
            runtime.add_program("default", "server", Program::new(command)).is_err(),
            "{command}"
        );
    }
}

#[tokio::test]
async fn a_program_sees_only_what_was_declared() {
    let mut program = small();
    program.env = vec![("DECLARED".to_owned(), Secret::from("1"))];
    let runtime = runtime(program);
    let output = call(&runtime, &tool("environ"), json!({})).await.unwrap();
    let environment = output.to_text();
    assert!(environment.contains("DECLARED"), "{environment}");
    assert!(!environment.contains("CARGO"), "{environment}");
}

#[tokio::test]
async fn parts_are_kept_and_failures_are_typed() {
    let runtime = runtime(small());
    let fault = call(&runtime, &tool("fail"), json!({})).await.unwrap_err();
    assert_eq!((fault.code, fault.retryable), (ToolCode::ExecutionFailed, false), "{fault}");
    let fault = call(&runtime, &tool("die"), json!({})).await.unwrap_err();
    assert_eq!(fault.details["outcome"], "unknown", "{fault}");
    assert!(!fault.retryable, "nobody knows what a second call would do");
    let fault = call(&runtime, &tool("echo"), json!(["no object"])).await.unwrap_err();
    assert_eq!(fault.code, ToolCode::InvalidInput);
    if let Some(everything) = everything() {
        let output = call(&*everything.runtime, &tool("get-tiny-image"), json!({})).await.unwrap();
        assert!(output.parts.iter().any(|part| matches!(part, ResultPart::Image(_))));
    }
}
