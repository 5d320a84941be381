//! The server in the same process: the same table, without a socket.

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use provost_api::{Answers, Transport, TransportError};
use provost_core::ErrorKind;

use crate::app::App;
use crate::router::{Origin, Site};

/// Carries requests to an [`App`] in this process. Whoever has it may do everything.
pub struct LocalTransport {
    site: Site,
}

impl LocalTransport {
    /// A transport to this server.
    pub fn new(app: App) -> Self {
        Self { site: Site::new(app) }
    }
}

#[async_trait::async_trait]
impl Transport for LocalTransport {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Answers>, TransportError> {
        let request = request.map(axum::body::Body::from);
        let response = self.site.answer(request, Origin::Process).await;
        Ok(response.map(|body| -> Answers {
            let broken = |error: axum::Error| TransportError {
                kind: ErrorKind::Unavailable,
                message: error.to_string(),
            };
            Box::pin(body.into_data_stream().map(move |piece| piece.map_err(broken)))
        }))
    }
}
