//! Tools of MCP servers, called through the connections of a pool.
//!
//! Invariant: only programs whose path the operator allowed are started. Without an allow list, no program is started.

mod allow_list;

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::recovery::EffectKey;
use provost_core::resource::{McpRef, ToolResource, ToolType};
use provost_core::{ApprovalDecision, Env, RunId};
use provost_mcp::{Error, McpPool, McpServer, McpToolset, TraceContext};
use provost_net::NetPolicy;
use provost_tool::{
    Deps, RunCallbacks, State, ToolContext, ToolContextParts, ToolError, ToolInvocation,
    ToolOutput, ToolRuntime,
};
use serde_json::Value;

pub use allow_list::{CommandAllowList, StdioServer};

use crate::transport::client::{AttemptContext, traceparent};
use crate::transport::error::{self, DETAIL_RETRY_AFTER};

/// Tool runtime for tools of type `mcp`.
#[derive(Clone, Default)]
pub struct McpRuntime {
    pool: McpPool,
    allowed: CommandAllowList,
    /// Servers by namespace and name. Namespaces share neither connections nor tokens.
    servers: HashMap<(String, String), RegisteredServer>,
}

/// A registered server with its shared connection.
#[derive(Clone)]
struct RegisteredServer {
    server: McpServer,
    tools: McpToolset,
}

impl McpRuntime {
    /// Creates a runtime over a pool. Programs that are not on the allow list are rejected.
    pub fn new(pool: McpPool, allowed: CommandAllowList) -> Self {
        Self { pool, allowed, servers: HashMap::new() }
    }

    /// Registers a program under a name in a namespace. The first call starts it. Returns an error if the program is
    /// not allowed or its definition is invalid.
    pub fn add_program(
        &mut self,
        namespace: &str,
        name: &str,
        program: StdioServer,
    ) -> Result<(), ToolContractError> {
        self.add_program_with(namespace, name, program, |server| server)
    }

    /// Registers a program, like [`add_program`](Self::add_program). `configure` can set timeouts and select tools.
    pub fn add_program_with(
        &mut self,
        namespace: &str,
        name: &str,
        program: StdioServer,
        configure: impl FnOnce(McpServer) -> McpServer,
    ) -> Result<(), ToolContractError> {
        self.allowed.check(&program.command)?;
        self.add(namespace, name, configure(program.server(name)))
    }

    /// Registers a URL with streamable HTTP under a name in a namespace. `configure` can add headers and timeouts.
    pub fn add_address(
        &mut self,
        namespace: &str,
        name: &str,
        url: &str,
        configure: impl FnOnce(McpServer) -> McpServer,
    ) -> Result<(), ToolContractError> {
        // Declared servers may only use public addresses, unless `configure` sets another policy.
        let server = McpServer::http(name, url).net_policy(NetPolicy::default());
        self.add(namespace, name, configure(server))
    }

    /// Registers a server, replacing a server with the same name.
    fn add(
        &mut self,
        namespace: &str,
        name: &str,
        server: McpServer,
    ) -> Result<(), ToolContractError> {
        let tools = self.pool.toolset(server.clone()).map_err(|error| invalid_server(&error))?;
        self.servers
            .insert((namespace.to_owned(), name.to_owned()), RegisteredServer { server, tools });
        Ok(())
    }

    /// Returns the toolset of a server, for agents that use all of its tools. `None` if the server is not registered.
    pub fn toolset(&self, namespace: &str, name: &str) -> Option<McpToolset> {
        let registered = self.servers.get(&(namespace.to_owned(), name.to_owned()));
        registered.map(|registered| registered.tools.clone())
    }

    /// Returns the server and the tool that a declaration names.
    fn server_ref(tool: &ToolResource) -> Result<McpRef, ToolContractError> {
        tool.mcp.clone().ok_or_else(|| {
            error::invalid_definition(format!("tool `{}` does not name an MCP server", tool.name))
        })
    }

    /// Returns the server that a tool names. Returns an error if it is not registered.
    fn find_server(
        &self,
        tool: &ToolResource,
        namespace: &str,
    ) -> Result<(RegisteredServer, McpRef), ToolContractError> {
        let reference = Self::server_ref(tool)?;
        let key = (namespace.to_owned(), reference.server.clone());
        let registered = self.servers.get(&key).cloned().ok_or_else(|| {
            let server = error::truncate_for_error(&reference.server);
            ToolContractError::new(
                ToolErrorCode::UnsupportedTool,
                format!("MCP server `{server}` is not declared: declare it, or use another name"),
            )
        })?;
        Ok((registered, reference))
    }

    /// Returns the toolset of a server for a call. Credentials belong to a connection, so a call with credentials gets
    /// its own. Returns an error if the server is a program and the call has credentials.
    fn connection_for(
        &self,
        registered: RegisteredServer,
        call: &AttemptContext,
    ) -> Result<McpToolset, ToolContractError> {
        if call.credentials.headers.is_empty() {
            return Ok(registered.tools);
        }
        if !registered.server.is_http() {
            return Err(auth_not_supported(&call.tool));
        }
        let headers = call.credentials.headers.iter().cloned();
        let server =
            headers.fold(registered.server, |server, (name, value)| server.header(name, value));
        self.pool.toolset(server).map_err(|error| invalid_server(&error))
    }
}

