//! A gRPC tool against raw `tonic`: the same server and the same messages with the same metadata, in alternating waves.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::{BoxFuture, try_join_all};
use http::uri::PathAndQuery;
use provost_core::contract::{ToolRequest, ToolResponse};
use provost_core::resource::ToolType;
use provost_net::NetPolicy;
use provost_tool::{Guard, Tool};
use provost_tool_runtime::grpc::{EXECUTE_PATH, ExecuteRequest, ExecuteResponse, ProtobufCodec};
use provost_tool_runtime::{GrpcRuntime, ToolHttpClient};
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Extensions, Request, Response, Status};

use super::call;
use super::http::declared;
use crate::measure::Pairs;
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Concurrent calls.
const LANES: usize = 32;
/// Calls of one lane in one wave.
const CALLS: usize = 50;
/// Minimum speed, relative to raw `tonic`.
const RATIO_MIN: f64 = 0.8;

pub(super) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let first = Arc::new(OnceLock::new());
    let address = serve(&first)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let pairs = runtime.block_on(both(address, &first, plan.pick(20, 4)))?;
    table.ratio_at_least("gRPC calls, 32 in flight", Unit::PerSecond, &pairs, RATIO_MIN);
    Ok(())
}

/// Metadata and message of one request.
#[derive(Debug, Clone)]
struct SentRequest {
    metadata: MetadataMap,
    message: ExecuteRequest,
}

/// The first request that the server received, sent by Provost. The raw side sends the same one.
type First = Arc<OnceLock<SentRequest>>;

async fn both(address: SocketAddr, first: &First, waves: usize) -> Result<Pairs> {
    let outbound = ToolHttpClient::new(NetPolicy::open());
    let tool = declared(address, ToolType::Grpc, Arc::new(GrpcRuntime::new(outbound)))?;
    call(&Guard::default(), &tool).await?;
    let sent = first.get().ok_or("the server did not see the first call")?;
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let mut pairs = Pairs::default();
    for wave in 0..=waves {
        let raw = rate(|| raw_lane(channel.clone(), sent.clone())).await?;
        let provost = rate(|| provost_lane(Arc::clone(&tool))).await?;
        // The first wave connects.
        if wave > 0 {
            pairs.push(provost, raw);
        }
    }
    Ok(pairs)
}

/// Returns the calls per second of all lanes.
async fn rate<F>(lane: impl Fn() -> F) -> Result<f64>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let started = Instant::now();
    let lanes = (0..LANES).map(|_| tokio::spawn(lane()));
    for ended in try_join_all(lanes).await? {
        ended?;
    }
    Ok((LANES * CALLS) as f64 / started.elapsed().as_secs_f64())
}

async fn raw_lane(channel: Channel, sent: SentRequest) -> Result<()> {
    let mut client = tonic::client::Grpc::new(channel);
    for _ in 0..CALLS {
        let SentRequest { metadata, message } = sent.clone();
        let codec = ProtobufCodec::<ExecuteRequest, ExecuteResponse>::default();
        client.ready().await?;
        let path = PathAndQuery::from_static(EXECUTE_PATH);
        let request = Request::from_parts(metadata, Extensions::default(), message);
        client.unary(request, path, codec).await?;
    }
    Ok(())
}

async fn provost_lane(tool: Arc<dyn Tool>) -> Result<()> {
    let guard = Guard::default();
    for _ in 0..CALLS {
        call(&guard, &tool).await?;
    }
    Ok(())
}

/// Starts a server on its own thread that responds at once.
fn serve(first: &First) -> Result<SocketAddr> {
    let service = Service { first: Arc::clone(first) };
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let incoming = futures::stream::unfold(listener, |listener| async move {
                let accepted = listener.accept().await.map(|(stream, _)| {
                    // Applies to both sides. Without it, responses are delayed.
                    stream.set_nodelay(true).ok();
                    stream
                });
                Some((accepted, listener))
            });
            let server = tonic::transport::Server::builder();
            Ok(server.serve_with_incoming(service, Box::pin(incoming)).await?)
        })
    });
    Ok(address)
}

/// Method handler for any request.
#[derive(Clone)]
struct Service {
    first: First,
}

impl tower::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let first = Arc::clone(&self.first);
        Box::pin(async move {
            let codec = ProtobufCodec::<ExecuteResponse, ExecuteRequest>::default();
            let method = tower::service_fn(|request: Request<ExecuteRequest>| {
                let (metadata, _, message) = request.into_parts();
                first.get_or_init(|| SentRequest { metadata, message: message.clone() });
                let request = ToolRequest::from(message);
                let response = ToolResponse::of(&request, Ok("done".to_owned()), 0);
                std::future::ready(Ok::<_, Status>(Response::new(ExecuteResponse::from(response))))
            });
            Ok(tonic::server::Grpc::new(codec).unary(method, request).await)
        })
    }
}
