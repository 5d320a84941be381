//! Another agent as a tool, over A2A 1.0: its card says where it is, a message starts its work, its task is looked at until it ends.
//!
//! Invariants: credentials go to the origin that the operator declared and to no other, whatever a card says; a task that nobody
//! waits for any more is cancelled.

mod protocol;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, header};
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{A2aSpec, ToolResource, ToolType};
use provost_tool::{Attempt, ToolOutput, ToolRuntime};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use url::Url;

use crate::limits::{
    CARD_BYTES_MAX, CARD_TTL, CARDS_MAX, TAKE_BACK_TIMEOUT, TASK_POLL_DEFAULT, TASK_POLL_MAX,
};
use crate::transport::client::{self, Call, Outbound};
use crate::transport::excerpt::Clip;
use crate::transport::fault::{self, DETAIL_OUTCOME, OUTCOME_UNKNOWN};
use protocol::{Card, Interface, Message, Sent, State, Task};

/// Where an agent's card is unless the tool says otherwise.
const CARD_PATH: &str = "/.well-known/agent-card.json";
/// The header that tells which version is spoken.
const VERSION_HEADER: HeaderName = HeaderName::from_static("a2a-version");
/// The way of speaking that is understood.
const BINDING: &str = "JSONRPC";
/// How much longer each pause is than the one before, in percent.
const POLL_GROWTH_PERCENT: u32 = 150;

/// Tools of type `a2a`.
#[derive(Clone)]
pub struct A2aRuntime {
    outbound: Outbound,
    cards: Arc<Mutex<HashMap<Url, Known>>>,
}

/// A card that was read.
struct Known {
    interface: Interface,
    until: Instant,
}

impl A2aRuntime {
    /// Over these clients.
    pub fn new(outbound: Outbound) -> Self {
        Self { outbound, cards: Arc::default() }
    }
}

impl ToolRuntime for A2aRuntime {
    fn kind(&self) -> ToolType {
        ToolType::A2a
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        self.outbound.admit(tool)?;
        card_url(tool).map(|_url| ())
    }

    fn invoke(
        &self,
        attempt: Attempt,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = self.clone();
        let call = Call::of(&attempt);
        async move { call.within(Box::pin(runtime.ask(&call, &attempt))).await }.boxed()
    }
}

impl A2aRuntime {
    async fn ask(&self, call: &Call, attempt: &Attempt) -> Result<ToolOutput, ToolContractError> {
        let interface = self.interface(call).await?;
        let peer = Peer::of(self, call, &interface)?;
        let request = &call.request;
        let mut params = json!({
            "message": {
                // The same call has the same message: an agent that knows it need not do it twice.
                "messageId": attempt.effect_key,
                "role": "ROLE_USER",
                "parts": protocol::parts(&attempt.arguments),
                "metadata": { "request_id": request.request_id, "attempt": request.attempt },
            },
            "configuration": { "returnImmediately": true },
        });
        peer.name_tenant(&mut params);
        match send(peer.clone(), params).await? {
            Sent::Message(message) => {
                let parts = message.parts.iter();
                Ok(finished(parts, None, &message.context_id, &call.clip))
            }
            Sent::Task(task) => follow(peer, task, attempt).await,
        }
    }

    /// Where the agent is, by its card.
    async fn interface(&self, call: &Call) -> Result<Interface, ToolContractError> {
        let url = card_url(&call.tool)?;
        let call = &call.looking();
        if let Some(known) = self.known(&url) {
            return Ok(known);
        }
        let mut request = call.request(Method::GET, url.clone(), Bytes::new())?;
        request.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        request.headers.insert(VERSION_HEADER, HeaderValue::from_static(protocol::VERSION));
        let answer = self.outbound.send(call, request).await?;
        if !client::succeeded(answer.status) {
            return Err(call.failure(answer).await);
        }
        let body = answer.bytes(CARD_BYTES_MAX).await.map_err(|error| call.lost(&error))?;
        let card: Card =
            serde_json::from_slice(&body).map_err(|error| malformed(&call.clip, &error))?;
        let interface = chosen(card, &url, &call.clip)?;
        self.remember(url, &interface);
        Ok(interface)
    }

    fn known(&self, url: &Url) -> Option<Interface> {
        let cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cards.get(url).filter(|known| known.until > Instant::now())?;
        Some(known.interface.clone())
    }

    fn remember(&self, url: Url, interface: &Interface) {
        let mut cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        cards.retain(|_, known| known.until > now);
        if cards.len() < CARDS_MAX {
            cards.insert(url, Known { interface: interface.clone(), until: now + CARD_TTL });
        }
    }
}

