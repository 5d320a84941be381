//! HTTP client for attempts: deadlines, cancellation, credentials and error conversion.

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
use provost_tool::{Credentials, ToolInvocation};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::limits::{ANSWER_BYTES_MAX, FAILURE_BYTES_MAX};
use crate::transport::error;
use crate::transport::excerpt::ErrorExcerpt;

/// Header with the request id.
pub const REQUEST_ID_HEADER: &str = "x-request-id";
/// Header with the number of the attempt.
pub const ATTEMPT_HEADER: &str = "x-tool-attempt";

/// HTTP clients for tools: one for the private network, one for public addresses. Cheap to clone.
#[derive(Clone)]
pub struct ToolHttpClient(Arc<ClientInner>);

/// State that the clones of a client share.
#[derive(Clone)]
struct ClientInner {
    public: NetClient,
    private: NetClient,
    options: NetOptions,
    allow_private_tools: bool,
}

impl ToolHttpClient {
    /// Creates clients with the operator's network policy. Tools can only request access to the private network, and
    /// only if [`allow_private_tools`](Self::allow_private_tools) is set.
    pub fn new(policy: NetPolicy) -> Self {
        Self::open(NetOptions::new(policy))
    }

    /// Creates clients with all options.
    pub fn open(options: NetOptions) -> Self {
        let policy = NetPolicy { allow_private: true, ..options.policy };
        Self(Arc::new(ClientInner {
            public: NetClient::open(options.clone()),
            private: NetClient::open(NetOptions { policy, ..options.clone() }),
            options,
            allow_private_tools: false,
        }))
    }

    /// Lets tools access the private network with `allow_private: true`. By default such a definition is rejected,
    /// because everyone who may declare tools could reach internal services.
    #[must_use]
    pub fn allow_private_tools(mut self, allow: bool) -> Self {
        Arc::make_mut(&mut self.0).allow_private_tools = allow;
        self
    }

    /// Returns an error if the tool requests access that the operator's policy does not allow.
    pub(crate) fn check_network_policy(
        &self,
        tool: &ToolResource,
    ) -> Result<(), ToolContractError> {
        let ClientInner { options, allow_private_tools, .. } = &*self.0;
        if !tool.allow_private || *allow_private_tools || options.policy.allow_private {
            return Ok(());
        }
        let message = format!(
            "tool `{}` requests the private network with `allow_private: true`, which the operator does not allow for tools: \
             start with --tool-network private, or remove it from the definition",
            tool.name
        );
        Err(ToolContractError::new(ToolErrorCode::PermissionDenied, message)
            .detail("field", "allow_private"))
    }

    /// Returns the client options. The private network is allowed if `allow_private` or the operator's policy allows
    /// it.
    #[cfg(feature = "grpc")]
    pub(crate) fn options(&self, allow_private: bool) -> NetOptions {
        let options = &self.0.options;
        let allow_private = allow_private || options.policy.allow_private;
        let policy = NetPolicy { allow_private, ..options.policy };
        NetOptions { policy, ..options.clone() }
    }

    /// Returns the HTTP client for a tool. Returns an error if the network policy forbids it.
    fn client(&self, tool: &ToolResource) -> Result<&NetClient, ToolContractError> {
        self.check_network_policy(tool)?;
        Ok(if tool.allow_private { &self.0.private } else { &self.0.public })
    }

    /// Sends a request, and waits for the status and the headers of the response. Returns an error if the connection
    /// fails; the status is not checked.
    pub(crate) async fn send(
        &self,
        call: &AttemptContext,
        request: NetRequest,
    ) -> Result<NetResponse, ToolContractError> {
        self.client(&call.tool)?.send(request).await.map_err(|error| call.transport_error(&error))
    }
}

/// Tool, credentials and deadline of one attempt, for all of its requests.
#[derive(Clone)]
pub(crate) struct AttemptContext {
    pub(crate) tool: Arc<ToolResource>,
    pub(crate) request: Arc<ToolRequest>,
    pub(crate) credentials: Credentials,
    pub(crate) deadline: Instant,
    pub(crate) cancel: CancellationToken,
    /// Creates redacted excerpts of foreign text.
    pub(crate) excerpt: ErrorExcerpt,
    /// True if all requests are read-only, so that no error leaves an unknown outcome.
    pub(crate) is_read_only: bool,
}

impl AttemptContext {
    /// Returns the context of an attempt.
    pub(crate) fn from_invocation(attempt: &ToolInvocation) -> Self {
        Self {
            tool: Arc::clone(&attempt.tool),
            request: Arc::clone(&attempt.request),
            credentials: attempt.credentials.clone(),
            deadline: attempt.deadline,
            cancel: attempt.cancel.clone(),
            excerpt: ErrorExcerpt::new(attempt.redact.clone()),
            is_read_only: false,
        }
    }

    /// Returns a copy for read-only requests, whose errors never have an unknown outcome.
    pub(crate) fn read_only(&self) -> Self {
        Self { is_read_only: true, ..self.clone() }
    }

