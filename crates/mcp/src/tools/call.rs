//! One call of a tool: sent once, waited for within its time, taken back when nobody waits.

use std::sync::Arc;
use std::time::Duration;

use provost_tool::{ToolCx, ToolOutput};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorCode, ErrorData, JsonObject,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::connection::handshake;
use crate::connection::monitor::{Followed, Follower};
use crate::connection::{Held, Link};
use crate::limits::INPUT_ROUNDS_MAX;
use crate::tools::result;
use crate::transport::http::{HttpError, denied};
use crate::{Error, TraceContext};

/// Time for telling a server that nobody waits any more.
const TAKE_BACK_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a trace header; longer ones nobody takes.
const TRACE_BYTES_MAX: usize = 512;

/// Calls a tool.
pub(crate) async fn call(
    link: &Arc<Link>,
    tool: &str,
    arguments: JsonObject,
    cx: ToolCx,
) -> Result<ToolOutput, Error> {
    let deadline = Instant::now() + link.server.connect_timeout + link.server.call_timeout;
    let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    for _ in 0..INPUT_ROUNDS_MAX {
        let answer = tokio::select! {
            biased;
            answer = send(link, tool, &params, &cx) => answer?,
            () = sleep_until(deadline) => {
                let reason = "its time is over".to_owned();
                return Err(unknown(link, tool, reason));
            }
        };
        match answer {
            ServerResult::CallToolResult(answer) => return Ok(result::output(answer)),
            ServerResult::CustomResult(answer) => {
                return result::loose_output(answer.0)
                    .ok_or_else(|| malformed(link, "the result of a call is none"));
            }
            ServerResult::InputRequiredResult(wanted) => {
                params.input_responses = handshake::input_for(link.server.elicitation, &wanted)
                    .map_err(|problem| malformed(link, &problem))?;
                params.request_state = wanted.request_state;
            }
            ServerResult::CreateTaskResult(_) => {
                return Err(malformed(link, "it made a task of the call, which was not offered"));
            }
            _ => return Err(malformed(link, "the result of a call is none")),
        }
    }
    Err(malformed(link, "it asks for input again and again"))
}

fn malformed(link: &Link, problem: &str) -> Error {
    Error::Malformed { server: link.server.name.clone(), problem: link.scrub.brief(problem) }
}

fn unknown(link: &Link, tool: &str, reason: String) -> Error {
    let (server, tool) = (link.server.name.clone(), link.scrub.brief(tool));
    Error::Unknown { server, tool, reason: link.scrub.brief(reason) }
}

/// Sends a call and waits for its answer. A call that was not sent because its connection had just died goes to a new one.
async fn send(
    link: &Arc<Link>,
    tool: &str,
    params: &CallToolRequestParams,
    cx: &ToolCx,
) -> Result<ServerResult, Error> {
    let mut second_try = false;
    loop {
        let stopped = || Error::Stopped { server: link.server.name.clone() };
        let live = tokio::select! {
            biased;
            () = cx.cancelled().cancelled() => return Err(stopped()),
            live = link.live() => live?,
        };
        let deadline = Instant::now() + link.server.call_timeout;
        let follower = Follower::new(cx.clone());
        let mut request = CallToolRequest::new(params.clone());
        request.extensions.insert(Followed(Arc::downgrade(&follower)));
        let request = ClientRequest::CallToolRequest(request);
        let sending = live.peer.send_request_with_option(request, options(cx));
        let waiting = match timeout_at(deadline, sending).await {
            Ok(sent) => sent.map(Waiting::new),
            Err(_) => return Err(unknown(link, tool, live.why().await)),
        };
        let answer = match waiting {
            Ok(mut waiting) => tokio::select! {
                biased;
                answer = waiting.answer() => answer,
                () = live.wire.dead.cancelled() => Err(ServiceError::TransportClosed),
                () = cx.cancelled().cancelled() => {
                    waiting.take_back("the run was stopped").await;
                    return Err(stopped());
                }
                () = sleep_until(deadline) => {
                    waiting.take_back("it took too long").await;
                    let seconds = link.server.call_timeout.as_secs_f32();
                    return Err(unknown(link, tool, format!("no answer within {seconds} s")));
                }
            },
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) => return Ok(answer),
            Err(ServiceError::TransportClosed) if !follower.was_sent() && !second_try => {
                second_try = true;
            }
            Err(error) => return Err(failure(link, &live, tool, error).await),
        }
    }
}

