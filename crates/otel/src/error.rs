//! Errors of telemetry. They never affect a run.

use std::path::PathBuf;

use provost_core::ErrorKind;

/// Error of configuring telemetry or of exporting it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is not an HTTP URL.
    #[error("`{0}` is not an http:// or https:// URL: use the base URL of an OTLP receiver")]
    Endpoint(String),
    /// A header contains characters that HTTP does not allow.
    #[error(
        "header `{0}` is invalid: its name or value contains characters that HTTP does not allow"
    )]
    Header(String),
    /// The sample ratio is not between 0 and 1.
    #[error("{0} is not a sample ratio: use a number from 0 to 1")]
    SampleRatio(f64),
    /// The certificate file could not be read.
    #[error("reading the certificates of {}: {problem}", path.display())]
    Certificates {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// The TLS client could not be configured.
    #[error("the TLS client: {0}")]
    Tls(#[from] rustls::Error),
    /// The HTTP client could not be built.
    #[error("the HTTP client: {0}")]
    Client(#[source] reqwest::Error),
    /// The exporter could not be built.
    #[error("the exporter: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// The thread of the exporter could not be started.
    #[error("starting the thread of the exporter: {0}")]
    Thread(#[source] std::io::Error),
    /// The export did not finish within the timeout.
    #[error("the export of telemetry did not finish within the timeout")]
    Timeout,
    /// The export failed.
    #[error("the export of telemetry failed: {0}")]
    ExportFailed(String),
    /// The telemetry is already closed.
    #[error("telemetry is already closed")]
    Closed,
}

impl Error {
    /// Returns the category that decides how callers handle the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Endpoint(_)
            | Self::Header(_)
            | Self::SampleRatio(_)
            | Self::Certificates { .. }
            | Self::Exporter(_) => ErrorKind::Invalid,
            Self::Tls(_) | Self::Client(_) | Self::Thread(_) | Self::ExportFailed(_) => {
                ErrorKind::Unavailable
            }
            Self::Timeout => ErrorKind::Timeout,
            Self::Closed => ErrorKind::Conflict,
        }
    }
}
