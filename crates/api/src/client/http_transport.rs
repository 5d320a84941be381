//! Transport over HTTP.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use provost_core::ErrorKind;
use reqwest::Url;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{BodyStream, Transport, TransportError};

/// Options of an HTTP connection to a server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Maximum time to establish a connection.
    pub connect_timeout: Duration,
    /// Maximum time between two chunks of a response. Streams send heartbeats, so this limit applies to them too.
    pub read_timeout: Duration,
    /// True allows `http` to other hosts. The token is then readable on the network.
    pub insecure: bool,
    /// PEM file with additional root certificates.
    pub cert_file: Option<PathBuf>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(90),
            insecure: false,
            cert_file: None,
        }
    }
}

/// An HTTP connection to a server.
///
/// ```no_run
/// use provost_api::{Client, HttpOptions, HttpTransport};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let transport = HttpTransport::new("http://127.0.0.1:7077", &HttpOptions::default())?;
/// let client = Client::new(transport, "default".parse()?).with_token("prv_…")?;
/// # let _ = client;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HttpTransport {
    client: reqwest::Client,
    /// URL of the server without a trailing slash.
    base: String,
}

impl HttpTransport {
    /// Creates a transport without connecting. Fails for plain `http` to a host that is not loopback, unless
    /// `insecure` is true, and for a URL with a user name.
    pub fn new(url: &str, options: &HttpOptions) -> Result<Self, TransportError> {
        let parsed: Url = url.parse().map_err(|error| {
            invalid(format!(
                "`{url}` is not a server URL: {error}; use a URL such as http://127.0.0.1:7077"
            ))
        })?;
        let is_local = is_loopback(&parsed);
        match parsed.scheme() {
            "https" => {}
            "http" if is_local || options.insecure => {}
            "http" => {
                let problem = "http would send the token unencrypted";
                return Err(invalid(format!("{problem}: use https, or allow http explicitly")));
            }
            scheme => {
                return Err(invalid(format!("the scheme `{scheme}` is not supported: use https")));
            }
        }
        if parsed.query().is_some() || parsed.fragment().is_some() || has_user(&parsed) {
            let problem = "the server URL must not contain a query, a fragment or credentials";
            return Err(invalid(format!("{problem}: configure the token separately")));
        }
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(options.cert_file.as_deref())?)
            .connect_timeout(options.connect_timeout)
            .read_timeout(options.read_timeout)
            // A redirect could carry the token to another host.
            .redirect(reqwest::redirect::Policy::none());
        if is_local {
            // Connections within one machine never use a proxy.
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| invalid(error.to_string()))?;
        Ok(Self { client, base: parsed.as_str().trim_end_matches('/').to_owned() })
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Converts an error of a request: connection, timeout or lost connection.
    fn failure(&self, error: &reqwest::Error) -> TransportError {
        let base = &self.base;
        if error.is_connect() {
            let message = format!("cannot connect to {base}: {}", cause(error));
            return TransportError { kind: ErrorKind::Unavailable, message };
        }
        if error.is_timeout() {
            let message = format!("{base} did not respond in time");
            return TransportError { kind: ErrorKind::Timeout, message };
        }
        let message = format!("the connection to {base} was lost: {}", cause(error));
        TransportError { kind: ErrorKind::Unavailable, message }
    }
}

#[async_trait::async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<BodyStream>, TransportError> {
        let (head, body) = request.into_parts();
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let url: Url = format!("{}{target}", self.base)
            .parse()
            .map_err(|error| invalid(format!("the path cannot be sent: {error}")))?;
        let mut request = reqwest::Request::new(head.method, url);
        *request.headers_mut() = head.headers;
        if !body.is_empty() {
            *request.body_mut() = Some(body.into());
        }
        let response = self.client.execute(request).await.map_err(|error| self.failure(&error))?;
        let mut head = Response::new(());
        *head.status_mut() = response.status();
        *head.headers_mut() = response.headers().clone();
        let this = self.clone();
        let body = response.bytes_stream();
        let body: BodyStream = Box::pin(body.map(move |chunk| chunk.map_err(|e| this.failure(&e))));
        Ok(head.map(|()| body))
    }
}

/// Creates the error of an invalid option.
fn invalid(message: String) -> TransportError {
    TransportError { kind: ErrorKind::Invalid, message }
}

/// Returns the innermost cause. The outer ones only state that a request failed.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Returns true if the URL contains a user name or password.
fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns true if the host is `localhost` or a loopback address.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Builds a TLS configuration with the public web roots and the certificates in a file, if any.
fn tls(cert_file: Option<&Path>) -> Result<rustls::ClientConfig, TransportError> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = cert_file {
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
            .map_err(|error| {
                invalid(format!("cannot read the certificates in {}: {error}", path.display()))
            })?;
        // Certificates of a bundle that cannot be parsed are skipped.
        roots.add_parsable_certificates(certificates);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(url: &str) -> String {
        HttpTransport::new(url, &HttpOptions::default()).unwrap_err().message
    }

    #[test]
    fn a_token_does_not_leave_the_machine_in_the_clear() {
        for url in ["http://127.0.0.1:7077", "http://localhost:1/", "http://[::1]:1", "https://a.b"]
        {
            let transport = HttpTransport::new(url, &HttpOptions::default()).unwrap();
            assert!(!transport.url().ends_with('/'), "{}", transport.url());
        }
        for url in ["http://10.0.0.1:1", "http://localhost.evil.test", "http://127.0.0.1.nip.test"]
        {
            assert!(rejection(url).contains("use https"), "{url}");
        }
        let insecure = HttpOptions { insecure: true, ..HttpOptions::default() };
        assert!(HttpTransport::new("http://10.0.0.1:1", &insecure).is_ok());
    }

    #[test]
    fn an_address_is_an_address_and_nothing_more() {
        for url in ["", "127.0.0.1:7077", "ftp://a.b", "https://a.b/?x=1", "https://u:p@a.b", "x"] {
            assert!(!rejection(url).is_empty(), "{url}");
        }
        let options =
            HttpOptions { cert_file: Some("missing.pem".into()), ..HttpOptions::default() };
        let error = HttpTransport::new("https://a.b", &options).unwrap_err();
        assert!(error.message.contains("missing.pem"), "{error}");
    }

    #[tokio::test]
    async fn nobody_there_is_unavailable_and_says_where() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", free.local_addr().unwrap());
        drop(free);
        let transport = HttpTransport::new(&url, &HttpOptions::default()).unwrap();
        let request = Request::get("/healthz").body(Bytes::new()).unwrap();
        let error = transport.send(request).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains(&url), "{error}");
    }
}