/// Sends the message. If nobody waits any more, the answer is waited for a little all the same: it names the task to cancel.
async fn send(peer: Peer, params: Value) -> Result<Sent, ToolContractError> {
    let (mut give, take) = oneshot::channel();
    let mut sender = peer;
    sender.call.deadline += TAKE_BACK_TIMEOUT;
    tokio::spawn(async move {
        let answered = async {
            let sent = sender.call("SendMessage", params).await?;
            serde_json::from_value::<Sent>(sent)
                .map_err(|error| malformed(&sender.call.clip, &error))
        };
        let answer = tokio::select! {
            biased;
            answer = answered => answer,
            () = async {
                give.closed().await;
                tokio::time::sleep(TAKE_BACK_TIMEOUT).await;
            } => return,
        };
        if let Err(Ok(Sent::Task(task))) = give.send(answer) {
            drop(Live { peer: sender, task_id: Some(task.id) });
        }
    });
    take.await.unwrap_or_else(|_closed| Err(fault::timeout()))
}

/// Looks at a task until it has ended.
async fn follow(
    peer: Peer,
    mut task: Task,
    attempt: &Attempt,
) -> Result<ToolOutput, ToolContractError> {
    let clip = peer.call.clip.clone();
    if task.id.is_empty() {
        return Err(malformed(&clip, &"a task has no id"));
    }
    let mut live = Live { peer, task_id: Some(task.id.clone()) };
    let spec = attempt.tool.a2a.as_ref();
    let first = spec.and_then(|spec| spec.poll_interval).map_or(TASK_POLL_DEFAULT, |span| span.0);
    let mut pause = first.max(Duration::from_millis(1));
    let mut told = String::new();
    loop {
        if let Some(outcome) = ended(&task, &clip) {
            // One that waits for something goes on waiting unless it is told that nobody will give it.
            if !matches!(State::of(&task.status.state), State::InputRequired | State::AuthRequired)
            {
                live.task_id = None;
            }
            return outcome;
        }
        let says = protocol::said(task.status.message.as_ref(), &clip);
        if !says.is_empty() && says != told {
            (attempt.progress)(says.clone());
            told = says;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * POLL_GROWTH_PERCENT / 100).min(TASK_POLL_MAX.max(first));
        let mut params = json!({ "id": task.id });
        live.peer.name_tenant(&mut params);
        // It has begun: whatever goes wrong while we look, it may happen.
        let looked = live.peer.call("GetTask", params).await;
        let looked = looked.map_err(|fault| fault::unknown(&attempt.tool, fault))?;
        let looked: Task =
            serde_json::from_value(looked).map_err(|error| malformed(&clip, &error))?;
        if looked.id != task.id {
            return Err(malformed(&clip, &"it answers with another task"));
        }
        task = looked;
    }
}

/// What came of a task, once it has ended or waits for somebody.
fn ended(task: &Task, clip: &Clip) -> Option<Result<ToolOutput, ToolContractError>> {
    let word = &task.status.state;
    let says = protocol::said(task.status.message.as_ref(), clip);
    let says = if says.is_empty() { "and not why".to_owned() } else { says };
    let fault = match State::of(word) {
        State::Working => return None,
        State::Completed => {
            let parts = task.artifacts.iter().flat_map(|artifact| artifact.parts.iter());
            let status = task.status.message.iter().flat_map(|message: &Message| &message.parts);
            let empty = task.artifacts.iter().all(|artifact| artifact.parts.is_empty());
            // What it says at its end is its answer only if it made nothing.
            let output = match empty {
                true => finished(status, Some(&task.id), &task.context_id, clip),
                false => finished(parts, Some(&task.id), &task.context_id, clip),
            };
            return Some(Ok(output));
        }
        State::Failed => ToolContractError::final_failure(format!("the agent failed: {says}")),
        State::Rejected => ToolContractError::final_failure(format!("the agent refused: {says}")),
        State::Canceled => {
            ToolContractError::final_failure(format!("the agent's task was cancelled: {says}"))
        }
        State::InputRequired => ToolContractError::new(
            ToolErrorCode::InvalidInput,
            format!("the agent needs more to go on: {says}"),
        )
        .detail("asks", says),
        State::AuthRequired => ToolContractError::new(
            ToolErrorCode::AuthInvalid,
            format!("the agent needs another authorisation: {says}"),
        )
        .detail(DETAIL_OUTCOME, OUTCOME_UNKNOWN)
        .detail("asks", says),
        State::Other => {
            let word = clip.text(word);
            return Some(Err(malformed(clip, &format!("`{word}` is no state of a task"))));
        }
    };
    Some(Err(fault.detail("task_state", clip.text(word)).detail("task_id", clip.text(&task.id))))
}

