//! Shared test support: an HTTP client for this machine, and single attempts.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::Secret;
use provost_core::contract::{ToolContractError, ToolRequest, TraceIds};
use provost_core::resource::ToolResource;
use provost_net::NetPolicy;
use provost_tool::{Credentials, ToolInvocation, ToolOutput, ToolRuntime};
use provost_tool_runtime::ToolHttpClient;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

/// Long enough for a busy machine, short enough to end a test that hangs.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);

/// HTTP client that may reach this machine.
pub(crate) fn http_client() -> ToolHttpClient {
    ToolHttpClient::new(NetPolicy::open())
}

/// An attempt with a timeout.
pub(crate) fn attempt(tool: &ToolResource, arguments: Value, timeout: Duration) -> ToolInvocation {
    let request = ToolRequest {
        request_id: "req-1".to_owned(),
        input_raw: arguments.to_string(),
        tool: provost_core::contract::RequestTool { name: tool.name.clone(), ..Default::default() },
        trace: TraceIds {
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            span_id: "b7ad6b7169203331".to_owned(),
        },
        namespace: "default".to_owned(),
        ..ToolRequest::default()
    };
    ToolInvocation {
        tool: Arc::new(tool.clone()),
        arguments: Arc::new(arguments),
        request: Arc::new(request.normalized().unwrap()),
        effect_key: "eff-1".to_owned(),
        conversation: None,
        credentials: Credentials {
            headers: vec![("authorization".to_owned(), Secret::from("Bearer t0ken"))],
        },
        deadline: Instant::now() + timeout,
        cancel: CancellationToken::new(),
        progress: Arc::new(|_| {}),
        redact: None,
    }
}

/// Makes one attempt and ends a test that would hang.
pub(crate) async fn call(
    runtime: &dyn ToolRuntime,
    tool: &ToolResource,
    arguments: Value,
) -> Result<ToolOutput, ToolContractError> {
    runtime.check(tool)?;
    let made = runtime.invoke(attempt(tool, arguments, MAX_WAIT));
    tokio::time::timeout(MAX_WAIT, made).await.expect("a call hangs")
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(MAX_WAIT, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Lines of the standard output of a Python server.
pub(crate) type StdoutLines = Lines<BufReader<ChildStdout>>;

/// Starts a server in Python that prints its port first. `None` if what it needs is not installed: it is found through
/// `PROVOST_TOOL_SERVERS`, which `scripts/setup tool-servers` prints.
pub(crate) async fn python_server(script: &str) -> Option<(Child, StdoutLines, String)> {
    let dir = std::env::var_os("PROVOST_TOOL_SERVERS").filter(|dir| !dir.is_empty())?;
    let mut command = Command::new(PathBuf::from(dir).join("python/bin/python"));
    command.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(script));
    command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut server = command.spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
    let port = tokio::time::timeout(MAX_WAIT, said.next_line()).await.unwrap().unwrap().unwrap();
    let address = format!("127.0.0.1:{}", port.trim());
    until("it listens", || std::net::TcpStream::connect(&address).is_ok()).await;
    Some((server, said, format!("http://{address}")))
}
