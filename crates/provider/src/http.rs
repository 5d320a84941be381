//! HTTP to model vendors: any wire as a [`ChatModel`], and a client for requests with one complete response.
//!
//! This module sends bytes, enforces time limits and retries. It knows no vendor's JSON. No error or debug output
//! contains the key.

pub(crate) mod api;
mod build;
mod client;
mod error;
mod header;
mod response;
mod stream;
mod url;
mod vendor_client;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use provost_model::{ChatModel, ChatRequest, ModelInfo, ModelStream};
use reqwest::Url;
use tokio::time::Instant;

pub use build::HttpModelBuilder;
pub use error::ModelBuildError;

use self::vendor_client::VendorClient;
use crate::wire::WireFormat;

/// A duration that is practically infinite but can still be added to the current time.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Time limits of the stages of a request. [`Duration::MAX`] disables the limit of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time until a connection is open. A client that the caller provides uses its own limit.
    pub connect: Duration,
    /// Time from the request to the first byte of the response. The default is long because some servers load the model
    /// first.
    pub first_byte: Duration,
    /// Time between two chunks of the response. The default is long because some models think without output.
    /// Keep-alive bytes count as chunks too, so only `total` ends a call that receives nothing else.
    pub idle: Duration,
    /// Time of the whole call with all its retries. The deadline of a request applies as well. `None` means no limit.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(300),
            total: Some(Duration::from_secs(3600)),
        }
    }
}

/// A chat model over HTTP. Clones are cheap and share all state, including connections.
#[derive(Clone)]
pub struct HttpModel {
    inner: Arc<HttpModelInner>,
}

/// State that all calls of a model share.
struct HttpModelInner {
    wire: Box<dyn WireFormat>,
    info: ModelInfo,
    url: Url,
    vendor: VendorClient,
}

impl HttpModel {
    /// Creates a builder for a model of a provider over a wire.
    pub fn builder<W: WireFormat>(
        provider: impl Into<String>,
        model: impl Into<String>,
        wire: W,
    ) -> HttpModelBuilder<W> {
        HttpModelBuilder::new(provider.into(), model.into(), wire)
    }

    fn new(inner: HttpModelInner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Returns the URL of the requests.
    pub fn url(&self) -> &str {
        self.inner.url.as_str()
    }
}

impl ChatModel for HttpModel {
    fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        Box::pin(stream::call(Arc::clone(&self.inner), request))
    }
}

/// Adds a wait to a time. A sum that overflows the clock is a time far in the future.
fn deadline_after(start: Instant, wait: Duration) -> Instant {
    start.checked_add(wait).unwrap_or_else(|| start + FOREVER)
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("provider", &self.inner.info.provider)
            .field("model", &self.inner.info.model)
            .field("url", &self.url())
            .finish_non_exhaustive()
    }
}
