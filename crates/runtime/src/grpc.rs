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

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue};
use provost_core::contract::{CONTRACT_VERSION, ToolCode, ToolFault, ToolRequest, ToolResponse};
use provost_core::resource::{GrpcEncoding, ToolResource, ToolType};
use provost_tool::{Attempt, ToolOutput, ToolRuntime};
use rustls::ClientConfig;
use tonic::client::Grpc;
use tonic::codec::Codec;
use tonic::metadata::MetadataMap;
use url::Url;

pub use codec::{JsonCodec, ProtobufCodec};
pub use message::{
    Auth, ExecuteRequest, ExecuteResponse, Failure, Output, Runtime, Tool, Trace, Usage,
};

use crate::external::said;
use crate::fault;
use crate::limits::{ANSWER_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::outbound::{ATTEMPT_HEADER, Call, Outbound, REQUEST_ID_HEADER, traceparent};
use channel::{Channel, Channels, Origin, Place, Way};

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

/// Tools of type `grpc`.
///
/// An endpoint is `host:port`, with or without `grpcs://` before it. A path names another service of the same shape, such as
/// `grpcs://tools.example:443/acme.tool.v1.ToolService`.
#[derive(Clone)]
pub struct GrpcRuntime(Arc<Inner>);

struct Inner {
    outbound: Outbound,
    channels: Channels,
    tls: Option<Arc<ClientConfig>>,
}

impl GrpcRuntime {
    /// Over these addresses; whom it trusts is what the clients trust.
    pub fn new(outbound: Outbound) -> Self {
        let tls = outbound.tls();
        Self(Arc::new(Inner { outbound, channels: Channels::default(), tls }))
    }
}

impl ToolRuntime for GrpcRuntime {
    fn kind(&self) -> ToolType {
        ToolType::Grpc
    }

    fn yields(&self) -> bool {
        true
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolFault> {
        self.0.place(tool).map(drop)
    }

    fn invoke(&self, attempt: Attempt) -> BoxFuture<'static, Result<ToolOutput, ToolFault>> {
        let runtime = Arc::clone(&self.0);
        let call = Call::of(&attempt);
        async move { call.within(runtime.exchange(&call)).await }.boxed()
    }
}

impl Inner {
    /// The place and the method of a tool, if the operator lets it be reached like that.
    fn place(&self, tool: &ToolResource) -> Result<(Place, PathAndQuery), ToolFault> {
        self.outbound.admit(tool)?;
        let (place, path) = target(tool)?;
        if place.plaintext && !self.outbound.plain_http() {
            let message = format!(
                "tool `{}` has `grpc.plaintext`, and nothing may go out without TLS here (`plain_http` of the network \
                 policy opens it)",
                tool.name
            );
            return Err(ToolFault::new(ToolCode::PermissionDenied, message)
                .detail("field", "grpc.plaintext"));
        }
        Ok((place, path))
    }

    async fn exchange(&self, call: &Call) -> Result<ToolOutput, ToolFault> {
        self.outbound.admit(&call.tool)?;
        let Way { channel, path, .. } = self.channels.get(&call.tool, || {
            let (place, path) = self.place(&call.tool)?;
            let dialer = self.outbound.dialer(&call.tool)?;
            Ok((Origin { place, dialer, tls: self.tls.clone() }, path))
        })?;
        let mut envelope = ToolRequest::clone(&call.request);
        ToolType::Grpc.as_str().clone_into(&mut envelope.runtime.mode);
        let encoding = call.tool.grpc.as_ref().map(|grpc| grpc.encoding).unwrap_or_default();
        let response = match encoding {
            GrpcEncoding::Protobuf => {
                let codec = ProtobufCodec::<ExecuteRequest, ExecuteResponse>::default();
                let answer = unary(call, channel, path, (codec, envelope.into())).await?;
                ToolResponse::try_from(answer)?
            }
            GrpcEncoding::Json => {
                let codec = JsonCodec::<ToolRequest, ToolResponse>::default();
                let channel = channel.sending(HeaderValue::from_static("application/grpc+json"));
                unary(call, channel, path, (codec, envelope)).await?
            }
        };
        said(call, response)
    }
}

/// One call.
async fn unary<C>(
    call: &Call,
    channel: Channel,
    path: PathAndQuery,
    (codec, message): (C, C::Encode),
) -> Result<C::Decode, ToolFault>
where
    C: Codec,
    C::Encode: Send + Sync + 'static,
    C::Decode: Send + Sync + 'static,
{
    let origin = channel.uri();
    let mut client = Grpc::with_origin(channel, origin)
        .max_decoding_message_size(ANSWER_BYTES_MAX)
        .max_encoding_message_size(REQUEST_BYTES_MAX);
    let mut request = tonic::Request::new(message);
    *request.metadata_mut() = metadata(call)?;
    match client.unary(request, path, codec).await {
        Ok(answer) => Ok(answer.into_inner()),
        Err(status) => Err(status::of(call, &status)),
    }
}

/// Credentials and what helps to follow a call, as metadata.
fn metadata(call: &Call) -> Result<MetadataMap, ToolFault> {
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

/// The place and the method of a tool.
fn target(tool: &ToolResource) -> Result<(Place, PathAndQuery), ToolFault> {
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
    let place = Place {
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
    Ok((place, path))
}

#[cfg(test)]
mod tests;
