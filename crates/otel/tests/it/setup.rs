//! Tests of configuration and shutdown: options, variables and failing receivers.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use provost_core::ErrorKind;
use provost_model::text;
use provost_otel::{Error, Telemetry};
use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::support::{SHUTDOWN_TIMEOUT, TelemetryFixture, agent, bare, env, script, subscribe};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

async fn run_once() {
    agent("tester", &script([text("done")])).build().unwrap().run("go").await.unwrap();
}

#[tokio::test]
async fn s224_without_any_option_nothing_is_sent() {
    let telemetry = bare().build().unwrap();
    assert!(!telemetry.is_active() && !telemetry.captures_content());
    let _guard = subscribe(&telemetry);
    run_once().await;
    assert_eq!(provost_otel::current_traceparent(), None);
    telemetry.flush(SHUTDOWN_TIMEOUT).await.unwrap();
    telemetry.shutdown(SHUTDOWN_TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn s224_every_option_counts() {
    let watch = TelemetryFixture::start(|builder| {
        builder
            .header("authorization", "Bearer secret-key")
            .header("x-tenant", "7")
            .service("billing", "1.2.3")
            .attribute("deployment.environment.name", "test")
            .sample_ratio(1.0)
            .queue_max(100)
            .interval(Duration::from_secs(3600))
            .metrics(true)
            .capture_content(true)
    })
    .await;
    assert!(watch.telemetry.is_active() && watch.telemetry.captures_content());
    assert!(!format!("{:?}", watch.telemetry).contains("secret"));
    run_once().await;
    watch.telemetry.flush(SHUTDOWN_TIMEOUT).await.unwrap();
    assert_eq!(watch.receiver.spans().len(), 2, "a flush does not wait for the interval");
    let received = watch.end().await;
    let resource = received.span("invoke_agent tester").resource;
    assert_eq!(resource["service.name"], "billing");
    assert_eq!(resource["service.version"], "1.2.3");
    assert_eq!(resource["deployment.environment.name"], "test");
    assert_eq!(resource["telemetry.sdk.language"], "rust");
    let headers = received.headers();
    assert!(headers.len() >= 2, "spans and metrics");
    for headers in headers {
        assert_eq!(headers["authorization"], "Bearer secret-key");
        assert_eq!(headers["x-tenant"], "7");
        assert_eq!(headers["content-type"], "application/x-protobuf");
    }
}

#[tokio::test]
async fn s224_variables_count_where_the_program_says_nothing() {
    let receiver = Receiver::start().await;
    let variables = [(ENDPOINT, receiver.url.as_str()), ("OTEL_SERVICE_NAME", "from-env")];
    let telemetry = Telemetry::builder().env(env(variables)).build().unwrap();
    let guard = subscribe(&telemetry);
    run_once().await;
    drop(guard);
    telemetry.shutdown(SHUTDOWN_TIMEOUT).await.unwrap();
    let run = receiver.span("invoke_agent tester");
    assert_eq!(run.resource["service.name"], "from-env");
    assert!(!receiver.series("gen_ai.client.operation.duration").is_empty());
}

#[tokio::test]
async fn each_signal_can_go_elsewhere_or_nowhere() {
    let (spans, metrics) = (Receiver::start().await, Receiver::start().await);
    let own = format!("{}/v1/metrics", metrics.url);
    let variables =
        [(ENDPOINT, spans.url.as_str()), ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", own.as_str())];
    let telemetry = Telemetry::builder().env(env(variables)).build().unwrap();
    let guard = subscribe(&telemetry);
    run_once().await;
    drop(guard);
    telemetry.shutdown(SHUTDOWN_TIMEOUT).await.unwrap();
    assert_eq!((spans.spans().len(), metrics.spans().len()), (2, 0));
    let count = |of: &Receiver| of.series("gen_ai.client.operation.duration").len();
    assert_eq!((count(&spans), count(&metrics)), (0, 1));

    let nowhere = [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")];
    let telemetry = bare().env(env(nowhere)).otlp_http(&spans.url).build().unwrap();
    assert!(!telemetry.is_active());
}

#[tokio::test]
async fn a_variable_disables_everything() {
    let disabled = bare().env(env([("OTEL_SDK_DISABLED", "TRUE")]));
    assert!(!disabled.otlp_http("http://127.0.0.1:1").build().unwrap().is_active());
}

#[tokio::test]
async fn old_names_are_left_out_for_those_who_want_the_latest() {
    let wanted = "http, gen_ai_latest_experimental";
    let variables = env([("OTEL_SEMCONV_STABILITY_OPT_IN", wanted)]);
    let watch = TelemetryFixture::start(|builder| builder.env(variables)).await;
    run_once().await;
    let chat = watch.end().await.span("chat scripted-1");
    assert_eq!(chat.get("gen_ai.provider.name"), &json!("scripted"));
    assert_eq!(chat.get("gen_ai.system"), &Value::Null);
}

#[tokio::test]
async fn a_share_of_nothing_sends_no_spans_and_still_measures() {
    let watch = TelemetryFixture::start(|builder| builder.sample_ratio(0.0)).await;
    run_once().await;
    let received = watch.end().await;
    assert!(received.spans().is_empty());
    assert_eq!(received.series("gen_ai.client.operation.duration")[0].count, 1);
}

#[test]
fn wrong_options_are_named() {
    let kind = |error: Error| (error.kind(), error.to_string());
    for wrong in ["", "localhost:4318", "ftp://host", "http://"] {
        let (kind, text) = kind(bare().otlp_http(wrong).build().unwrap_err());
        assert!(kind == ErrorKind::Invalid && text.contains(wrong), "{text}");
    }
    let base = || bare().otlp_http("http://127.0.0.1:4318");
    let (_, text) = kind(base().header("x y", "z").build().unwrap_err());
    assert!(text.contains("x y"), "{text}");
    let (_, text) = kind(base().header("authorization", "secret\n").build().unwrap_err());
    assert!(text.contains("authorization") && !text.contains("secret"), "{text}");
    let missing = env([("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")]);
    let secure = bare().otlp_http("https://127.0.0.1:4318").env(missing);
    let (_, text) = kind(secure.build().unwrap_err());
    assert!(text.contains("/nowhere/ca.pem"), "{text}");
    for share in [-0.1, 1.1, f64::NAN] {
        assert_eq!(kind(base().sample_ratio(share).build().unwrap_err()).0, ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn s224_after_the_end_nothing_is_sent() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    run_once().await;
    watch.telemetry.shutdown(SHUTDOWN_TIMEOUT).await.unwrap();
    assert_eq!(watch.receiver.spans().len(), 2);
    run_once().await;
    assert!(matches!(watch.telemetry.shutdown(SHUTDOWN_TIMEOUT).await, Err(Error::Closed)));
    assert_eq!(watch.receiver.spans().len(), 2);
}

#[tokio::test]
async fn a_receiver_that_refuses_fails_the_shutdown_and_no_run() {
    let receiver = Receiver::with_status(StatusCode::FORBIDDEN).await;
    let telemetry = bare().otlp_http(&receiver.url).build().unwrap();
    let _guard = subscribe(&telemetry);
    run_once().await;
    let error = telemetry.shutdown(SHUTDOWN_TIMEOUT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(receiver.spans().len(), 2, "it is not asked again");
}

#[tokio::test]
async fn a_receiver_that_never_answers_holds_up_no_run_and_no_shutdown() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let telemetry = bare().otlp_http(url).queue_max(2).build().unwrap();
    let _guard = subscribe(&telemetry);
    let started = Instant::now();
    for _ in 0..10 {
        run_once().await;
    }
    let error = telemetry.shutdown(Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
