use super::*;

type Pairs = &'static [(&'static str, &'static str)];

fn check(
    request: ModelRequest,
    pairs: Pairs,
    models: Option<&[&str]>,
) -> Result<ModelChoice, HostError> {
    let env = |name: &str| {
        let found = pairs.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let ollama = |_: &Address| Some(models?.iter().map(|&name| name.to_owned()).collect());
    let environment = Environment { env: &env, ollama: &ollama };
    select(&request, &environment)
}

fn model(name: &str) -> ModelRequest {
    ModelRequest { model: Some(name.to_owned()), ..ModelRequest::default() }
}

fn at(name: &str, url: &str) -> ModelRequest {
    ModelRequest { base_url: Some(url.to_owned()), ..model(name) }
}

const OPENAI: Pairs = &[("OPENAI_API_KEY", "sk-1")];

#[test]
fn nothing_at_all_is_the_demo_model() {
    let choice = check(ModelRequest::default(), &[], None).unwrap();
    assert_eq!(choice.provider, Provider::Demo);
    assert!(choice.reason.contains("no key"), "{}", choice.reason);
    // An Ollama without a model is of no use.
    let choice = check(ModelRequest::default(), &[], Some(&[])).unwrap();
    assert_eq!(choice.provider, Provider::Demo);
}

#[test]
fn keys_come_before_ollama_and_openai_before_anthropic() {
    let choice = check(ModelRequest::default(), OPENAI, Some(&["llama"])).unwrap();
    assert_eq!(choice.name(), "openai/gpt-5-mini");
    assert_eq!(choice.reason, "OPENAI_API_KEY is set");
    assert_eq!(choice.key.unwrap().expose(), "sk-1");

    let pairs: Pairs = &[("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", " ")];
    let choice = check(ModelRequest::default(), pairs, None).unwrap();
    assert_eq!(choice.provider, Provider::Anthropic);
}

#[test]
fn a_local_ollama_is_found_by_itself() {
    let choice = check(ModelRequest::default(), &[], Some(&["llama3.2:latest", "x"])).unwrap();
    assert_eq!(choice.name(), "ollama/llama3.2:latest");
    assert_eq!(choice.base_url.unwrap(), "http://127.0.0.1:11434/v1");
}

#[test]
fn flags_come_before_the_environment() {
    let pairs: Pairs = &[("PROVOST_MODEL", "demo"), ("OPENAI_API_KEY", "k")];
    assert_eq!(check(ModelRequest::default(), pairs, None).unwrap().name(), "demo");
    let choice = check(model("openai/gpt-x"), pairs, None).unwrap();
    assert_eq!(choice.name(), "openai/gpt-x");
    assert_eq!(choice.reason, "set by --model");
}

#[test]
fn base_urls_come_from_flags_or_the_vendors_variable() {
    let pairs: Pairs = &[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://h/v1")];
    let choice = check(ModelRequest::default(), pairs, None).unwrap();
    assert_eq!(choice.base_url.as_deref(), Some("http://h/v1"));
    let choice = check(at("openai/m", "http://flag/v1"), pairs, None).unwrap();
    assert_eq!(choice.base_url.as_deref(), Some("http://flag/v1"));
    let pairs: Pairs = &[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "nonsense")];
    let problem = check(ModelRequest::default(), pairs, None).unwrap_err();
    assert!(problem.message.contains("`nonsense` is not a base URL"));
}

#[test]
fn any_compatible_server_needs_no_key_and_gets_none_it_was_not_given() {
    let choice = check(at("Qwen/Qwen2.5-7B", "http://h:1/v1"), OPENAI, None).unwrap();
    assert_eq!(choice.provider, Provider::OpenAiCompatible);
    assert_eq!(choice.model, "Qwen/Qwen2.5-7B");
    assert_eq!(choice.key, None);

    let request = ModelRequest { api_key_env: Some("MY_KEY".to_owned()), ..at("m", "http://h/v1") };
    let choice = check(request.clone(), &[("MY_KEY", "secret")], None).unwrap();
    assert_eq!(choice.key.unwrap().expose(), "secret");
    let problem = check(request, &[], None).unwrap_err();
    assert_eq!(problem.kind, ErrorKind::Unauthenticated);
    assert!(problem.hint.unwrap().contains("export MY_KEY="));
}

#[test]
fn a_provider_of_the_table_is_chosen_by_its_name_or_alias() {
    let choice = check(model("groq/llama/x"), &[], None).unwrap();
    assert_eq!((choice.provider, choice.model.as_str()), (Provider::Vendor("groq"), "llama/x"));
    assert_eq!(choice.name(), "groq/llama/x");
    assert_eq!(choice.provider.key_env(), Some("GROQ_API_KEY"));
    assert_eq!(choice.base_url, None);
    // What a server of one's own calls its models is its own business.
    let own = check(at("groq/llama", "http://h/v1"), &[], None).unwrap();
    assert_eq!((own.provider, own.model.as_str()), (Provider::OpenAiCompatible, "groq/llama"));
}

#[test]
fn an_ollama_elsewhere_keeps_its_path_and_gets_the_key_it_was_given() {
    let request = ModelRequest {
        api_key_env: Some("MY_KEY".to_owned()),
        ..at("ollama/tiny", "http://host/custom/v1")
    };
    let choice = check(request.clone(), &[("MY_KEY", "secret")], None).unwrap();
    assert_eq!(choice.base_url.as_deref(), Some("http://host/custom/v1"));
    assert_eq!(choice.key.unwrap().expose(), "secret");
    assert_eq!(check(request, &[], None).unwrap_err().kind, ErrorKind::Unauthenticated);
    // Without a path it is where an Ollama listens.
    for url in ["http://host", "http://host/"] {
        let choice = check(at("ollama/tiny", url), &[], None).unwrap();
        assert_eq!(choice.base_url.as_deref(), Some("http://host:11434/v1"));
        assert_eq!(choice.key, None);
    }
}

#[test]
fn flags_that_the_demo_model_cannot_heed_are_refused() {
    let key = ModelRequest { api_key_env: Some("NOSUCH".to_owned()), ..model("demo") };
    for (request, flag) in [(key, "--api-key-env"), (at("demo", "http://h/v1"), "--base-url")] {
        let problem = check(request, &[], None).unwrap_err();
        assert_eq!(problem.kind, ErrorKind::Invalid);
        assert!(problem.message.contains(flag), "{problem}");
        assert!(problem.hint.unwrap().contains("--model"));
    }
    let choice = check(at("compatible/demo", "http://h/v1"), &[], None).unwrap();
    assert_eq!(choice.model, "demo");
}

#[test]
fn what_cannot_work_is_refused_with_the_way_out() {
    for (request, what, help) in [
        (model("nowhere/m"), "unknown provider `nowhere`", "--base-url"),
        (model("gpt-5"), "has no provider", "--model openai/gpt-5"),
        (model("claude-x"), "has no provider", "anthropic/claude-x"),
        (model("openai/"), "contains no model", "openai/MODEL"),
        (model(""), "has no provider", "--model provider/model"),
        (model("compatible/m"), "requires a base URL", "--base-url"),
        (model("openai/m"), "no key for openai", "export OPENAI_API_KEY"),
        (at("m", "h:80"), "is not a base URL", "http://127.0.0.1"),
    ] {
        let problem = check(request.clone(), &[], None).unwrap_err();
        assert!(problem.message.contains(what), "{request:?}: {problem:?}");
        let advice = problem.hint.clone().unwrap_or_default();
        assert!(advice.contains(help), "{request:?}: {problem:?}");
    }
    let lonely =
        ModelRequest { base_url: Some("http://h/v1".to_owned()), ..ModelRequest::default() };
    let problem = check(lonely, &[], None).unwrap_err();
    assert!(problem.hint.unwrap().contains("--model NAME"));
}

#[test]
fn a_key_is_never_in_the_debug_text() {
    let choice = check(ModelRequest::default(), OPENAI, None).unwrap();
    assert!(!format!("{choice:?}").contains("sk-1"));
}

#[test]
fn several_models_are_a_route() {
    let pairs: Pairs = &[("OPENAI_API_KEY", "sk-1"), ("GROQ_API_KEY", "gsk-2")];
    let choice = check(model("openai/gpt-5-mini, groq/llama,demo"), pairs, None).unwrap();
    assert_eq!(choice.name(), "openai/gpt-5-mini,groq/llama,demo");
    let again = check(model(&choice.full_name()), pairs, None).unwrap();
    assert_eq!(again, choice, "what is stored means the same");
    let keys: Vec<_> = choice.fallbacks.iter().map(|each| each.provider).collect();
    assert_eq!(keys, [Provider::Vendor("groq"), Provider::Demo]);

    for (request, what) in [
        (model("openai/a,openai/a"), "twice"),
        (model("openai/a,demo,demo"), "twice"),
        (model("openai/a,"), "has no provider"),
        (model("openai/a,anthropic/b"), "no key for anthropic"),
        (at("openai/a,demo", "http://127.0.0.1:1/v1"), "--base-url applies to one model"),
    ] {
        let problem = check(request, pairs, None).unwrap_err();
        assert!(problem.message.contains(what), "{}", problem.message);
    }
}
