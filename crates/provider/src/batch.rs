//! Batches of the vendors that have them: submit, look, cancel, collect.

mod anthropic;
mod gemini;
mod openai;
mod whole;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use provost_core::{ContentPart, Secret};
use provost_model::{
    BatchItem, BatchJob, BatchOutcome, BatchPhase, BatchRequest, BatchState, Catalog, ModelError,
    ModelErrorClass, ModelInfo, ModelResponse, RetryPolicy, check_batch,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::http::api::{
    ApiBody, ApiClient, ApiClientConfig, ApiRequest, Auth, VendorEndpoint, json as bytes_of,
    malformed_error,
};
use crate::wire::anthropic::AnthropicMessages;
use crate::wire::gemini::GeminiContent;
use crate::wire::openai_chat::OpenAiChat;
use crate::wire::{Wire, malformed, transcript};
use crate::{BuildError, Timeouts};

/// How often a vendor is asked how a batch stands, unless told otherwise.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How the version of Anthropic's protocol is told.
const ANTHROPIC_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// What a vendor answers to one request: a body, or a status and the body of a failure.
type Answer = Result<Value, (u16, Value)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vendor {
    OpenAi,
    Anthropic,
    Gemini,
}

/// The batch API of a vendor, for one model.
pub struct NativeBatch {
    vendor: Vendor,
    wire: Arc<dyn Wire>,
    info: ModelInfo,
    api: ApiClient,
    look_every: Duration,
}

/// Collects what a batch API needs.
#[must_use]
pub struct NativeBatchBuilder {
    vendor: Vendor,
    wire: Arc<dyn Wire>,
    info: ModelInfo,
    api: ApiClientConfig,
    look_every: Duration,
}

impl NativeBatch {
    /// OpenAI's. The key is usually in `OPENAI_API_KEY`.
    pub fn openai(model: impl Into<String>) -> NativeBatchBuilder {
        let base_url = "https://api.openai.com/v1";
        let at = VendorEndpoint { provider: "openai", base_url, auth: Auth::Bearer };
        NativeBatchBuilder::new(Vendor::OpenAi, at, model.into(), OpenAiChat::default())
            .require_key("OPENAI_API_KEY")
    }

    /// Anthropic's. The key is usually in `ANTHROPIC_API_KEY`.
    pub fn anthropic(model: impl Into<String>) -> NativeBatchBuilder {
        let (base_url, auth) = ("https://api.anthropic.com", Auth::Header("x-api-key"));
        let at = VendorEndpoint { provider: "anthropic", base_url, auth };
        let model = model.into();
        let wire = AnthropicMessages::for_model(&model);
        NativeBatchBuilder::new(Vendor::Anthropic, at, model, wire).require_key("ANTHROPIC_API_KEY")
    }

    /// Gemini's. The key is usually in `GEMINI_API_KEY`.
    pub fn gemini(model: impl Into<String>) -> NativeBatchBuilder {
        let base_url = "https://generativelanguage.googleapis.com/v1beta";
        let auth = Auth::Header("x-goog-api-key");
        let at = VendorEndpoint { provider: "gemini", base_url, auth };
        let model = model.into();
        let wire = GeminiContent::for_model(&model);
        NativeBatchBuilder::new(Vendor::Gemini, at, model, wire).require_key("GEMINI_API_KEY")
    }

    /// Hands the requests in. What comes back is all that is needed to go on, in any process.
    pub async fn submit(&self, requests: &[BatchRequest]) -> Result<BatchJob, ModelError> {
        check_batch(requests)?;
        if requests.is_empty() {
            let problem = "a batch without requests has no answers: nothing was sent";
            return Err(ModelError::new(ModelErrorClass::InvalidRequest, problem));
        }
        let mut bodies = Vec::with_capacity(requests.len());
        let mut tool_names = BTreeMap::new();
        for BatchRequest { id, request } in requests {
            let (fitted, aliases) = transcript::fit(request.clone(), &self.wire.rules());
            let names: BTreeMap<String, String> = request
                .tools
                .iter()
                .filter_map(|tool| Some((aliases.of(&tool.name)?.to_owned(), tool.name.clone())))
                .collect();
            if !names.is_empty() {
                tool_names.insert(id.clone(), names);
            }
            let body = self.wire.encode(&fitted, &self.info)?;
            let body: Value =
                serde_json::from_slice(&body).map_err(|cause| malformed("a request", &cause))?;
            bodies.push((id.as_str(), body));
        }
        let id = match self.vendor {
            Vendor::OpenAi => self.submit_openai(bodies).await?,
            Vendor::Anthropic => {
                let requests: Vec<Value> =
                    bodies.into_iter().map(|(id, body)| anthropic::request(id, body)).collect();
                let body = bytes_of(&json!({ "requests": requests }))?;
                id_of(&self.begin(ApiRequest::post("/v1/messages/batches", body)).await?, "id")?
            }
            Vendor::Gemini => {
                let requests =
                    bodies.into_iter().map(|(id, body)| gemini::request(id, body)).collect();
                let body = bytes_of(&gemini::body("provost", requests))?;
                let path = format!("/models/{}:batchGenerateContent", self.info.model);
                id_of(&self.begin(ApiRequest::post(path, body)).await?, "name")?
            }
        };
        let ids = requests.iter().map(|request| request.id.clone()).collect();
        let ModelInfo { provider, model, .. } = &self.info;
        let (provider, model) = (provider.clone(), model.clone());
        Ok(BatchJob { provider, model, id, requests: ids, tool_names })
    }

    async fn submit_openai(&self, bodies: Vec<(&str, Value)>) -> Result<String, ModelError> {
        let mut lines = Vec::new();
        for (id, body) in bodies {
            lines.extend(openai::line(id, body)?);
        }
        let (content_type, bytes) = openai::upload(&lines);
        let body = Some(ApiBody { content_type, bytes: Bytes::from(bytes) });
        let upload = ApiRequest { method: Method::POST, path: "/files".to_owned(), body };
        let file = id_of(&self.value(upload).await?, "id")?;
        let batch = json!({
            "input_file_id": file, "endpoint": openai::ENDPOINT, "completion_window": "24h",
        });
        id_of(&self.begin(ApiRequest::post("/batches", bytes_of(&batch)?)).await?, "id")
    }

    /// How a batch stands.
    pub async fn state(&self, job: &BatchJob) -> Result<BatchState, ModelError> {
        Ok(self.look(job).await?.0)
    }

    /// Tells the vendor to stop. Answers that are there can still be collected.
    pub async fn cancel(&self, job: &BatchJob) -> Result<(), ModelError> {
        let path = match self.vendor {
            Vendor::OpenAi => format!("/batches/{}/cancel", job.id),
            Vendor::Anthropic => format!("/v1/messages/batches/{}/cancel", job.id),
            Vendor::Gemini => format!("/{}:cancel", job.id),
        };
        self.api.send(ApiRequest::post(path, b"{}".to_vec()), |_| Ok(())).await
    }

    /// Waits until a batch is over and collects its answers, in the order of its requests. `told` hears how it stands.
    ///
    /// It may be dropped at any time and begun again elsewhere: the batch is the vendor's.
    pub async fn finish(
        &self,
        job: &BatchJob,
        mut told: impl FnMut(BatchState),
    ) -> Result<BatchOutcome, ModelError> {
        loop {
            let (state, batch) = self.look(job).await?;
            told(state);
            if state.phase != BatchPhase::Working {
                return self.collect(job, &batch).await;
            }
            sleep(self.look_every).await;
        }
    }

    async fn look(&self, job: &BatchJob) -> Result<(BatchState, Value), ModelError> {
        let path = match self.vendor {
            Vendor::OpenAi => format!("/batches/{}", job.id),
            Vendor::Anthropic => format!("/v1/messages/batches/{}", job.id),
            Vendor::Gemini => format!("/{}", job.id),
        };
        let batch = self.value(ApiRequest::get(path)).await?;
        let mut state = match self.vendor {
            Vendor::OpenAi => openai::state(&batch)?.0,
            Vendor::Anthropic => anthropic::state(&batch)?,
            Vendor::Gemini => gemini::state(&batch)?,
        };
        if state.total == 0 {
            state.total = job.requests.len() as u64;
        }
        Ok((state, batch))
    }

    async fn collect(&self, job: &BatchJob, batch: &Value) -> Result<BatchOutcome, ModelError> {
        let lines = match self.vendor {
            Vendor::OpenAi => {
                let mut lines = Vec::new();
                for file in openai::state(batch)?.1 {
                    let path = format!("/files/{file}/content");
                    lines.extend(self.api.send(ApiRequest::get(path), read_lines).await?);
                }
                lines
            }
            Vendor::Anthropic => {
                let path = format!("/v1/messages/batches/{}/results", job.id);
                self.api.send(ApiRequest::get(path), read_lines).await?
            }
            Vendor::Gemini => gemini::answers(batch),
        };
        let answer = match self.vendor {
            Vendor::OpenAi => openai::answer,
            Vendor::Anthropic => anthropic::answer,
            Vendor::Gemini => gemini::answer,
        };
        let mut found: HashMap<String, Answer> = lines.iter().filter_map(answer).collect();
        let items = job.requests.iter().map(|id| BatchItem {
            id: id.clone(),
            outcome: found.remove(id).map_or_else(
                || Err(unanswered()),
                |found| Ok(renamed(self.read(found)?, job.tool_names.get(id))),
            ),
        });
        Ok(BatchOutcome { items: items.collect() })
    }

    fn read(&self, found: Answer) -> Result<ModelResponse, ModelError> {
        let answer = found.map_err(|(status, body)| {
            self.wire.failure(Some(status), body.to_string().as_bytes())
        })?;
        let events = match self.vendor {
            Vendor::OpenAi => whole::openai(answer),
            Vendor::Anthropic => whole::anthropic(answer),
            // Gemini's whole answer looks like a piece of a stream.
            Vendor::Gemini => vec![("", answer)],
        };
        whole::fold(&*self.wire, &events)
    }

    async fn value(&self, ask: ApiRequest) -> Result<Value, ModelError> {
        self.api.send(ask, read_value).await
    }

    /// Begins a batch. Asking twice might make two, so whoever wants that asks again.
    async fn begin(&self, ask: ApiRequest) -> Result<Value, ModelError> {
        self.api.send_once(ask, read_value).await
    }
}

fn read_value(body: &[u8]) -> Result<Value, ModelError> {
    serde_json::from_slice(body).map_err(|cause| malformed("a batch", &cause))
}

/// The answer with the real names of its tools.
fn renamed(mut response: ModelResponse, names: Option<&BTreeMap<String, String>>) -> ModelResponse {
    for part in &mut response.message.parts {
        if let ContentPart::ToolCall(call) = part
            && let Some(real) = names.and_then(|names| names.get(&call.name))
        {
            call.name.clone_from(real);
        }
    }
    response
}

fn id_of(value: &Value, name: &str) -> Result<String, ModelError> {
    let id = value[name].as_str().filter(|id| !id.is_empty() && !id.contains(['?', '#', ' ']));
    id.map(str::to_owned)
        .ok_or_else(|| malformed_error("the provider did not say what the batch is called"))
}

fn read_lines(body: &[u8]) -> Result<Vec<Value>, ModelError> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let read = lines.map(serde_json::from_slice);
    read.collect::<Result<_, _>>().map_err(|cause| malformed("answers of a batch", &cause))
}

