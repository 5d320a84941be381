//! HTTP client of the exporters, with a separate runtime and without redirects.
//!
//! The separate runtime exports telemetry even if the runtime of the program is blocked, paused or shutting down.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, ResponseBodyTooLarge};
use provost_core::Secret;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use tokio::runtime::Runtime;

use crate::Error;

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response, in bytes.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// HTTP client of the exporters.
#[derive(Debug, Clone)]
pub(crate) struct OtlpHttpClient {
    client: reqwest::Client,
    runtime: Arc<ClientRuntime>,
}

/// Runtime that drives the connections. Dropping it does not block.
#[derive(Debug)]
struct ClientRuntime(Option<Runtime>);

impl Drop for ClientRuntime {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which is not allowed in async code.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl OtlpHttpClient {
    pub(crate) fn new(
        headers: &[(String, Secret<String>)],
        timeout: Duration,
        certificates: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls_config(certificates)?)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(timeout)
            .default_headers(header_map(headers)?)
            // A redirect could carry the headers to another host.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(Error::Client)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("provost-otel")
            .enable_all()
            .build()
            .map_err(Error::Thread)?;
        Ok(Self { client, runtime: Arc::new(ClientRuntime(Some(runtime))) })
    }
}

#[async_trait]
impl HttpClient for OtlpHttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let client = self.client.clone();
        let Some(runtime) = &self.runtime.0 else { return Err("the exporter is closed".into()) };
        runtime.spawn(exchange(client, request)).await?
    }
}

/// Sends a request and reads the response. Returns an error if the body exceeds [`RESPONSE_BYTES_MAX`].
async fn exchange(
    client: reqwest::Client,
    request: reqwest::Request,
) -> Result<Response<Bytes>, HttpError> {
    // The URL may contain a key.
    let without_url = reqwest::Error::without_url;
    let mut response = client.execute(request).await.map_err(without_url)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(without_url)? {
        if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
            return Err(Box::new(ResponseBodyTooLarge::new()));
        }
        body.extend_from_slice(&chunk);
    }
    let mut result = Response::new(Bytes::from(body));
    *result.status_mut() = response.status();
    *result.headers_mut() = std::mem::take(response.headers_mut());
    Ok(result)
}

/// Converts the headers. Returns an error that names the first invalid header, without its value.
fn header_map(headers: &[(String, Secret<String>)]) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let parsed =
            HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value.expose()).ok());
        let (key, mut value) = parsed.ok_or_else(|| Error::Header(name.clone()))?;
        // Debug output of a request then hides the value.
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}

/// Creates the TLS configuration: it trusts the public roots and the certificates in the file. Returns an error if the
/// file cannot be read.
fn tls_config(certificates: Option<PathBuf>) -> Result<rustls::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = certificates {
        let read = CertificateDer::pem_file_iter(&path)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>());
        let unreadable =
            |error: pem::Error| Error::Certificates { path, problem: error.to_string() };
        let read = read.map_err(unreadable)?;
        // Bundles may contain old certificates that cannot be parsed. The others are sufficient.
        roots.add_parsable_certificates(read);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
