//! The servers that the protocol's own makers have written, used by an agent.
//!
//! They are found through `PROVOST_MCP_SERVERS`, which names the directory that `scripts/setup mcp` prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use provost_agent::Agent;
use provost_core::{ToolResult, ToolResultPart};
use provost_mcp::{McpPool, McpServer};
use provost_model::{ScriptedModel, ScriptedTurn, call, text};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::until;

const VARIABLE: &str = "PROVOST_MCP_SERVERS";

/// Where the servers are. Without them a test has nothing to say.
fn installed() -> Option<PathBuf> {
    let dir = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    if dir.is_none() {
        println!("skipped: {VARIABLE} is not set; scripts/setup mcp installs the servers");
    }
    dir
}

fn npm(dir: &Path, name: &str) -> McpServer {
    let script = dir.join("node_modules/@modelcontextprotocol").join(format!("server-{name}"));
    McpServer::stdio(name, "node").arg(script.join("dist/index.js").to_str().unwrap())
}

fn pypi(dir: &Path, name: &str) -> McpServer {
    let program = dir.join("python/bin").join(format!("mcp-server-{name}"));
    McpServer::stdio(name, program.to_str().unwrap())
}

/// Lets an agent make these calls, one in each turn, and gives back what came of them.
async fn use_server(server: McpServer, calls: &[(&str, Value)]) -> Vec<ToolResult> {
    let pool = McpPool::new();
    let turn = |(name, arguments): &(&str, Value)| call(*name, arguments.clone());
    let turns: Vec<ScriptedTurn> = calls.iter().map(turn).chain([text("done")]).collect();
    let model = turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn);
    let tools = pool.toolset(server).unwrap();
    let agent = Agent::builder("clerk", model).toolset(tools).build().unwrap();
    let result = agent.run("do it").await.unwrap();
    assert_eq!(result.output, "done");
    pool.close().await;
    let results = result.tool_results.clone();
    for (result, (name, _)) in results.iter().zip(calls) {
        assert!(!result.is_error, "{name}: {}", result.to_text());
    }
    assert_eq!(results.len(), calls.len());
    results
}

#[tokio::test]
async fn everything() {
    let Some(dir) = installed() else { return };
    let results = use_server(
        npm(&dir, "everything").arg("stdio"),
        &[
            ("everything_echo", json!({ "message": "hello" })),
            ("everything_get-sum", json!({ "a": 2, "b": 3 })),
            ("everything_get-tiny-image", json!({})),
            ("everything_get-structured-content", json!({ "location": "Chicago" })),
            (
                "everything_get-resource-reference",
                json!({ "resourceType": "Blob", "resourceId": 2 }),
            ),
            ("everything_get-resource-links", json!({ "count": 2 })),
            ("everything_trigger-long-running-operation", json!({ "duration": 0.2, "steps": 2 })),
        ],
    )
    .await;
    assert!(results[0].to_text().contains("hello"));
    assert!(results[1].to_text().contains('5'));
    assert!(results[2].parts.iter().any(|part| matches!(part, ToolResultPart::Image(_))));
    let metadata = results[3].metadata.as_ref().unwrap();
    assert!(metadata["structured_content"].is_object(), "{metadata}");
    assert!(results[4].parts.iter().any(|part| matches!(part, ToolResultPart::File(_))));
    assert!(results[5].to_text().contains("[resource "));
    assert!(results[6].to_text().contains("completed"), "{}", results[6].to_text());
}

#[tokio::test]
async fn filesystem() {
    let Some(dir) = installed() else { return };
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().canonicalize().unwrap().join(name).display().to_string();
    let results = use_server(
        npm(&dir, "filesystem").arg(path("")),
        &[
            ("filesystem_write_file", json!({ "path": path("a.txt"), "content": "pears" })),
            ("filesystem_read_text_file", json!({ "path": path("a.txt") })),
            ("filesystem_list_directory", json!({ "path": path("") })),
        ],
    )
    .await;
    assert_eq!(std::fs::read_to_string(path("a.txt")).unwrap(), "pears");
    assert!(results[1].to_text().contains("pears"));
    assert!(results[2].to_text().contains("a.txt"));
}

#[tokio::test]
async fn memory() {
    let Some(dir) = installed() else { return };
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("memory.json").display().to_string();
    let server = npm(&dir, "memory").env("MEMORY_FILE_PATH", file.clone());
    let ada = json!({ "name": "Ada", "entityType": "person", "observations": ["likes pears"] });
    let results = use_server(
        server,
        &[
            ("memory_create_entities", json!({ "entities": [ada] })),
            ("memory_search_nodes", json!({ "query": "pears" })),
        ],
    )
    .await;
    assert!(results[1].to_text().contains("Ada"));
    assert!(std::fs::read_to_string(file).unwrap().contains("likes pears"));
}

#[tokio::test]
async fn time() {
    let Some(dir) = installed() else { return };
    let results = use_server(
        pypi(&dir, "time"),
        &[
            ("time_get_current_time", json!({ "timezone": "Europe/Zurich" })),
            (
                "time_convert_time",
                json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" }),
            ),
        ],
    )
    .await;
    assert!(results[0].to_text().contains("Europe/Zurich"));
    assert!(results[1].to_text().contains("21:00"));
}

#[tokio::test]
async fn git() {
    let Some(dir) = installed() else { return };
    let root = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let done = Command::new("git").args(args).current_dir(root.path()).output().unwrap();
        assert!(done.status.success(), "git {args:?}");
    };
    git(&["init", "--quiet"]);
    git(&["config", "user.email", "ada@example.com"]);
    git(&["config", "user.name", "Ada"]);
    std::fs::write(root.path().join("a.txt"), "pears").unwrap();
    let repo = root.path().display().to_string();
    let results = use_server(
        pypi(&dir, "git"),
        &[
            ("git_git_status", json!({ "repo_path": repo })),
            ("git_git_add", json!({ "repo_path": repo, "files": ["a.txt"] })),
            ("git_git_commit", json!({ "repo_path": repo, "message": "pears" })),
            ("git_git_log", json!({ "repo_path": repo })),
        ],
    )
    .await;
    assert!(results[0].to_text().contains("a.txt"));
    assert!(results[3].to_text().contains("pears"));
}

/// A server of the newer generation, made with the reference library, over pipes and over HTTP.
#[tokio::test]
async fn the_reference_library() {
    let Some(dir) = installed() else { return };
    let python = dir.join("python/bin/python").display().to_string();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/reference.py");
    let calls = [("ref_add", json!({ "a": 2, "b": 3 }))];
    let piped = McpServer::stdio("ref", python.clone()).args([script, "stdio"]);
    assert_eq!(use_server(piped, &calls).await[0].to_text(), "5");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut command = tokio::process::Command::new(python);
    command.args([script, "http", &address.port().to_string()]).kill_on_drop(true);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let _server = command.spawn().unwrap();
    until("it listens", || std::net::TcpStream::connect(address).is_ok()).await;
    let web = McpServer::http("ref", format!("http://{address}/mcp"));
    assert_eq!(use_server(web, &calls).await[0].to_text(), "5");
}
