//! One call of a tool. It is sent once, awaited until its timeout, and cancelled if the caller stops waiting.

use std::sync::Arc;
use std::time::Duration;

use provost_tool::{ToolContext, ToolOutput};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorCode, ErrorData, JsonObject,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::connection::handshake;
use crate::connection::monitor::{ProgressListener, ProgressListenerRef};
use crate::connection::{ConnectionGuard, ServerConnection};
use crate::limits::INPUT_ROUNDS_MAX;
use crate::tools::result;
use crate::transport::http::{HttpError, denied_error};
use crate::{Error, TraceContext};

/// Timeout for notifying the server of a cancelled call.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of a trace header.
const TRACE_BYTES_MAX: usize = 512;

/// Calls a tool, and answers requests for user input during the call. Returns [`Error::Unknown`] if the response was
/// lost or did not arrive in time, because the tool may have been executed.
pub(crate) async fn call_tool(
    connection: &Arc<ServerConnection>,
    tool: &str,
    arguments: JsonObject,
    cx: ToolContext,
) -> Result<ToolOutput, Error> {
    let deadline =
        Instant::now() + connection.server.connect_timeout + connection.server.call_timeout;
    let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    for _ in 0..INPUT_ROUNDS_MAX {
        let answer = tokio::select! {
            biased;
            answer = send_call(connection, tool, &params, &cx) => answer?,
            () = sleep_until(deadline) => {
                let reason = "timed out".to_owned();
                return Err(unknown_outcome(connection, tool, reason));
            }
        };
        match answer {
            ServerResult::CallToolResult(answer) => return Ok(result::to_output(answer)),
            ServerResult::CustomResult(answer) => {
                return result::parse_loose_output(answer.0).ok_or_else(|| {
                    malformed_error(connection, "the response is not a tool result")
                });
            }
            ServerResult::InputRequiredResult(wanted) => {
                params.input_responses =
                    handshake::answer_input_requests(connection.server.elicitation, &wanted)
                        .map_err(|problem| malformed_error(connection, &problem))?;
                params.request_state = wanted.request_state;
            }
            ServerResult::CreateTaskResult(_) => {
                return Err(malformed_error(
                    connection,
                    "it created a task for the call, which is not supported",
                ));
            }
            _ => return Err(malformed_error(connection, "the response is not a tool result")),
        }
    }
    Err(malformed_error(connection, "it requested input too many times"))
}

/// Creates the error of a response that violates the protocol.
fn malformed_error(connection: &ServerConnection, problem: &str) -> Error {
    Error::Malformed {
        server: connection.server.name.clone(),
        problem: connection.redaction.excerpt(problem),
    }
}

/// Creates the error of a call whose outcome is unknown.
fn unknown_outcome(connection: &ServerConnection, tool: &str, reason: String) -> Error {
    let (server, tool) = (connection.server.name.clone(), connection.redaction.excerpt(tool));
    Error::Unknown { server, tool, reason: connection.redaction.excerpt(reason) }
}

/// Sends a call and waits for its response. If the connection ended before the call was sent, sends the call once more
/// on a new connection.
async fn send_call(
    connection: &Arc<ServerConnection>,
    tool: &str,
    params: &CallToolRequestParams,
    cx: &ToolContext,
) -> Result<ServerResult, Error> {
    let mut second_try = false;
    loop {
        let stopped = || Error::Stopped { server: connection.server.name.clone() };
        let active = tokio::select! {
            biased;
            () = cx.cancelled().cancelled() => return Err(stopped()),
            active = connection.acquire() => active?,
        };
        let deadline = Instant::now() + connection.server.call_timeout;
        let listener = ProgressListener::new(cx.clone());
        let mut request = CallToolRequest::new(params.clone());
        request.extensions.insert(ProgressListenerRef(Arc::downgrade(&listener)));
        let request = ClientRequest::CallToolRequest(request);
        let sending = active.peer.send_request_with_option(request, request_options(cx));
        let waiting = match timeout_at(deadline, sending).await {
            Ok(sent) => sent.map(PendingCall::new),
            Err(_) => return Err(unknown_outcome(connection, tool, active.close_reason().await)),
        };
        let answer = match waiting {
            Ok(mut waiting) => tokio::select! {
                biased;
                answer = waiting.response() => answer,
                () = active.monitor.dead.cancelled() => Err(ServiceError::TransportClosed),
                () = cx.cancelled().cancelled() => {
                    waiting.cancel("the run was stopped").await;
                    return Err(stopped());
                }
                () = sleep_until(deadline) => {
                    waiting.cancel("it took too long").await;
                    let seconds = connection.server.call_timeout.as_secs_f32();
                    return Err(unknown_outcome(connection, tool, format!("no answer within {seconds} s")));
                }
            },
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) => return Ok(answer),
            Err(ServiceError::TransportClosed) if !listener.was_sent() && !second_try => {
                second_try = true;
            }
            Err(error) => return Err(call_error(connection, &active, tool, error).await),
        }
    }
}