    /// Runs a future until the deadline or the cancellation of the call. Then returns an error.
    pub(crate) async fn with_deadline<T>(
        &self,
        work: impl Future<Output = Result<T, ToolContractError>>,
    ) -> Result<T, ToolContractError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(error::cancelled()),
            result = work => result,
            () = tokio::time::sleep_until(self.deadline.into()) => Err(error::timeout()),
        }
    }

    /// Creates a request with the headers of the call: credentials, request id, attempt and trace.
    pub(crate) fn request(
        &self,
        method: Method,
        url: Url,
        body: Bytes,
    ) -> Result<NetRequest, ToolContractError> {
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: &str| {
            // Invalid header values are skipped, because they are only informative.
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

    /// Creates a request with the request envelope as its body.
    pub(crate) fn envelope(&self, url: Url, mode: &str) -> Result<NetRequest, ToolContractError> {
        let mut envelope = ToolRequest::clone(&self.request);
        mode.clone_into(&mut envelope.runtime.mode);
        let body = serde_json::to_vec(&envelope).map_err(|error| {
            error::invalid_input(format!("the request has no JSON form: {error}"))
        })?;
        let mut request = self.request(Method::POST, url, body.into())?;
        let headers = &mut request.headers;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(contract_header(), HeaderValue::from_static(CONTRACT_VERSION));
        Ok(request)
    }

    /// Adds the credentials as headers. Debug output hides their values.
    pub(crate) fn authenticate(&self, headers: &mut HeaderMap) -> Result<(), ToolContractError> {
        for (name, value) in &self.credentials.headers {
            let parsed = HeaderName::try_from(name.as_str()).ok();
            let value = HeaderValue::try_from(value.expose().as_str()).ok();
            let (Some(name), Some(mut value)) = (parsed, value) else {
                return Err(ToolContractError::new(
                    ToolErrorCode::SecretResolutionFailed,
                    format!(
                        "the secret for header `{}` cannot be sent in a header",
                        error::truncate_for_error(name)
                    ),
                ));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }

    /// Converts a network error. If the request was sent, the outcome is unknown unless the context is read-only.
    pub(crate) fn transport_error(&self, error: &NetError) -> ToolContractError {
        let message = self.excerpt.text(&error.to_string());
        let failed = match error {
            NetError::Refused { .. } => {
                return ToolContractError::new(ToolErrorCode::PermissionDenied, message);
            }
            NetError::Url { .. } => return error::invalid_definition(message),
            NetError::Timeout { .. } => return error::timeout(),
            NetError::TooLarge { .. } => ToolContractError::final_failure(message),
            other => ToolContractError {
                retryable: other.retryable(),
                ..ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
            },
        };
        if error.may_have_arrived() { self.outcome_unknown(failed) } else { failed }
    }

    /// Marks an error as having an unknown outcome, unless the context is read-only.
    pub(crate) fn outcome_unknown(&self, failed: ToolContractError) -> ToolContractError {
        if self.is_read_only { failed } else { error::mark_outcome_unknown(&self.tool, failed) }
    }

    /// Reads the complete body of a response. Returns an error if it is too large or the connection breaks.
    pub(crate) async fn body(&self, response: NetResponse) -> Result<Bytes, ToolContractError> {
        response.bytes(ANSWER_BYTES_MAX).await.map_err(|error| self.transport_error(&error))
    }

    /// Reads the beginning of an error response, and converts it to an error.
    pub(crate) async fn response_error(&self, response: NetResponse) -> ToolContractError {
        let (status, headers) = (response.status, response.headers.clone());
        // The status determines the error, so an unreadable body is ignored.
        let (body, is_cut) = response.prefix(FAILURE_BYTES_MAX).await.unwrap_or_default();
        self.status_error(status, &headers, &self.excerpt.bytes(&body, is_cut))
    }

    /// Converts an error status. The outcome is unknown if the service may have executed the request.
    pub(crate) fn status_error(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        detail: &str,
    ) -> ToolContractError {
        let fault = error::from_status(&self.tool, status, headers, detail);
        if error::may_have_executed(status) { self.outcome_unknown(fault) } else { fault }
    }
}

/// Parses the endpoint of a tool. Returns an error if it is not an HTTP or HTTPS URL with a host.
pub(crate) fn endpoint(tool: &ToolResource) -> Result<Url, ToolContractError> {
    parse_endpoint(&tool.name, &tool.endpoint)
}

/// Parses an endpoint or its fixed part. Returns an error if it is not an HTTP or HTTPS URL with a host, or has a
/// password.
pub(crate) fn parse_endpoint(tool: &str, text: &str) -> Result<Url, ToolContractError> {
    let invalid = |problem: &str| {
        error::invalid_definition(format!("the endpoint of tool `{tool}` {problem}"))
            .detail("field", "endpoint")
    };
    let url = Url::parse(text).map_err(|error| {
        invalid(&format!("is not a valid URL ({error}): write `https://host/path`"))
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(invalid("must begin with https:// or http:// and contain a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("contains a password: name a secret under `auth`"));
    }
    Ok(url)
}

/// Returns true for a success status.
pub(crate) fn is_success(status: StatusCode) -> bool {
    status.is_success()
}

/// Returns the name of the header with the contract version.
pub(crate) fn contract_header() -> HeaderName {
    // Header names are lower case on the wire.
    HeaderName::try_from(CONTRACT_HEADER)
        .unwrap_or(HeaderName::from_static("x-tool-contract-version"))
}

/// Returns the W3C `traceparent` of a request. `None` if its ids are invalid.
pub(crate) fn traceparent(request: &ToolRequest) -> Option<String> {
    let hex = |text: &str, size: usize| {
        text.len() == size
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
            && text.bytes().any(|byte| byte != b'0')
    };
    let (trace, span) = (&request.trace.trace_id, &request.trace.span_id);
    (hex(trace, 32) && hex(span, 16)).then(|| format!("00-{trace}-{span}-01"))
}
