//! The transport over a real connection.

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

use super::{Answers, Transport, TransportError};

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Until a connection stands.
    pub connect_timeout: Duration,
    /// Between two pieces of an answer, and until the first one. Streams have heartbeats, so it holds for them as well.
    pub read_timeout: Duration,
    /// True allows `http` to other machines, where everybody on the way can read the token.
    pub insecure: bool,
    /// A file of further root certificates.
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

/// A connection to a server.
///
/// ```no_run
/// use provost_api::{Client, HttpOptions, HttpTransport};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let transport = HttpTransport::new("http://127.0.0.1:7077", &HttpOptions::default())?;
/// let client = Client::new(transport, "default".parse()?).token("prv_…")?;
/// # let _ = client;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HttpTransport {
    client: reqwest::Client,
    /// Scheme, host and maybe a path, without a slash at the end.
    base: String,
}

impl HttpTransport {
    /// A transport to a server. Nothing is sent yet. Plain `http` is for this machine only, unless `insecure` allows more.
    pub fn new(url: &str, options: &HttpOptions) -> Result<Self, TransportError> {
        let parsed: Url = url.parse().map_err(|error| {
            invalid(format!(
                "`{url}` is no address of a server: {error}; write http://127.0.0.1:7077"
            ))
        })?;
        let is_here = is_loopback(&parsed);
        match parsed.scheme() {
            "https" => {}
            "http" if is_here || options.insecure => {}
            "http" => {
                let what = "everybody on the way can read the token if it is sent over http";
                return Err(invalid(format!("{what}: use https, or allow it explicitly")));
            }
            scheme => return Err(invalid(format!("`{scheme}` is no way to a server: use https"))),
        }
        if parsed.query().is_some() || parsed.fragment().is_some() || has_user(&parsed) {
            let what = "the address of a server has a scheme, a host, a port and maybe a path";
            return Err(invalid(format!("{what}, and nothing else; a token is given apart")));
        }
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(options.cert_file.as_deref())?)
            .connect_timeout(options.connect_timeout)
            .read_timeout(options.read_timeout)
            // A redirect could carry the token to another host.
            .redirect(reqwest::redirect::Policy::none());
        if is_here {
            // A proxy has no business between two programs of one machine.
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| invalid(error.to_string()))?;
        Ok(Self { client, base: parsed.as_str().trim_end_matches('/').to_owned() })
    }

    /// The address of the server.
    pub fn url(&self) -> &str {
        &self.base
    }

    fn failure(&self, error: &reqwest::Error) -> TransportError {
        let base = &self.base;
        if error.is_connect() {
            let message = format!("nothing answers at {base}: {}", cause(error));
            return TransportError { kind: ErrorKind::Unavailable, message };
        }
        if error.is_timeout() {
            let message = format!("{base} took too long to answer");
            return TransportError { kind: ErrorKind::Timeout, message };
        }
        let message = format!("the connection to {base} broke off: {}", cause(error));
        TransportError { kind: ErrorKind::Unavailable, message }
    }
}

#[async_trait::async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Answers>, TransportError> {
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
        let answer = self.client.execute(request).await.map_err(|error| self.failure(&error))?;
        let mut head = Response::new(());
        *head.status_mut() = answer.status();
        *head.headers_mut() = answer.headers().clone();
        let this = self.clone();
        let body = answer.bytes_stream();
        let body: Answers = Box::pin(body.map(move |piece| piece.map_err(|e| this.failure(&e))));
        Ok(head.map(|()| body))
    }
}

fn invalid(message: String) -> TransportError {
    TransportError { kind: ErrorKind::Invalid, message }
}

/// The innermost reason: the outer ones only say that a request did not work.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn tls(cert_file: Option<&Path>) -> Result<rustls::ClientConfig, TransportError> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = cert_file {
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
            .map_err(|error| invalid(format!("the certificates in {}: {error}", path.display())))?;
        // Bundles hold old certificates that cannot be parsed; those that can are enough.
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

    fn refused(url: &str) -> String {
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
            assert!(refused(url).contains("use https"), "{url}");
        }
        let insecure = HttpOptions { insecure: true, ..HttpOptions::default() };
        assert!(HttpTransport::new("http://10.0.0.1:1", &insecure).is_ok());
    }

    #[test]
    fn an_address_is_an_address_and_nothing_more() {
        for url in ["", "127.0.0.1:7077", "ftp://a.b", "https://a.b/?x=1", "https://u:p@a.b", "x"] {
            assert!(!refused(url).is_empty(), "{url}");
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
