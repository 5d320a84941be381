//! Setting telemetry up: what the program says, and what the environment says where the program says nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider,
};
use provost_core::Secret;

use crate::export::{Gate, Health, Redact, Redacting};
use crate::send::Sender;
use crate::{Error, Telemetry};

/// How long one request may take, with its retries.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The name of a service that has none.
const SERVICE_NAME: &str = "provost";
/// What the SDK calls a service that has no name.
const NO_NAME: &str = "unknown_service";
/// The value of `OTEL_SEMCONV_STABILITY_OPT_IN` that leaves old names out.
const LATEST: &str = "gen_ai_latest_experimental";

type Lookup = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Telemetry in the making. What is set here wins over the environment, except that `OTEL_SDK_DISABLED=true` always
/// disables, and content is sent if either asks for it.
pub struct Builder {
    endpoint: Option<String>,
    headers: Vec<(String, Secret<String>)>,
    service_name: Option<String>,
    attributes: Vec<KeyValue>,
    share: Option<f64>,
    queue_max: Option<usize>,
    interval: Option<Duration>,
    metrics: bool,
    content: bool,
    redact: Redact,
    env: Lookup,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: Vec::new(),
            service_name: None,
            attributes: Vec::new(),
            share: None,
            queue_max: None,
            interval: None,
            metrics: true,
            content: false,
            redact: None,
            env: Box::new(|name| std::env::var(name).ok()),
        }
    }
}

impl Builder {
    /// Sends to an OTLP receiver over HTTP: spans to `/v1/traces` below this address, metrics to `/v1/metrics`.
    #[must_use]
    pub fn otlp_http(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// Passes every text of a span through a function before it leaves the process, to take out secrets.
    #[must_use]
    pub fn redact(mut self, redact: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redact = Some(Arc::new(redact));
        self
    }

    /// Sends a header with everything, such as a key. It is never printed.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The name and version of the program.
    #[must_use]
    pub fn service(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.service_name = Some(name.into());
        self.attribute("service.version", version)
    }

    /// Says something about everything that is sent, such as `deployment.environment.name`.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push(KeyValue::new(name.into(), value.into()));
        self
    }

    /// The share of traces that is sent, from 0 to 1. A trace that began elsewhere goes by what was decided there.
    #[must_use]
    pub fn share(mut self, share: f64) -> Self {
        self.share = Some(share);
        self
    }

    /// Most spans that wait to be sent; more are dropped, so that a receiver that is away costs no memory. 2048 if nothing
    /// is said.
    #[must_use]
    pub fn queue_max(mut self, spans: usize) -> Self {
        self.queue_max = Some(spans);
        self
    }

