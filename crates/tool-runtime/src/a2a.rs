//! A2A 1.0 agents as tools: the agent card names the interface, a message starts a task, and the task is polled until
//! it ends.
//!
//! Invariants: credentials are only sent to the origin that the operator declared; a task whose caller stopped waiting
//! is cancelled.

mod protocol;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, header};
use parking_lot::Mutex;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{A2aSpec, ToolResource, ToolType};
use provost_tool::{ToolInvocation, ToolOutput, ToolRuntime};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use url::Url;

use crate::limits::{
    CANCEL_TIMEOUT, CARD_BYTES_MAX, CARD_TTL, CARDS_MAX, TASK_POLL_DEFAULT, TASK_POLL_MAX,
};
use crate::transport::client::{self, AttemptContext, ToolHttpClient};
use crate::transport::error::{self, DETAIL_OUTCOME, OUTCOME_UNKNOWN};
use crate::transport::excerpt::ErrorExcerpt;
use protocol::{Card, Interface, Message, SendMessageResult, State, Task};

/// Default path of the agent card.
const CARD_PATH: &str = "/.well-known/agent-card.json";
/// Header with the protocol version.
const VERSION_HEADER: HeaderName = HeaderName::from_static("a2a-version");
/// Supported protocol binding.
const BINDING: &str = "JSONRPC";
/// Growth of the poll interval in percent.
const POLL_GROWTH_PERCENT: u32 = 150;

/// Tool runtime for tools of type `a2a`: remote agents that speak the A2A protocol.
#[derive(Clone)]
pub struct A2aRuntime {
    client: ToolHttpClient,
    cards: Arc<Mutex<HashMap<Url, CachedCard>>>,
}

/// Interface from the card of an agent, with its expiration time.
struct CachedCard {
    interface: Interface,
    until: Instant,
}

impl A2aRuntime {
    /// Creates a runtime with these HTTP clients.
    pub fn new(client: ToolHttpClient) -> Self {
        Self { client, cards: Arc::default() }
    }
}

impl ToolRuntime for A2aRuntime {
    fn kind(&self) -> ToolType {
        ToolType::A2a
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        self.client.check_network_policy(tool)?;
        card_url(tool).map(|_url| ())
    }

    fn invoke(
        &self,
        attempt: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = self.clone();
        let call = AttemptContext::from_invocation(&attempt);
        async move { call.with_deadline(Box::pin(runtime.send_and_wait(&call, &attempt))).await }
            .boxed()
    }
}

impl A2aRuntime {
    /// Sends the arguments as a message, and waits for the result of the task.
    async fn send_and_wait(
        &self,
        call: &AttemptContext,
        attempt: &ToolInvocation,
    ) -> Result<ToolOutput, ToolContractError> {
        let interface = self.find_interface(call).await?;
        let client = A2aClient::new(self, call, &interface)?;
        let request = &call.request;
        let mut params = json!({
            "message": {
                // Repeating a call sends the same message id, so an agent can recognize the repetition.
                "messageId": attempt.effect_key,
                "role": "ROLE_USER",
                "parts": protocol::message_parts(&attempt.arguments),
                "metadata": { "request_id": request.request_id, "attempt": request.attempt },
            },
            "configuration": { "returnImmediately": true },
        });
        client.set_tenant(&mut params);
        match send(client.clone(), params).await? {
            SendMessageResult::Message(message) => {
                let parts = message.parts.iter();
                Ok(task_output(parts, None, &message.context_id, &call.excerpt))
            }
            SendMessageResult::Task(task) => poll_task(client, task, attempt).await,
        }
    }

