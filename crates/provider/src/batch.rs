//! Clients of the vendors' batch APIs: submit, poll, cancel and collect.

mod anthropic;
mod events;
mod gemini;
mod openai;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use provost_core::{ContentPart, Secret};
use provost_model::{
    BatchJob, BatchPhase, BatchRequest, BatchResult, BatchResults, BatchStatus, ModelCatalog,
    ModelError, ModelErrorClass, ModelInfo, ModelResponse, RetryPolicy, check_batch,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::http::api::{
    ApiBody, ApiClient, ApiClientConfig, ApiRequest, Auth, VendorEndpoint, malformed_error,
    to_json_body,
};
use crate::wire::anthropic::AnthropicMessages;
use crate::wire::gemini::GeminiContent;
use crate::wire::openai_chat::OpenAiChat;
use crate::wire::{WireFormat, malformed, normalize};
use crate::{ModelBuildError, Timeouts};

/// Default interval between two status requests.
const POLL_INTERVAL_DEFAULT: Duration = Duration::from_secs(30);
/// Header with the version of Anthropic's protocol.
const ANTHROPIC_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Response to one request of a batch: a body, or a status and the body of an error.
type BatchResponse = Result<Value, (u16, Value)>;

/// Vendors with a batch API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vendor {
    OpenAi,
    Anthropic,
    Gemini,
}

/// Client of a vendor's batch API, for one model. Each batch gives one response to each of its requests, later and at a
/// lower price.
pub struct BatchClient {
    vendor: Vendor,
    wire: Arc<dyn WireFormat>,
    info: ModelInfo,
    api: ApiClient,
    poll_interval: Duration,
}

/// Builder of a [`BatchClient`].
#[must_use]
pub struct BatchClientBuilder {
    vendor: Vendor,
    wire: Arc<dyn WireFormat>,
    info: ModelInfo,
    api: ApiClientConfig,
    poll_interval: Duration,
}

impl BatchClient {
    /// Creates a builder for OpenAI. The key is usually in `OPENAI_API_KEY`.
    pub fn openai(model: impl Into<String>) -> BatchClientBuilder {
        let base_url = "https://api.openai.com/v1";
        let endpoint = VendorEndpoint { provider: "openai", base_url, auth: Auth::Bearer };
        BatchClientBuilder::new(Vendor::OpenAi, endpoint, model.into(), OpenAiChat::default())
            .require_key("OPENAI_API_KEY")
    }

    /// Creates a builder for Anthropic. The key is usually in `ANTHROPIC_API_KEY`.
    pub fn anthropic(model: impl Into<String>) -> BatchClientBuilder {
        let (base_url, auth) = ("https://api.anthropic.com", Auth::Header("x-api-key"));
        let endpoint = VendorEndpoint { provider: "anthropic", base_url, auth };
        let model = model.into();
        let wire = AnthropicMessages::for_model(&model);
        BatchClientBuilder::new(Vendor::Anthropic, endpoint, model, wire)
            .require_key("ANTHROPIC_API_KEY")
    }

    /// Creates a builder for Gemini. The key is usually in `GEMINI_API_KEY`.
    pub fn gemini(model: impl Into<String>) -> BatchClientBuilder {
        let base_url = "https://generativelanguage.googleapis.com/v1beta";
        let auth = Auth::Header("x-goog-api-key");
        let endpoint = VendorEndpoint { provider: "gemini", base_url, auth };
        let model = model.into();
        let wire = GeminiContent::for_model(&model);
        BatchClientBuilder::new(Vendor::Gemini, endpoint, model, wire).require_key("GEMINI_API_KEY")
    }

    /// Submits the requests as a batch. The returned job has the data that any process needs to collect the results.
    /// Returns an error if there is no request, an id is invalid, or the vendor rejects the batch.
    pub async fn submit(&self, requests: &[BatchRequest]) -> Result<BatchJob, ModelError> {
        check_batch(requests)?;
        if requests.is_empty() {
            let problem = "a batch needs at least one request";
            return Err(ModelError::new(ModelErrorClass::InvalidRequest, problem));
        }
        let mut bodies = Vec::with_capacity(requests.len());
        let mut tool_names = BTreeMap::new();
        for BatchRequest { id, request } in requests {
            let (normalized, name_map) =
                normalize::normalize_request(request.clone(), &self.wire.message_rules());
            let names: BTreeMap<String, String> = request
                .tools
                .iter()
                .filter_map(|tool| {
                    Some((name_map.alias_of(&tool.name)?.to_owned(), tool.name.clone()))
                })
                .collect();
            if !names.is_empty() {
                tool_names.insert(id.clone(), names);
            }
            let body = self.wire.encode(&normalized, &self.info)?;
            let body: Value =
                serde_json::from_slice(&body).map_err(|cause| malformed("a request", &cause))?;
            bodies.push((id.as_str(), body));
        }
        let id = match self.vendor {
            Vendor::OpenAi => self.submit_openai(bodies).await?,
            Vendor::Anthropic => {
                let requests: Vec<Value> = bodies
                    .into_iter()
                    .map(|(id, body)| anthropic::encode_request(id, body))
                    .collect();
                let body = to_json_body(&json!({ "requests": requests }))?;
                read_id(&self.create(ApiRequest::post("/v1/messages/batches", body)).await?, "id")?
            }
            Vendor::Gemini => {
                let requests =
                    bodies.into_iter().map(|(id, body)| gemini::encode_request(id, body)).collect();
                let body = to_json_body(&gemini::encode_batch("provost", requests))?;
                let path = format!("/models/{}:batchGenerateContent", self.info.model);
                read_id(&self.create(ApiRequest::post(path, body)).await?, "name")?
            }
        };
        let ids = requests.iter().map(|request| request.id.clone()).collect();
        let ModelInfo { provider, model, .. } = &self.info;
        let (provider, model) = (provider.clone(), model.clone());
        Ok(BatchJob { provider, model, id, requests: ids, tool_names })
    }

