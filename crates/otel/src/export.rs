//! What stands before the exporters: the last touch to spans, and one warning where there could be thousands.

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

/// Whether telemetry can be sent. Says so when that changes, and not with every batch.
#[derive(Debug, Default)]
pub(crate) struct Health(AtomicBool);

impl Health {
    fn note(&self, outcome: OTelSdkResult) -> OTelSdkResult {
        match &outcome {
            Ok(()) => {
                if self.0.swap(false, Ordering::Relaxed) {
                    tracing::info!("telemetry is sent again");
                }
            }
            Err(error) => {
                if !self.0.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "telemetry is lost because it cannot be sent; runs go on");
                }
            }
        }
        outcome
    }
}

/// Takes secrets out of a text.
pub(crate) type Redact = Option<Arc<dyn Fn(&str) -> String + Send + Sync>>;

/// What texts of spans pass before they leave.
#[derive(Clone, Default)]
pub(crate) struct Redacting(pub(crate) Redact);

impl std::fmt::Debug for Redacting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redacting({})", self.0.is_some())
    }
}

impl Redacting {
    fn span(&self, span: &mut SpanData) {
        let Some(redact) = &self.0 else { return };
        attributes(&mut span.attributes, redact.as_ref());
        for event in &mut span.events.events {
            event.name = redact(&event.name).into();
            attributes(&mut event.attributes, redact.as_ref());
        }
        span.name = redact(&span.name).into();
        if let Status::Error { description } = &mut span.status {
            *description = redact(description).into();
        }
    }
}

fn attributes(attributes: &mut [KeyValue], redact: &dyn Fn(&str) -> String) {
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

/// An exporter of spans or metrics behind its gate.
#[derive(Debug)]
pub(crate) struct Gate<E> {
    pub(crate) exporter: E,
    pub(crate) health: Arc<Health>,
    /// True adds what attributes were called before they were renamed.
    pub(crate) old_names: bool,
    pub(crate) redact: Redacting,
}

impl<E: SpanExporter> SpanExporter for Gate<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            finish(&mut span.attributes, self.old_names);
            self.redact.span(span);
        }
        self.health.note(self.exporter.export(batch).await)
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

impl<E: PushMetricExporter> PushMetricExporter for Gate<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.health.note(self.exporter.export(metrics).await)
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

/// Makes lists of what `tracing` could only carry as text, and adds old names.
fn finish(attributes: &mut Vec<KeyValue>, old_names: bool) {
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
    if let Some(system) = system.filter(|_| old_names) {
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

    /// Counts what is logged.
    #[derive(Clone, Default)]
    struct Logged(Arc<AtomicUsize>);

    impl<S: tracing::Subscriber> Layer<S> for Logged {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_outage_is_logged_once() {
        let logged = Logged::default();
        let subscriber = tracing_subscriber::registry().with(logged.clone());
        let _guard = tracing::subscriber::set_default(subscriber);
        let health = Health::default();
        let broken = || Err(OTelSdkError::InternalFailure("nobody listens".to_owned()));
        let told = |outcome: OTelSdkResult| {
            let was_ok = outcome.is_ok();
            assert_eq!(health.note(outcome).is_ok(), was_ok);
            logged.0.load(Ordering::Relaxed)
        };
        assert_eq!([told(Ok(())), told(broken()), told(broken()), told(broken())], [0, 1, 1, 1]);
        assert_eq!([told(Ok(())), told(Ok(())), told(broken())], [2, 2, 3]);
    }

    #[test]
    fn every_text_of_a_span_is_redacted() {
        let redacting = Redacting(Some(Arc::new(|text: &str| text.replace("swordfish", "*"))));
        let mut texts = vec![
            KeyValue::new("one", "a swordfish"),
            KeyValue::new(
                "many",
                Value::Array(Array::String(vec!["swordfish".into(), "b".into()])),
            ),
            KeyValue::new("number", 3),
        ];
        attributes(&mut texts, redacting.0.as_ref().unwrap().as_ref());
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
        finish(&mut attributes, false);
        let stop = Value::Array(Array::String(vec!["stop".into()]));
        assert_eq!(attributes[0].value, stop);
        assert_eq!(attributes[1].value, Value::from("no list"));
        assert_eq!(attributes.len(), 3);
        finish(&mut attributes, true);
        assert_eq!(attributes[3], KeyValue::new(gen_ai::SYSTEM, "openai"));
    }
}
