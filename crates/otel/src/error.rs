//! What can go wrong with telemetry. None of it ever reaches a run.

use std::path::PathBuf;

use provost_core::ErrorKind;

/// Why telemetry could not be set up, or was not all sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Where to send to is no address.
    #[error("`{0}` is no http:// or https:// address: give the base URL of an OTLP receiver")]
    Endpoint(String),
    /// A header that HTTP does not allow.
    #[error(
        "header `{0}` is not a header: its name or value has characters that HTTP does not allow"
    )]
    Header(String),
    /// A share of traces outside of 0 to 1.
    #[error("{0} is no share of traces: give a number from 0 to 1")]
    Share(f64),
    /// A file of certificates could not be read.
    #[error("the certificates of {}: {problem}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no TLS.
    #[error("the TLS client: {0}")]
    Tls(#[from] rustls::Error),
    /// The HTTP client could not be built.
    #[error("the HTTP client: {0}")]
    Client(#[source] reqwest::Error),
    /// The exporter could not be built.
    #[error("the exporter: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// There is no thread for the exporter.
    #[error("no thread for the exporter: {0}")]
    Thread(#[source] std::io::Error),
    /// Not everything could be sent in time.
    #[error("not all telemetry was sent within the time that was given")]
    Timeout,
    /// Not everything could be sent.
    #[error("not all telemetry was sent: {0}")]
    Unsent(String),
    /// It was already closed.
    #[error("telemetry is already closed")]
    Closed,
}

impl Error {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Endpoint(_)
            | Self::Header(_)
            | Self::Share(_)
            | Self::Certificates { .. }
            | Self::Exporter(_) => ErrorKind::Invalid,
            Self::Tls(_) | Self::Client(_) | Self::Thread(_) | Self::Unsent(_) => {
                ErrorKind::Unavailable
            }
            Self::Timeout => ErrorKind::Timeout,
            Self::Closed => ErrorKind::Conflict,
        }
    }
}
