//! Tools at MCP servers: the pool's connections behind the seam of runtimes.
//!
//! Invariant: no program is started that the operator did not allow by its path; without a list nothing is.

mod allow_list;

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::recovery::EffectKey;
use provost_core::resource::{McpRef, ToolResource, ToolType};
use provost_core::{ApprovalDecision, Env, RunId};
use provost_mcp::{Error, McpPool, McpServer, McpTools, TraceContext};
use provost_net::NetPolicy;
use provost_tool::{
    Attempt, Confirm, Deps, State, ToolCx, ToolCxParts, ToolError, ToolOutput, ToolRuntime,
};
use serde_json::Value;

pub use allow_list::{CommandAllowList, Program};

use crate::transport::client::{Call, traceparent};
use crate::transport::fault::{self, DETAIL_RETRY_AFTER};

/// Tools of type `mcp`.
#[derive(Clone, Default)]
pub struct McpRuntime {
    pool: McpPool,
    allowed: CommandAllowList,
    /// By namespace and name: one namespace's connection, environment and tokens are not another's.
    servers: HashMap<(String, String), Known>,
}

/// A server that was declared.
#[derive(Clone)]
struct Known {
    server: McpServer,
    tools: McpTools,
}

impl McpRuntime {
    /// Over this pool. Only programs of the list are ever started.
    pub fn new(pool: McpPool, allowed: CommandAllowList) -> Self {
        Self { pool, allowed, servers: HashMap::new() }
    }

    /// Makes a program known under a name in a namespace. It is started when it is first called.
    pub fn add_program(
        &mut self,
        namespace: &str,
        name: &str,
        program: Program,
    ) -> Result<(), ToolContractError> {
        self.add_program_with(namespace, name, program, |server| server)
    }

    /// The same; `configure` adds times and names the tools that are offered.
    pub fn add_program_with(
        &mut self,
        namespace: &str,
        name: &str,
        program: Program,
        configure: impl FnOnce(McpServer) -> McpServer,
    ) -> Result<(), ToolContractError> {
        self.allowed.check(&program.command)?;
        self.add(namespace, name, configure(program.server(name)))
    }

    /// Makes an address that speaks streamable HTTP known under its name in a namespace. `configure` adds headers and times.
    pub fn add_address(
        &mut self,
        namespace: &str,
        name: &str,
        url: &str,
        configure: impl FnOnce(McpServer) -> McpServer,
    ) -> Result<(), ToolContractError> {
        // What is declared reaches only what is outside, unless `configure` opens more.
        let server = McpServer::http(name, url).network(NetPolicy::default());
        self.add(namespace, name, configure(server))
    }

    fn add(
        &mut self,
        namespace: &str,
        name: &str,
        server: McpServer,
    ) -> Result<(), ToolContractError> {
        let tools = self.pool.toolset(server.clone()).map_err(|error| undeclarable(&error))?;
        self.servers.insert((namespace.to_owned(), name.to_owned()), Known { server, tools });
        Ok(())
    }

    /// The tools of a server, for agents that get all of them.
    pub fn toolset(&self, namespace: &str, name: &str) -> Option<McpTools> {
        let known = self.servers.get(&(namespace.to_owned(), name.to_owned()));
        known.map(|known| known.tools.clone())
    }

    fn named(tool: &ToolResource) -> Result<McpRef, ToolContractError> {
        tool.mcp
            .clone()
            .ok_or_else(|| fault::definition(format!("tool `{}` names no MCP server", tool.name)))
    }

    fn server(
        &self,
        tool: &ToolResource,
        namespace: &str,
    ) -> Result<(Known, McpRef), ToolContractError> {
        let named = Self::named(tool)?;
        let key = (namespace.to_owned(), named.server.clone());
        let known = self.servers.get(&key).cloned().ok_or_else(|| {
            let server = fault::shown(&named.server);
            ToolContractError::new(
                ToolErrorCode::UnsupportedTool,
                format!("there is no MCP server `{server}`: declare it, or use another name"),
            )
        })?;
        Ok((known, named))
    }

    /// The connection for these credentials: what proves who calls belongs to a connection, so each has its own.
    fn tools(&self, known: Known, call: &Call) -> Result<McpTools, ToolContractError> {
        if call.credentials.headers.is_empty() {
            return Ok(known.tools);
        }
        if !known.server.takes_headers() {
            return Err(no_header(&call.tool));
        }
        let headers = call.credentials.headers.iter().cloned();
        let server = headers.fold(known.server, |server, (name, value)| server.header(name, value));
        self.pool.toolset(server).map_err(|error| undeclarable(&error))
    }
}

fn undeclarable(error: &Error) -> ToolContractError {
    fault::definition(error.to_string())
}

