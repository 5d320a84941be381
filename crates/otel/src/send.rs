//! The HTTP client of the exporters: a small runtime of its own, our trust anchors, no redirects.
//!
//! It shares no runtime with the program, so that telemetry is also sent while that one blocks, is paused or ends.

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

/// How long it may take to reach the receiver.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of an answer; a receiver has little to say.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Sends what exporters give.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    client: reqwest::Client,
    worker: Arc<Worker>,
}

/// The runtime that connections live on.
#[derive(Debug)]
struct Worker(Option<Runtime>);

impl Drop for Worker {
    fn drop(&mut self) {
        // A runtime that is dropped the usual way waits, and may not do that where futures run.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Sender {
    pub(crate) fn new(
        headers: &[(String, Secret<String>)],
        timeout: Duration,
        certificates: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(certificates)?)
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
        Ok(Self { client, worker: Arc::new(Worker(Some(runtime))) })
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let client = self.client.clone();
        let Some(runtime) = &self.worker.0 else { return Err("the exporter is closed".into()) };
        runtime.spawn(exchange(client, request)).await?
    }
}

async fn exchange(
    client: reqwest::Client,
    request: reqwest::Request,
) -> Result<Response<Bytes>, HttpError> {
    // The address may hold a key.
    let quiet = reqwest::Error::without_url;
    let mut response = client.execute(request).await.map_err(quiet)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(quiet)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(Box::new(ResponseBodyTooLarge::new()));
        }
        body.extend_from_slice(&chunk);
    }
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = response.status();
    *answer.headers_mut() = std::mem::take(response.headers_mut());
    Ok(answer)
}

fn header_map(headers: &[(String, Secret<String>)]) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let parsed =
            HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value.expose()).ok());
        let (key, mut value) = parsed.ok_or_else(|| Error::Header(name.clone()))?;
        // So that printing a request shows nothing.
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}

fn tls(certificates: Option<PathBuf>) -> Result<rustls::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = certificates {
        let read = CertificateDer::pem_file_iter(&path)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>());
        let unread = |error: pem::Error| Error::Certificates { path, problem: error.to_string() };
        let read = read.map_err(unread)?;
        // Bundles hold old certificates that cannot be parsed; those that can are enough.
        roots.add_parsable_certificates(read);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
