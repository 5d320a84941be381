//! The handshake of a connection: client information, capabilities and protocol generation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, InputRequest,
    InputRequiredResult, ProtocolVersion,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RequestContext, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::Error;
use crate::connection::monitor::{ConnectionMonitor, MonitoredTransport};
use crate::connection::redaction::ServerRedaction;
use crate::server::{ElicitationMode, Handshake, McpServer, TransportConfig};
use crate::transport::http;
use crate::transport::launcher::LaunchError;
use crate::transport::stdio::{self, ServerProcess};

/// A connection whose handshake has succeeded.
pub(crate) struct Initialized {
    pub(crate) service: RunningService<RoleClient, ServerRequestHandler>,
    pub(crate) monitor: Arc<ConnectionMonitor>,
    pub(crate) process: Option<Arc<ServerProcess>>,
    /// Handshake that succeeded. It is tried first the next time.
    pub(crate) handshake: Handshake,
}

/// Connects to a server and performs the handshake within the connect timeout. With [`Handshake::Auto`], tries the
/// older handshake if the server does not recognize the newer one.
pub(crate) async fn initialize(
    server: &McpServer,
    handshake: Handshake,
    redaction: &ServerRedaction,
) -> Result<Initialized, Error> {
    let deadline = Instant::now() + server.connect_timeout;
    match attempt(server, handshake, deadline, redaction).await {
        // Some older servers exit or send an invalid response to a request before `initialize`.
        Err(HandshakeError { error, is_unrecognized: true }) if handshake == Handshake::Auto => {
            tracing::debug!(%error, server = server.name, "retrying with `initialize`");
            attempt(server, Handshake::Initialize, deadline, redaction)
                .await
                .map_err(|failed| failed.error)
        }
        outcome => outcome.map_err(|failed| failed.error),
    }
}

/// Error of one attempt, and whether the server did not recognize the handshake.
struct HandshakeError {
    error: Error,
    /// True if the server responded but did not understand the request.
    is_unrecognized: bool,
}

/// Connects and performs one handshake.
async fn attempt(
    server: &McpServer,
    handshake: Handshake,
    deadline: Instant,
    redaction: &ServerRedaction,
) -> Result<Initialized, HandshakeError> {
    let refused = |reason: String| HandshakeError {
        error: Error::Connect { server: server.name.clone(), reason: redaction.excerpt(reason) },
        is_unrecognized: false,
    };
    let monitor = Arc::new(ConnectionMonitor::default());
    let client = ServerRequestHandler { elicitation: server.elicitation };
    let mode = lifecycle_mode(handshake);
    let (served, process) = match &server.transport {
        TransportConfig::Stdio(definition) => {
            let started = stdio::start(definition, Arc::clone(&monitor), redaction.stream()).await;
            let (process, inner) = started.map_err(|error| {
                let reason = format!("`{}`: {error}", definition.command);
                match error {
                    LaunchError::Failed(_) => refused(reason),
                    LaunchError::Isolation(_) => {
                        let (server, reason) = (server.name.clone(), redaction.excerpt(reason));
                        HandshakeError {
                            error: Error::Isolation { server, reason },
                            is_unrecognized: false,
                        }
                    }
                }
            })?;
            let transport = MonitoredTransport { inner, monitor: Arc::clone(&monitor) };
            let served = serve_client_with_lifecycle(client, transport, mode);
            (timeout_at(deadline, Box::pin(served)).await, Some(process))
        }
        TransportConfig::Http(definition) => {
            let inner = http::create_transport(definition, server.connect_timeout, redaction)
                .map_err(refused)?;
            let transport = MonitoredTransport { inner, monitor: Arc::clone(&monitor) };
            let served = serve_client_with_lifecycle(client, transport, mode);
            (timeout_at(deadline, Box::pin(served)).await, None)
        }
    };
    let service = match served {
        Ok(Ok(service)) => service,
        Ok(Err(error)) => {
            if let Some(error) = access_error(server, redaction, &error) {
                return Err(HandshakeError { error, is_unrecognized: false });
            }
            let reason = match &error {
                ClientInitializeError::ConnectionClosed(_) if monitor.dead.is_cancelled() => {
                    monitor.reason()
                }
                error => error_text(error),
            };
            let is_unrecognized = is_unrecognized_reply(&error);
            let reason = redaction.excerpt(reason) + &exit_description(process.as_deref()).await;
            let error = Error::Connect { server: server.name.clone(), reason };
            return Err(HandshakeError { error, is_unrecognized });
        }
        Err(_) => return Err(timeout_error(server, process.as_deref()).await),
    };
    let modern = service.peer_info().is_some_and(|info| !info.protocol_version.has_initialize());
    let handshake = if modern { Handshake::Discover } else { Handshake::Initialize };
    Ok(Initialized { service, monitor, process, handshake })
}

