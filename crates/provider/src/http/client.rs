//! The HTTP client that all vendors share.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use provost_net::{CERT_FILE_VARIABLE, TlsError};

use super::{BuildError, Timeouts};

/// The process-wide client for the default connect timeout, so that all models share connections; otherwise a new client.
///
/// Addresses without TLS have their own client: it never needs the certificates of a file, which take time to read.
pub(super) fn client(connect: Duration, secure: bool) -> Result<reqwest::Client, BuildError> {
    static SECURE: OnceLock<reqwest::Client> = OnceLock::new();
    static PLAIN: OnceLock<reqwest::Client> = OnceLock::new();
    let shared = if secure { &SECURE } else { &PLAIN };
    let usual = connect == Timeouts::default().connect;
    if let Some(client) = shared.get().filter(|_| usual) {
        return Ok(client.clone());
    }
    let cert_file = cert_file().filter(|_| secure);
    let client = build(connect, cert_file.as_deref())?;
    match usual {
        true => Ok(shared.get_or_init(|| client).clone()),
        false => Ok(client),
    }
}

fn cert_file() -> Option<PathBuf> {
    std::env::var_os(CERT_FILE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn build(connect: Duration, cert_file: Option<&Path>) -> Result<reqwest::Client, BuildError> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls(cert_file)?)
        .connect_timeout(connect)
        // A redirect could carry the key and the prompt to another host.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(BuildError::Client)
}

fn tls(cert_file: Option<&Path>) -> Result<rustls::ClientConfig, BuildError> {
    provost_net::tls_config_with(cert_file).map_err(|error| match error {
        TlsError::Certificates { path, source } => {
            BuildError::Certificates { path, source: Box::new(source) }
        }
        TlsError::Config(error) => BuildError::Tls(error),
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