impl NativeBatchBuilder {
    fn new(vendor: Vendor, endpoint: VendorEndpoint<'_>, model: String, wire: impl Wire) -> Self {
        let mut api = ApiClientConfig::new(endpoint);
        if vendor == Vendor::Anthropic {
            let (name, value) = ANTHROPIC_VERSION;
            api.headers.push((name.to_owned(), value.to_owned().into()));
        }
        let info = Catalog::builtin().info(endpoint.provider, &model);
        Self { vendor, wire: Arc::new(wire), info, api, look_every: LOOK_EVERY }
    }

    fn require_key(mut self, variable: &'static str) -> Self {
        self.api.key_variable = Some(variable);
        self
    }

    /// The key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.api.key = Some(key.into());
        self
    }

    /// Another address.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.api.base_url = url.into();
        self
    }

    /// Sets how often the vendor is asked how a batch stands; every 30 seconds unless told.
    pub fn look_every(mut self, time: Duration) -> Self {
        self.look_every = time;
        self
    }

    /// Sets how long each stage of one question may take.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.api.timeouts = timeouts;
        self
    }

    /// Sets how failed questions are tried again. A batch is begun only once: no vendor can tell that it was asked twice.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.api.retry = retry;
        self
    }

    /// Checks everything. Nothing is sent.
    pub fn build(self) -> Result<NativeBatch, BuildError> {
        if self.info.model.trim().is_empty() {
            return Err(BuildError::Model);
        }
        let Self { vendor, wire, info, api, look_every } = self;
        Ok(NativeBatch { vendor, wire, info, api: api.build()?, look_every })
    }
}

impl fmt::Debug for NativeBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vendor, info, .. } = self;
        f.debug_struct("NativeBatch")
            .field("vendor", vendor)
            .field("model", &info.model)
            .finish_non_exhaustive()
    }
}

/// The error of a request that has no answer.
fn unanswered() -> ModelError {
    let problem = "the batch ended without an answer to this request: ask again";
    ModelError::new(ModelErrorClass::Incomplete, problem)
}
