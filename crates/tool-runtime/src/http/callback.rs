//! Tools behind an HTTP server that answers later: by a callback, when it is asked again, or both.

mod registry;

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use provost_core::Env;
use provost_core::contract::{CONTRACT_VERSION, ToolContractError, ToolErrorCode, ToolResponse};
use provost_core::resource::{ToolResource, ToolType};
use provost_tool::{Attempt, ToolOutput, ToolRuntime};
use url::Url;

pub use registry::{CALLBACK_KEY_BYTES, Callback, CallbackDesk, CallbackError};

use crate::http::envelope::{read_envelope, said};
use crate::limits::{POLL_DEFAULT, POLL_FAILURES_MAX, POLL_MAX};
use crate::transport::client::{self, Call, Outbound};
use crate::transport::fault;

/// The header that says where an answer may be posted.
pub const CALLBACK_URL_HEADER: &str = "x-tool-callback-url";
/// The header that carries the token: to the tool with the request, from the tool with its answer.
pub const CALLBACK_TOKEN_HEADER: &str = "x-tool-callback-token";

/// How much longer each pause is than the one before.
const POLL_GROWTH: f64 = 1.5;
/// How far a pause may be from its length, as a part of it.
const POLL_SPREAD: f64 = 0.2;

/// How answers that come later are waited for.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// The first pause between looks; each further one is longer.
    pub poll: Duration,
    /// The longest pause.
    pub poll_max: Duration,
    /// Looks in a row that may fail before the call is given up.
    pub failures_max: u32,
    /// Where callbacks are handed in; without one, tools are only asked again.
    pub desk: Option<CallbackDesk>,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self { poll: POLL_DEFAULT, poll_max: POLL_MAX, failures_max: POLL_FAILURES_MAX, desk: None }
    }
}

/// Tools of type `webhook-callback`.
#[derive(Clone)]
pub struct WebhookRuntime {
    outbound: Outbound,
    options: WebhookOptions,
}

impl WebhookRuntime {
    /// Over these clients.
    pub fn new(outbound: Outbound, options: WebhookOptions) -> Self {
        Self { outbound, options }
    }
}

impl ToolRuntime for WebhookRuntime {
    fn kind(&self) -> ToolType {
        ToolType::WebhookCallback
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        self.outbound.admit(tool)?;
        let url = client::endpoint(tool)?;
        match url.query() {
            None => Ok(()),
            Some(_) => Err(fault::definition(format!(
                "the endpoint of tool `{}` has a query: answers are asked for at `<endpoint>/<request id>`",
                tool.name
            ))),
        }
    }

    fn invoke(
        &self,
        attempt: Attempt,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = self.clone();
        let call = Call::of(&attempt);
        async move { call.within(runtime.ask(&call)).await }.boxed()
    }
}

impl WebhookRuntime {
    async fn ask(&self, call: &Call) -> Result<ToolOutput, ToolContractError> {
        let url = client::endpoint(&call.tool)?;
        let desk = self.options.desk.as_ref();
        let mut callback = desk.map(|desk| desk.register(&call.request.request_id)).transpose()?;
        let mut request = call.envelope(url.clone(), ToolType::WebhookCallback.as_str())?;
        if let Some(callback) = &callback {
            announce(&mut request.headers, callback)?;
        }
        let answer = self.outbound.send(call, request).await?;
        match answer.status {
            StatusCode::ACCEPTED => {
                // What comes with it is of no use, and the connection must be free for the next look.
                drop(answer.prefix(0).await);
                self.wait(call, poll_url(url, &call.request.request_id), &mut callback).await
            }
            status if client::succeeded(status) => {
                let body = call.body(answer).await?;
                read_envelope(&body, call)
            }
            _ => Err(call.failure(answer).await),
        }
    }

    /// Waits for whichever way the answer takes.
    async fn wait(
        &self,
        call: &Call,
        url: Url,
        callback: &mut Option<Callback>,
    ) -> Result<ToolOutput, ToolContractError> {
        let mut polling = Polling::new(&self.options);
        // It was taken in: whatever goes wrong while we look, it may have happened.
        let begun = |fault| fault::unknown(&call.tool, fault);
        // Looking changes nothing, so it may always be done again.
        let looking = call.looking();
        loop {
            let pause = polling.pause();
            tokio::select! {
                biased;
                response = answer(callback) => return said(call, response),
                () = tokio::time::sleep(pause), if polling.goes_on => {}
            }
            let looked = tokio::select! {
                biased;
                response = answer(callback) => return said(call, response),
                looked = self.look(&looking, &url) => looked,
            };
            match looked {
                Look::Answer(outcome) => return outcome,
                Look::Lost(fault) => return Err(begun(fault)),
                Look::NotYet => polling.failures = 0,
                Look::Failed(fault, wait) => polling.failed(fault, wait).map_err(begun)?,
                // A server that calls back need not be one that can be asked.
                Look::Never(_) if callback.is_some() => polling.goes_on = false,
                Look::Never(fault) => return Err(begun(fault)),
            }
        }
    }

