//! Runs each test for every wire.

use std::time::Duration;

use futures::StreamExt;
use provost_core::Env;
use provost_model::{ChatModel, ChatRequest, ModelError, ModelEvent, RetryPolicy};
use provost_provider::wire::WireFormat;
use provost_provider::{
    Anthropic, Bedrock, Gemini, HttpModel, HttpModelBuilder, Ollama, OpenAi, Timeouts,
};
use provost_testkit::{FakeProvider, WireKind};
use serde_json::Value;

pub(crate) const WIRES: [WireKind; 6] = WireKind::ALL;
pub(crate) const KEY: &str = "sk-hunter2";

/// Options of the model under test.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) timeouts: Timeouts,
    pub(crate) retry: RetryPolicy,
    pub(crate) client: Option<reqwest::Client>,
    pub(crate) base_url: Option<String>,
    pub(crate) replay_reasoning: bool,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) prompt_cache: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeouts: Timeouts {
                first_byte: Duration::from_secs(10),
                idle: Duration::from_secs(10),
                ..Timeouts::default()
            },
            retry: RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() },
            client: None,
            base_url: None,
            replay_reasoning: false,
            headers: Vec::new(),
            prompt_cache: true,
        }
    }
}

pub(crate) fn model(wire: WireKind, provider: &FakeProvider) -> HttpModel {
    model_with(wire, provider, Options::default())
}

pub(crate) fn model_with(wire: WireKind, provider: &FakeProvider, options: Options) -> HttpModel {
    let base_url = options.base_url.clone().unwrap_or_else(|| provider.base_url());
    model_at(wire, &base_url, options)
}

/// Returns a model with this base URL.
pub(crate) fn model_at(wire: WireKind, base_url: &str, options: Options) -> HttpModel {
    let replay = options.replay_reasoning;
    match wire {
        WireKind::OpenAiChat => {
            let builder = OpenAi::builder("gpt-5.1").replay_reasoning(replay);
            finish(builder, base_url, options)
        }
        WireKind::OpenAiResponses => finish(OpenAi::responses("gpt-5.1"), base_url, options),
        WireKind::Anthropic => finish(Anthropic::builder("claude-haiku-4-5"), base_url, options),
        WireKind::Gemini => {
            let builder = Gemini::builder("gemini-3-pro").with_info(|info| info.reasoning = true);
            finish(builder, base_url, options)
        }
        WireKind::Ollama => {
            let builder = Ollama::builder("llama3.2");
            finish(builder.with_wire(|wire| wire.replay_reasoning = replay), base_url, options)
        }
        WireKind::Bedrock => {
            let cache = options.prompt_cache;
            let builder = Bedrock::builder(BEDROCK_MODEL, "us-east-1");
            finish(builder.with_wire(|wire| wire.prompt_cache = cache), base_url, options)
        }
    }
}

pub(crate) const BEDROCK_MODEL: &str = "us.anthropic.claude-haiku-4-5-20251001-v1:0";

/// Returns the messages in the body of a request.
pub(crate) fn conversation(wire: WireKind, body: &Value) -> &Value {
    match wire {
        WireKind::OpenAiResponses => &body["input"],
        WireKind::Gemini => &body["contents"],
        _ => &body["messages"],
    }
}

/// Returns the text of the first message in a request.
pub(crate) fn first_words(wire: WireKind, body: &Value) -> String {
    let first = &conversation(wire, body)[0];
    let content = first.get("content").or(first.get("parts")).cloned().unwrap_or_default();
    content.as_str().or(content[0]["text"].as_str()).unwrap_or("?").to_owned()
}

/// Returns the name of a wire in snapshot files.
pub(crate) fn short(wire: WireKind) -> &'static str {
    match wire {
        WireKind::OpenAiChat => "openai",
        WireKind::OpenAiResponses => "responses",
        WireKind::Anthropic => "anthropic",
        WireKind::Gemini => "gemini",
        WireKind::Ollama => "ollama",
        WireKind::Bedrock => "bedrock",
    }
}

fn finish<W: WireFormat>(
    builder: HttpModelBuilder<W>,
    base_url: &str,
    options: Options,
) -> HttpModel {
    let builder = options
        .headers
        .iter()
        .fold(builder, |builder, (name, value)| builder.header(*name, *value));
    let builder = builder
        .api_key(KEY)
        .base_url(base_url)
        .timeouts(options.timeouts)
        .retry(options.retry)
        .env(Env::simulated(7));
    let builder = match options.client {
        Some(client) => builder.client(client),
        None => builder,
    };
    builder.build().unwrap()
}

/// Collects the events of a call and the error at its end.
pub(crate) async fn drain(
    model: &HttpModel,
    request: ChatRequest,
) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut stream = model.stream(request);
    let mut events = Vec::new();
    let mut failure = None;
    while let Some(item) = stream.next().await {
        assert!(failure.is_none(), "{item:?} came after the error");
        match item {
            Ok(event) => events.push(event),
            Err(error) => failure = Some(error),
        }
    }
    assert!(stream.next().await.is_none());
    (events, failure)
}

pub(crate) fn texts(events: &[ModelEvent]) -> Vec<&str> {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

pub(crate) fn retries(events: &[ModelEvent]) -> Vec<(u32, Duration)> {
    let retries = events.iter().filter_map(|event| match event {
        ModelEvent::Retry { attempt, delay, .. } => Some((*attempt, *delay)),
        _ => None,
    });
    retries.collect()
}

/// Returns a model with support for reasoning and schemas.
pub(crate) fn held_to_schemas(wire: WireKind, provider: &FakeProvider) -> HttpModel {
    fn able<W: WireFormat>(builder: HttpModelBuilder<W>, base_url: &str) -> HttpModel {
        let able = builder.with_info(|info| {
            info.reasoning = true;
            info.native_output = provost_model::StructuredOutputSupport::WithTools;
        });
        finish(able, base_url, Options::default())
    }
    let url = &provider.base_url();
    match wire {
        WireKind::OpenAiChat => able(OpenAi::builder("gpt-5.1"), url),
        WireKind::OpenAiResponses => able(OpenAi::responses("gpt-5.1"), url),
        WireKind::Anthropic => able(Anthropic::builder("claude-haiku-4-5"), url),
        WireKind::Gemini => able(Gemini::builder("gemini-3-pro"), url),
        WireKind::Ollama => able(Ollama::builder("qwen3"), url),
        WireKind::Bedrock => able(Bedrock::builder(BEDROCK_MODEL, "us-east-1"), url),
    }
}