    /// How often spans and metrics are sent; every 5 and 60 seconds if nothing is said.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = Some(interval);
        self
    }

    /// False sends no metrics.
    #[must_use]
    pub fn metrics(mut self, metrics: bool) -> Self {
        self.metrics = metrics;
        self
    }

    /// True sends prompts, answers, arguments and results with the spans. Think of who can read them there.
    #[must_use]
    pub fn capture_content(mut self, content: bool) -> Self {
        self.content = content;
        self
    }

    /// Looks variables up here and not in the process's environment. The SDK's own variables, such as
    /// `OTEL_BSP_SCHEDULE_DELAY`, are always the process's.
    #[must_use]
    pub fn env(mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.env = Box::new(lookup);
        self
    }

    /// Sets it up. Nothing is sent, and that is no error, where nobody says where to.
    pub fn build(self) -> Result<Telemetry, Error> {
        if self.flag("OTEL_SDK_DISABLED") {
            return Ok(Telemetry::default());
        }
        let traces = self.endpoint("TRACES", "v1/traces")?;
        let metrics = self.endpoint("METRICS", "v1/metrics")?.filter(|_| self.metrics);
        if traces.is_none() && metrics.is_none() {
            return Ok(Telemetry::default());
        }
        if let Some(share) = self.share.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(Error::Share(share));
        }
        let certificates = self.certificates([&traces, &metrics]);
        let sender = Sender::new(&self.headers, TIMEOUT, certificates)?;
        let health = Arc::new(Health::default());
        let spans = traces.map(|url| self.spans(url, &sender, &health)).transpose()?;
        let metrics = metrics.map(|url| self.meters(url, &sender, &health)).transpose()?;
        let content =
            self.content || self.flag("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        Ok(Telemetry::new(spans, metrics, content))
    }

    fn spans(
        &self,
        url: String,
        sender: &Sender,
        health: &Arc<Health>,
    ) -> Result<SdkTracerProvider, Error> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(sender.clone())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIMEOUT)
            .with_endpoint(url)
            .build()?;
        let exporter = Gate {
            exporter,
            health: Arc::clone(health),
            old_names: !self.wants_latest(),
            redact: Redacting(self.redact.clone()),
        };
        let mut batch = BatchConfigBuilder::default();
        if let Some(queue_max) = self.queue_max {
            batch = batch.with_max_queue_size(queue_max.max(1));
        }
        if let Some(interval) = self.interval {
            batch = batch.with_scheduled_delay(interval);
        }
        let processor =
            BatchSpanProcessor::builder(exporter).with_batch_config(batch.build()).build();
        let mut provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(self.resource());
        if let Some(share) = self.share {
            let own = Sampler::TraceIdRatioBased(share);
            provider = provider.with_sampler(Sampler::ParentBased(Box::new(own)));
        }
        Ok(provider.build())
    }

    fn meters(
        &self,
        url: String,
        sender: &Sender,
        health: &Arc<Health>,
    ) -> Result<SdkMeterProvider, Error> {
        let exporter = MetricExporter::builder()
            .with_http()
            .with_http_client(sender.clone())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIMEOUT)
            .with_endpoint(url)
            .build()?;
        let exporter = Gate {
            exporter,
            health: Arc::clone(health),
            old_names: false,
            redact: Redacting::default(),
        };
        let mut reader = PeriodicReader::builder(exporter);
        if let Some(interval) = self.interval {
            reader = reader.with_interval(interval);
        }
        let provider = SdkMeterProvider::builder().with_reader(reader.build());
        Ok(provider.with_resource(self.resource()).build())
    }

    /// Who sends. The SDK has already looked at `OTEL_RESOURCE_ATTRIBUTES`.
    fn resource(&self) -> Resource {
        let known = Resource::builder().with_attributes(self.attributes.iter().cloned()).build();
        let found = known.get(&"service.name".into()).map(|name| name.to_string());
        let found = found.filter(|name| !name.starts_with(NO_NAME));
        let name = self.service_name.clone().or_else(|| self.variable("OTEL_SERVICE_NAME"));
        let name = name.or(found).unwrap_or_else(|| SERVICE_NAME.to_owned());
        Resource::builder()
            .with_attributes(self.attributes.iter().cloned())
            .with_service_name(name)
            .build()
    }

    /// Where a signal is sent to.
    fn endpoint(&self, signal: &str, path: &str) -> Result<Option<String>, Error> {
        if self.variable(&format!("OTEL_{signal}_EXPORTER")).as_deref() == Some("none") {
            return Ok(None);
        }
        let below = |base: String| Ok(Some(format!("{}/{path}", base.trim_end_matches('/'))));
        if let Some(base) = &self.endpoint {
            return web_address(base.clone()).and_then(below);
        }
        if let Some(own) = self.variable(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")) {
            return web_address(own).map(Some);
        }
        let shared = self.variable("OTEL_EXPORTER_OTLP_ENDPOINT");
        shared.map_or(Ok(None), |base| web_address(base).and_then(below))
    }

    /// A file of certificates to trust, where something is sent by https.
    fn certificates(&self, urls: [&Option<String>; 2]) -> Option<PathBuf> {
        let is_secure = |url: &str| url.starts_with("https:");
        urls.into_iter().flatten().any(|url| is_secure(url)).then_some(())?;
        let own = self.variable("OTEL_EXPORTER_OTLP_CERTIFICATE");
        own.or_else(|| self.variable("SSL_CERT_FILE")).map(PathBuf::from)
    }

    fn wants_latest(&self) -> bool {
        let wanted = self.variable("OTEL_SEMCONV_STABILITY_OPT_IN").unwrap_or_default();
        wanted.split(',').any(|category| category.trim() == LATEST)
    }

    fn flag(&self, name: &str) -> bool {
        self.variable(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// A variable that is set to something.
    fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

fn web_address(url: String) -> Result<String, Error> {
    let is_one = reqwest::Url::parse(&url)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if is_one { Ok(url) } else { Err(Error::Endpoint(url)) }
}
