use provost_core::ErrorKind;

use super::*;

fn build(url: &str) -> Result<HttpModel, ModelBuildError> {
    HttpModel::builder("test", "m", OpenAiChat::default()).base_url(url).build()
}

#[test]
fn a_bad_base_url_is_refused_with_what_to_do() {
    for url in [
        "",
        "not a url",
        "api.example.com/v1",
        "ftp://example.com",
        "http://",
        "https://user:hunter2@example.com/v1",
        "https://:hunter2@/x",
        "https://example.com/v1?key=1",
    ] {
        let error = build(url).unwrap_err();
        assert!(matches!(error, ModelBuildError::BaseUrl { .. }), "{url}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("https://api.example.com/v1"), "{text}");
    }
}

#[test]
fn a_refused_base_url_is_shown_without_user_password_and_query() {
    for (url, shown) in [
        ("https://alice:hunter2@example.com/v1", "https://***@example.com/v1"),
        ("https://alice:hunter2@example.com/v1?key=hunter2", "https://***@example.com/v1?***"),
        ("https://:hunter2@/x", "https://***@/x"),
        ("https://alice:hun/hunter2@example.com", "https://***@example.com"),
        ("https://alice:hun?hunter2@example.com", "https://***"),
        ("https://example.com/v1?mail=a@b&key=hunter2", "https://***"),
        ("https://alice:hun@hunter2@example.com", "https://***@example.com"),
        ("https://alice:hunter2@example.com:port", "https://***@example.com:port"),
        ("ftp://alice:hunter2@example.com", "ftp://***@example.com"),
        ("alice:hunter2@example.com/v1", "***@example.com/v1"),
        ("alice:hunter2://x@example.com/v1", "***@example.com/v1"),
        ("http:\\\\alice:hunter2@example.com", "***@example.com"),
        ("example.com/v1?key=hunter2", "example.com/v1?***"),
        ("ftp://example.com/?key=hunter2", "ftp://example.com/?***"),
        ("https://example.com/v1?key=hunter2", "https://example.com/v1?***"),
        ("https://example.com/v1#hunter2", "https://example.com/v1#***"),
        (" api.example.com/v1 ", "api.example.com/v1"),
    ] {
        let error = build(url).unwrap_err();
        let (text, debug) = (error.to_string(), format!("{error:?}"));
        assert!(text.starts_with(&format!("`{shown}` is not a base URL (")), "{text}");
        for said in [text, debug] {
            assert!(!said.contains("hunter2") && !said.contains("alice"), "{said}");
        }
    }
}

#[test]
fn a_main_that_returns_the_error_prints_the_sentence() {
    let builder = HttpModel::builder("acme", "m", OpenAiChat::default());
    let missing = builder.require_key("ACME_API_KEY").build().unwrap_err();
    // The standard library prints the error of a `main` function like this.
    let boxed: Box<dyn std::error::Error> = missing.into();
    assert_eq!(
        format!("Error: {boxed:?}"),
        "Error: acme needs an API key: set ACME_API_KEY or pass one to the builder"
    );
    let problems = [
        ModelBuildError::Key,
        ModelBuildError::Model,
        ModelBuildError::Header("bad header".into()),
    ];
    for problem in problems {
        assert_eq!(format!("{problem:?}"), problem.to_string());
    }
}

#[test]
fn the_endpoint_follows_from_the_base_url() {
    for (base, openai, anthropic) in [
        (
            "https://a.example/v1",
            "https://a.example/v1/chat/completions",
            "https://a.example/v1/messages",
        ),
        (
            "https://a.example/v1/",
            "https://a.example/v1/chat/completions",
            "https://a.example/v1/messages",
        ),
        (
            "https://a.example",
            "https://a.example/chat/completions",
            "https://a.example/v1/messages",
        ),
        (
            "http://127.0.0.1:11434/x/v1",
            "http://127.0.0.1:11434/x/v1/chat/completions",
            "http://127.0.0.1:11434/x/v1/messages",
        ),
    ] {
        assert_eq!(build(base).unwrap().url(), openai);
        let model =
            HttpModel::builder("test", "m", AnthropicMessages::default()).base_url(base).build();
        assert_eq!(model.unwrap().url(), anthropic);
    }
}

#[test]
fn keys_are_checked_and_never_shown() {
    let builder =
        || HttpModel::builder("acme", "m", OpenAiChat::default()).base_url("https://a.example");
    let missing = builder().require_key("ACME_API_KEY").build().unwrap_err();
    assert_eq!(
        missing.to_string(),
        "acme needs an API key: set ACME_API_KEY or pass one to the builder"
    );
    assert_eq!(missing.kind(), ErrorKind::Unauthenticated);
    let blank = builder().require_key("ACME_API_KEY").api_key(" ").build();
    assert!(matches!(blank, Err(ModelBuildError::MissingKey { .. })));
    let broken = builder().api_key("sk-hunter2\n").build().unwrap_err();
    assert!(matches!(broken, ModelBuildError::Key));
    assert!(!format!("{broken} {broken:?}").contains("hunter2"));
    let model = builder().api_key("sk-hunter2").header("x-team", "hunter2").build().unwrap();
    assert!(!format!("{model:?}").contains("hunter2"));
    let header = builder().header("bad header", "hunter2").build().unwrap_err();
    assert!(header.to_string().contains("bad header") && !header.to_string().contains("hunter2"));
    assert!(matches!(
        HttpModel::builder("a", " ", OpenAiChat::default()).build(),
        Err(ModelBuildError::Model)
    ));
}
