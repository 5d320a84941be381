//! A real tonic server, with and without TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use provost_core::contract::{ToolErrorCode, ToolRequest, ToolResponse};
use provost_core::resource::{GrpcEncoding, GrpcSpec, ToolResource, ToolType};
use provost_net::NetPolicy;
use provost_tool::ToolRuntime;
use provost_tool_runtime::conformance::{ObservedCall, Scenario, TestBackend};
use provost_tool_runtime::grpc::{ExecuteRequest, ExecuteResponse, JsonCodec, ProtobufCodec};
use provost_tool_runtime::{GrpcRuntime, ToolHttpClient};
use serde_json::json;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};

use crate::backend::{Acts, scene_of, seen_of};
use crate::support::{MAX_WAIT, attempt, call, http_client};

/// A tool server. A scene is the name of a tool.
#[derive(Clone)]
pub(crate) struct GrpcBackend {
    address: SocketAddr,
    acts: Arc<Acts>,
    connections: Arc<AtomicUsize>,
    encoding: GrpcEncoding,
    runtime: Arc<GrpcRuntime>,
}

impl GrpcBackend {
    pub(crate) async fn start(encoding: GrpcEncoding, runtime: Arc<GrpcRuntime>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (acts, connections) = (Arc::new(Acts::default()), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&connections);
        let incoming = futures::stream::unfold(listener, move |listener| {
            let counted = Arc::clone(&counted);
            async move {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                counted.fetch_add(1, Ordering::SeqCst);
                Some((accepted, listener))
            }
        });
        let service = Service(Arc::clone(&acts));
        tokio::spawn(async move {
            tonic::transport::Server::builder()
                .serve_with_incoming(service, Box::pin(incoming))
                .await
        });
        Self { address, acts, connections, encoding, runtime }
    }

    fn acting(&self, scene: Scenario, path: &str) -> ToolResource {
        let name = format!("{scene:?}-{}", self.acts.number());
        let mut tool = ToolResource::new(name, ToolType::Grpc, format!("{}{path}", self.address));
        tool.grpc = Some(GrpcSpec { encoding: self.encoding, plaintext: true });
        tool
    }
}

impl TestBackend for GrpcBackend {
    fn name(&self) -> &str {
        match self.encoding {
            GrpcEncoding::Protobuf => "grpc, protobuf",
            GrpcEncoding::Json => "grpc, json",
        }
    }

    fn runtime(&self) -> Arc<dyn ToolRuntime> {
        Arc::clone(&self.runtime) as Arc<dyn ToolRuntime>
    }

    fn tool(&self, scene: Scenario) -> Option<ToolResource> {
        Some(self.acting(scene, ""))
    }

    fn observed_calls(&self) -> Option<Vec<ObservedCall>> {
        Some(self.acts.seen.lock().unwrap().clone())
    }

    fn active_calls(&self) -> Option<usize> {
        Some(self.acts.busy.load(Ordering::SeqCst))
    }
}

/// The method, whatever the service is called.
#[derive(Clone)]
struct Service(Arc<Acts>);

impl tower::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let acts = Arc::clone(&self.0);
        let is_json = request.headers()["content-type"] == "application/grpc+json";
        Box::pin(async move {
            if is_json {
                let codec = JsonCodec::<serde_json::Value, ToolRequest>::default();
                let method = tower::service_fn(move |request: Request<ToolRequest>| {
                    let acts = Arc::clone(&acts);
                    async move {
                        let garbage = request.get_ref().tool.name.starts_with("Garbage");
                        let answer = act(&acts, request).await?;
                        let value = serde_json::to_value(answer).unwrap();
                        Ok(Response::new(if garbage { json!(["garbage"]) } else { value }))
                    }
                });
                return Ok(Grpc::new(codec).unary(method, request).await);
            }
            let codec = ProtobufCodec::<ExecuteResponse, ExecuteRequest>::default();
            let method = tower::service_fn(move |request: Request<ExecuteRequest>| {
                let acts = Arc::clone(&acts);
                async move {
                    let request = request.map(ToolRequest::from);
                    let garbage = request.get_ref().tool.name.starts_with("Garbage");
                    let mut answer = ExecuteResponse::from(act(&acts, request).await?);
                    if garbage {
                        answer.status = "nonsense".to_owned();
                    }
                    Ok(Response::new(answer))
                }
            });
            Ok(Grpc::new(codec).unary(method, request).await)
        })
    }
}

