//! The server in the same process: the same router, without a socket.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use provost_api::{Answers, Transport, TransportError};
use provost_core::ErrorKind;
use tower::ServiceExt;

use crate::app::App;
use crate::middleware::ClientAddr;
use crate::router::router;

/// Carries requests to an [`App`] in this process. Its caller has every permission.
pub struct LocalTransport {
    router: Router,
}

impl LocalTransport {
    /// A transport to this server.
    pub fn new(app: App) -> Self {
        Self { router: router(app) }
    }
}

#[async_trait::async_trait]
impl Transport for LocalTransport {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Answers>, TransportError> {
        let mut request = request.map(Body::from);
        request.extensions_mut().insert(ClientAddr::InProcess);
        let Ok(response) = self.router.clone().oneshot(request).await;
        Ok(response.map(|body| -> Answers {
            let broken = |error: axum::Error| TransportError {
                kind: ErrorKind::Unavailable,
                message: error.to_string(),
            };
            Box::pin(body.into_data_stream().map(move |piece| piece.map_err(broken)))
        }))
    }
}
