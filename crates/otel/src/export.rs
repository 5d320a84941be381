//! Wrapper around the exporters. It post-processes spans and logs one warning per outage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::Status;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use provost_model::gen_ai;

/// Records whether the last export failed. Logs a message only if this changes, not for every batch.
#[derive(Debug, Default)]
pub(crate) struct ExportStatus(AtomicBool);

impl ExportStatus {
    /// Records the outcome of an export, logs a change, and returns the outcome unchanged.
    fn record(&self, outcome: OTelSdkResult) -> OTelSdkResult {
        match &outcome {
            Ok(()) => {
                if self.0.swap(false, Ordering::Relaxed) {
                    tracing::info!("the export of telemetry works again");
                }
            }
            Err(error) => {
                if !self.0.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "the export of telemetry failed, data is lost; runs are not affected");
                }
            }
        }
        outcome
    }
}

/// Function that removes secrets from a text. `None` leaves texts unchanged.
pub(crate) type RedactFn = Option<Arc<dyn Fn(&str) -> String + Send + Sync>>;

/// Redacts the texts of spans.
#[derive(Clone, Default)]
pub(crate) struct SpanRedactor(pub(crate) RedactFn);

impl std::fmt::Debug for SpanRedactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SpanRedactor({})", self.0.is_some())
    }
}

impl SpanRedactor {
    /// Redacts the name, the attributes, the events and the error description of a span in place.
    fn redact_span(&self, span: &mut SpanData) {
        let Some(redact) = &self.0 else { return };
        redact_attributes(&mut span.attributes, redact.as_ref());
        for event in &mut span.events.events {
            event.name = redact(&event.name).into();
            redact_attributes(&mut event.attributes, redact.as_ref());
        }
        span.name = redact(&span.name).into();
        if let Status::Error { description } = &mut span.status {
            *description = redact(description).into();
        }
    }
}

/// Redacts all string attributes in place.
fn redact_attributes(attributes: &mut [KeyValue], redact: &dyn Fn(&str) -> String) {
    for attribute in attributes {
        match &mut attribute.value {
            Value::String(text) => *text = redact(text.as_str()).into(),
            Value::Array(Array::String(texts)) => {
                for text in texts {
                    *text = redact(text.as_str()).into();
                }
            }
            _ => {}
        }
    }
}

/// Wraps an exporter of spans or metrics: normalizes and redacts spans before the export, and logs an outage once.
#[derive(Debug)]
pub(crate) struct FilteringExporter<E> {
    pub(crate) exporter: E,
    pub(crate) status: Arc<ExportStatus>,
    /// True to add attributes under their legacy names too.
    pub(crate) legacy_attribute_names: bool,
    pub(crate) redact: SpanRedactor,
}

impl<E: SpanExporter> SpanExporter for FilteringExporter<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            normalize_attributes(&mut span.attributes, self.legacy_attribute_names);
            self.redact.redact_span(span);
        }
        self.status.record(self.exporter.export(batch).await)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for FilteringExporter<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.status.record(self.exporter.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

/// Converts JSON texts to lists in place, because `tracing` fields cannot hold lists. Adds the legacy provider
/// attribute if `legacy_attribute_names` is true.
fn normalize_attributes(attributes: &mut Vec<KeyValue>, legacy_attribute_names: bool) {
    let mut system = None;
    for attribute in attributes.iter_mut() {
        let name = attribute.key.as_str();
        if gen_ai::LISTS.contains(&name)
            && let Value::String(text) = &attribute.value
            && let Ok(items) = serde_json::from_str::<Vec<String>>(text.as_str())
        {
            let items = items.into_iter().map(StringValue::from).collect();
            attribute.value = Value::Array(Array::String(items));
        } else if name == gen_ai::PROVIDER_NAME {
            system = Some(attribute.value.clone());
        }
    }
    if let Some(system) = system.filter(|_| legacy_attribute_names) {
        attributes.push(KeyValue::new(gen_ai::SYSTEM, system));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use opentelemetry_sdk::error::OTelSdkError;
    use tracing::Event;
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;

    /// Counts log events.
    #[derive(Clone, Default)]
    struct EventCounter(Arc<AtomicUsize>);

    impl<S: tracing::Subscriber> Layer<S> for EventCounter {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_outage_is_logged_once() {
        let counter = EventCounter::default();
        let subscriber = tracing_subscriber::registry().with(counter.clone());
        let _guard = tracing::subscriber::set_default(subscriber);
        let status = ExportStatus::default();
        let broken = || Err(OTelSdkError::InternalFailure("connection refused".to_owned()));
        let record = |outcome: OTelSdkResult| {
            let was_ok = outcome.is_ok();
            assert_eq!(status.record(outcome).is_ok(), was_ok);
            counter.0.load(Ordering::Relaxed)
        };
        assert_eq!(
            [record(Ok(())), record(broken()), record(broken()), record(broken())],
            [0, 1, 1, 1]
        );
        assert_eq!([record(Ok(())), record(Ok(())), record(broken())], [2, 2, 3]);
    }

    #[test]
    fn every_text_of_a_span_is_redacted() {
        let redacting = SpanRedactor(Some(Arc::new(|text: &str| text.replace("swordfish", "*"))));
        let mut texts = vec![
            KeyValue::new("one", "a swordfish"),
            KeyValue::new(
                "many",
                Value::Array(Array::String(vec!["swordfish".into(), "b".into()])),
            ),
            KeyValue::new("number", 3),
        ];
        redact_attributes(&mut texts, redacting.0.as_ref().unwrap().as_ref());
        assert_eq!(texts[0].value, Value::from("a *"));
        let many = Value::Array(Array::String(vec!["*".into(), "b".into()]));
        assert_eq!((&texts[1].value, &texts[2].value), (&many, &Value::from(3)));
    }

    #[test]
    fn a_list_is_a_list_and_other_text_stays() {
        let mut attributes = vec![
            KeyValue::new(gen_ai::RESPONSE_FINISH_REASONS, r#"["stop"]"#),
            KeyValue::new(gen_ai::REQUEST_STOP_SEQUENCES, "no list"),
            KeyValue::new(gen_ai::PROVIDER_NAME, "openai"),
        ];
        normalize_attributes(&mut attributes, false);
        let stop = Value::Array(Array::String(vec!["stop".into()]));
        assert_eq!(attributes[0].value, stop);
        assert_eq!(attributes[1].value, Value::from("no list"));
        assert_eq!(attributes.len(), 3);
        normalize_attributes(&mut attributes, true);
        assert_eq!(attributes[3], KeyValue::new(gen_ai::SYSTEM, "openai"));
    }
}