    /// Returns the interface of the agent from the cache, or from its card. Caches the interface.
    async fn find_interface(&self, call: &AttemptContext) -> Result<Interface, ToolContractError> {
        let url = card_url(&call.tool)?;
        let call = &call.read_only();
        if let Some(interface) = self.cached_interface(&url) {
            return Ok(interface);
        }
        let mut request = call.request(Method::GET, url.clone(), Bytes::new())?;
        request.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        request.headers.insert(VERSION_HEADER, HeaderValue::from_static(protocol::VERSION));
        let response = self.client.send(call, request).await?;
        if !client::is_success(response.status) {
            return Err(call.response_error(response).await);
        }
        let body =
            response.bytes(CARD_BYTES_MAX).await.map_err(|error| call.transport_error(&error))?;
        let card: Card =
            serde_json::from_slice(&body).map_err(|error| malformed(&call.excerpt, &error))?;
        let interface = select_interface(card, &url, &call.excerpt)?;
        self.cache_interface(url, &interface);
        Ok(interface)
    }

    /// Returns the cached interface of a card. `None` if it is not cached or has expired.
    fn cached_interface(&self, url: &Url) -> Option<Interface> {
        let cards = self.cards.lock();
        let card = cards.get(url).filter(|card| card.until > Instant::now())?;
        Some(card.interface.clone())
    }

    /// Caches an interface and removes expired ones. Does nothing if the cache is full.
    fn cache_interface(&self, url: Url, interface: &Interface) {
        let mut cards = self.cards.lock();
        let now = Instant::now();
        cards.retain(|_, card| card.until > now);
        if cards.len() < CARDS_MAX {
            cards.insert(url, CachedCard { interface: interface.clone(), until: now + CARD_TTL });
        }
    }
}

/// Sends the message and returns the agent's result. If the caller stops waiting, the request continues for a short
/// time, because the response has the id of the task to cancel.
async fn send(client: A2aClient, params: Value) -> Result<SendMessageResult, ToolContractError> {
    let (mut result_tx, result_rx) = oneshot::channel();
    let mut sender = client;
    sender.call.deadline += CANCEL_TIMEOUT;
    tokio::spawn(async move {
        let exchange = async {
            let sent = sender.call("SendMessage", params).await?;
            serde_json::from_value::<SendMessageResult>(sent)
                .map_err(|error| malformed(&sender.call.excerpt, &error))
        };
        let response = tokio::select! {
            biased;
            response = exchange => response,
            () = async {
                result_tx.closed().await;
                tokio::time::sleep(CANCEL_TIMEOUT).await;
            } => return,
        };
        if let Err(Ok(SendMessageResult::Task(task))) = result_tx.send(response) {
            drop(CancelOnDrop { client: sender, task_id: Some(task.id) });
        }
    });
    result_rx.await.unwrap_or_else(|_closed| Err(error::timeout()))
}

/// Requests the status of a task until it ends, and reports its messages as progress. Cancels the task if the caller
/// stops waiting or the task requires input.
async fn poll_task(
    client: A2aClient,
    mut task: Task,
    attempt: &ToolInvocation,
) -> Result<ToolOutput, ToolContractError> {
    let excerpt = client.call.excerpt.clone();
    if task.id.is_empty() {
        return Err(malformed(&excerpt, &"a task has no id"));
    }
    let mut cancel_guard = CancelOnDrop { client, task_id: Some(task.id.clone()) };
    let spec = attempt.tool.a2a.as_ref();
    let first = spec.and_then(|spec| spec.poll_interval).map_or(TASK_POLL_DEFAULT, |span| span.0);
    let mut pause = first.max(Duration::from_millis(1));
    let mut reported = String::new();
    loop {
        if let Some(outcome) = task_outcome(&task, &excerpt) {
            // A task that requires input or authorization keeps waiting, so it is cancelled.
            if !matches!(
                State::parse(&task.status.state),
                State::InputRequired | State::AuthRequired
            ) {
                cancel_guard.task_id = None;
            }
            return outcome;
        }
        let text = protocol::message_text(task.status.message.as_ref(), &excerpt);
        if !text.is_empty() && text != reported {
            (attempt.progress)(text.clone());
            reported = text;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * POLL_GROWTH_PERCENT / 100).min(TASK_POLL_MAX.max(first));
        let mut params = json!({ "id": task.id });
        cancel_guard.client.set_tenant(&mut params);
        // The task has started, so after any error while polling its outcome is unknown.
        let polled = cancel_guard.client.call("GetTask", params).await;
        let polled = polled.map_err(|fault| error::mark_outcome_unknown(&attempt.tool, fault))?;
        let polled: Task =
            serde_json::from_value(polled).map_err(|error| malformed(&excerpt, &error))?;
        if polled.id != task.id {
            return Err(malformed(&excerpt, &"the response contains another task"));
        }
        task = polled;
    }
}

