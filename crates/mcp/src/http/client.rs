//! The HTTP client: our own trust anchors, no redirects.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The variable that names a file of further root certificates, as other tools know it.
const CERT_FILE_VARIABLE: &str = "SSL_CERT_FILE";

pub(super) fn build(connect: Duration, secure: bool) -> Result<reqwest::Client, String> {
    let cert_file = std::env::var_os(CERT_FILE_VARIABLE).filter(|path| secure && !path.is_empty());
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls(cert_file.map(PathBuf::from))?)
        .connect_timeout(connect)
        // A redirect could carry the headers to another host.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| format!("the HTTP client: {error}"))
}

fn tls(cert_file: Option<PathBuf>) -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = cert_file {
        let certificates = CertificateDer::pem_file_iter(&path)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
            .map_err(|error| format!("{CERT_FILE_VARIABLE} {}: {error}", path.display()))?;
        // Bundles hold old certificates that cannot be parsed; those that can are enough.
        roots.add_parsable_certificates(certificates);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