    /// Asks once whether the answer is there.
    async fn look(&self, call: &Call, url: &Url) -> Look {
        let request = call.request(Method::GET, url.clone(), Bytes::new()).map(|mut request| {
            let headers = &mut request.headers;
            headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
            headers.insert(client::contract_header(), HeaderValue::from_static(CONTRACT_VERSION));
            request
        });
        let request = match request {
            Ok(request) => request,
            Err(fault) => return Look::Lost(fault),
        };
        let answer = match self.outbound.send(call, request).await {
            Ok(answer) => answer,
            Err(fault) if fault.code == ToolErrorCode::ExecutionFailed => {
                return Look::Failed(ToolContractError { retryable: true, ..fault }, None);
            }
            Err(fault) => return Look::Lost(fault),
        };
        match answer.status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                drop(answer.prefix(0).await);
                Look::NotYet
            }
            status if client::succeeded(status) => match call.body(answer).await {
                Ok(body) => Look::Answer(read_envelope(&body, call)),
                Err(fault) => Look::Lost(fault),
            },
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                Look::Never(call.failure(answer).await)
            }
            _ => {
                let wait = fault::retry_after(&answer.headers);
                match call.failure(answer).await {
                    fault if fault.retryable => Look::Failed(fault, wait),
                    fault => Look::Lost(fault),
                }
            }
        }
    }
}

/// What a look at a call found.
enum Look {
    Answer(Result<ToolOutput, ToolContractError>),
    NotYet,
    /// It may work the next time.
    Failed(ToolContractError, Option<Duration>),
    /// There is nothing to look at.
    Never(ToolContractError),
    /// There is no sense in looking again.
    Lost(ToolContractError),
}

/// The pauses between looks.
struct Polling {
    next: Duration,
    longest: Duration,
    asked: Option<Duration>,
    failures: u32,
    failures_max: u32,
    goes_on: bool,
    env: Env,
}

impl Polling {
    fn new(options: &WebhookOptions) -> Self {
        Self {
            next: options.poll,
            longest: options.poll_max.max(options.poll),
            asked: None,
            failures: 0,
            failures_max: options.failures_max,
            goes_on: true,
            env: Env::system(),
        }
    }

    /// The next pause: longer each time, a little apart from everybody else's, and never shorter than the server asked for.
    fn pause(&mut self) -> Duration {
        let spread = 1.0 + POLL_SPREAD * (2.0 * self.env.random_unit() - 1.0);
        let pause = self.next.mul_f64(spread);
        self.next = self.next.mul_f64(POLL_GROWTH).min(self.longest);
        pause.max(self.asked.take().unwrap_or_default())
    }

    fn failed(
        &mut self,
        fault: ToolContractError,
        wait: Option<Duration>,
    ) -> Result<(), ToolContractError> {
        self.failures += 1;
        self.asked = wait;
        if self.failures < self.failures_max.max(1) {
            return Ok(());
        }
        let message = format!("{} looks in a row failed: {}", self.failures, fault.message);
        Err(ToolContractError { message, ..fault }
            .detail("polls_failed", self.failures.to_string()))
    }
}

/// The answer that is called back; nothing ever without a desk.
async fn answer(callback: &mut Option<Callback>) -> ToolResponse {
    if let Some(callback) = callback
        && let Some(response) = callback.answer().await
    {
        return response;
    }
    std::future::pending().await
}

fn announce(headers: &mut HeaderMap, callback: &Callback) -> Result<(), ToolContractError> {
    let pairs =
        [(CALLBACK_URL_HEADER, callback.url().as_str()), (CALLBACK_TOKEN_HEADER, callback.token())];
    for (name, text) in pairs {
        let mut value = HeaderValue::from_str(text)
            .map_err(|error| fault::definition(format!("the address of the desk: {error}")))?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(())
}

fn poll_url(mut url: Url, request_id: &str) -> Url {
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push(request_id);
    }
    url
}
