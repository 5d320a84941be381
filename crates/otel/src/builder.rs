//! Configuration of telemetry. Options of the program take precedence over environment variables.

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

use crate::export::{ExportStatus, FilteringExporter, RedactFn, SpanRedactor};
use crate::http_client::OtlpHttpClient;
use crate::{Error, Telemetry};

/// Timeout of an export request, including retries.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Default service name.
const SERVICE_NAME: &str = "provost";
/// Prefix of the SDK's default service name.
const SDK_SERVICE_NAME: &str = "unknown_service";
/// The value of `OTEL_SEMCONV_STABILITY_OPT_IN` that disables legacy attribute names.
const LATEST_CONVENTIONS: &str = "gen_ai_latest_experimental";

/// Returns the value of an environment variable. `None` if it is not set.
type VariableLookup = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Builder of [`Telemetry`].
///
/// An option takes precedence over its environment variable, with two exceptions: `OTEL_SDK_DISABLED=true` always
/// disables telemetry, and content is captured if the option or the variable enables it.
pub struct TelemetryBuilder {
    endpoint: Option<String>,
    headers: Vec<(String, Secret<String>)>,
    service_name: Option<String>,
    attributes: Vec<KeyValue>,
    sample_ratio: Option<f64>,
    queue_max: Option<usize>,
    interval: Option<Duration>,
    metrics: bool,
    content: bool,
    redact: RedactFn,
    env: VariableLookup,
}

impl Default for TelemetryBuilder {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: Vec::new(),
            service_name: None,
            attributes: Vec::new(),
            sample_ratio: None,
            queue_max: None,
            interval: None,
            metrics: true,
            content: false,
            redact: None,
            env: Box::new(|name| std::env::var(name).ok()),
        }
    }
}

impl TelemetryBuilder {
    /// Sets the base URL of an OTLP/HTTP receiver. Spans are sent to the path `/v1/traces`, metrics to `/v1/metrics`.
    #[must_use]
    pub fn otlp_http(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// Applies a function to every text of a span before the export, to remove secrets.
    #[must_use]
    pub fn redact(mut self, redact: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redact = Some(Arc::new(redact));
        self
    }

    /// Adds an HTTP header to every export request, such as an API key. The value never appears in debug output.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the name and the version of the service.
    #[must_use]
    pub fn service(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.service_name = Some(name.into());
        self.attribute("service.version", version)
    }

    /// Adds a resource attribute, such as `deployment.environment.name`.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push(KeyValue::new(name.into(), value.into()));
        self
    }

    /// Sets the fraction of traces to export, from 0 to 1. A trace from another process keeps the sampling decision
    /// of that process.
    #[must_use]
    pub fn sample_ratio(mut self, ratio: f64) -> Self {
        self.sample_ratio = Some(ratio);
        self
    }

    /// Sets the maximum number of spans in the export queue. Further spans are dropped, so an unavailable receiver
    /// does not increase memory use. The default is 2048.
    #[must_use]
    pub fn queue_max(mut self, spans: usize) -> Self {
        self.queue_max = Some(spans);
        self
    }

