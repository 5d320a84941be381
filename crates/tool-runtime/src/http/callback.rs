//! Tools behind an HTTP server that responds later: by a callback, by polling, or both.

mod registry;

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use provost_core::Env;
use provost_core::contract::{CONTRACT_VERSION, ToolContractError, ToolErrorCode, ToolResponse};
use provost_core::resource::{ToolResource, ToolType};
use provost_tool::{ToolInvocation, ToolOutput, ToolRuntime};
use url::Url;

pub use registry::{CALLBACK_KEY_BYTES, Callback, CallbackError, CallbackRegistry};

use crate::http::envelope::{read_envelope, response_output};
use crate::limits::{POLL_DEFAULT, POLL_FAILURES_MAX, POLL_MAX};
use crate::transport::client::{self, AttemptContext, ToolHttpClient};
use crate::transport::error;

/// Header with the URL for the callback.
pub const CALLBACK_URL_HEADER: &str = "x-tool-callback-url";
/// Header with the callback token. The request to the tool carries it, and the callback returns it.
pub const CALLBACK_TOKEN_HEADER: &str = "x-tool-callback-token";

/// Growth of the poll interval.
const POLL_GROWTH: f64 = 1.5;
/// Jitter of the poll interval, as a fraction of its length.
const POLL_JITTER: f64 = 0.2;

/// Options for services that respond later, by callback or when polled.
#[derive(Debug, Clone)]
pub struct CallbackOptions {
    /// First poll interval. Later ones are longer.
    pub poll: Duration,
    /// Maximum poll interval.
    pub poll_max: Duration,
    /// Maximum number of consecutive failed polls.
    pub failures_max: u32,
    /// Registry of callbacks. `None` means that tools are only polled.
    pub callbacks: Option<CallbackRegistry>,
}

impl Default for CallbackOptions {
    fn default() -> Self {
        Self {
            poll: POLL_DEFAULT,
            poll_max: POLL_MAX,
            failures_max: POLL_FAILURES_MAX,
            callbacks: None,
        }
    }
}

/// Tool runtime for tools of type `webhook-callback`: services that may accept a request and respond later.
#[derive(Clone)]
pub struct CallbackRuntime {
    client: ToolHttpClient,
    options: CallbackOptions,
}

impl CallbackRuntime {
    /// Creates a runtime with these HTTP clients.
    pub fn new(client: ToolHttpClient, options: CallbackOptions) -> Self {
        Self { client, options }
    }
}

impl ToolRuntime for CallbackRuntime {
    fn kind(&self) -> ToolType {
        ToolType::WebhookCallback
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        self.client.check_network_policy(tool)?;
        let url = client::endpoint(tool)?;
        match url.query() {
            None => Ok(()),
            Some(_) => Err(error::invalid_definition(format!(
                "the endpoint of tool `{}` has a query: responses are polled at `<endpoint>/<request id>`",
                tool.name
            ))),
        }
    }

    fn invoke(
        &self,
        attempt: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = self.clone();
        let call = AttemptContext::from_invocation(&attempt);
        async move { call.with_deadline(runtime.execute(&call)).await }.boxed()
    }
}

impl CallbackRuntime {
    /// Sends the request envelope, and waits if the service responds later.
    async fn execute(&self, call: &AttemptContext) -> Result<ToolOutput, ToolContractError> {
        let url = client::endpoint(&call.tool)?;
        let callbacks = self.options.callbacks.as_ref();
        let mut callback =
            callbacks.map(|callbacks| callbacks.register(&call.request.request_id)).transpose()?;
        let mut request = call.envelope(url.clone(), ToolType::WebhookCallback.as_str())?;
        if let Some(callback) = &callback {
            add_callback_headers(&mut request.headers, callback)?;
        }
        let response = self.client.send(call, request).await?;
        match response.status {
            StatusCode::ACCEPTED => {
                // The body is not used, but it must be consumed so that the connection can be reused.
                drop(response.prefix(0).await);
                self.wait(call, poll_url(url, &call.request.request_id), &mut callback).await
            }
            status if client::is_success(status) => {
                let body = call.body(response).await?;
                read_envelope(&body, call)
            }
            _ => Err(call.response_error(response).await),
        }
    }

    /// Waits for the response, by callback or by polling. Returns an error after too many failed polls.
    async fn wait(
        &self,
        call: &AttemptContext,
        url: Url,
        callback: &mut Option<Callback>,
    ) -> Result<ToolOutput, ToolContractError> {
        let mut polling = Polling::new(&self.options);
        // The call was accepted, so after any error its outcome is unknown.
        let outcome_unknown = |fault| error::mark_outcome_unknown(&call.tool, fault);
        // Polling is read-only, so it can always be repeated.
        let read_only = call.read_only();
        loop {
            let pause = polling.next_pause();
            tokio::select! {
                biased;
                response = callback_response(callback) => return response_output(call, response),
                () = tokio::time::sleep(pause), if polling.is_enabled => {}
            }
            let result = tokio::select! {
                biased;
                response = callback_response(callback) => return response_output(call, response),
                result = self.poll(&read_only, &url) => result,
            };
            match result {
                PollResult::Ready(outcome) => return outcome,
                PollResult::Failed(fault) => return Err(outcome_unknown(fault)),
                PollResult::Pending => polling.failures = 0,
                PollResult::Retryable(fault, wait) => {
                    polling.record_failure(fault, wait).map_err(outcome_unknown)?
                }
                // A server that uses callbacks may not support polling.
                PollResult::Unsupported(_) if callback.is_some() => polling.is_enabled = false,
                PollResult::Unsupported(fault) => return Err(outcome_unknown(fault)),
            }
        }
    }

