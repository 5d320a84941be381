//! The HTTP client that models share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{BuildError, Timeouts};

/// The variable that names a file of further root certificates, as other tools know it.
const CERT_FILE_VARIABLE: &str = "SSL_CERT_FILE";

/// The process-wide client for the usual timeout, so that all models share connections; else a client of one's own.
///
/// Plain addresses have a client apart: it never needs the certificates of a file, which take time to read.
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
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = cert_file {
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
            .map_err(|source| BuildError::Certificates {
                path: path.to_owned(),
                source: Box::new(source),
            })?;
        // Bundles hold old certificates that cannot be parsed; those that can are enough.
        roots.add_parsable_certificates(certificates);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(BuildError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
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
