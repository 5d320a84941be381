//! Baseline of the agent loop: a loop with `reqwest` and `serde_json`, for one vendor and the success case only.
//!
//! It does what the measured runs need: no retries, limits, timeouts, checks or events.

use std::sync::Arc;

use reqwest::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Result;
use crate::provost_side::{Add, INSTRUCTIONS, add};

/// An HTTP client and the model's URL.
#[derive(Clone)]
pub(crate) struct BaselineLoop {
    client: reqwest::Client,
    url: Arc<str>,
    model: &'static str,
    tools: Arc<Value>,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Value],
    stream: bool,
    stream_options: Value,
    tools: &'a Value,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Delta,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<CallDelta>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: usize,
    id: Option<String>,
    function: FunctionDelta,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    #[serde(default)]
    arguments: String,
}

#[derive(Deserialize)]
struct Tokens {
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// A tool call of the model.
#[derive(Default)]
pub(crate) struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// One complete response of the model.
#[derive(Default)]
pub(crate) struct Answer {
    text: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) tokens: u64,
}

impl BaselineLoop {
    pub(crate) fn new(base_url: &str, model: &'static str) -> Result<Self> {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": { "type": "integer", "format": "int64" },
                "b": { "type": "integer", "format": "int64" },
            },
            "required": ["a", "b"],
        });
        let tools = json!([{
            "type": "function",
            "function": { "name": "add", "description": "Adds two numbers", "parameters": schema },
        }]);
        Ok(Self {
            client: client()?,
            url: format!("{base_url}/chat/completions").into(),
            model,
            tools: Arc::new(tools),
        })
    }

    /// Runs a prompt with tools. `seen` gets each text delta. Returns the used tokens.
    pub(crate) async fn run(&self, prompt: &str, mut seen: impl FnMut(&str)) -> Result<u64> {
        let mut messages = opening(prompt);
        let mut tokens = 0;
        loop {
            let answer = self.ask(&messages, &mut seen).await?;
            tokens += answer.tokens;
            if answer.calls.is_empty() {
                return Ok(tokens);
            }
            messages.push(answer.to_message());
            for call in &answer.calls {
                messages.push(call.run().await?);
            }
        }
    }

    /// Makes one model call.
    pub(crate) async fn ask(
        &self,
        messages: &[Value],
        seen: &mut impl FnMut(&str),
    ) -> Result<Answer> {
        let body = serde_json::to_vec(&Body {
            model: self.model,
            messages,
            stream: true,
            stream_options: json!({ "include_usage": true }),
            tools: &self.tools,
        })?;
        let request = self.client.post(&*self.url).bearer_auth("key");
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let mut response = request.send().await?.error_for_status()?;
        let mut answer = Answer::default();
        let mut buffer: Vec<u8> = Vec::new();
        while let Some(bytes) = response.chunk().await? {
            buffer.extend_from_slice(&bytes);
            let mut start = 0;
            while let Some(end) = memchr::memchr(b'\n', &buffer[start..]) {
                let line = &buffer[start..start + end];
                start += end + 1;
                if let Some(data) = line.strip_prefix(b"data: ")
                    && data != b"[DONE]"
                {
                    answer.take(serde_json::from_slice(data)?, seen);
                }
            }
            buffer.drain(..start);
        }
        Ok(answer)
    }
}

/// Returns the first messages of a conversation.
pub(crate) fn opening(prompt: &str) -> Vec<Value> {
    vec![
        json!({ "role": "system", "content": INSTRUCTIONS }),
        json!({ "role": "user", "content": prompt }),
    ]
}

impl Answer {
    /// Returns the response as a message of the conversation.
    pub(crate) fn to_message(&self) -> Value {
        let calls: Vec<Value> = self.calls.iter().map(Call::to_json).collect();
        let text = (!self.text.is_empty()).then_some(&self.text);
        json!({ "role": "assistant", "content": text, "tool_calls": calls })
    }

    fn take(&mut self, chunk: Chunk, seen: &mut impl FnMut(&str)) {
        if let Some(tokens) = chunk.usage {
            self.tokens = tokens.prompt_tokens + tokens.completion_tokens;
        }
        for choice in chunk.choices {
            if let Some(text) = choice.delta.content.filter(|text| !text.is_empty()) {
                seen(&text);
                self.text.push_str(&text);
            }
            for delta in choice.delta.tool_calls {
                if self.calls.len() <= delta.index {
                    self.calls.resize_with(delta.index + 1, Call::default);
                }
                let call = &mut self.calls[delta.index];
                if let Some(id) = delta.id {
                    call.id = id;
                }
                if let Some(name) = delta.function.name {
                    call.name = name;
                }
                call.arguments.push_str(&delta.function.arguments);
            }
        }
    }
}

impl Call {
    /// Runs the tool. Returns its result as a message of the conversation.
    pub(crate) async fn run(&self) -> Result<Value> {
        let arguments: Add = serde_json::from_str(&self.arguments)?;
        let result = match self.name.as_str() {
            "add" => add(arguments).await.to_string(),
            other => format!("there is no tool {other}"),
        };
        Ok(json!({ "role": "tool", "tool_call_id": self.id, "content": result }))
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "type": "function",
            "function": { "name": self.name, "arguments": self.arguments },
        })
    }
}

/// Returns a client with the usual root certificates, like a program that calls a real vendor.
fn client() -> Result<reqwest::Client> {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(reqwest::Client::builder().tls_backend_preconfigured(tls).build()?)
}
