//! OpenTelemetry for the server: what the environment asks for, beside the log.

use std::time::Duration;

use provost_otel::Telemetry;
use provost_redact::Redactor;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::problem::Problem;
use crate::render::log::Log;
use crate::render::output::Output;

/// How long the last spans may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Starts the log and, where `OTEL_EXPORTER_OTLP_ENDPOINT` says where to, the export.
pub(crate) fn install(
    log: LevelFilter,
    output: &Output,
    redactor: &Redactor,
) -> Result<Telemetry, Problem> {
    let own = redactor.clone();
    let telemetry = Telemetry::builder()
        .attribute("service.version", env!("CARGO_PKG_VERSION"))
        .redact(move |text| own.redact(text).into_owned())
        .build()
        .map_err(|error| Problem::new(error.kind(), error.to_string()))?;
    // The level is the log's own: the export takes the spans of runs whatever is logged.
    let log = tracing_subscriber::fmt::layer()
        .with_writer(Log(redactor.clone()))
        .with_ansi(output.stderr_color)
        .with_filter(log);
    tracing_subscriber::registry().with(log).with(telemetry.layer()).try_init().ok();
    Ok(telemetry)
}

/// Sends what is left. What cannot be sent was already logged and changes nothing about how the server ends.
pub(crate) async fn close(telemetry: &Telemetry) {
    telemetry.shutdown(CLOSE_PATIENCE).await.ok();
}