/// What goes with every call.
fn options(cx: &ToolCx) -> PeerRequestOptions {
    let options = PeerRequestOptions::no_options();
    // The span of this very call, where spans are exported; else what the program gave to the run.
    let current = provost_tool::trace::current().map(TraceContext::new);
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

/// A call that is waited for. The server is told when nobody waits any more.
struct Waiting(Option<RequestHandle<RoleClient>>);

impl Waiting {
    fn new(handle: RequestHandle<RoleClient>) -> Self {
        Self(Some(handle))
    }

    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = self.0.as_mut() else {
            return Err(ServiceError::TransportClosed);
        };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }

    async fn take_back(&mut self, reason: &str) {
        if let Some(handle) = self.0.take() {
            told(timeout(TAKE_BACK_TIMEOUT, handle.cancel(Some(reason.to_owned()))).await.ok());
        }
    }
}

/// A server that cannot be told is no worse off than one that is not listening.
fn told(outcome: Option<Result<(), ServiceError>>) {
    if !matches!(outcome, Some(Ok(()))) {
        tracing::debug!("an MCP server could not be told that a call is stopped");
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(handle) = self.0.take() else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let cancel = handle.cancel(Some("nobody waits any more".to_owned()));
            runtime.spawn(async move { told(timeout(TAKE_BACK_TIMEOUT, cancel).await.ok()) });
        }
    }
}

/// What a failure of `rmcp` means for whoever called.
pub(crate) async fn failure(link: &Link, live: &Held, tool: &str, error: ServiceError) -> Error {
    let server = || link.server.name.clone();
    match error {
        ServiceError::McpError(error) if lost(&error) => {
            unknown(link, tool, error.message.into_owned())
        }
        ServiceError::McpError(error) => Error::Refused {
            server: server(),
            code: error.code.0,
            message: link.scrub.brief(error.message.as_ref()),
        },
        ServiceError::TransportSend(error) => {
            if let Some(denied) = denied(&link.server.name, &link.scrub, error.error.as_ref()) {
                return denied;
            }
            let text = error.error.to_string();
            let cause = error.error.downcast_ref::<StreamableHttpError<HttpError>>();
            match cause {
                Some(StreamableHttpError::Client(HttpError::Connect(_))) => {
                    link.give_up(live, &text);
                    Error::Connect { server: server(), reason: link.scrub.brief(text) }
                }
                Some(StreamableHttpError::Client(HttpError::TooLarge)) => malformed(link, &text),
                Some(
                    StreamableHttpError::SessionExpired
                    | StreamableHttpError::SessionRecoveryTimeout
                    | StreamableHttpError::ReinitializationFailed(_)
                    | StreamableHttpError::TransportChannelClosed,
                ) => {
                    link.give_up(live, &text);
                    unknown(link, tool, text)
                }
                _ => unknown(link, tool, text + &tail(live).await),
            }
        }
        ServiceError::UnexpectedResponse => malformed(link, "its answer is none"),
        ServiceError::TransportClosed => unknown(link, tool, live.why().await),
        other => unknown(link, tool, other.to_string()),
    }
}

async fn tail(live: &Held) -> String {
    let why = live.why().await;
    let reason = live.wire.reason();
    why.strip_prefix(&reason).unwrap_or_default().to_owned()
}

/// True for an error that the transport made up because the answer was lost, not the server.
fn lost(error: &ErrorData) -> bool {
    error.code == ErrorCode::INTERNAL_ERROR && error.message.contains("streamable HTTP")
}
