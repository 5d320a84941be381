//! Tools behind a gRPC server that speaks the contract: one unary method, the envelope as protobuf or as JSON.
//!
//! Invariants: TLS unless the tool's definition says otherwise; addresses are checked when they are dialled; connections are
//! shared by all calls to a place.

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
use provost_tool::{Attempt, ToolOutput, ToolRuntime};
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

use crate::http::envelope::said;
use crate::limits::{ANSWER_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::transport::client::{ATTEMPT_HEADER, Call, Outbound, REQUEST_ID_HEADER, traceparent};
use crate::transport::fault;
use channel::{Channels, EndpointKey};

/// The method that is called unless the endpoint names another service.
pub const EXECUTE_PATH: &str = "/provost.tool.v1.ToolService/Execute";
/// The method of a service that the endpoint names.
const METHOD: &str = "Execute";
/// The port of an endpoint that names none.
const PORT_DEFAULT: u16 = 443;
const PORT_PLAINTEXT_DEFAULT: u16 = 80;
/// Who calls, for the logs of the other side.
const USER_AGENT: &str = concat!("provost/", env!("CARGO_PKG_VERSION"));
/// Room for the metadata of a call.
const HEADERS: usize = 16;
/// A scheme without a port of its own, so that every port that is written stays.
const STAND_IN: &str = "grpc";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Tools of type `grpc`.
///
/// An endpoint is `host:port`, with or without `grpcs://` before it. A path names another service of the same shape, such as
/// `grpcs://tools.example:443/acme.tool.v1.ToolService`.
#[derive(Clone)]
pub struct GrpcRuntime(Arc<Inner>);

struct Inner {
    outbound: Outbound,
    channels: Channels,
}

impl GrpcRuntime {
    /// Over these addresses; whom it trusts is what the clients trust.
    pub fn new(outbound: Outbound) -> Self {
        let channels = Channels::new(&outbound);
        Self(Arc::new(Inner { outbound, channels }))
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
        attempt: Attempt,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = Arc::clone(&self.0);
        let call = Call::of(&attempt);
        async move { call.within(runtime.exchange(&call)).await }.boxed()
    }
}

impl Inner {
    /// The endpoint and the method of a tool, if the operator lets it be reached like that.
    fn target(&self, tool: &ToolResource) -> Result<Target, ToolContractError> {
        self.outbound.admit(tool)?;
        let target = target(tool)?;
        if target.endpoint.plaintext && !self.outbound.options(false).policy.plain_http {
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

    async fn exchange(&self, call: &Call) -> Result<ToolOutput, ToolContractError> {
        let Target { endpoint, path } = self.target(&call.tool)?;
        let (channel, origin) = (self.channels.get(&endpoint)?, endpoint.uri()?);
        let mut envelope = ToolRequest::clone(&call.request);
        ToolType::Grpc.as_str().clone_into(&mut envelope.runtime.mode);
        let method = Method { origin, path };
        let encoding = call.tool.grpc.as_ref().map(|grpc| grpc.encoding).unwrap_or_default();
        let response = match encoding {
            GrpcEncoding::Protobuf => {
                let codec = ProtobufCodec::<ExecuteRequest, ExecuteResponse>::default();
                let answer = unary(call, channel, method, codec, envelope.into()).await?;
                ToolResponse::try_from(answer)?
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
        said(call, response)
    }
}

/// Where a tool is.
#[derive(Debug)]
struct Target {
    endpoint: EndpointKey,
    path: PathAndQuery,
}

/// The full name of a method.
struct Method {
    origin: Uri,
    path: PathAndQuery,
}

/// Makes one call.
async fn unary<S, C>(
    call: &Call,
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
    *request.metadata_mut() = metadata(call)?;
    let answered = async {
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        client.unary(request, method.path, codec).await
    };
    match answered.await {
        Ok(answer) => Ok(answer.into_inner()),
        Err(status) => Err(status::of(call, &status)),
    }
}

/// Credentials and what helps to follow a call, as metadata.
fn metadata(call: &Call) -> Result<MetadataMap, ToolContractError> {
    let mut headers = HeaderMap::with_capacity(HEADERS);
    let mut set = |name: &'static str, value: Option<HeaderValue>| {
        if let Some(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    // What is no header value is left out: these only help people to follow a call.
    set(REQUEST_ID_HEADER, HeaderValue::from_str(&call.request.request_id).ok());
    set(ATTEMPT_HEADER, Some(HeaderValue::from(call.request.attempt)));
    set("traceparent", traceparent(&call.request).and_then(|it| it.try_into().ok()));
    set("x-tool-contract-version", Some(HeaderValue::from_static(CONTRACT_VERSION)));
    set("user-agent", Some(HeaderValue::from_static(USER_AGENT)));
    set("grpc-timeout", HeaderValue::try_from(timeout(call.deadline)).ok());
    call.authenticate(&mut headers)?;
    Ok(MetadataMap::from_headers(headers))
}

/// The time that is left until a deadline, in milliseconds of at most eight digits as the protocol wants it.
fn timeout(deadline: Instant) -> String {
    const MILLIS_MAX: u128 = 99_999_999;
    let left = deadline.saturating_duration_since(Instant::now()).as_millis().min(MILLIS_MAX);
    format!("{}m", u32::try_from(left).unwrap_or(u32::MAX))
}

/// Reads the endpoint and the method of a tool.
fn target(tool: &ToolResource) -> Result<Target, ToolContractError> {
    let refused = |problem: &str| {
        let message = format!("the endpoint of tool `{}` {problem}", tool.name);
        fault::definition(message).detail("field", "endpoint")
    };
    let plaintext = tool.grpc.as_ref().is_some_and(|grpc| grpc.plaintext);
    let text = match tool.endpoint.split_once("://") {
        Some(("grpcs" | "https", _)) if plaintext => {
            return Err(refused("asks for TLS and `grpc.plaintext` for none: choose one"));
        }
        Some(("grpc" | "http", _)) if !plaintext => {
            return Err(refused("asks for no TLS: set `grpc.plaintext` too, or write grpcs://"));
        }
        Some(("grpcs" | "https" | "grpc" | "http", rest)) => rest,
        Some(_) => return Err(refused("must be `host:port` or begin with grpcs://")),
        None => tool.endpoint.as_str(),
    };
    let url = Url::parse(&format!("{STAND_IN}://{text}"))
        .map_err(|error| refused(&format!("is none: {error}")))?;
    if url.host_str().is_none_or(str::is_empty) || url.query().is_some() {
        return Err(refused("must be `host:port`, with no more than a path after it"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("holds a password: name a secret under `auth`"));
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
    let path = path.parse().map_err(|error| refused(&format!("names no method: {error}")))?;
    Ok(Target { endpoint, path })
}

#[cfg(test)]
mod tests;