    /// Uploads the requests as a file, creates a batch from the file, and returns its id.
    async fn submit_openai(&self, bodies: Vec<(&str, Value)>) -> Result<String, ModelError> {
        let mut lines = Vec::new();
        for (id, body) in bodies {
            lines.extend(openai::encode_line(id, body)?);
        }
        let (content_type, bytes) = openai::encode_upload(&lines);
        let body = Some(ApiBody { content_type, bytes: Bytes::from(bytes) });
        let upload = ApiRequest { method: Method::POST, path: "/files".to_owned(), body };
        let file = read_id(&self.fetch(upload).await?, "id")?;
        let batch = json!({
            "input_file_id": file, "endpoint": openai::ENDPOINT, "completion_window": "24h",
        });
        read_id(&self.create(ApiRequest::post("/batches", to_json_body(&batch)?)).await?, "id")
    }

    /// Requests the status of a batch from the vendor.
    pub async fn status(&self, job: &BatchJob) -> Result<BatchStatus, ModelError> {
        Ok(self.fetch_status(job).await?.0)
    }

    /// Asks the vendor to cancel a batch. Results that exist can still be collected.
    pub async fn cancel(&self, job: &BatchJob) -> Result<(), ModelError> {
        let path = match self.vendor {
            Vendor::OpenAi => format!("/batches/{}/cancel", job.id),
            Vendor::Anthropic => format!("/v1/messages/batches/{}/cancel", job.id),
            Vendor::Gemini => format!("/{}:cancel", job.id),
        };
        self.api.send(ApiRequest::post(path, b"{}".to_vec()), |_| Ok(())).await
    }

    /// Requests the status of a batch until it ends, and returns its results in the order of the requests. Calls
    /// `on_status` after each status request. A request that the vendor did not answer has an error as its result.
    ///
    /// The vendor owns the batch, so the future can be dropped at any time and started again in another process.
    pub async fn wait(
        &self,
        job: &BatchJob,
        mut on_status: impl FnMut(BatchStatus),
    ) -> Result<BatchResults, ModelError> {
        loop {
            let (status, batch) = self.fetch_status(job).await?;
            on_status(status);
            if status.phase != BatchPhase::InProgress {
                return self.collect(job, &batch).await;
            }
            sleep(self.poll_interval).await;
        }
    }

    /// Requests a batch, and returns its status with the vendor's JSON.
    async fn fetch_status(&self, job: &BatchJob) -> Result<(BatchStatus, Value), ModelError> {
        let path = match self.vendor {
            Vendor::OpenAi => format!("/batches/{}", job.id),
            Vendor::Anthropic => format!("/v1/messages/batches/{}", job.id),
            Vendor::Gemini => format!("/{}", job.id),
        };
        let batch = self.fetch(ApiRequest::get(path)).await?;
        let mut status = match self.vendor {
            Vendor::OpenAi => openai::parse_status(&batch)?.0,
            Vendor::Anthropic => anthropic::parse_status(&batch)?,
            Vendor::Gemini => gemini::parse_status(&batch)?,
        };
        if status.total == 0 {
            status.total = job.requests.len() as u64;
        }
        Ok((status, batch))
    }

    /// Fetches the results of an ended batch, in the order of the requests.
    async fn collect(&self, job: &BatchJob, batch: &Value) -> Result<BatchResults, ModelError> {
        let lines = match self.vendor {
            Vendor::OpenAi => {
                let mut lines = Vec::new();
                for file in openai::parse_status(batch)?.1 {
                    let path = format!("/files/{file}/content");
                    lines.extend(self.api.send(ApiRequest::get(path), read_lines).await?);
                }
                lines
            }
            Vendor::Anthropic => {
                let path = format!("/v1/messages/batches/{}/results", job.id);
                self.api.send(ApiRequest::get(path), read_lines).await?
            }
            Vendor::Gemini => gemini::responses(batch),
        };
        let read_response = match self.vendor {
            Vendor::OpenAi => openai::read_response,
            Vendor::Anthropic => anthropic::read_response,
            Vendor::Gemini => gemini::read_response,
        };
        let mut responses: HashMap<String, BatchResponse> =
            lines.iter().filter_map(read_response).collect();
        let results = job.requests.iter().map(|id| BatchResult {
            id: id.clone(),
            outcome: responses.remove(id).map_or_else(
                || Err(missing_result_error()),
                |response| {
                    Ok(restore_tool_names(self.parse_response(response)?, job.tool_names.get(id)))
                },
            ),
        });
        Ok(BatchResults { results: results.collect() })
    }