/// Returns the outcome of a task, an error unless it is completed. `None` while it is working.
fn task_outcome(
    task: &Task,
    excerpt: &ErrorExcerpt,
) -> Option<Result<ToolOutput, ToolContractError>> {
    let state = &task.status.state;
    let text = protocol::message_text(task.status.message.as_ref(), excerpt);
    let text = if text.is_empty() { "no reason given".to_owned() } else { text };
    let fault = match State::parse(state) {
        State::Working => return None,
        State::Completed => {
            let parts = task.artifacts.iter().flat_map(|artifact| artifact.parts.iter());
            let status = task.status.message.iter().flat_map(|message: &Message| &message.parts);
            let has_no_artifacts = task.artifacts.iter().all(|artifact| artifact.parts.is_empty());
            // The final message is the result only if the task has no artifacts.
            let output = match has_no_artifacts {
                true => task_output(status, Some(&task.id), &task.context_id, excerpt),
                false => task_output(parts, Some(&task.id), &task.context_id, excerpt),
            };
            return Some(Ok(output));
        }
        State::Failed => ToolContractError::final_failure(format!("the agent failed: {text}")),
        State::Rejected => {
            ToolContractError::final_failure(format!("the agent rejected the task: {text}"))
        }
        State::Canceled => {
            ToolContractError::final_failure(format!("the task of the agent was cancelled: {text}"))
        }
        State::InputRequired => ToolContractError::new(
            ToolErrorCode::InvalidInput,
            format!("the agent requires more input: {text}"),
        )
        .detail("asks", text),
        State::AuthRequired => ToolContractError::new(
            ToolErrorCode::AuthInvalid,
            format!("the agent requires another authorization: {text}"),
        )
        .detail(DETAIL_OUTCOME, OUTCOME_UNKNOWN)
        .detail("asks", text),
        State::Other => {
            let state = excerpt.text(state);
            return Some(Err(malformed(excerpt, &format!("`{state}` is not a task state"))));
        }
    };
    Some(Err(fault
        .detail("task_state", excerpt.text(state))
        .detail("task_id", excerpt.text(&task.id))))
}

/// Converts parts to a tool output, with the ids of the task as metadata.
fn task_output<'a>(
    parts: impl Iterator<Item = &'a Value>,
    task_id: Option<&str>,
    context_id: &str,
    excerpt: &ErrorExcerpt,
) -> ToolOutput {
    let truncate = |id: &str| excerpt.text(id);
    protocol::parts_output(parts, excerpt).with_metadata(json!({
        "a2a": { "task_id": task_id.map(truncate), "context_id": truncate(context_id) }
    }))
}

/// Creates the error of a response that violates the protocol.
fn malformed(excerpt: &ErrorExcerpt, problem: &dyn std::fmt::Display) -> ToolContractError {
    let problem = excerpt.text(&problem.to_string());
    ToolContractError::final_failure(format!(
        "the agent violates A2A {}: {problem}",
        protocol::VERSION
    ))
}

/// Returns the URL of the agent card. Returns an error if it has another origin than the endpoint.
fn card_url(tool: &ToolResource) -> Result<Url, ToolContractError> {
    let endpoint = client::endpoint(tool)?;
    let default = A2aSpec::default();
    let path = &tool.a2a.as_ref().unwrap_or(&default).card_path;
    let url = if path.is_empty() {
        let mut url = endpoint.clone();
        let path = format!("{}{CARD_PATH}", endpoint.path().trim_end_matches('/'));
        url.set_path(&path);
        url.set_query(None);
        Ok(url)
    } else {
        endpoint.join(path)
    };
    let url =
        url.map_err(|error| error::invalid_definition(format!("`a2a.card_path`: {error}")))?;
    if url.origin() != endpoint.origin() {
        return Err(error::invalid_definition(
            "`a2a.card_path` has another origin than the endpoint",
        ));
    }
    Ok(url)
}