    /// Requests the response once.
    async fn poll(&self, call: &AttemptContext, url: &Url) -> PollResult {
        let request = call.request(Method::GET, url.clone(), Bytes::new()).map(|mut request| {
            let headers = &mut request.headers;
            headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
            headers.insert(client::contract_header(), HeaderValue::from_static(CONTRACT_VERSION));
            request
        });
        let request = match request {
            Ok(request) => request,
            Err(fault) => return PollResult::Failed(fault),
        };
        let response = match self.client.send(call, request).await {
            Ok(response) => response,
            Err(fault) if fault.code == ToolErrorCode::ExecutionFailed => {
                return PollResult::Retryable(ToolContractError { retryable: true, ..fault }, None);
            }
            Err(fault) => return PollResult::Failed(fault),
        };
        match response.status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                drop(response.prefix(0).await);
                PollResult::Pending
            }
            status if client::is_success(status) => match call.body(response).await {
                Ok(body) => PollResult::Ready(read_envelope(&body, call)),
                Err(fault) => PollResult::Failed(fault),
            },
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                PollResult::Unsupported(call.response_error(response).await)
            }
            _ => {
                let wait = error::retry_after(&response.headers);
                match call.response_error(response).await {
                    fault if fault.retryable => PollResult::Retryable(fault, wait),
                    fault => PollResult::Failed(fault),
                }
            }
        }
    }
}

/// Result of a poll.
enum PollResult {
    Ready(Result<ToolOutput, ToolContractError>),
    Pending,
    /// The poll failed, and a later one may succeed.
    Retryable(ToolContractError, Option<Duration>),
    /// The server does not support polling.
    Unsupported(ToolContractError),
    /// The poll failed permanently.
    Failed(ToolContractError),
}

/// Interval and failures of polling.
struct Polling {
    next: Duration,
    interval_max: Duration,
    retry_after: Option<Duration>,
    failures: u32,
    failures_max: u32,
    is_enabled: bool,
    env: Env,
}

impl Polling {
    fn new(options: &CallbackOptions) -> Self {
        Self {
            next: options.poll,
            interval_max: options.poll_max.max(options.poll),
            retry_after: None,
            failures: 0,
            failures_max: options.failures_max,
            is_enabled: true,
            env: Env::system(),
        }
    }

    /// Returns the time until the next poll. It grows with each call, is randomized, and is not shorter than the
    /// service requested.
    fn next_pause(&mut self) -> Duration {
        let spread = 1.0 + POLL_JITTER * (2.0 * self.env.random_unit() - 1.0);
        let pause = self.next.mul_f64(spread);
        self.next = self.next.mul_f64(POLL_GROWTH).min(self.interval_max);
        pause.max(self.retry_after.take().unwrap_or_default())
    }

    /// Counts a failed poll. Returns an error if there were too many in a row.
    fn record_failure(
        &mut self,
        fault: ToolContractError,
        wait: Option<Duration>,
    ) -> Result<(), ToolContractError> {
        self.failures += 1;
        self.retry_after = wait;
        if self.failures < self.failures_max.max(1) {
            return Ok(());
        }
        let message = format!("{} consecutive polls failed: {}", self.failures, fault.message);
        Err(ToolContractError { message, ..fault }
            .detail("polls_failed", self.failures.to_string()))
    }
}

/// Waits for the callback. Never completes if no callback is registered.
async fn callback_response(callback: &mut Option<Callback>) -> ToolResponse {
    if let Some(callback) = callback
        && let Some(response) = callback.response().await
    {
        return response;
    }
    std::future::pending().await
}

/// Adds the headers with the URL and the token of the callback.
fn add_callback_headers(
    headers: &mut HeaderMap,
    callback: &Callback,
) -> Result<(), ToolContractError> {
    let pairs =
        [(CALLBACK_URL_HEADER, callback.url().as_str()), (CALLBACK_TOKEN_HEADER, callback.token())];
    for (name, text) in pairs {
        let mut value = HeaderValue::from_str(text).map_err(|error| {
            error::invalid_definition(format!("the callback URL is invalid: {error}"))
        })?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(())
}

/// Returns the URL `<endpoint>/<request id>`.
fn poll_url(mut url: Url, request_id: &str) -> Url {
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push(request_id);
    }
    url
}