    /// Sets the export interval. The default is 5 seconds for spans and 60 seconds for metrics.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = Some(interval);
        self
    }

    /// Enables or disables metrics. The default is enabled.
    #[must_use]
    pub fn metrics(mut self, metrics: bool) -> Self {
        self.metrics = metrics;
        self
    }

    /// Enables or disables the export of prompts, responses, arguments and results with the spans. The default is
    /// disabled, because everyone with access to the receiver can read the content.
    #[must_use]
    pub fn capture_content(mut self, content: bool) -> Self {
        self.content = content;
        self
    }

    /// Sets the function that looks up environment variables. The SDK itself always reads the variables of the
    /// process, such as `OTEL_BSP_SCHEDULE_DELAY`.
    #[must_use]
    pub fn env(mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.env = Box::new(lookup);
        self
    }

    /// Builds the telemetry. If no endpoint is configured or `OTEL_SDK_DISABLED` is `true`, the result is inactive and
    /// exports nothing. Returns an error if an option is invalid or an exporter cannot be built.
    pub fn build(self) -> Result<Telemetry, Error> {
        if self.flag("OTEL_SDK_DISABLED") {
            return Ok(Telemetry::default());
        }
        let traces = self.endpoint("TRACES", "v1/traces")?;
        let metrics = self.endpoint("METRICS", "v1/metrics")?.filter(|_| self.metrics);
        if traces.is_none() && metrics.is_none() {
            return Ok(Telemetry::default());
        }
        if let Some(ratio) = self.sample_ratio.filter(|ratio| !(0.0..=1.0).contains(ratio)) {
            return Err(Error::SampleRatio(ratio));
        }
        let certificates = self.certificates([&traces, &metrics]);
        let client = OtlpHttpClient::new(&self.headers, TIMEOUT, certificates)?;
        let status = Arc::new(ExportStatus::default());
        let spans = traces.map(|url| self.span_provider(url, &client, &status)).transpose()?;
        let metrics = metrics.map(|url| self.meter_provider(url, &client, &status)).transpose()?;
        let content =
            self.content || self.flag("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        Ok(Telemetry::new(spans, metrics, content))
    }

    /// Creates the provider that exports spans in batches.
    fn span_provider(
        &self,
        url: String,
        client: &OtlpHttpClient,
        status: &Arc<ExportStatus>,
    ) -> Result<SdkTracerProvider, Error> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIMEOUT)
            .with_endpoint(url)
            .build()?;
        let exporter = FilteringExporter {
            exporter,
            status: Arc::clone(status),
            legacy_attribute_names: !self.uses_latest_conventions(),
            redact: SpanRedactor(self.redact.clone()),
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
        if let Some(ratio) = self.sample_ratio {
            let own = Sampler::TraceIdRatioBased(ratio);
            provider = provider.with_sampler(Sampler::ParentBased(Box::new(own)));
        }
        Ok(provider.build())
    }

    /// Creates the provider that exports metrics periodically.
    fn meter_provider(
        &self,
        url: String,
        client: &OtlpHttpClient,
        status: &Arc<ExportStatus>,
    ) -> Result<SdkMeterProvider, Error> {
        let exporter = MetricExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIMEOUT)
            .with_endpoint(url)
            .build()?;
        let exporter = FilteringExporter {
            exporter,
            status: Arc::clone(status),
            legacy_attribute_names: false,
            redact: SpanRedactor::default(),
        };
        let mut reader = PeriodicReader::builder(exporter);
        if let Some(interval) = self.interval {
            reader = reader.with_interval(interval);
        }
        let provider = SdkMeterProvider::builder().with_reader(reader.build());
        Ok(provider.with_resource(self.resource()).build())
    }

    /// Builds the attributes of the service. Its name comes from the option, `OTEL_SERVICE_NAME` or
    /// `OTEL_RESOURCE_ATTRIBUTES`, in this order, or is [`SERVICE_NAME`].
    fn resource(&self) -> Resource {
        let defaults = Resource::builder().with_attributes(self.attributes.iter().cloned()).build();
        let found = defaults.get(&"service.name".into()).map(|name| name.to_string());
        let found = found.filter(|name| !name.starts_with(SDK_SERVICE_NAME));
        let name = self.service_name.clone().or_else(|| self.variable("OTEL_SERVICE_NAME"));
        let name = name.or(found).unwrap_or_else(|| SERVICE_NAME.to_owned());
        Resource::builder()
            .with_attributes(self.attributes.iter().cloned())
            .with_service_name(name)
            .build()
    }

    /// Returns the URL for a signal: from the option, the variable of the signal, or the variable of all signals, in
    /// this order. `None` if none is set or the exporter of the signal is `none`.
    fn endpoint(&self, signal: &str, path: &str) -> Result<Option<String>, Error> {
        if self.variable(&format!("OTEL_{signal}_EXPORTER")).as_deref() == Some("none") {
            return Ok(None);
        }
        let with_path = |base: String| Ok(Some(format!("{}/{path}", base.trim_end_matches('/'))));
        if let Some(base) = &self.endpoint {
            return check_url(base.clone()).and_then(with_path);
        }
        if let Some(url) = self.variable(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")) {
            return check_url(url).map(Some);
        }
        let shared = self.variable("OTEL_EXPORTER_OTLP_ENDPOINT");
        shared.map_or(Ok(None), |base| check_url(base).and_then(with_path))
    }

    /// Returns the path of the certificate file from the environment. `None` if no URL uses HTTPS or no variable is
    /// set.
    fn certificates(&self, urls: [&Option<String>; 2]) -> Option<PathBuf> {
        let is_secure = |url: &str| url.starts_with("https:");
        urls.into_iter().flatten().any(|url| is_secure(url)).then_some(())?;
        let own = self.variable("OTEL_EXPORTER_OTLP_CERTIFICATE");
        own.or_else(|| self.variable("SSL_CERT_FILE")).map(PathBuf::from)
    }

    /// Returns true if `OTEL_SEMCONV_STABILITY_OPT_IN` disables legacy attribute names.
    fn uses_latest_conventions(&self) -> bool {
        let categories = self.variable("OTEL_SEMCONV_STABILITY_OPT_IN").unwrap_or_default();
        categories.split(',').any(|category| category.trim() == LATEST_CONVENTIONS)
    }

    /// Returns true if the variable is `true`, ignoring case.
    fn flag(&self, name: &str) -> bool {
        self.variable(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns the value of a variable; `None` if it is not set or empty.
    fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

/// Returns the URL unchanged. Returns an error if it is not an HTTP or HTTPS URL with a host.
fn check_url(url: String) -> Result<String, Error> {
    let is_http = reqwest::Url::parse(&url)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if is_http { Ok(url) } else { Err(Error::Endpoint(url)) }
}
