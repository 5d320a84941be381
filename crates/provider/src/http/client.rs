//! HTTP clients that all vendors share.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use provost_net::{CERT_FILE_VARIABLE, TlsError};

use super::{ModelBuildError, Timeouts};

/// Returns the process-wide client for the default connect timeout, so that all models share connections. Any other
/// timeout gets a new client.
///
/// URLs without TLS use a client of their own, because reading a certificate file takes time and they do not need it.
pub(super) fn shared_client(
    connect: Duration,
    secure: bool,
) -> Result<reqwest::Client, ModelBuildError> {
    static SECURE: OnceLock<reqwest::Client> = OnceLock::new();
    static PLAIN: OnceLock<reqwest::Client> = OnceLock::new();
    let shared = if secure { &SECURE } else { &PLAIN };
    let is_default = connect == Timeouts::default().connect;
    if let Some(client) = shared.get().filter(|_| is_default) {
        return Ok(client.clone());
    }
    let cert_file = cert_file().filter(|_| secure);
    let client = build(connect, cert_file.as_deref())?;
    match is_default {
        true => Ok(shared.get_or_init(|| client).clone()),
        false => Ok(client),
    }
}

/// Returns the path in the variable [`CERT_FILE_VARIABLE`]. `None` if it is not set or empty.
fn cert_file() -> Option<PathBuf> {
    std::env::var_os(CERT_FILE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Creates a client without redirects.
fn build(connect: Duration, cert_file: Option<&Path>) -> Result<reqwest::Client, ModelBuildError> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls_config(cert_file)?)
        .connect_timeout(connect)
        // A redirect could send the key and the prompt to another host.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(ModelBuildError::Client)
}

/// Creates the TLS configuration. A certificate file adds to the trusted roots.
fn tls_config(cert_file: Option<&Path>) -> Result<rustls::ClientConfig, ModelBuildError> {
    provost_net::tls_config_with(cert_file).map_err(|error| match error {
        TlsError::Certificates { path, source } => {
            ModelBuildError::Certificates { path, source: Box::new(source) }
        }
        TlsError::Config(error) => ModelBuildError::Tls(error),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_certificate_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing.pem");
        let error = build(Duration::from_secs(1), Some(&path)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("missing.pem") && text.contains(CERT_FILE_VARIABLE), "{text}");
    }

    #[test]
    fn an_empty_certificate_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.pem");
        std::fs::write(&path, "").unwrap();
        assert!(build(Duration::from_secs(1), Some(&path)).is_ok());
    }

    #[test]
    fn building_a_client_is_cheap() {
        let best = (0..5)
            .map(|_| {
                let start = Instant::now();
                build(Duration::from_secs(1), None).unwrap();
                start.elapsed()
            })
            .min()
            .unwrap();
        assert!(best < Duration::from_millis(50), "{best:?}");
    }
}
