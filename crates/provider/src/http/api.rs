//! Client for requests with one complete response: embeddings, rerank requests, batches and model lists.
//!
//! This module knows no vendor's JSON. Responses are limited in size, errors never contain a key, and a request that
//! failed temporarily is retried as the [`RetryPolicy`] says.

use bytes::Bytes;
use provost_core::usage::limits::RESPONSE_BYTES_MAX;
use provost_core::{Env, Secret};
use provost_model::{ModelError, ModelErrorClass, RetryPolicy};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use tokio::time::{Instant, sleep};

use super::error::check_key;
use super::header::{request_headers, secret_value};
use super::url::parse_base_url;
use super::vendor_client::VendorClient;
use super::{Timeouts, client};
use crate::ModelBuildError;
use crate::wire::WireFormat as _;
use crate::wire::openai_chat::OpenAiChat;

const JSON: &str = "application/json";

/// Header in which the key is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Auth {
    /// As an `Authorization: Bearer` header.
    Bearer,
    /// As a vendor-specific header with this name.
    Header(&'static str),
}

/// Address of a vendor's API and its method of authentication.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VendorEndpoint<'a> {
    pub(crate) provider: &'a str,
    pub(crate) base_url: &'a str,
    pub(crate) auth: Auth,
}

/// Configuration of an [`ApiClient`].
#[derive(Clone)]
pub(crate) struct ApiClientConfig {
    pub(crate) provider: String,
    pub(crate) base_url: String,
    pub(crate) auth: Auth,
    pub(crate) key: Option<Secret<String>>,
    /// Variable that usually holds the key. If it is set, building without a key fails.
    pub(crate) key_variable: Option<&'static str>,
    pub(crate) headers: Vec<(String, Secret<String>)>,
    pub(crate) timeouts: Timeouts,
    pub(crate) retry: RetryPolicy,
    pub(crate) env: Env,
}

impl ApiClientConfig {
    pub(crate) fn new(endpoint: VendorEndpoint<'_>) -> Self {
        Self {
            provider: endpoint.provider.to_owned(),
            base_url: endpoint.base_url.to_owned(),
            auth: endpoint.auth,
            key: None,
            key_variable: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            env: Env::system(),
        }
    }

    /// Validates the configuration and builds the client. Sends no request.
    pub(crate) fn build(self) -> Result<ApiClient, ModelBuildError> {
        let key = check_key(self.key, &self.provider, self.key_variable)?;
        let base = parse_base_url(&self.base_url)?;
        let mut headers = request_headers(&self.headers)?;
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static(JSON));
        if let Some(key) = &key {
            let (name, text) = match self.auth {
                Auth::Bearer => ("authorization", format!("Bearer {}", key.expose())),
                Auth::Header(name) => (name, key.expose().clone()),
            };
            let value = secret_value(&text).ok_or(ModelBuildError::Key)?;
            headers.entry(HeaderName::from_static(name)).or_insert(value);
        }
        let Self { timeouts, retry, env, .. } = self;
        let client = client::shared_client(timeouts.connect, base.scheme() == "https")?;
        let vendor = VendorClient { client, headers, key, timeouts, retry, env };
        Ok(ApiClient { base, vendor })
    }
}

/// A request to an API.
#[derive(Clone)]
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    /// Path under the base URL, with its query.
    pub(crate) path: String,
    pub(crate) body: Option<ApiBody>,
}

/// Body of a request.
#[derive(Clone)]
pub(crate) struct ApiBody {
    pub(crate) content_type: String,
    pub(crate) bytes: Bytes,
}

impl ApiRequest {
    /// Creates a `GET` request.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None }
    }

    /// Creates a `POST` request with a JSON body.
    pub(crate) fn post(path: impl Into<String>, json: Vec<u8>) -> Self {
        let body = ApiBody { content_type: JSON.to_owned(), bytes: Bytes::from(json) };
        Self { method: Method::POST, path: path.into(), body: Some(body) }
    }
}

/// HTTP client of a vendor's API for requests with one response, such as batches and embeddings.
pub(crate) struct ApiClient {
    base: Url,
    vendor: VendorClient,
}

impl ApiClient {
    /// Sends a request, and returns the result of `read` for the body. Retries errors of both according to the retry
    /// policy, so `read` must be pure. Secrets are removed from errors.
    pub(crate) async fn send<T>(
        &self,
        request: ApiRequest,
        read: impl Fn(&[u8]) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let deadline = self.vendor.deadline();
        let mut retries = 0;
        loop {
            let response = self.fetch_body(&request, deadline).await;
            let error = match response.and_then(|body| read(&body)) {
                Ok(read) => return Ok(read),
                Err(error) => self.vendor.redact_error(error),
            };
            match self.vendor.retry_delay(&error, retries, deadline) {
                Some(delay) => sleep(delay).await,
                None => return Err(error),
            }
            retries += 1;
        }
    }

    /// Sends a request exactly once, for requests that must not be repeated, and returns the result of `read` for the
    /// body.
    pub(crate) async fn send_once<T>(
        &self,
        request: ApiRequest,
        read: impl Fn(&[u8]) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let response = self.fetch_body(&request, self.vendor.deadline()).await;
        response.and_then(|body| read(&body)).map_err(|error| self.vendor.redact_error(error))
    }

    /// Sends a request and reads the body. Returns an error if the status is not a success.
    async fn fetch_body(
        &self,
        request: &ApiRequest,
        deadline: Option<Instant>,
    ) -> Result<Vec<u8>, ModelError> {
        let response = self.vendor.send(self.build_request(request)?, deadline).await?;
        if response.status().is_success() {
            return response.read(RESPONSE_BYTES_MAX).await;
        }
        let status = response.status().as_u16();
        let parse = |body: &[u8]| OpenAiChat::default().parse_error(Some(status), body);
        Err(self.vendor.read_error(response, parse).await)
    }

    /// Builds the HTTP request with the headers and the key.
    fn build_request(&self, request: &ApiRequest) -> Result<Request, ModelError> {
        let invalid = |problem: &str| ModelError::new(ModelErrorClass::InvalidRequest, problem);
        let base = self.base.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}{}", request.path))
            .map_err(|cause| invalid("the URL of the request is invalid").caused_by(cause))?;
        let mut http_request = Request::new(request.method.clone(), url);
        let mut headers = self.vendor.headers.clone();
        if let Some(ApiBody { content_type, bytes }) = &request.body {
            let content_type = HeaderValue::from_str(content_type).map_err(|cause| {
                invalid("the content type of the request is invalid").caused_by(cause)
            })?;
            headers.insert(CONTENT_TYPE, content_type);
            *http_request.body_mut() = Some(bytes.clone().into());
        }
        *http_request.headers_mut() = headers;
        Ok(http_request)
    }
}

/// Serializes a request body as JSON.
pub(crate) fn to_json_body(body: &impl serde::Serialize) -> Result<Vec<u8>, ModelError> {
    serde_json::to_vec(body).map_err(|cause| {
        let problem = "the request cannot be serialized as JSON";
        ModelError::new(ModelErrorClass::InvalidRequest, problem).caused_by(cause)
    })
}

/// Creates the error of a response that lacks required data.
pub(crate) fn malformed_error(problem: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorClass::Malformed, problem)
}
