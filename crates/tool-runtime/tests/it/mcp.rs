//! MCP servers as tools: a small one of ours, and the reference one where it is installed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{AuthProfile, McpRef, ToolAuth, ToolResource, ToolType};
use provost_core::{Secret, ToolResultPart};
use provost_mcp::McpPool;
use provost_mcp::launcher::ProcessLauncher;
use provost_net::NetPolicy;
use provost_tool::{Credentials, ToolOutput, ToolRuntime};
use provost_tool_runtime::conformance::{ObservedCall, Scenario, TestBackend};
use provost_tool_runtime::{CommandAllowList, McpRuntime, StdioServer};
use serde_json::{Value, json};

use crate::support::{MAX_WAIT, attempt};

/// A backend whose tools are picked by scene.
pub(crate) struct McpStage {
    name: &'static str,
    runtime: Arc<McpRuntime>,
    tools: fn(Scenario) -> Option<&'static str>,
    arguments: fn(Scenario, &str) -> Value,
}

impl TestBackend for McpStage {
    fn name(&self) -> &str {
        self.name
    }

    fn runtime(&self) -> Arc<dyn ToolRuntime> {
        Arc::clone(&self.runtime) as Arc<dyn ToolRuntime>
    }

    fn tool(&self, scene: Scenario) -> Option<ToolResource> {
        Some(tool((self.tools)(scene)?))
    }

    fn arguments(&self, scene: Scenario, text: &str) -> Value {
        (self.arguments)(scene, text)
    }

    fn supports_credentials(&self) -> bool {
        false
    }

    fn observed_calls(&self) -> Option<Vec<ObservedCall>> {
        None
    }

    fn active_calls(&self) -> Option<usize> {
        None
    }
}

fn tool(name: &str) -> ToolResource {
    let mut tool = ToolResource::new("acting", ToolType::Mcp, "");
    tool.mcp = Some(McpRef { server: "server".to_owned(), tool: name.to_owned() });
    tool
}

/// Makes one attempt without a credential, which a program could not take.
async fn call(
    runtime: &McpRuntime,
    tool: &ToolResource,
    arguments: Value,
) -> Result<ToolOutput, ToolContractError> {
    runtime.check(tool)?;
    let mut made = attempt(tool, arguments, MAX_WAIT);
    made.credentials = Credentials::default();
    tokio::time::timeout(MAX_WAIT, runtime.invoke(made)).await.expect("a call hangs")
}

fn runtime(program: StdioServer) -> McpRuntime {
    runtime_with(program).0
}

/// A runtime with one server, and its connections.
pub(crate) fn runtime_with(program: StdioServer) -> (McpRuntime, McpPool) {
    let allowed = CommandAllowList::of([program.command.clone()]);
    let pool = McpPool::new();
    let mut runtime = McpRuntime::new(pool.clone(), allowed);
    runtime.add_program("default", "server", program).unwrap();
    (runtime, pool)
}

/// A small server in Python that somebody else starts; with a mark among its arguments.
pub(crate) fn python_at(
    script: &str,
    mark: &str,
    starter: Arc<dyn ProcessLauncher>,
) -> StdioServer {
    let program = StdioServer::new("/usr/bin/python3").arg(script).arg("plain").arg(mark);
    StdioServer { launcher: Some(starter), ..program }
}

/// What the small server says back.
pub(crate) async fn echo(runtime: &McpRuntime, text: &str) -> Result<String, ToolContractError> {
    let said = call(runtime, &tool("echo"), json!({ "message": text })).await?;
    Ok(said.to_text())
}

/// The interpreter itself: what is called `python3` may be a script that adds to the environment.
fn python() -> String {
    let mut command = std::process::Command::new("python3");
    let output = command.args(["-c", "import sys; print(sys.executable)"]).output();
    String::from_utf8(output.expect("python3 is needed").stdout).unwrap().trim().to_owned()
}

fn small() -> StdioServer {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/it/server.py");
    StdioServer::new(python()).arg(script).arg("plain")
}

/// A small server in Python.
pub(crate) async fn own() -> McpStage {
    McpStage {
        name: "mcp, stdio",
        runtime: Arc::new(runtime(small())),
        tools: |scene| match scene {
            Scenario::Echo => Some("echo"),
            Scenario::Hang => Some("slow"),
            Scenario::Broken => Some("fail"),
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
    let program = StdioServer::new("node").arg(script.to_str()?).arg("stdio");
    Some(McpStage {
        name: "mcp, server-everything",
        runtime: Arc::new(runtime(program)),
        tools: |scene| match scene {
            Scenario::Echo => Some("echo"),
            Scenario::Hang => Some("trigger-long-running-operation"),
            _ => None,
        },
        arguments: |scene, text| match scene {
            Scenario::Hang => json!({ "duration": 600, "steps": 2 }),
            _ => json!({ "message": text }),
        },
    })
}

#[test]
fn no_program_is_started_that_was_not_allowed() {
    let mut runtime = McpRuntime::new(McpPool::new(), CommandAllowList::default());
    let fault = runtime.add_program("default", "server", StdioServer::new("/bin/sh")).unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::PermissionDenied);
    let mut runtime = McpRuntime::new(McpPool::new(), CommandAllowList::of(["/usr/bin/node"]));
    for command in ["node", "/usr/bin/../bin/node", "/usr/bin/node ", "/usr/bin/node;sh", ""] {
        assert!(
            runtime.add_program("default", "server", StdioServer::new(command)).is_err(),
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
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::ExecutionFailed, false), "{fault}");
    let fault = call(&runtime, &tool("die"), json!({})).await.unwrap_err();
    assert_eq!(fault.details["outcome"], "unknown", "{fault}");
    assert!(!fault.retryable, "nobody knows what a second call would do");
    let fault = call(&runtime, &tool("echo"), json!(["no object"])).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::InvalidInput);
    if let Some(everything) = everything() {
        let output = call(&everything.runtime, &tool("get-tiny-image"), json!({})).await.unwrap();
        assert!(output.parts.iter().any(|part| matches!(part, ToolResultPart::Image(_))));
    }
}

