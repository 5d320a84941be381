//! OpenTelemetry export of the server, configured by environment variables, and the log.

use std::time::Duration;

use provost_otel::Telemetry;
use provost_redact::Redactor;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::CliError;
use crate::render::output::Output;
use crate::render::redacting_log::RedactingStderr;

/// Maximum time to export the last spans at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts the log and, if `OTEL_EXPORTER_OTLP_ENDPOINT` is set, the export.
pub(crate) fn install(
    log: LevelFilter,
    output: &Output,
    redactor: &Redactor,
) -> Result<Telemetry, CliError> {
    let span_redactor = redactor.clone();
    let telemetry = Telemetry::builder()
        .attribute("service.version", env!("CARGO_PKG_VERSION"))
        .redact(move |text| span_redactor.redact(text).into_owned())
        .build()
        .map_err(|error| CliError::new(error.kind(), error.to_string()))?;
    // The level filters only the log. The export receives the spans of runs at every level.
    let log = tracing_subscriber::fmt::layer()
        .with_writer(RedactingStderr(redactor.clone()))
        .with_ansi(output.stderr_color)
        .with_filter(log);
    tracing_subscriber::registry().with(log).with(telemetry.layer()).try_init().ok();
    Ok(telemetry)
}

/// Exports the remaining spans. Errors are already logged and do not change the exit code.
pub(crate) async fn close(telemetry: &Telemetry) {
    telemetry.shutdown(FLUSH_TIMEOUT).await.ok();
}
