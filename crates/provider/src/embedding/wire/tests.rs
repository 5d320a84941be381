use provost_model::ModelErrorClass;

use super::*;

fn request(texts: &[String]) -> EmbedRequest<'_> {
    EmbedRequest { model: "m", texts, input_type: EmbeddingInputType::Query, dimensions: Some(2) }
}

fn encoded(dialect: EmbedFormat) -> String {
    let texts = ["a".to_owned(), "b".to_owned()];
    String::from_utf8(dialect.encode(request(&texts)).unwrap()).unwrap()
}

#[test]
fn every_dialect_asks_as_its_vendor_wants_it() {
    for (dialect, path, body) in [
        (
            EmbedFormat::OpenAi,
            "/embeddings",
            r#"{"model":"m","input":["a","b"],"encoding_format":"float","dimensions":2}"#,
        ),
        (
            EmbedFormat::Gemini,
            "/models/m:batchEmbedContents",
            r#"{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"taskType":"RETRIEVAL_QUERY","outputDimensionality":2},{"model":"models/m","content":{"parts":[{"text":"b"}]},"taskType":"RETRIEVAL_QUERY","outputDimensionality":2}]}"#,
        ),
        (EmbedFormat::Ollama, "/api/embed", r#"{"model":"m","input":["a","b"],"dimensions":2}"#),
        (
            EmbedFormat::Voyage,
            "/embeddings",
            r#"{"model":"m","input":["a","b"],"input_type":"query","output_dimension":2}"#,
        ),
        (
            EmbedFormat::Cohere,
            "/v2/embed",
            r#"{"model":"m","texts":["a","b"],"input_type":"search_query","embedding_types":["float"],"output_dimension":2}"#,
        ),
    ] {
        assert_eq!((dialect.path("m").as_str(), encoded(dialect).as_str()), (path, body));
    }
}

#[test]
fn every_dialect_reads_what_its_vendor_sends() {
    for (dialect, body, tokens) in [
        (
            EmbedFormat::OpenAi,
            r#"{"data":[{"index":1,"embedding":[2.0]},{"index":0,"embedding":[1.0]}],"usage":{"prompt_tokens":3}}"#,
            Some(3),
        ),
        (
            EmbedFormat::Voyage,
            r#"{"object":"list","data":[{"embedding":[1.0],"index":0},{"embedding":[2.0],"index":1}],"model":"m","usage":{"total_tokens":4}}"#,
            Some(4),
        ),
        (EmbedFormat::Gemini, r#"{"embeddings":[{"values":[1.0]},{"values":[2.0]}]}"#, None),
        (
            EmbedFormat::Ollama,
            r#"{"model":"m","embeddings":[[1.0],[2.0]],"total_duration":5,"prompt_eval_count":6}"#,
            Some(6),
        ),
        (
            EmbedFormat::Cohere,
            r#"{"id":"x","embeddings":{"float":[[1.0],[2.0]]},"meta":{"billed_units":{"input_tokens":7}}}"#,
            Some(7),
        ),
    ] {
        let (vectors, usage) = dialect.decode(body.as_bytes(), 2, 1).unwrap();
        assert_eq!(vectors, [vec![1.0], vec![2.0]], "{dialect:?}");
        assert_eq!(usage, tokens.map(|tokens| Usage::new(tokens, 0)), "{dialect:?}");
    }
}

#[test]
fn wrong_answers_are_refused() {
    for (body, texts, dimensions) in [
        (r#"{"data":[]}"#, 1, 1),
        (r#"{"data":[{"embedding":[1.0,2.0]}]}"#, 1, 1),
        (r#"{"data":[{"index":0,"embedding":[1.0]},{"index":0,"embedding":[1.0]}]}"#, 2, 1),
        (r#"{"data":[{"index":9,"embedding":[1.0]}]}"#, 1, 1),
        (r#"{"data":[{"embedding":[1e99]}]}"#, 1, 1),
        ("[]", 1, 1),
    ] {
        let error = EmbedFormat::OpenAi.decode(body.as_bytes(), texts, dimensions).unwrap_err();
        assert_eq!(error.class, ModelErrorClass::Malformed, "{body}");
    }
}
