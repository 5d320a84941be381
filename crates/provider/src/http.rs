//! HTTP to model vendors: any wire as a [`ChatModel`], and one question with one whole response for everything else.
//!
//! It moves bytes, enforces time limits and retries. It knows no vendor's JSON, and no error or output holds the key.

pub(crate) mod api;
mod build;
mod client;
mod error;
mod header;
mod response;
mod stream;
mod url;
mod vendor;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use provost_model::{ChatModel, ChatRequest, ModelInfo, ModelStream};
use reqwest::Url;
use tokio::time::Instant;

pub use build::HttpModelBuilder;
pub use error::BuildError;

use self::vendor::VendorClient;
use crate::wire::Wire;

/// As good as never, and still a time that can be added to the present.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// How long each stage of a call may take. [`Duration::MAX`] means that a stage is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection stands. An injected client keeps its own.
    pub connect: Duration,
    /// From the request to the first byte of the answer. Long, because some servers load the model first.
    pub first_byte: Duration,
    /// Between two pieces of the answer. Long, because some models think in silence. Every byte counts as a piece, also the
    /// signs of life that servers send while the model thinks: what ends a call that gets nothing else is `total`.
    pub idle: Duration,
    /// The whole call with all its retries. A request's own deadline counts beside it.
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

/// A model behind HTTP. Cheap to clone: clones share everything, connections included.
#[derive(Clone)]
pub struct HttpModel {
    inner: Arc<HttpModelInner>,
}

/// Everything that a call needs.
struct HttpModelInner {
    wire: Box<dyn Wire>,
    info: ModelInfo,
    url: Url,
    vendor: VendorClient,
}

impl HttpModel {
    /// Begins a model of some provider over some wire.
    pub fn builder<W: Wire>(
        provider: impl Into<String>,
        model: impl Into<String>,
        wire: W,
    ) -> HttpModelBuilder<W> {
        HttpModelBuilder::new(provider.into(), model.into(), wire)
    }

    fn new(inner: HttpModelInner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// The address that requests go to.
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

/// The moment this much later. A time too long for the clock never comes.
fn later(from: Instant, wait: Duration) -> Instant {
    from.checked_add(wait).unwrap_or_else(|| from + FOREVER)
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
