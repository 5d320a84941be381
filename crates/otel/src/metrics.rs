//! Metrics that are derived from spans. Each span with an operation of the GenAI conventions is recorded when it
//! closes.

use std::fmt;
use std::time::Instant;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};
use provost_model::gen_ai;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Bucket boundaries of the GenAI conventions.
const TOKEN_BOUNDS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
const SECOND_BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const AGENT_SECOND_BOUNDS: [f64; 13] =
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];

/// Bucket boundaries for the cost of one call, starting at a hundredth of a cent.
const COST_BOUNDS: [f64; 12] =
    [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Subscriber layer that records metrics of spans.
pub(crate) struct MetricsLayer {
    tokens: Histogram<u64>,
    calls: Histogram<f64>,
    first_chunks: Histogram<f64>,
    costs: Histogram<f64>,
    runs: Histogram<f64>,
    tools: Histogram<f64>,
}

impl MetricsLayer {
    pub(crate) fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, bounds: &[f64]| {
            let histogram = meter.f64_histogram(name).with_unit("s");
            histogram.with_boundaries(bounds.to_vec()).build()
        };
        let tokens = meter.u64_histogram(gen_ai::METRIC_TOKENS).with_unit("{token}");
        Self {
            tokens: tokens.with_boundaries(TOKEN_BOUNDS.to_vec()).build(),
            calls: seconds(gen_ai::METRIC_DURATION, &SECOND_BOUNDS),
            first_chunks: seconds(gen_ai::METRIC_FIRST_CHUNK, &SECOND_BOUNDS),
            costs: meter
                .f64_histogram(gen_ai::METRIC_COST)
                .with_boundaries(COST_BOUNDS.to_vec())
                .build(),
            runs: seconds(gen_ai::METRIC_AGENT_DURATION, &AGENT_SECOND_BOUNDS),
            tools: seconds(gen_ai::METRIC_TOOL_DURATION, &SECOND_BOUNDS),
        }
    }

    /// Records the metrics of a closed span. Ignores spans without a known operation.
    fn measure(&self, span: &SpanMeasurement) {
        let seconds = span.started.elapsed().as_secs_f64();
        match span.text(gen_ai::OPERATION_NAME) {
            Some(gen_ai::INVOKE_AGENT) => self.runs.record(
                seconds,
                &span.labels(&[gen_ai::AGENT_NAME, gen_ai::REQUEST_MODEL, gen_ai::ERROR_TYPE]),
            ),
            Some(gen_ai::EXECUTE_TOOL) => self.tools.record(
                seconds,
                &span.labels(&[gen_ai::TOOL_NAME, gen_ai::AGENT_NAME, gen_ai::ERROR_TYPE]),
            ),
            // Calls of a model provider.
            Some(_) if span.text(gen_ai::PROVIDER_NAME).is_some() => {
                self.measure_call(span, seconds)
            }
            _ => {}
        }
    }

    /// Records the duration, tokens, cost and time to the first delta of a model call.
    fn measure_call(&self, span: &SpanMeasurement, seconds: f64) {
        let mut labels = span.labels(&[
            gen_ai::OPERATION_NAME,
            gen_ai::PROVIDER_NAME,
            gen_ai::REQUEST_MODEL,
            gen_ai::RESPONSE_MODEL,
        ]);
        for (tokens, kind) in [(span.input, "input"), (span.output, "output")] {
            if tokens > 0 {
                labels.push(KeyValue::new(gen_ai::TOKEN_TYPE, kind));
                self.tokens.record(tokens, &labels);
                labels.pop();
            }
        }
        if let Some(seconds) = span.first_chunk {
            self.first_chunks.record(seconds, &labels);
        }
        if let Some(cost) = span.cost {
            let currency = labels.len();
            labels.extend(span.labels(&[gen_ai::USAGE_COST_CURRENCY]));
            self.costs.record(cost, &labels);
            labels.truncate(currency);
        }
        labels.extend(span.labels(&[gen_ai::ERROR_TYPE]));
        self.calls.record(seconds, &labels);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for MetricsLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        if attributes.fields().field(gen_ai::OPERATION_NAME).is_none() {
            return;
        }
        let mut measurement = SpanMeasurement::start();
        attributes.record(&mut measurement);
        if let Some(span) = cx.span(id) {
            span.extensions_mut().insert(measurement);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        if let Some(measurement) = span.extensions_mut().get_mut::<SpanMeasurement>() {
            values.record(measurement);
        }
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let measurement =
            cx.span(&id).and_then(|span| span.extensions_mut().remove::<SpanMeasurement>());
        if let Some(measurement) = measurement {
            self.measure(&measurement);
        }
    }
}

/// Span fields that become metric labels. Each has few distinct values.
const LABELS: [&str; 8] = [
    gen_ai::OPERATION_NAME,
    gen_ai::PROVIDER_NAME,
    gen_ai::REQUEST_MODEL,
    gen_ai::RESPONSE_MODEL,
    gen_ai::AGENT_NAME,
    gen_ai::TOOL_NAME,
    gen_ai::ERROR_TYPE,
    gen_ai::USAGE_COST_CURRENCY,
];

/// Values recorded by an open span, for its metrics.
struct SpanMeasurement {
    started: Instant,
    texts: Vec<(&'static str, String)>,
    input: u64,
    output: u64,
    first_chunk: Option<f64>,
    cost: Option<f64>,
}

impl SpanMeasurement {
    fn start() -> Self {
        Self {
            started: Instant::now(),
            texts: Vec::with_capacity(LABELS.len()),
            input: 0,
            output: 0,
            first_chunk: None,
            cost: None,
        }
    }

    /// Returns the recorded value of a label. `None` if the span has not recorded it.
    fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(recorded, _)| *recorded == name).map(|(_, text)| text.as_str())
    }

    /// Returns a label for each of the names that the span has recorded.
    fn labels(&self, names: &[&'static str]) -> Vec<KeyValue> {
        let recorded = names.iter().filter_map(|name| Some((*name, self.text(name)?)));
        recorded.map(|(name, text)| KeyValue::new(name, text.to_owned())).collect()
    }
}

impl Visit for SpanMeasurement {
    fn record_i64(&mut self, field: &Field, value: i64) {
        let tokens = u64::try_from(value).unwrap_or_default();
        match field.name() {
            gen_ai::USAGE_INPUT => self.input = tokens,
            gen_ai::USAGE_OUTPUT => self.output = tokens,
            _ => {}
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match field.name() {
            gen_ai::RESPONSE_FIRST_CHUNK => self.first_chunk = Some(value),
            gen_ai::USAGE_COST => self.cost = Some(value),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(name) = LABELS.iter().find(|name| **name == field.name()) {
            self.texts.push((name, value.to_owned()));
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
