use provost_model::ChatModel;

use super::*;

fn none(_: &str) -> Option<String> {
    None
}

#[test]
fn the_table_that_ships_is_whole() {
    let providers = ProviderRegistry::parse(TABLE).unwrap();
    for name in [
        "openrouter",
        "groq",
        "deepseek",
        "mistral",
        "xai",
        "together",
        "fireworks",
        "cerebras",
        "perplexity",
        "vllm",
        "lmstudio",
        "llamacpp",
        "openai",
        "anthropic",
        "gemini",
        "ollama",
        "bedrock",
        "azure",
    ] {
        assert_eq!(providers.resolve(name), Some(name));
    }
    let vars = |name: &str| match name {
        "AZURE_OPENAI_ENDPOINT" => Some("https://r.openai.azure.com".to_owned()),
        name if name.ends_with("KEY") || name.ends_with("TOKEN") => Some("k".to_owned()),
        "AWS_BEARER_TOKEN_BEDROCK" => Some("k".to_owned()),
        _ => None,
    };
    for name in providers.names() {
        let model = providers.builder(&format!("{name}/some/model"), vars).unwrap().build();
        let model = model.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(model.info().provider, name);
        assert_eq!(model.info().model, "some/model");
    }
}

#[test]
fn a_model_is_found_by_name_and_by_alias() {
    let key = |name: &str| (name == "XAI_API_KEY").then(|| "k".to_owned());
    let model = ProviderRegistry::builtin().builder("grok/grok-4", key).unwrap().build().unwrap();
    assert_eq!(model.info().provider, "xai");
    assert_eq!(model.url(), "https://api.x.ai/v1/chat/completions");
    let refused = ProviderRegistry::builtin().builder("groq/llama", none).unwrap().build();
    assert!(refused.unwrap_err().to_string().contains("GROQ_API_KEY"));
    let local =
        ProviderRegistry::builtin().builder("lm-studio/qwen", none).unwrap().build().unwrap();
    assert_eq!(local.url(), "http://127.0.0.1:1234/v1/chat/completions");
    let Err(unknown) = ProviderRegistry::builtin().builder("nobody/x", none) else { panic!() };
    let unknown = unknown.to_string();
    assert!(unknown.contains("`nobody`") && unknown.contains("groq"), "{unknown}");
    let Ok(missing_tool_name) = ProviderRegistry::builtin().builder("ollama", none) else {
        panic!()
    };
    assert!(matches!(missing_tool_name.build(), Err(ModelBuildError::Model)));
}

#[test]
fn a_file_of_ones_own_adds_and_replaces_without_code() {
    let own = ProviderRegistry::parse(
        r#"
        [[provider]]
        name = "gate"
        aliases = ["g"]
        base_url = "https://gate.example/v1"
        key_variable = "GATE_KEY"
        headers = { x-team = "blue" }
        [provider.quirks]
        developer_role = true

        [[provider]]
        name = "groq"
        base_url = "https://proxy.example/groq"
        key_required = false
        "#,
    )
    .unwrap();
    let all = ProviderRegistry::builtin().clone().with(own).unwrap();
    let vars = |name: &str| (name == "GATE_KEY").then(|| "k".to_owned());
    let model = all.builder("g/m", vars).unwrap().build().unwrap();
    assert_eq!(model.url(), "https://gate.example/v1/chat/completions");
    let model = all.builder("groq/m", none).unwrap().build().unwrap();
    assert_eq!(model.url(), "https://proxy.example/groq/chat/completions");
    assert_eq!(all.names().filter(|name| *name == "groq").count(), 1);
}

#[test]
fn a_name_that_is_taken_and_a_word_that_is_unknown_are_refused() {
    let parse = |text: &str| ProviderRegistry::parse(text).unwrap_err().to_string();
    let twice = "[[provider]]\nname = \"a\"\n[[provider]]\nname = \"b\"\naliases = [\"a\"]\n";
    assert!(parse(twice).contains("`a`"));
    assert!(parse("[[provider]]\nname = \"a/b\"\n").contains("`a/b`"));
    assert!(parse("[[provider]]\nname = \"a\"\nquirk = 1\n").contains("quirk"));
    let clash =
        ProviderRegistry::parse("[[provider]]\nname = \"x\"\naliases = [\"groq\"]\n").unwrap();
    assert!(matches!(
        ProviderRegistry::builtin().clone().with(clash),
        Err(ProviderRegistryError::Duplicate(name)) if name == "groq"
    ));
}

#[test]
fn azure_has_two_addresses_and_a_header_of_its_own() {
    let vars = |version: Option<&'static str>| {
        move |name: &str| match name {
            "AZURE_OPENAI_ENDPOINT" => Some("https://r.openai.azure.com/".to_owned()),
            "AZURE_OPENAI_API_KEY" => Some("k".to_owned()),
            "AZURE_OPENAI_API_VERSION" => version.map(str::to_owned),
            _ => None,
        }
    };
    let model = AzureOpenAi::builder_from_vars("gpt-5.1", vars(None)).build().unwrap();
    assert_eq!(model.url(), "https://r.openai.azure.com/openai/v1/chat/completions");
    assert!(model.info().reasoning, "the catalog of the models' maker counts");
    let model = AzureOpenAi::builder_from_vars("my gpt", vars(Some("2024-10-21"))).build().unwrap();
    assert_eq!(
        model.url(),
        "https://r.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"
    );
    let model = AzureOpenAi::responses("https://r.openai.azure.com", "d").api_key("k");
    assert_eq!(model.build().unwrap().url(), "https://r.openai.azure.com/openai/v1/responses");
}

#[test]
fn bedrock_finds_its_region_and_what_signs() {
    let vars = |name: &str| match name {
        "AWS_DEFAULT_REGION" => Some("eu-central-1".to_owned()),
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("a".to_owned()),
        _ => None,
    };
    let model =
        Bedrock::builder_from_vars("eu.anthropic.claude-haiku-4-5-v1:0", vars).build().unwrap();
    assert_eq!(
        model.url(),
        "https://bedrock-runtime.eu-central-1.amazonaws.com/model/eu.anthropic.claude-haiku-4-5-v1%3A0/converse-stream"
    );
    let refused = Bedrock::builder_from_vars("m", none).build().unwrap_err().to_string();
    assert!(refused.contains("AWS_BEARER_TOKEN_BEDROCK"), "{refused}");
}

#[test]
fn the_address_of_an_ollama_may_be_short() {
    for (host, url) in [
        ("10.0.0.5", "http://10.0.0.5:11434/api/chat"),
        ("box:8080", "http://box:8080/api/chat"),
        ("https://ollama.com", "https://ollama.com/api/chat"),
        ("", "http://127.0.0.1:11434/api/chat"),
    ] {
        let vars = |name: &str| (name == "OLLAMA_HOST").then(|| host.to_owned());
        assert_eq!(Ollama::builder_from_vars("m", vars).build().unwrap().url(), url);
    }
}