fn no_header(tool: &ToolResource) -> ToolContractError {
    let message = format!(
        "tool `{}` has `auth`, and its MCP server is a program, which takes no header: \
         give the secret to the program's environment",
        tool.name
    );
    fault::definition(message).detail("field", "auth")
}

impl ToolRuntime for McpRuntime {
    fn kind(&self) -> ToolType {
        ToolType::Mcp
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        let named = Self::named(tool)?;
        // In which namespace it will be called is not known here; where no server of that name takes a header, none will.
        let mut known = self.servers.iter().filter(|((_, name), _)| *name == named.server);
        let takes_headers = known.clone().any(|(_, known)| known.server.takes_headers());
        if tool.auth.is_some() && known.next().is_some() && !takes_headers {
            return Err(no_header(tool));
        }
        Ok(())
    }

    fn invoke(
        &self,
        attempt: Attempt,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let call = Call::of(&attempt);
        let found = self
            .server(&attempt.tool, &attempt.request.namespace)
            .and_then(|(known, named)| Ok((self.tools(known, &call)?, named)));
        async move {
            let (tools, named) = found?;
            let Value::Object(arguments) = Value::clone(&attempt.arguments) else {
                return Err(fault::input("the arguments of an MCP tool must be an object"));
            };
            let cx = context(&call, &attempt);
            let asked = async {
                let answer = tools.invoke(&named.tool, arguments, cx).await;
                let answer = answer.map_err(|error| failed(&call, &error))?;
                outcome(&call, answer)
            };
            call.within(asked).await
        }
        .boxed()
    }
}

/// A result in which the tool says that it failed is no result.
fn outcome(call: &Call, output: ToolOutput) -> Result<ToolOutput, ToolContractError> {
    if !output.is_error {
        return Ok(output);
    }
    let said = call.clip.text(&output.to_text());
    Err(ToolContractError::final_failure(format!("the tool failed: {said}")))
}

fn failed(call: &Call, error: &Error) -> ToolContractError {
    let message = call.clip.text(&error.to_string());
    match error {
        Error::Definition { .. } => fault::definition(message),
        Error::Connect { .. } => ToolContractError::new(ToolErrorCode::ExecutionFailed, message),
        Error::Isolation { .. } => {
            ToolContractError::new(ToolErrorCode::IsolationUnavailable, message)
        }
        Error::Resting { wait, .. } | Error::Busy { wait: Some(wait), .. } => {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
                .detail(DETAIL_RETRY_AFTER, wait.as_millis().to_string())
        }
        Error::Busy { wait: None, .. } => {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
        }
        Error::Timeout { .. } => ToolContractError::new(ToolErrorCode::Timeout, message),
        Error::Unknown { .. } => {
            call.doubtful(ToolContractError::new(ToolErrorCode::ExecutionFailed, message))
        }
        Error::Refused { code: INVALID_PARAMS, .. } => fault::input(message),
        Error::Refused { .. } | Error::Malformed { .. } => {
            ToolContractError::final_failure(message)
        }
        Error::Stopped { .. } => fault::canceled(),
        Error::Closed => ToolContractError::final_failure(message),
        Error::Unauthorized { is_token_refused, .. } => {
            ToolContractError::new(fault::unauthorised(&call.tool, *is_token_refused), message)
        }
        Error::Forbidden { .. } => ToolContractError::new(ToolErrorCode::AuthForbidden, message),
    }
}

/// JSON-RPC's word for wrong arguments.
const INVALID_PARAMS: i32 = -32602;

/// What the pool needs to know of a call: whom to tell how far it is, and when to stop.
fn context(call: &Call, attempt: &Attempt) -> ToolCx {
    let run_id: RunId = Env::system().id();
    let mut deps = Deps::default();
    if let Some(parent) = traceparent(&call.request) {
        deps = deps.with(TraceContext::new(parent));
    }
    ToolCx::new(ToolCxParts {
        run_id,
        agent: call.request.agent.as_str().into(),
        depth: 0,
        depth_max: None,
        call_id: call.request.request_id.clone(),
        tool: call.tool.name.clone(),
        effect_key: EffectKey::new(run_id, 0, 0),
        retries_left: 0,
        cancel: call.cancel.clone(),
        deps,
        state: State::default(),
        outside: Arc::new(Watcher(Arc::clone(&attempt.progress))),
    })
}

struct Watcher(Arc<dyn Fn(String) + Send + Sync>);

impl Confirm for Watcher {
    fn confirm<'a>(
        &'a self,
        _cx: &'a ToolCx,
        _hint: String,
        _payload: Option<Value>,
    ) -> BoxFuture<'a, Result<ApprovalDecision, ToolError>> {
        // Whoever may be asked was asked before the call was permitted.
        let reason = "nobody can be asked in the middle of a call".to_owned();
        async { Ok(ApprovalDecision::Deny { reason }) }.boxed()
    }

    fn progress(&self, _cx: &ToolCx, message: String) {
        (self.0)(message);
    }
}
