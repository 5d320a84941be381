//! The beginning of a connection: who we are, what we can do, and which generation of the protocol is spoken.

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
use crate::connection::monitor::{Watched, Wire};
use crate::connection::redaction::Scrub;
use crate::server::{Elicitation, Era, McpServer, Reach};
use crate::transport::http;
use crate::transport::launcher::StartError;
use crate::transport::stdio::{self, Process};

/// A connection on which both sides have greeted each other.
pub(crate) struct Greeted {
    pub(crate) service: RunningService<RoleClient, Client>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) process: Option<Arc<Process>>,
    /// What worked, so that it is tried first the next time.
    pub(crate) era: Era,
}

/// Connects within the server's time.
pub(crate) async fn greet(server: &McpServer, era: Era, scrub: &Scrub) -> Result<Greeted, Error> {
    let deadline = Instant::now() + server.connect_timeout;
    match attempt(server, era, deadline, scrub).await {
        // Some older servers end, or answer anything, when they are asked something before the greeting.
        Err(Failed { error, confused: true }) if era == Era::Auto => {
            tracing::debug!(%error, server = server.name, "greeting the MCP server the old way");
            attempt(server, Era::Initialize, deadline, scrub).await.map_err(|failed| failed.error)
        }
        outcome => outcome.map_err(|failed| failed.error),
    }
}

struct Failed {
    error: Error,
    /// True if the server was there and did not understand.
    confused: bool,
}

async fn attempt(
    server: &McpServer,
    era: Era,
    deadline: Instant,
    scrub: &Scrub,
) -> Result<Greeted, Failed> {
    let refused = |reason: String| Failed {
        error: Error::Connect { server: server.name.clone(), reason: scrub.brief(reason) },
        confused: false,
    };
    let wire = Arc::new(Wire::default());
    let client = Client { elicitation: server.elicitation };
    let mode = mode(era);
    let (served, process) = match &server.reach {
        Reach::Stdio(definition) => {
            let started = stdio::start(definition, Arc::clone(&wire), scrub.stream()).await;
            let (process, inner) = started.map_err(|error| {
                let reason = format!("`{}`: {error}", definition.command);
                match error {
                    StartError::Failed(_) => refused(reason),
                    StartError::Isolation(_) => {
                        let (server, reason) = (server.name.clone(), scrub.brief(reason));
                        Failed { error: Error::Isolation { server, reason }, confused: false }
                    }
                }
            })?;
            let transport = Watched { inner, wire: Arc::clone(&wire) };
            let served = serve_client_with_lifecycle(client, transport, mode);
            (timeout_at(deadline, Box::pin(served)).await, Some(process))
        }
        Reach::Http(definition) => {
            let inner =
                http::transport(definition, server.connect_timeout, scrub).map_err(refused)?;
            let transport = Watched { inner, wire: Arc::clone(&wire) };
            let served = serve_client_with_lifecycle(client, transport, mode);
            (timeout_at(deadline, Box::pin(served)).await, None)
        }
    };
    let service = match served {
        Ok(Ok(service)) => service,
        Ok(Err(error)) => {
            if let Some(error) = denied(server, scrub, &error) {
                return Err(Failed { error, confused: false });
            }
            let reason = match &error {
                ClientInitializeError::ConnectionClosed(_) if wire.dead.is_cancelled() => {
                    wire.reason()
                }
                error => error_text(error),
            };
            let confused = is_confused(&error);
            let reason = scrub.brief(reason) + &last_words(process.as_deref()).await;
            let error = Error::Connect { server: server.name.clone(), reason };
            return Err(Failed { error, confused });
        }
        Err(_) => return Err(too_slow(server, process.as_deref()).await),
    };
    let modern = service.peer_info().is_some_and(|info| !info.protocol_version.has_initialize());
    let era = if modern { Era::Discover } else { Era::Initialize };
    Ok(Greeted { service, wire, process, era })
}

async fn too_slow(server: &McpServer, process: Option<&Process>) -> Failed {
    let words = last_words(process).await;
    let what = format!("greet us{words}");
    let after: Duration = server.connect_timeout;
    Failed { error: Error::Timeout { server: server.name.clone(), what, after }, confused: false }
}

async fn last_words(process: Option<&Process>) -> String {
    match process {
        Some(process) => process.last_words().await,
        None => String::new(),
    }
}

/// The error of a server that refused us at once, if that is why there is no greeting.
fn denied(server: &McpServer, scrub: &Scrub, error: &ClientInitializeError) -> Option<Error> {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            denied(server, scrub, fallback)
        }
        ClientInitializeError::TransportError { error, .. } => {
            http::denied(&server.name, scrub, error.error.as_ref())
        }
        _ => None,
    }
}

fn is_confused(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::ConnectionClosed(_)
            | ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. }
    )
}

/// The text of an error with its causes. Those of `rmcp` may hold whole messages.
fn error_text(error: &ClientInitializeError) -> String {
    if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
        return error_text(fallback);
    }
    match error.auth_challenge() {
        Some(challenge) => format!("it wants authorization: {challenge}"),
        None => error.to_string(),
    }
}

fn mode(era: Era) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::LATEST];
    match era {
        Era::Auto => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
        Era::Initialize => ClientLifecycleMode::Initialize,
        Era::Discover => ClientLifecycleMode::Discover { preferred_versions },
    }
}

/// Our side of a connection: what a server may ask of us.
pub(crate) struct Client {
    elicitation: Elicitation,
}

impl ClientHandler for Client {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(elicit(self.elicitation, &request))
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.elicitation == Elicitation::Defaults {
            let mut elicitation = ElicitationCapability::default();
            elicitation.form = Some(FormElicitationCapability::default());
            capabilities.elicitation = Some(elicitation);
        }
        let about = Implementation::new("provost", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, about)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// Answers a question to the user.
fn elicit(policy: Elicitation, request: &ElicitRequestParams) -> ElicitResult {
    let defaults = match (policy, request) {
        (
            Elicitation::Defaults,
            ElicitRequestParams::FormElicitationParams { requested_schema, .. },
        ) => serde_json::to_value(requested_schema).ok().and_then(|schema| defaults(&schema)),
        _ => None,
    };
    match defaults {
        Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
        None => ElicitResult::new(ElicitationAction::Decline),
    }
}

/// The defaults of a form, if they fill in all that is required.
fn defaults(schema: &Value) -> Option<Value> {
    let properties = schema.get("properties")?.as_object()?;
    let default = |(name, property): (&String, &Value)| {
        property.get("default").map(|default| (name.clone(), default.clone()))
    };
    let content: Map<String, Value> = properties.iter().filter_map(default).collect();
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    required.all(|name| content.contains_key(name)).then_some(Value::Object(content))
}

/// What a call is sent again with, as the protocol wants it, when its server needs input first.
pub(crate) fn input_for(
    policy: Elicitation,
    wanted: &InputRequiredResult,
) -> Result<Option<BTreeMap<String, Value>>, String> {
    let Some(requests) = &wanted.input_requests else {
        return Ok(None);
    };
    let mut answers = BTreeMap::new();
    for (key, request) in requests {
        let answer = match request {
            InputRequest::Elicitation(request) => {
                serde_json::to_value(elicit(policy, &request.params))
            }
            InputRequest::ListRoots(_) => Ok(serde_json::json!({ "roots": [] })),
            _ => return Err("it wants a model to answer, which is not offered".to_owned()),
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
        assert_eq!(defaults(&form), Some(json!({ "a": 1 })));
        let form = json!({ "properties": { "a": { "default": 1 }, "b": {} }, "required": ["b"] });
        assert_eq!(defaults(&form), None);
    }
}
