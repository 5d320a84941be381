//! An OTLP/HTTP receiver that decodes and stores the received data.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;
use serde_json::{Value, json};

/// Attributes by name.
pub(crate) type Attributes = BTreeMap<String, Value>;

/// Numbers of the span kinds in the protocol.
pub(crate) const INTERNAL: i32 = 1;
pub(crate) const CLIENT: i32 = 3;
/// Numbers of the span status in the protocol.
pub(crate) const UNSET: i32 = 0;
pub(crate) const ERROR: i32 = 2;

/// A received span.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) kind: i32,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Id of the parent span; empty for the root of a trace.
    pub(crate) parent: String,
    pub(crate) status: i32,
    pub(crate) attributes: Attributes,
    pub(crate) resource: Attributes,
    pub(crate) events: usize,
}

impl Span {
    pub(crate) fn get(&self, name: &str) -> &Value {
        self.attributes.get(name).unwrap_or(&Value::Null)
    }
}

/// A received series of a histogram.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) bounds: Vec<f64>,
    pub(crate) attributes: Attributes,
}

#[derive(Debug, Default)]
struct ReceivedData {
    spans: Vec<Span>,
    series: Vec<Series>,
    headers: Vec<HeaderMap>,
}

/// A receiver on a free port.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    status: StatusCode,
    received: Arc<Mutex<ReceivedData>>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::with_status(StatusCode::OK).await
    }

    /// Starts a receiver that responds to every request with this status.
    pub(crate) async fn with_status(status: StatusCode) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let receiver = Self { url, status, received: Arc::default() };
        let app = Router::new()
            .route("/v1/traces", post(traces))
            .route("/v1/metrics", post(metrics))
            .with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.received.lock().unwrap().spans.clone()
    }

    pub(crate) fn span(&self, name: &str) -> Span {
        let spans = self.spans();
        let mut found = spans.iter().filter(|span| span.name == name);
        let (Some(span), None) = (found.next(), found.next()) else {
            panic!("not one `{name}`: {spans:#?}");
        };
        span.clone()
    }

    pub(crate) fn series(&self, name: &str) -> Vec<Series> {
        let received = self.received.lock().unwrap();
        received.series.iter().filter(|series| series.name == name).cloned().collect()
    }

    pub(crate) fn headers(&self) -> Vec<HeaderMap> {
        self.received.lock().unwrap().headers.clone()
    }
}

async fn traces(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut received = receiver.received.lock().unwrap();
    received.headers.push(headers);
    for of_resource in request.resource_spans {
        let resource = attributes(of_resource.resource.unwrap_or_default().attributes);
        for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            received.spans.push(Span {
                name: span.name,
                kind: span.kind,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                status: span.status.map_or(UNSET, |status| status.code),
                attributes: attributes(span.attributes),
                resource: resource.clone(),
                events: span.events.len(),
            });
        }
    }
    receiver.status
}

async fn metrics(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let mut received = receiver.received.lock().unwrap();
    received.headers.push(headers);
    let scopes = request.resource_metrics.into_iter().flat_map(|of| of.scope_metrics);
    for metric in scopes.flat_map(|scope| scope.metrics) {
        let Some(Data::Histogram(histogram)) = metric.data else { panic!("no histogram") };
        for point in histogram.data_points {
            received.series.push(Series {
                name: metric.name.clone(),
                unit: metric.unit.clone(),
                count: point.count,
                sum: point.sum.unwrap_or_default(),
                bounds: point.explicit_bounds,
                attributes: attributes(point.attributes),
            });
        }
    }
    receiver.status
}

fn attributes(attributes: Vec<KeyValue>) -> Attributes {
    let count = attributes.len();
    let named: Attributes =
        attributes.into_iter().map(|pair| (pair.key, value(pair.value.unwrap()))).collect();
    assert_eq!(named.len(), count, "an attribute came twice: {named:?}");
    named
}

fn value(any: AnyValue) -> Value {
    match any.value.unwrap() {
        Any::StringValue(text) => json!(text),
        Any::BoolValue(flag) => json!(flag),
        Any::IntValue(number) => json!(number),
        Any::DoubleValue(number) => json!(number),
        Any::ArrayValue(items) => items.values.into_iter().map(value).collect(),
        other => panic!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
