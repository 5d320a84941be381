//! Transport to a server in the same process: the same router without a socket.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use provost_api::{BodyStream, Transport, TransportError};
use provost_core::ErrorKind;
use tower::ServiceExt;

use crate::app::App;
use crate::middleware::ClientAddr;
use crate::router::router;

/// Sends requests to an [`App`] in this process. Its caller has all permissions.
pub struct LocalTransport {
    router: Router,
}

impl LocalTransport {
    /// Creates a transport to the server.
    pub fn new(app: App) -> Self {
        Self { router: router(app) }
    }
}

#[async_trait::async_trait]
impl Transport for LocalTransport {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<BodyStream>, TransportError> {
        let mut request = request.map(Body::from);
        request.extensions_mut().insert(ClientAddr::InProcess);
        let Ok(response) = self.router.clone().oneshot(request).await;
        Ok(response.map(|body| -> BodyStream {
            let transport_error = |error: axum::Error| TransportError {
                kind: ErrorKind::Unavailable,
                message: error.to_string(),
            };
            Box::pin(body.into_data_stream().map(move |chunk| chunk.map_err(transport_error)))
        }))
    }
}