/// Returns the first supported interface of a card. Returns an error if there is none or it has another origin than the
/// card.
fn select_interface(
    card: Card,
    card_url: &Url,
    excerpt: &ErrorExcerpt,
) -> Result<Interface, ToolContractError> {
    let is_supported = |interface: &Interface| {
        let version = interface.protocol_version.as_str();
        interface.protocol_binding == BINDING && (version.is_empty() || version.starts_with("1."))
    };
    let mut interface =
        card.supported_interfaces.into_iter().find(is_supported).ok_or_else(|| {
            ToolContractError::final_failure(format!(
                "the agent's card offers no {BINDING} interface of A2A {}",
                protocol::VERSION
            ))
        })?;
    let url = card_url.join(&interface.url).map_err(|error| malformed(excerpt, &error))?;
    if url.origin() != card_url.origin() {
        let host = excerpt.text(url.host_str().unwrap_or_default());
        return Err(ToolContractError::new(
            ToolErrorCode::PermissionDenied,
            format!("the agent card refers to host `{host}`: declare the tool with this endpoint"),
        ));
    }
    interface.url = url.into();
    Ok(interface)
}

/// Client of an agent for the requests of one call.
#[derive(Clone)]
struct A2aClient {
    client: ToolHttpClient,
    call: AttemptContext,
    url: Url,
    tenant: String,
}

impl A2aClient {
    fn new(
        runtime: &A2aRuntime,
        call: &AttemptContext,
        interface: &Interface,
    ) -> Result<Self, ToolContractError> {
        let url = Url::parse(&interface.url).map_err(|error| malformed(&call.excerpt, &error))?;
        let tenant = interface.tenant.clone();
        Ok(Self { client: runtime.client.clone(), call: call.clone(), url, tenant })
    }

    /// Sets the tenant of the parameters, if the interface has one.
    fn set_tenant(&self, params: &mut Value) {
        if !self.tenant.is_empty() {
            params["tenant"] = Value::String(self.tenant.clone());
        }
    }

    /// Sends one JSON-RPC request.
    async fn call(&self, method: &str, params: Value) -> Result<Value, ToolContractError> {
        let id = &self.call.request.request_id;
        let body = protocol::encode_call(id, method, params).to_string();
        let mut request = self.call.request(Method::POST, self.url.clone(), body.into())?;
        let headers = &mut request.headers;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(VERSION_HEADER, HeaderValue::from_static(protocol::VERSION));
        let response = self.client.send(&self.call, request).await?;
        if !client::is_success(response.status) {
            return Err(self.call.response_error(response).await);
        }
        let body = self.call.body(response).await?;
        // An internal error may occur after the work was done.
        protocol::decode_result(&body, id, &self.call.excerpt)
            .map_err(|fault| if fault.retryable { self.call.outcome_unknown(fault) } else { fault })
    }
}

/// A running task. Dropping the guard cancels it.
struct CancelOnDrop {
    client: A2aClient,
    task_id: Option<String>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(task_id), Ok(runtime)) =
            (self.task_id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let mut client = self.client.clone();
        client.call.deadline = Instant::now() + CANCEL_TIMEOUT;
        runtime.spawn(async move {
            let mut params = json!({ "id": task_id });
            client.set_tenant(&mut params);
            let reported =
                tokio::time::timeout(CANCEL_TIMEOUT, client.call("CancelTask", params)).await;
            if !matches!(reported, Ok(Ok(_))) {
                tracing::debug!("task of an agent could not be cancelled");
            }
        });
    }
}