async fn act(acts: &Arc<Acts>, request: Request<ToolRequest>) -> Result<ToolResponse, Status> {
    let _busy = acts.begin();
    let headers = request.metadata().clone().into_headers();
    assert!(headers.contains_key("grpc-timeout"));
    let request = request.into_inner();
    let body = serde_json::to_string(&request).unwrap();
    acts.see(seen_of(&headers, body.as_bytes()));
    let (word, id) = request.tool.name.split_once('-').unwrap();
    match scene_of(word) {
        Scenario::Unauthorised => Err(Status::unauthenticated("who?")),
        Scenario::Forbidden => Err(Status::permission_denied("no")),
        Scenario::Flaky if acts.fails_still(id) => Err(Status::unavailable("busy")),
        Scenario::Broken => Err(Status::failed_precondition("no")),
        scene => match acts.answer(scene, id, &request) {
            Some(answer) => Ok(answer),
            None => std::future::pending().await,
        },
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let backend =
        GrpcBackend::start(GrpcEncoding::Protobuf, Arc::new(GrpcRuntime::new(http_client()))).await;
    for _ in 0..20 {
        let tool = backend.acting(Scenario::Echo, "");
        let output = call(&*backend.runtime, &tool, json!({ "text": "hi" })).await.unwrap();
        assert_eq!(output.to_text(), "hi");
    }
    assert_eq!(backend.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_service_of_another_name_is_reached_too() {
    let backend =
        GrpcBackend::start(GrpcEncoding::Json, Arc::new(GrpcRuntime::new(http_client()))).await;
    let tool = backend.acting(Scenario::Echo, "/orloj.tool.v1.ToolService");
    let output = call(&*backend.runtime, &tool, json!({ "text": "hi" })).await.unwrap();
    assert_eq!(output.to_text(), "hi");
}

#[tokio::test]
async fn an_address_inside_is_refused_when_it_is_dialled() {
    let closed = NetPolicy { plain_http: true, ..NetPolicy::default() };
    let closed = Arc::new(GrpcRuntime::new(ToolHttpClient::new(closed)));
    let backend = GrpcBackend::start(GrpcEncoding::Protobuf, closed).await;
    let tool = backend.acting(Scenario::Echo, "");
    let fault = call(&*backend.runtime, &tool, json!({})).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::PermissionDenied, "{fault}");
    assert_eq!(backend.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn nothing_goes_out_in_the_open_unless_the_operator_says_so() {
    let closed = NetPolicy { plain_http: false, ..NetPolicy::open() };
    let closed = Arc::new(GrpcRuntime::new(ToolHttpClient::new(closed)));
    let backend = GrpcBackend::start(GrpcEncoding::Protobuf, Arc::clone(&closed)).await;
    let tool = backend.acting(Scenario::Echo, "");
    let refused = closed.check(&tool).unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::PermissionDenied);
    assert!(refused.message.contains("plain_http"), "{refused}");
    // It is refused even where nobody has checked the definition before.
    let made = attempt(&tool, json!({ "text": "hi" }), MAX_WAIT);
    assert_eq!(closed.invoke(made).await.unwrap_err().code, ToolErrorCode::PermissionDenied);
    assert_eq!(backend.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_without_tls_is_none_for_a_tool_with_it() {
    let backend =
        GrpcBackend::start(GrpcEncoding::Protobuf, Arc::new(GrpcRuntime::new(http_client()))).await;
    let mut tool = backend.acting(Scenario::Echo, "");
    tool.grpc = None;
    let fault = call(&*backend.runtime, &tool, json!({})).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::ExecutionFailed, "{fault}");
    assert_eq!(backend.acts.seen.lock().unwrap().len(), 0, "nothing was sent in the open");
}