    /// Parses the vendor's response to one request. Returns an error if the vendor returned one.
    fn parse_response(&self, response: BatchResponse) -> Result<ModelResponse, ModelError> {
        let body = response.map_err(|(status, body)| {
            self.wire.parse_error(Some(status), body.to_string().as_bytes())
        })?;
        let events = match self.vendor {
            Vendor::OpenAi => events::openai_events(body),
            Vendor::Anthropic => events::anthropic_events(body),
            // A complete response of Gemini has the format of a stream event.
            Vendor::Gemini => vec![("", body)],
        };
        events::accumulate(&*self.wire, &events)
    }

    /// Sends a request, and reads the response as JSON.
    async fn fetch(&self, request: ApiRequest) -> Result<Value, ModelError> {
        self.api.send(request, read_value).await
    }

    /// Creates a batch. The request is never retried, because a retry could create a second batch.
    async fn create(&self, request: ApiRequest) -> Result<Value, ModelError> {
        self.api.send_once(request, read_value).await
    }
}

/// Parses a response as JSON.
fn read_value(body: &[u8]) -> Result<Value, ModelError> {
    serde_json::from_slice(body).map_err(|cause| malformed("a batch", &cause))
}

/// Replaces the tool names that were sent to the vendor by the original names.
fn restore_tool_names(
    mut response: ModelResponse,
    names: Option<&BTreeMap<String, String>>,
) -> ModelResponse {
    for part in &mut response.message.parts {
        if let ContentPart::ToolCall(call) = part
            && let Some(original) = names.and_then(|names| names.get(&call.name))
        {
            call.name.clone_from(original);
        }
    }
    response
}

/// Returns the id in the field `name`. Returns an error if it is missing or cannot be part of a URL path.
fn read_id(value: &Value, name: &str) -> Result<String, ModelError> {
    let id = value[name].as_str().filter(|id| !id.is_empty() && !id.contains(['?', '#', ' ']));
    id.map(str::to_owned).ok_or_else(|| malformed_error("the provider sent no batch id"))
}

/// Parses the non-empty lines of a response as JSON.
fn read_lines(body: &[u8]) -> Result<Vec<Value>, ModelError> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let read = lines.map(serde_json::from_slice);
    read.collect::<Result<_, _>>().map_err(|cause| malformed("results of a batch", &cause))
}

impl BatchClientBuilder {
    fn new(
        vendor: Vendor,
        endpoint: VendorEndpoint<'_>,
        model: String,
        wire: impl WireFormat,
    ) -> Self {
        let mut api = ApiClientConfig::new(endpoint);
        if vendor == Vendor::Anthropic {
            let (name, value) = ANTHROPIC_VERSION;
            api.headers.push((name.to_owned(), value.to_owned().into()));
        }
        let info = ModelCatalog::builtin().info(endpoint.provider, &model);
        Self { vendor, wire: Arc::new(wire), info, api, poll_interval: POLL_INTERVAL_DEFAULT }
    }

    /// Makes [`build`](Self::build) fail without a key. The error names the environment variable.
    fn require_key(mut self, variable: &'static str) -> Self {
        self.api.key_variable = Some(variable);
        self
    }

    /// Sets the API key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.api.key = Some(key.into());
        self
    }

    /// Sets the base URL.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.api.base_url = url.into();
        self
    }

    /// Sets the interval between two status requests. The default is 30 seconds.
    pub fn poll_interval(mut self, time: Duration) -> Self {
        self.poll_interval = time;
        self
    }

    /// Sets the time limits of each request.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.api.timeouts = timeouts;
        self
    }

    /// Sets the policy for retries. The creation of a batch is never retried, because vendors cannot detect a
    /// duplicate.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.api.retry = retry;
        self
    }

    /// Validates the configuration and builds the client. Sends no request.
    pub fn build(self) -> Result<BatchClient, ModelBuildError> {
        if self.info.model.trim().is_empty() {
            return Err(ModelBuildError::Model);
        }
        let Self { vendor, wire, info, api, poll_interval } = self;
        Ok(BatchClient { vendor, wire, info, api: api.build()?, poll_interval })
    }
}

impl fmt::Debug for BatchClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vendor, info, .. } = self;
        f.debug_struct("BatchClient")
            .field("vendor", vendor)
            .field("model", &info.model)
            .finish_non_exhaustive()
    }
}

/// Creates the error of a request that has no result although its batch has ended.
fn missing_result_error() -> ModelError {
    let problem = "the batch ended without a result for this request: send it again";
    ModelError::new(ModelErrorClass::StreamTruncated, problem)
}
