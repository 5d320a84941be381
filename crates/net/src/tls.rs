//! The TLS configuration of all clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::OnceCell;

/// Environment variable that names a file of root certificates. They are added to the public web roots.
pub const CERT_FILE_VARIABLE: &str = "SSL_CERT_FILE";

/// The TLS configuration cannot be loaded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TlsError {
    /// The file of root certificates cannot be read.
    #[error("cannot read {}, which {CERT_FILE_VARIABLE} names: {source}", path.display())]
    Certificates {
        /// Path of the file.
        path: PathBuf,
        /// Reason for the failure.
        source: Arc<rustls::pki_types::pem::Error>,
    },
    /// The configuration cannot be built.
    #[error("cannot configure TLS: {0}")]
    Config(#[from] rustls::Error),
}

/// Returns the TLS configuration of this process, which offers HTTP/2 and HTTP/1.1. Its roots are the public web roots
/// and the certificates in the file that `SSL_CERT_FILE` names. It is built on the first call; an error is not cached.
pub async fn tls_config() -> Result<Arc<ClientConfig>, TlsError> {
    static SHARED: OnceCell<Arc<ClientConfig>> = OnceCell::const_new();
    let read = || async {
        let file = std::env::var_os(CERT_FILE_VARIABLE).filter(|path| !path.is_empty());
        let made =
            tokio::task::spawn_blocking(move || tls_config_with(file.as_deref().map(Path::new)));
        match made.await {
            Ok(made) => made.map(Arc::new),
            Err(error) => Err(TlsError::Config(rustls::Error::General(error.to_string()))),
        }
    };
    SHARED.get_or_try_init(read).await.cloned()
}

/// Builds a TLS configuration whose roots are the public web roots and the certificates in a file, if any. Blocks
/// while it reads the file.
pub fn tls_config_with(cert_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = cert_file {
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
            .map_err(|source| TlsError::Certificates {
                path: path.to_owned(),
                source: Arc::new(source),
            })?;
        // Certificate bundles may contain old certificates that cannot be parsed. The valid ones are used.
        roots.add_parsable_certificates(certificates);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing.pem");
        let text = tls_config_with(Some(&path)).unwrap_err().to_string();
        assert!(text.contains("missing.pem") && text.contains(CERT_FILE_VARIABLE), "{text}");
    }

    #[test]
    fn an_empty_certificate_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.pem");
        std::fs::write(&path, "").unwrap();
        assert!(tls_config_with(Some(&path)).is_ok());
    }
}