/// Returns the options of a call with the current trace context. Without a valid context, the options are empty.
fn request_options(cx: &ToolContext) -> PeerRequestOptions {
    let options = PeerRequestOptions::no_options();
    // The span of the call takes precedence over the trace context that the application gave to the run.
    let current = provost_tool::trace::current_traceparent().map(TraceContext::new);
    let given = || cx.dep::<TraceContext>().ok().map(|given| TraceContext::clone(&given));
    let Some(trace) = current.or_else(given) else {
        return options;
    };
    let fits =
        |text: &str| text.len() <= TRACE_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic());
    if !fits(&trace.traceparent) {
        return options;
    }
    let mut meta = RequestMetaObject::new();
    meta.0.set_traceparent(trace.traceparent.clone());
    if let Some(state) = trace.tracestate.as_deref().filter(|state| fits(state)) {
        meta.0.set_tracestate(state);
    }
    options.with_meta(meta)
}

/// A call in progress. Dropping it notifies the server that the call is cancelled.
struct PendingCall(Option<RequestHandle<RoleClient>>);

impl PendingCall {
    fn new(handle: RequestHandle<RoleClient>) -> Self {
        Self(Some(handle))
    }

    /// Waits for the response. Returns an error if the connection is closed.
    async fn response(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = self.0.as_mut() else {
            return Err(ServiceError::TransportClosed);
        };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }

    /// Notifies the server that the call is cancelled. Does nothing if the response has arrived.
    async fn cancel(&mut self, reason: &str) {
        if let Some(handle) = self.0.take() {
            log_cancel_result(
                timeout(CANCEL_TIMEOUT, handle.cancel(Some(reason.to_owned()))).await.ok(),
            );
        }
    }
}

/// Logs a failed cancellation. The error has no further effect, because the server may not read messages at all.
fn log_cancel_result(outcome: Option<Result<(), ServiceError>>) {
    if !matches!(outcome, Some(Ok(()))) {
        tracing::debug!("MCP server could not be notified of a cancelled call");
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let Some(handle) = self.0.take() else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let cancel = handle.cancel(Some("the caller stopped waiting".to_owned()));
            runtime.spawn(
                async move { log_cancel_result(timeout(CANCEL_TIMEOUT, cancel).await.ok()) },
            );
        }
    }
}

/// Converts an error of `rmcp` into an [`Error`] that shows whether the call may have been executed.
pub(crate) async fn call_error(
    connection: &ServerConnection,
    active: &ConnectionGuard,
    tool: &str,
    error: ServiceError,
) -> Error {
    let server = || connection.server.name.clone();
    match error {
        ServiceError::McpError(error) if is_transport_error(&error) => {
            unknown_outcome(connection, tool, error.message.into_owned())
        }
        ServiceError::McpError(error) => Error::Refused {
            server: server(),
            code: error.code.0,
            message: connection.redaction.excerpt(error.message.as_ref()),
        },
        ServiceError::TransportSend(error) => {
            if let Some(denied) =
                denied_error(&connection.server.name, &connection.redaction, error.error.as_ref())
            {
                return denied;
            }
            let text = error.error.to_string();
            let cause = error.error.downcast_ref::<StreamableHttpError<HttpError>>();
            match cause {
                Some(StreamableHttpError::Client(HttpError::Connect(_))) => {
                    connection.discard(active, &text);
                    Error::Connect { server: server(), reason: connection.redaction.excerpt(text) }
                }
                Some(StreamableHttpError::Client(HttpError::TooLarge)) => {
                    malformed_error(connection, &text)
                }
                Some(
                    StreamableHttpError::SessionExpired
                    | StreamableHttpError::SessionRecoveryTimeout
                    | StreamableHttpError::ReinitializationFailed(_)
                    | StreamableHttpError::TransportChannelClosed,
                ) => {
                    connection.discard(active, &text);
                    unknown_outcome(connection, tool, text)
                }
                _ => unknown_outcome(connection, tool, text + &exit_details(active).await),
            }
        }
        ServiceError::UnexpectedResponse => {
            malformed_error(connection, "the response has an unexpected type")
        }
        ServiceError::TransportClosed => {
            unknown_outcome(connection, tool, active.close_reason().await)
        }
        other => unknown_outcome(connection, tool, other.to_string()),
    }
}

/// Returns the exit status and the standard error of the program. Empty for a server over HTTP.
async fn exit_details(active: &ConnectionGuard) -> String {
    let why = active.close_reason().await;
    let reason = active.monitor.reason();
    why.strip_prefix(&reason).unwrap_or_default().to_owned()
}

/// Returns true if the transport created the error because the response was lost.
fn is_transport_error(error: &ErrorData) -> bool {
    error.code == ErrorCode::INTERNAL_ERROR && error.message.contains("streamable HTTP")
}