/// Creates the error of a handshake that did not finish in time.
async fn timeout_error(server: &McpServer, process: Option<&ServerProcess>) -> HandshakeError {
    let words = exit_description(process).await;
    let what = format!("complete the handshake{words}");
    let after: Duration = server.connect_timeout;
    HandshakeError {
        error: Error::Timeout { server: server.name.clone(), what, after },
        is_unrecognized: false,
    }
}

/// Returns the exit status and the standard error of the program. Empty for a server over HTTP.
async fn exit_description(process: Option<&ServerProcess>) -> String {
    match process {
        Some(process) => process.exit_description().await,
        None => String::new(),
    }
}

/// Returns the error of a server that denied access during the handshake. `None` for other errors.
fn access_error(
    server: &McpServer,
    redaction: &ServerRedaction,
    error: &ClientInitializeError,
) -> Option<Error> {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            access_error(server, redaction, fallback)
        }
        ClientInitializeError::TransportError { error, .. } => {
            http::denied_error(&server.name, redaction, error.error.as_ref())
        }
        _ => None,
    }
}

/// Returns true if the server answered with something other than a handshake response.
fn is_unrecognized_reply(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::ConnectionClosed(_)
            | ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. }
    )
}

/// Returns the text of an error with its causes. Errors of `rmcp` may contain complete messages.
fn error_text(error: &ClientInitializeError) -> String {
    if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
        return error_text(fallback);
    }
    match error.auth_challenge() {
        Some(challenge) => format!("authorization required: {challenge}"),
        None => error.to_string(),
    }
}

fn lifecycle_mode(handshake: Handshake) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::LATEST];
    match handshake {
        Handshake::Auto => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
        Handshake::Initialize => ClientLifecycleMode::Initialize,
        Handshake::Discover => ClientLifecycleMode::Discover { preferred_versions },
    }
}

/// Answers requests from the server.
pub(crate) struct ServerRequestHandler {
    elicitation: ElicitationMode,
}

impl ClientHandler for ServerRequestHandler {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(elicit(self.elicitation, &request))
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.elicitation == ElicitationMode::Defaults {
            let mut elicitation = ElicitationCapability::default();
            elicitation.form = Some(FormElicitationCapability::default());
            capabilities.elicitation = Some(elicitation);
        }
        let about = Implementation::new("provost", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, about)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// Answers a request for user input: with the defaults of the form, or by declining it.
fn elicit(policy: ElicitationMode, request: &ElicitRequestParams) -> ElicitResult {
    let defaults = match (policy, request) {
        (
            ElicitationMode::Defaults,
            ElicitRequestParams::FormElicitationParams { requested_schema, .. },
        ) => serde_json::to_value(requested_schema).ok().and_then(|schema| form_defaults(&schema)),
        _ => None,
    };
    match defaults {
        Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
        None => ElicitResult::new(ElicitationAction::Decline),
    }
}

/// Returns the defaults of a form. `None` if a required field has no default.
fn form_defaults(schema: &Value) -> Option<Value> {
    let properties = schema.get("properties")?.as_object()?;
    let default = |(name, property): (&String, &Value)| {
        property.get("default").map(|default| (name.clone(), default.clone()))
    };
    let content: Map<String, Value> = properties.iter().filter_map(default).collect();
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    required.all(|name| content.contains_key(name)).then_some(Value::Object(content))
}

/// Answers the requests for input that a server returned instead of a result, for the repeated call. `None` if there
/// are no requests. Returns a message for a request that is not supported.
pub(crate) fn answer_input_requests(
    policy: ElicitationMode,
    required: &InputRequiredResult,
) -> Result<Option<BTreeMap<String, Value>>, String> {
    let Some(requests) = &required.input_requests else {
        return Ok(None);
    };
    let mut answers = BTreeMap::new();
    for (key, request) in requests {
        let answer = match request {
            InputRequest::Elicitation(request) => {
                serde_json::to_value(elicit(policy, &request.params))
            }
            InputRequest::ListRoots(_) => Ok(serde_json::json!({ "roots": [] })),
            _ => return Err("the server requests sampling, which is not supported".to_owned()),
        };
        answers.insert(key.clone(), answer.map_err(|error| error.to_string())?);
    }
    Ok(Some(answers))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_answer_only_what_they_fill() {
        let form = json!({ "properties": { "a": { "default": 1 }, "b": {} }, "required": ["a"] });
        assert_eq!(form_defaults(&form), Some(json!({ "a": 1 })));
        let form = json!({ "properties": { "a": { "default": 1 }, "b": {} }, "required": ["b"] });
        assert_eq!(form_defaults(&form), None);
    }
}
