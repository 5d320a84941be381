//! The way out: one attempt over the one outbound client, within its time, stopped when nobody wants it any more.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use provost_core::contract::{
    CONTRACT_HEADER, CONTRACT_VERSION, ToolContractError, ToolErrorCode, ToolRequest,
};
use provost_core::resource::ToolResource;
use provost_net::{NetClient, NetError, NetOptions, NetPolicy, NetRequest, NetResponse};
use provost_tool::{Attempt, Credentials};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::limits::{ANSWER_BYTES_MAX, FAILURE_BYTES_MAX};
use crate::transport::excerpt::Clip;
use crate::transport::fault;

/// The header that names a request to a server before it reads the body.
pub const REQUEST_ID_HEADER: &str = "x-request-id";
/// The header that counts attempts.
pub const ATTEMPT_HEADER: &str = "x-tool-attempt";

/// Clients for the outside: one for tools that may be in the private network, one for all others. Cheap to clone.
#[derive(Clone)]
pub struct Outbound(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    public: NetClient,
    private: NetClient,
    options: NetOptions,
    allow_private_tools: bool,
}

impl Outbound {
    /// The usual way. The policy is the operator's. A tool can only open the private network, only for itself, and only if
    /// the operator lets tools do so: see [`allow_private_tools`](Self::allow_private_tools).
    pub fn new(policy: NetPolicy) -> Self {
        Self::open(NetOptions::new(policy))
    }

    /// With all options of the clients.
    pub fn open(options: NetOptions) -> Self {
        let policy = NetPolicy { allow_private: true, ..options.policy };
        Self(Arc::new(Inner {
            public: NetClient::open(options.clone()),
            private: NetClient::open(NetOptions { policy, ..options.clone() }),
            options,
            allow_private_tools: false,
        }))
    }

    /// Lets tools open the private network for themselves with `allow_private: true`. Unless the operator says so, a definition
    /// that asks for it is refused: whoever may declare tools could otherwise reach what is inside.
    #[must_use]
    pub fn allow_private_tools(mut self, allow: bool) -> Self {
        Arc::make_mut(&mut self.0).allow_private_tools = allow;
        self
    }

    /// Refuses a tool that asks for more than the operator gives.
    pub(crate) fn admit(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        let Inner { options, allow_private_tools, .. } = &*self.0;
        if !tool.allow_private || *allow_private_tools || options.policy.allow_private {
            return Ok(());
        }
        let message = format!(
            "tool `{}` asks for the private network with `allow_private: true`, which the operator has not opened to tools: \
             start with --tool-network private, or remove it from the definition",
            tool.name
        );
        Err(ToolContractError::new(ToolErrorCode::PermissionDenied, message)
            .detail("field", "allow_private"))
    }

    /// Options of the clients, with the private network open if `allow_private` or the operator's policy says so.
    #[cfg(feature = "grpc")]
    pub(crate) fn options(&self, allow_private: bool) -> NetOptions {
        let options = &self.0.options;
        let allow_private = allow_private || options.policy.allow_private;
        let policy = NetPolicy { allow_private, ..options.policy };
        NetOptions { policy, ..options.clone() }
    }

    fn client(&self, tool: &ToolResource) -> Result<&NetClient, ToolContractError> {
        self.admit(tool)?;
        Ok(if tool.allow_private { &self.0.private } else { &self.0.public })
    }

    /// Sends and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        call: &Call,
        request: NetRequest,
    ) -> Result<NetResponse, ToolContractError> {
        self.client(&call.tool)?.send(request).await.map_err(|error| call.lost(&error))
    }
}

/// What stays the same for everything that one attempt sends.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) tool: Arc<ToolResource>,
    pub(crate) request: Arc<ToolRequest>,
    pub(crate) credentials: Credentials,
    pub(crate) deadline: Instant,
    pub(crate) cancel: CancellationToken,
    /// Cuts what the other side says.
    pub(crate) clip: Clip,
    /// What it sends changes nothing, so nothing that goes wrong leaves a doubt.
    pub(crate) looks_only: bool,
}

impl Call {
    pub(crate) fn of(attempt: &Attempt) -> Self {
        Self {
            tool: Arc::clone(&attempt.tool),
            request: Arc::clone(&attempt.request),
            credentials: attempt.credentials.clone(),
            deadline: attempt.deadline,
            cancel: attempt.cancel.clone(),
            clip: Clip::new(attempt.redact.clone()),
            looks_only: false,
        }
    }

    /// The same for requests that only look.
    pub(crate) fn looking(&self) -> Self {
        Self { looks_only: true, ..self.clone() }
    }

