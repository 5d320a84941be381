//! A stage for tests: a small server in Python, and calls without an agent around them.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use provost_core::recovery::EffectKey;
use provost_core::{ApprovalDecision, Env, RunId, ToolCall};
use provost_mcp::{McpServer, McpToolset};
use provost_tool::{
    Deps, Guard, GuardDecision, RunCallbacks, RunContext, State, Tool, ToolContext,
    ToolContextParts, ToolError, ToolOutput, Toolset,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Long enough for a busy machine, short enough to end a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The server of `server.py` in a mode.
pub(crate) fn server(mode: &str) -> McpServer {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/server.py");
    McpServer::stdio("test", python()).arg(script).arg(mode)
}

/// The interpreter itself: what is called `python3` may be a script that adds to the environment.
fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let mut command = std::process::Command::new("python3");
        let output = command.args(["-c", "import sys; print(sys.executable)"]).output();
        String::from_utf8(output.expect("python3 is needed").stdout).unwrap().trim().to_owned()
    })
}

fn run_id() -> RunId {
    Env::system().id()
}

/// Watches progress.
#[derive(Default)]
pub(crate) struct Watcher(pub(crate) Mutex<Vec<String>>);

impl RunCallbacks for Watcher {
    fn confirm<'a>(
        &'a self,
        _cx: &'a ToolContext,
        _hint: String,
        _payload: Option<Value>,
    ) -> futures::future::BoxFuture<'a, Result<ApprovalDecision, ToolError>> {
        Box::pin(async { Ok(ApprovalDecision::Approve) })
    }

    fn progress(&self, _cx: &ToolContext, message: String) {
        self.0.lock().unwrap().push(message);
    }
}

/// One who calls tools.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    pub(crate) deps: Deps,
    pub(crate) cancel: CancellationToken,
    pub(crate) watcher: Arc<Watcher>,
}

impl Caller {
    fn cx(&self, tool: &str) -> ToolContext {
        let run_id = run_id();
        ToolContext::new(ToolContextParts {
            run_id,
            agent: "tester".into(),
            depth: 0,
            depth_max: None,
            call_id: "call_1".to_owned(),
            tool: tool.to_owned(),
            effect_key: EffectKey::new(run_id, 1, 0),
            retries_left: 2,
            cancel: self.cancel.clone(),
            deps: self.deps.clone(),
            state: State::default(),
            callbacks: Arc::clone(&self.watcher) as Arc<dyn RunCallbacks>,
            redact: None,
        })
    }

    /// Calls a tool as a run does, and ends a test that would hang.
    pub(crate) async fn call(
        &self,
        tools: &McpToolset,
        name: &str,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let offered = list(tools).await?;
        let tool = find(&offered, name);
        self.call_tool(&tool, arguments).await
    }

    pub(crate) async fn call_tool(
        &self,
        tool: &Arc<dyn Tool>,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let guard = Guard::default();
        let call = ToolCall::new("call_1", tool.spec().name(), &arguments);
        let permit = match guard.check(tool, &call, false) {
            GuardDecision::Allow(permit) => permit,
            GuardDecision::Invalid(text) => return Err(ToolError::Retry(text)),
            _ => panic!("asked about a call that needs no approval"),
        };
        let running = guard.run(permit, self.cx(&call.name));
        tokio::time::timeout(PATIENCE, running).await.expect("a call hangs")
    }
}

/// The tools of a set.
pub(crate) async fn list(tools: &McpToolset) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
    let cx = RunContext {
        run_id: run_id(),
        agent: "tester".into(),
        turn: 1,
        task_id: None,
        session: None,
        deps: Deps::default(),
        state: State::default(),
    };
    tokio::time::timeout(PATIENCE, tools.tools(&cx)).await.expect("a list hangs")
}

pub(crate) fn names(tools: &[Arc<dyn Tool>]) -> Vec<&str> {
    tools.iter().map(|tool| tool.spec().name()).collect()
}

pub(crate) fn find(tools: &[Arc<dyn Tool>], name: &str) -> Arc<dyn Tool> {
    let found = tools.iter().find(|tool| tool.spec().name() == name);
    Arc::clone(found.unwrap_or_else(|| panic!("no tool `{name}` in {:?}", names(tools))))
}

/// Calls a tool and takes its text.
pub(crate) async fn say(tools: &McpToolset, name: &str, arguments: Value) -> String {
    let output = Caller::default().call(tools, name, arguments).await;
    output.unwrap_or_else(|error| panic!("`{name}`: {error}")).to_text()
}

/// True while a process runs. One that nobody has reaped does not.
pub(crate) fn runs(pid: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    !matches!(state, Some('Z' | 'X'))
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}
