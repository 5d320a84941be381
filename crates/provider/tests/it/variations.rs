//! Wires with other keys, base URLs and options.

use provost_core::{Message, ToolCall, ToolResult};
use provost_model::{ChatRequest, ReasoningEffort, ToolChoice, complete};
use provost_provider::wire::bedrock::AwsCredentials;
use provost_provider::{Anthropic, AzureOpenAi, Bedrock, ProviderRegistry};
use provost_testkit::{FakeProvider, Recorded, Reply};
use serde_json::{Value, json};

use crate::content::{ask, tool};
use crate::harness::BEDROCK_MODEL;

fn root(provider: &FakeProvider) -> String {
    format!("http://{}", provider.address())
}

#[tokio::test]
async fn azure_is_another_address_and_another_header() {
    let provider = FakeProvider::answering(|_| Reply::text("ok")).await;
    let url = root(&provider);
    let v1 = AzureOpenAi::builder(&url, "my-gpt").api_key("k").build().unwrap();
    complete(&v1, ask("?")).await.unwrap();
    let old = AzureOpenAi::deployment(&url, "my-gpt", "2024-10-21").api_key("k").build().unwrap();
    complete(&old, ask("?")).await.unwrap();
    let responses = AzureOpenAi::responses(&url, "my-gpt").api_key("k").build().unwrap();
    complete(&responses, ask("?")).await.unwrap();
    let requests = provider.requests();
    let places: Vec<(&str, Option<&str>)> =
        requests.iter().map(|request| (request.path.as_str(), request.query.as_deref())).collect();
    assert_eq!(
        places,
        [
            ("/openai/v1/chat/completions", None),
            ("/openai/deployments/my-gpt/chat/completions", Some("api-version=2024-10-21")),
            ("/openai/v1/responses", None),
        ]
    );
    for request in &requests {
        assert_eq!(request.header("api-key"), Some("k"));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.json()["model"], "my-gpt");
    }
}

#[tokio::test]
async fn a_token_of_oauth_goes_another_way_than_a_key() {
    let provider = FakeProvider::answering(|_| Reply::text("ok")).await;
    let model = Anthropic::builder("claude-haiku-4-5")
        .api_key("sk-ant-oat01-xyz")
        .header("anthropic-beta", "files-api-2025-04-14")
        .base_url(provider.base_url())
        .build()
        .unwrap();
    complete(&model, ask("?")).await.unwrap();
    let request = &provider.requests()[0];
    assert_eq!(request.header("authorization"), Some("Bearer sk-ant-oat01-xyz"));
    assert_eq!(request.header("x-api-key"), None);
    let beta = request.header("anthropic-beta");
    assert_eq!(beta, Some("files-api-2025-04-14,oauth-2025-04-20"));
}

#[tokio::test]
async fn a_signed_request_holds_no_secret() {
    let provider = FakeProvider::answering(|_| Reply::text("ok")).await;
    let model = Bedrock::builder(BEDROCK_MODEL, "eu-west-1")
        .credentials(AwsCredentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "hunter2-secret".into(),
            session_token: Some("session-token".into()),
        })
        .base_url(root(&provider))
        .build()
        .unwrap();
    complete(&model, ask("?")).await.unwrap();
    let request = &provider.requests()[0];
    let signed = request.header("authorization").unwrap();
    assert!(signed.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{signed}");
    assert!(signed.contains("/eu-west-1/bedrock/aws4_request"), "{signed}");
    let names = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,";
    assert!(signed.contains(names), "{signed}");
    assert_eq!(request.header("x-amz-security-token"), Some("session-token"));
    assert_eq!(request.header("host"), Some(provider.address().to_string().as_str()));
    assert!(!format!("{:?}", request.headers).contains("hunter2"));
}

/// Returns the request body that a provider of the registry receives.
async fn sent(name: &str, request: ChatRequest) -> Value {
    let provider = FakeProvider::answering(|_: &Recorded| Reply::text("ok")).await;
    let model = ProviderRegistry::builtin()
        .builder(&format!("{name}/some-model"), |_| None)
        .unwrap()
        .base_url(provider.base_url())
        .api_key("k")
        .with_info(|info| info.reasoning = true)
        .build()
        .unwrap();
    complete(&model, request).await.unwrap();
    provider.bodies()[0].clone()
}

fn busy() -> ChatRequest {
    let call = ToolCall::new("toolu_01ABCDEFGHIJKL", "search", &json!({"q": "x"}));
    let mut request = ChatRequest::new([
        Message::user("look"),
        Message::calls([call.clone()]),
        Message::results([ToolResult::text(&call, "found")]),
    ]);
    request.system = Some("sys".into());
    request.tools = vec![tool("search")];
    request.tool_choice = ToolChoice::Required;
    request.settings.max_tokens = Some(5);
    request.settings.seed = Some(1);
    request.settings.effort = Some(ReasoningEffort::Low);
    request.settings.parallel_tool_calls = Some(false);
    request
}

#[tokio::test]
async fn vendors_are_spoken_to_as_they_want() {
    let openai = sent("openai", busy()).await;
    assert_eq!(openai["max_completion_tokens"], 5);
    assert_eq!(openai["reasoning_effort"], "low");
    assert_eq!(openai["parallel_tool_calls"], false);

    let mistral = sent("mistral", busy()).await;
    assert_eq!((&mistral["max_tokens"], &mistral["tool_choice"]), (&json!(5), &json!("any")));
    assert!(mistral.get("stream_options").is_none() && mistral.get("seed").is_none());
    let id = mistral["messages"][2]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(mistral["messages"][3]["tool_call_id"], id);

    let openrouter = sent("openrouter", busy()).await;
    assert_eq!(openrouter["reasoning"], json!({"effort": "low"}));
    assert!(openrouter.get("reasoning_effort").is_none());

    let deepseek = sent("deepseek", busy()).await;
    assert!(deepseek.get("reasoning_effort").is_none());
    assert!(deepseek.get("parallel_tool_calls").is_none());
}