    /// Waits for work until the deadline or until somebody asks to stop.
    pub(crate) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, ToolContractError>>,
    ) -> Result<T, ToolContractError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(fault::canceled()),
            done = work => done,
            () = tokio::time::sleep_until(self.deadline.into()) => Err(fault::timeout()),
        }
    }

    /// A request with the headers that every one of ours has.
    pub(crate) fn request(
        &self,
        method: Method,
        url: Url,
        body: Bytes,
    ) -> Result<NetRequest, ToolContractError> {
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: &str| {
            // What is no header value is left out: these only help people to follow a call.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        set(REQUEST_ID_HEADER, &self.request.request_id);
        set(ATTEMPT_HEADER, &self.request.attempt.to_string());
        if let Some(parent) = traceparent(&self.request) {
            set("traceparent", &parent);
        }
        self.authenticate(&mut headers)?;
        Ok(NetRequest { method, url, headers, body, deadline: self.deadline, redirects_max: 0 })
    }

    /// A request with an envelope in it.
    pub(crate) fn envelope(&self, url: Url, mode: &str) -> Result<NetRequest, ToolContractError> {
        let mut envelope = ToolRequest::clone(&self.request);
        mode.clone_into(&mut envelope.runtime.mode);
        let body = serde_json::to_vec(&envelope)
            .map_err(|error| fault::input(format!("the request has no JSON form: {error}")))?;
        let mut request = self.request(Method::POST, url, body.into())?;
        let headers = &mut request.headers;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(contract_header(), HeaderValue::from_static(CONTRACT_VERSION));
        Ok(request)
    }

    /// Adds what proves who calls. Nothing that prints headers shows it.
    pub(crate) fn authenticate(&self, headers: &mut HeaderMap) -> Result<(), ToolContractError> {
        for (name, value) in &self.credentials.headers {
            let parsed = HeaderName::try_from(name.as_str()).ok();
            let value = HeaderValue::try_from(value.expose().as_str()).ok();
            let (Some(name), Some(mut value)) = (parsed, value) else {
                return Err(ToolContractError::new(
                    ToolErrorCode::SecretResolutionFailed,
                    format!(
                        "the secret for header `{}` cannot be sent in a header",
                        fault::shown(name)
                    ),
                ));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }

    /// What a failure of the wire means. A call that may have happened and must not happen twice is not tried again.
    pub(crate) fn lost(&self, error: &NetError) -> ToolContractError {
        let message = self.clip.text(&error.to_string());
        let failed = match error {
            NetError::Refused { .. } => {
                return ToolContractError::new(ToolErrorCode::PermissionDenied, message);
            }
            NetError::Url { .. } => return fault::definition(message),
            NetError::Timeout { .. } => return fault::timeout(),
            NetError::TooLarge { .. } => ToolContractError::final_failure(message),
            other => ToolContractError {
                retryable: other.retryable(),
                ..ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
            },
        };
        if error.sent() { self.doubtful(failed) } else { failed }
    }

    /// A failure after which nobody knows whether the call happened.
    pub(crate) fn doubtful(&self, failed: ToolContractError) -> ToolContractError {
        if self.looks_only { failed } else { fault::unknown(&self.tool, failed) }
    }

    /// The whole body of an answer.
    pub(crate) async fn body(&self, answer: NetResponse) -> Result<Bytes, ToolContractError> {
        answer.bytes(ANSWER_BYTES_MAX).await.map_err(|error| self.lost(&error))
    }

    /// The fault of an answer that is no success.
    pub(crate) async fn failure(&self, answer: NetResponse) -> ToolContractError {
        let (status, headers) = (answer.status, answer.headers.clone());
        // The status says what happened; a body that cannot be read only explains it.
        let (body, is_cut) = answer.prefix(FAILURE_BYTES_MAX).await.unwrap_or_default();
        self.refused(status, &headers, &self.clip.part(&body, is_cut))
    }

    /// What a status that is no success means, with what was said about it.
    pub(crate) fn refused(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        said: &str,
    ) -> ToolContractError {
        let fault = fault::of_status(&self.tool, status, headers, said);
        if fault::may_have_begun(status) { self.doubtful(fault) } else { fault }
    }
}

/// The endpoint of a tool as a URL with a host.
pub(crate) fn endpoint(tool: &ToolResource) -> Result<Url, ToolContractError> {
    address(&tool.name, &tool.endpoint)
}

/// An endpoint, or the beginning of one, of the tool with this name.
pub(crate) fn address(tool: &str, text: &str) -> Result<Url, ToolContractError> {
    let refused = |problem: &str| {
        fault::definition(format!("the endpoint of tool `{tool}` {problem}"))
            .detail("field", "endpoint")
    };
    let url = Url::parse(text)
        .map_err(|error| refused(&format!("is no URL ({error}): write `https://host/path`")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refused("must begin with https:// or http:// and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("holds a password: name a secret under `auth`"));
    }
    Ok(url)
}

/// True if the whole of it came and was understood.
pub(crate) fn succeeded(status: StatusCode) -> bool {
    status.is_success()
}

pub(crate) fn contract_header() -> HeaderName {
    // The name is written for people; on the wire case does not count.
    HeaderName::try_from(CONTRACT_HEADER)
        .unwrap_or(HeaderName::from_static("x-tool-contract-version"))
}

/// The W3C header for the trace of a request, if its ids are such.
pub(crate) fn traceparent(request: &ToolRequest) -> Option<String> {
    let hex = |text: &str, size: usize| {
        text.len() == size
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
            && text.bytes().any(|byte| byte != b'0')
    };
    let (trace, span) = (&request.trace.trace_id, &request.trace.span_id);
    (hex(trace, 32) && hex(span, 16)).then(|| format!("00-{trace}-{span}-01"))
}