fn invalid_server(error: &Error) -> ToolContractError {
    error::invalid_definition(error.to_string())
}

fn auth_not_supported(tool: &ToolResource) -> ToolContractError {
    let message = format!(
        "tool `{}` has `auth`, and its MCP server is a program, which takes no header: \
         give the secret to the program's environment",
        tool.name
    );
    error::invalid_definition(message).detail("field", "auth")
}

impl ToolRuntime for McpRuntime {
    fn kind(&self) -> ToolType {
        ToolType::Mcp
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        let reference = Self::server_ref(tool)?;
        // The namespace is not known yet, so the check fails only if no server of this name accepts headers.
        let mut registered = self.servers.iter().filter(|((_, name), _)| *name == reference.server);
        let takes_headers = registered.clone().any(|(_, registered)| registered.server.is_http());
        if tool.auth.is_some() && registered.next().is_some() && !takes_headers {
            return Err(auth_not_supported(tool));
        }
        Ok(())
    }

    fn invoke(
        &self,
        attempt: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let call = AttemptContext::from_invocation(&attempt);
        let found = self.find_server(&attempt.tool, &attempt.request.namespace).and_then(
            |(registered, reference)| Ok((self.connection_for(registered, &call)?, reference)),
        );
        async move {
            let (tools, reference) = found?;
            let Value::Object(arguments) = Value::clone(&attempt.arguments) else {
                return Err(error::invalid_input("the arguments of an MCP tool must be an object"));
            };
            let cx = tool_context(&call, &attempt);
            let call_tool = async {
                let output = tools.invoke(&reference.tool, arguments, cx).await;
                let output = output.map_err(|error| to_contract_error(&call, &error))?;
                check_output(&call, output)
            };
            call.with_deadline(call_tool).await
        }
        .boxed()
    }
}

/// Returns an error if the output reports a failure.
fn check_output(
    call: &AttemptContext,
    output: ToolOutput,
) -> Result<ToolOutput, ToolContractError> {
    if !output.is_error {
        return Ok(output);
    }
    let text = call.excerpt.text(&output.to_text());
    Err(ToolContractError::final_failure(format!("the tool failed: {text}")))
}

/// Converts an error of the server to an error of the tool contract.
fn to_contract_error(call: &AttemptContext, error: &Error) -> ToolContractError {
    let message = call.excerpt.text(&error.to_string());
    match error {
        Error::Definition { .. } => error::invalid_definition(message),
        Error::Connect { .. } => ToolContractError::new(ToolErrorCode::ExecutionFailed, message),
        Error::Isolation { .. } => {
            ToolContractError::new(ToolErrorCode::IsolationUnavailable, message)
        }
        Error::CoolingDown { wait, .. } | Error::Busy { wait: Some(wait), .. } => {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
                .detail(DETAIL_RETRY_AFTER, wait.as_millis().to_string())
        }
        Error::Busy { wait: None, .. } => {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
        }
        Error::Timeout { .. } => ToolContractError::new(ToolErrorCode::Timeout, message),
        Error::Unknown { .. } => {
            call.outcome_unknown(ToolContractError::new(ToolErrorCode::ExecutionFailed, message))
        }
        Error::Refused { code: INVALID_PARAMS, .. } => error::invalid_input(message),
        Error::Refused { .. } | Error::Malformed { .. } => {
            ToolContractError::final_failure(message)
        }
        Error::Stopped { .. } => error::cancelled(),
        Error::Closed => ToolContractError::final_failure(message),
        Error::Unauthorized { is_token_refused, .. } => {
            ToolContractError::new(error::auth_error_code(&call.tool, *is_token_refused), message)
        }
        Error::Forbidden { .. } => ToolContractError::new(ToolErrorCode::AuthForbidden, message),
    }
}

/// JSON-RPC code for invalid parameters.
const INVALID_PARAMS: i32 = -32602;

/// Creates the tool context of a call, with its progress callback and cancellation.
fn tool_context(call: &AttemptContext, attempt: &ToolInvocation) -> ToolContext {
    let run_id: RunId = Env::system().id();
    let mut deps = Deps::default();
    if let Some(parent) = traceparent(&call.request) {
        deps = deps.with(TraceContext::new(parent));
    }
    ToolContext::new(ToolContextParts {
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
        callbacks: Arc::new(ProgressForwarder(Arc::clone(&attempt.progress))),
        redact: attempt.redact.clone(),
    })
}

/// Tool callbacks that forward progress and deny confirmations.
struct ProgressForwarder(Arc<dyn Fn(String) + Send + Sync>);

impl RunCallbacks for ProgressForwarder {
    fn confirm<'a>(
        &'a self,
        _cx: &'a ToolContext,
        _hint: String,
        _payload: Option<Value>,
    ) -> BoxFuture<'a, Result<ApprovalDecision, ToolError>> {
        // Approvals are requested before the call is permitted.
        let reason = "confirmation is not available during the call of a declared tool".to_owned();
        async { Ok(ApprovalDecision::Deny { reason }) }.boxed()
    }

    fn progress(&self, _cx: &ToolContext, message: String) {
        (self.0)(message);
    }
}