#[tokio::test]
async fn a_credential_that_a_program_could_not_get_is_refused_before_anything_starts() {
    let runtime = runtime(small());
    let mut tool = tool("echo");
    tool.auth = Some(ToolAuth { secret_ref: "s".to_owned(), ..ToolAuth::default() });
    let fault = runtime.check(&tool).unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::RuntimePolicyInvalid);
    assert!(fault.message.contains("environment"), "{fault}");
}

/// What a server was sent as `authorization`, call by call.
type Sent = Arc<Mutex<Vec<String>>>;

/// A server that greets and answers whoever says the right word; what it says to others is set by the tool's name.
async fn address() -> (McpRuntime, Sent) {
    let sent = Sent::default();
    let seen = Arc::clone(&sent);
    let app = Router::new().route(
        "/mcp",
        post(move |headers: HeaderMap, body: String| async move { serve(&seen, &headers, &body) }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let mut runtime = McpRuntime::new(McpPool::new(), CommandAllowList::default());
    let opened = |server: provost_mcp::McpServer| server.net_policy(NetPolicy::open());
    runtime.add_address("default", "server", &url, opened).unwrap();
    (runtime, sent)
}

fn serve(sent: &Sent, headers: &HeaderMap, body: &str) -> Response {
    let request: Value = serde_json::from_str(body).unwrap();
    let who = headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"},
        }),
        "tools/call" => {
            sent.lock().unwrap().push(who.to_owned());
            let refused = "Bearer error=\"invalid_token\"";
            match request["params"]["name"].as_str().unwrap() {
                "locked" => return StatusCode::UNAUTHORIZED.into_response(),
                "expired" => {
                    let headers = [("www-authenticate", refused)];
                    return (StatusCode::UNAUTHORIZED, headers).into_response();
                }
                "forbidden" => return StatusCode::FORBIDDEN.into_response(),
                "busy" => {
                    return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "3")]).into_response();
                }
                _ => json!({"content": [{"type": "text", "text": who}]}),
            }
        }
        method if method.starts_with("notifications/") => {
            return StatusCode::ACCEPTED.into_response();
        }
        _ => return StatusCode::BAD_REQUEST.into_response(),
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

#[tokio::test]
async fn the_credential_of_a_tool_is_a_header_of_a_connection_of_its_own() {
    let (runtime, sent) = address().await;
    let tool = tool("whoami");
    for token in ["Bearer one", "Bearer two", "Bearer one"] {
        let mut made = attempt(&tool, json!({}), MAX_WAIT);
        made.credentials =
            Credentials { headers: vec![("authorization".to_owned(), Secret::from(token))] };
        assert_eq!(runtime.invoke(made).await.unwrap().to_text(), token);
    }
    let mut made = attempt(&tool, json!({}), MAX_WAIT);
    made.credentials = Credentials::default();
    assert_eq!(runtime.invoke(made).await.unwrap().to_text(), "", "nobody's credential is used");
    assert_eq!(*sent.lock().unwrap(), ["Bearer one", "Bearer two", "Bearer one", ""]);
}

#[tokio::test]
async fn refusals_of_a_server_are_those_of_the_contract() {
    let (runtime, sent) = address().await;
    for (name, code, retryable) in [
        ("locked", ToolErrorCode::AuthInvalid, false),
        ("expired", ToolErrorCode::AuthInvalid, false),
        ("forbidden", ToolErrorCode::AuthForbidden, false),
        ("busy", ToolErrorCode::ExecutionFailed, true),
    ] {
        let fault = call(&runtime, &tool(name), json!({})).await.unwrap_err();
        assert_eq!((fault.code, fault.retryable), (code, retryable), "{name}: {fault}");
        assert!(!fault.details.contains_key("outcome"), "{name}: nothing was done");
        let wait = fault.details.get("retry_after_ms").map(String::as_str);
        assert_eq!(wait, (name == "busy").then_some("3000"), "{name}");
    }
    let mut tool = tool("expired");
    let profile = AuthProfile::Oauth2ClientCredentials;
    tool.auth = Some(ToolAuth { profile, ..ToolAuth::default() });
    let fault = runtime.invoke(attempt(&tool, json!({}), MAX_WAIT)).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::AuthExpired, "a token that was fetched: {fault}");
    assert_eq!(sent.lock().unwrap().len(), 5, "each was asked once");
}
