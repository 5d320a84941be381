//! Tools behind a gRPC server: one unary method with the request envelope as protobuf or JSON.
//!
//! Invariants: TLS unless the definition disables it; addresses are checked when dialled; all calls to an endpoint
//! share its connection.

mod channel;
mod codec;
mod message;
mod status;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use provost_core::contract::{
    CONTRACT_VERSION, ToolContractError, ToolErrorCode, ToolRequest, ToolResponse,
};
use provost_core::resource::{GrpcEncoding, ToolResource, ToolType};
use provost_tool::{ToolInvocation, ToolOutput, ToolRuntime};
use tonic::Status;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codec::Codec;
use tonic::metadata::MetadataMap;
use tower::ServiceExt as _;
use url::Url;

pub use codec::{JsonCodec, ProtobufCodec};
pub use message::{
    Auth, ExecuteRequest, ExecuteResponse, Failure, Output, Runtime, Tool, Trace, Usage,
};

use crate::http::envelope::response_output;
use crate::limits::{ANSWER_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::transport::client::{
    ATTEMPT_HEADER, AttemptContext, REQUEST_ID_HEADER, ToolHttpClient, traceparent,
};
use crate::transport::error;
use channel::{Channels, EndpointKey};

/// Default method, unless the endpoint names another service.
pub const EXECUTE_PATH: &str = "/provost.tool.v1.ToolService/Execute";
/// Method of a service that the endpoint names.
const METHOD: &str = "Execute";
/// Default port with TLS.
const PORT_DEFAULT: u16 = 443;
const PORT_PLAINTEXT_DEFAULT: u16 = 80;
/// Value of the `user-agent` header.
const USER_AGENT: &str = concat!("provost/", env!("CARGO_PKG_VERSION"));
/// Capacity of the metadata of a call.
const METADATA_CAPACITY: usize = 16;
/// Placeholder scheme without a default port, so that an explicit port is never dropped.
const PLACEHOLDER_SCHEME: &str = "grpc";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Tool runtime for tools of type `grpc`.
///
/// An endpoint is `host:port`, optionally prefixed with `grpcs://`. A path names another service with the same method,
/// such as `grpcs://tools.example:443/acme.tool.v1.ToolService`.
#[derive(Clone)]
pub struct GrpcRuntime(Arc<GrpcInner>);

/// State that the clones of a runtime share.
struct GrpcInner {
    client: ToolHttpClient,
    channels: Channels,
}

impl GrpcRuntime {
    /// Creates a runtime with the network policy and the trusted certificates of these clients.
    pub fn new(client: ToolHttpClient) -> Self {
        let channels = Channels::new(&client);
        Self(Arc::new(GrpcInner { client, channels }))
    }
}

impl ToolRuntime for GrpcRuntime {
    fn kind(&self) -> ToolType {
        ToolType::Grpc
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        self.0.target(tool).map(drop)
    }

    fn invoke(
        &self,
        attempt: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = Arc::clone(&self.0);
        let call = AttemptContext::from_invocation(&attempt);
        async move { call.with_deadline(runtime.execute(&call)).await }.boxed()
    }
}

impl GrpcInner {
    /// Returns the endpoint and the method of a tool. Returns an error if the network policy forbids them.
    fn target(&self, tool: &ToolResource) -> Result<GrpcTarget, ToolContractError> {
        self.client.check_network_policy(tool)?;
        let target = target(tool)?;
        if target.endpoint.plaintext && !self.client.options(false).policy.plain_http {
            let message = format!(
                "tool `{}` has `grpc.plaintext`, and nothing may go out without TLS here (`plain_http` of the network \
                 policy opens it)",
                tool.name
            );
            return Err(ToolContractError::new(ToolErrorCode::PermissionDenied, message)
                .detail("field", "grpc.plaintext"));
        }
        Ok(target)
    }

    /// Calls the method with a request envelope, and converts the response envelope.
    async fn execute(&self, call: &AttemptContext) -> Result<ToolOutput, ToolContractError> {
        let GrpcTarget { endpoint, path } = self.target(&call.tool)?;
        let (channel, origin) = (self.channels.get(&endpoint)?, endpoint.uri()?);
        let mut envelope = ToolRequest::clone(&call.request);
        ToolType::Grpc.as_str().clone_into(&mut envelope.runtime.mode);
        let method = Method { origin, path };
        let encoding = call.tool.grpc.as_ref().map(|grpc| grpc.encoding).unwrap_or_default();
        let response = match encoding {
            GrpcEncoding::Protobuf => {
                let codec = ProtobufCodec::<ExecuteRequest, ExecuteResponse>::default();
                let response = unary(call, channel, method, codec, envelope.into()).await?;
                ToolResponse::try_from(response)?
            }
            GrpcEncoding::Json => {
                let codec = JsonCodec::<ToolRequest, ToolResponse>::default();
                let channel = channel.map_request(|mut request: http::Request<Body>| {
                    let json = HeaderValue::from_static("application/grpc+json");
                    request.headers_mut().insert(header::CONTENT_TYPE, json);
                    request
                });
                unary(call, channel, method, codec, envelope).await?
            }
        };
        response_output(call, response)
    }
}

/// Endpoint and method of a tool.
#[derive(Debug)]
struct GrpcTarget {
    endpoint: EndpointKey,
    path: PathAndQuery,
}

/// URI of the service and path of the method.
struct Method {
    origin: Uri,
    path: PathAndQuery,
}

/// Makes one call and returns its response. Returns an error if the request cannot be sent or the status is not OK.
async fn unary<S, C>(
    call: &AttemptContext,
    channel: S,
    method: Method,
    codec: C,
    message: C::Encode,
) -> Result<C::Decode, ToolContractError>
where
    S: GrpcService<Body, Error: Into<BoxError>>,
    S::ResponseBody: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    C: Codec,
    C::Encode: Send + Sync + 'static,
    C::Decode: Send + Sync + 'static,
{
    let mut client = Grpc::with_origin(channel, method.origin)
        .max_decoding_message_size(ANSWER_BYTES_MAX)
        .max_encoding_message_size(REQUEST_BYTES_MAX);
    let mut request = tonic::Request::new(message);
    *request.metadata_mut() = call_metadata(call)?;
    let answered = async {
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        client.unary(request, method.path, codec).await
    };
    match answered.await {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(status::to_error(call, &status)),
    }
}

/// Returns the metadata of a call: credentials, request id, attempt, trace and deadline.
fn call_metadata(call: &AttemptContext) -> Result<MetadataMap, ToolContractError> {
    let mut headers = HeaderMap::with_capacity(METADATA_CAPACITY);
    let mut set = |name: &'static str, value: Option<HeaderValue>| {
        if let Some(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    // Invalid header values are skipped, because they are only informative.
    set(REQUEST_ID_HEADER, HeaderValue::from_str(&call.request.request_id).ok());
    set(ATTEMPT_HEADER, Some(HeaderValue::from(call.request.attempt)));
    set("traceparent", traceparent(&call.request).and_then(|it| it.try_into().ok()));
    set("x-tool-contract-version", Some(HeaderValue::from_static(CONTRACT_VERSION)));
    set("user-agent", Some(HeaderValue::from_static(USER_AGENT)));
    set("grpc-timeout", HeaderValue::try_from(timeout(call.deadline)).ok());
    call.authenticate(&mut headers)?;
    Ok(MetadataMap::from_headers(headers))
}

/// Returns the time until a deadline in milliseconds with at most eight digits, as the protocol requires.
fn timeout(deadline: Instant) -> String {
    const MILLIS_MAX: u128 = 99_999_999;
    let left = deadline.saturating_duration_since(Instant::now()).as_millis().min(MILLIS_MAX);
    format!("{}m", u32::try_from(left).unwrap_or(u32::MAX))
}

/// Parses the endpoint and the method of a tool.
fn target(tool: &ToolResource) -> Result<GrpcTarget, ToolContractError> {
    let invalid = |problem: &str| {
        let message = format!("the endpoint of tool `{}` {problem}", tool.name);
        error::invalid_definition(message).detail("field", "endpoint")
    };
    let plaintext = tool.grpc.as_ref().is_some_and(|grpc| grpc.plaintext);
    let text = match tool.endpoint.split_once("://") {
        Some(("grpcs" | "https", _)) if plaintext => {
            return Err(invalid(
                "uses grpcs://, but `grpc.plaintext` disables TLS: remove one of them",
            ));
        }
        Some(("grpc" | "http", _)) if !plaintext => {
            return Err(invalid("disables TLS: also set `grpc.plaintext`, or use grpcs://"));
        }
        Some(("grpcs" | "https" | "grpc" | "http", rest)) => rest,
        Some(_) => return Err(invalid("must be `host:port` or begin with grpcs://")),
        None => tool.endpoint.as_str(),
    };
    let url = Url::parse(&format!("{PLACEHOLDER_SCHEME}://{text}"))
        .map_err(|error| invalid(&format!("is invalid: {error}")))?;
    if url.host_str().is_none_or(str::is_empty) || url.query().is_some() {
        return Err(invalid("must be `host:port`, optionally with a path"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("contains a password: name a secret under `auth`"));
    }
    let default = if plaintext { PORT_PLAINTEXT_DEFAULT } else { PORT_DEFAULT };
    let port = url.port().unwrap_or(default);
    let endpoint = EndpointKey {
        host: url.host_str().unwrap_or_default().to_owned(),
        port,
        plaintext,
        allow_private: tool.allow_private,
    };
    let path = match url.path().trim_matches('/') {
        "" => EXECUTE_PATH.to_owned(),
        full if full.contains('/') => format!("/{full}"),
        service => format!("/{service}/{METHOD}"),
    };
    let path = path
        .parse()
        .map_err(|error| invalid(&format!("contains an invalid method name: {error}")))?;
    Ok(GrpcTarget { endpoint, path })
}

#[cfg(test)]
mod tests;