fn finished<'a>(
    parts: impl Iterator<Item = &'a Value>,
    task_id: Option<&str>,
    context_id: &str,
    clip: &Clip,
) -> ToolOutput {
    let cut = |id: &str| clip.text(id);
    protocol::output(parts, clip).with_metadata(json!({
        "a2a": { "task_id": task_id.map(cut), "context_id": cut(context_id) }
    }))
}

fn malformed(clip: &Clip, problem: &dyn std::fmt::Display) -> ToolContractError {
    let problem = clip.text(&problem.to_string());
    ToolContractError::final_failure(format!(
        "the agent does not keep to A2A {}: {problem}",
        protocol::VERSION
    ))
}

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
    let url = url.map_err(|error| fault::definition(format!("`a2a.card_path`: {error}")))?;
    if url.origin() != endpoint.origin() {
        return Err(fault::definition("`a2a.card_path` leads to another host than the endpoint"));
    }
    Ok(url)
}

/// The way in that both sides know.
fn chosen(card: Card, card_url: &Url, clip: &Clip) -> Result<Interface, ToolContractError> {
    let known = |interface: &Interface| {
        let version = interface.protocol_version.as_str();
        interface.protocol_binding == BINDING && (version.is_empty() || version.starts_with("1."))
    };
    let mut interface = card.supported_interfaces.into_iter().find(known).ok_or_else(|| {
        ToolContractError::final_failure(format!(
            "the agent's card offers no {BINDING} interface of A2A {}",
            protocol::VERSION
        ))
    })?;
    let url = card_url.join(&interface.url).map_err(|error| malformed(clip, &error))?;
    if url.origin() != card_url.origin() {
        let host = clip.text(url.host_str().unwrap_or_default());
        return Err(ToolContractError::new(
            ToolErrorCode::PermissionDenied,
            format!(
                "the agent's card sends calls to `{host}`: declare the tool with that endpoint"
            ),
        ));
    }
    interface.url = url.into();
    Ok(interface)
}

/// The agent, for one call.
#[derive(Clone)]
struct Peer {
    outbound: Outbound,
    call: Call,
    url: Url,
    tenant: String,
}

impl Peer {
    fn of(
        runtime: &A2aRuntime,
        call: &Call,
        interface: &Interface,
    ) -> Result<Self, ToolContractError> {
        let url = Url::parse(&interface.url).map_err(|error| malformed(&call.clip, &error))?;
        let tenant = interface.tenant.clone();
        Ok(Self { outbound: runtime.outbound.clone(), call: call.clone(), url, tenant })
    }

    fn name_tenant(&self, params: &mut Value) {
        if !self.tenant.is_empty() {
            params["tenant"] = Value::String(self.tenant.clone());
        }
    }

    /// One request of JSON-RPC.
    async fn call(&self, method: &str, params: Value) -> Result<Value, ToolContractError> {
        let id = &self.call.request.request_id;
        let body = protocol::call(id, method, params).to_string();
        let mut request = self.call.request(Method::POST, self.url.clone(), body.into())?;
        let headers = &mut request.headers;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(VERSION_HEADER, HeaderValue::from_static(protocol::VERSION));
        let answer = self.outbound.send(&self.call, request).await?;
        if !client::succeeded(answer.status) {
            return Err(self.call.failure(answer).await);
        }
        let body = self.call.body(answer).await?;
        // One that failed inside may have done its work before.
        protocol::result(&body, id, &self.call.clip)
            .map_err(|fault| if fault.retryable { self.call.doubtful(fault) } else { fault })
    }
}

/// A task that goes on over there. It is cancelled when nobody waits any more.
struct Live {
    peer: Peer,
    task_id: Option<String>,
}

impl Drop for Live {
    fn drop(&mut self) {
        let (Some(task_id), Ok(runtime)) =
            (self.task_id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let mut peer = self.peer.clone();
        peer.call.deadline = Instant::now() + TAKE_BACK_TIMEOUT;
        runtime.spawn(async move {
            let mut params = json!({ "id": task_id });
            peer.name_tenant(&mut params);
            let told =
                tokio::time::timeout(TAKE_BACK_TIMEOUT, peer.call("CancelTask", params)).await;
            if !matches!(told, Ok(Ok(_))) {
                tracing::debug!("an agent could not be told that nobody waits for its task");
            }
        });
    }
}
