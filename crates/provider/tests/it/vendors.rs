//! Embeddings, rerank requests and model lists of several vendors, byte for byte over a real socket.

use std::time::Duration;

use provost_model::{
    Embedder, EmbeddingInputType, ModelCatalog, ModelErrorClass, RerankResult, Reranker,
    RetryPolicy,
};
use provost_provider::{
    HttpEmbedderBuilder, HttpRerankerBuilder, ModelListing, cohere_embeddings, cohere_reranker,
    gemini_embeddings, ollama_embeddings, voyage_embeddings, voyage_reranker,
};
use serde_json::{Value, json};

use crate::embed::{Server, json_reply};

fn quick() -> RetryPolicy {
    RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() }
}

/// Checks the request for two documents and the decoded response.
async fn vectors(builder: HttpEmbedderBuilder, prefix: &str, answer: Value) -> (String, String) {
    let provider = Server::start([json_reply(503, &json!({})), json_reply(200, &answer)]);
    let url = format!("http://{}{prefix}", provider.address);
    let embedder = builder.base_url(url).retry(quick()).request_dimensions().build().unwrap();
    let texts = ["one".to_owned(), "two".to_owned()];
    let made = embedder.embed(&texts, EmbeddingInputType::Document).await.unwrap();
    assert_eq!(made.vectors, [[1.0, 0.0], [0.0, 1.0]]);
    let mut requests = provider.requests();
    assert_eq!(requests.len(), 2, "an overloaded server is asked again");
    let request = requests.remove(1);
    (request.head, request.text)
}

#[tokio::test]
async fn gemini_gets_its_batch_and_its_key() {
    let answer = json!({ "embeddings": [{ "values": [1.0, 0.0] }, { "values": [0.0, 1.0] }] });
    let builder = gemini_embeddings("gemini-embedding-001", 2).api_key("key-123".to_owned());
    let (head, body) = vectors(builder, "/v1beta", answer).await;
    assert!(
        head.starts_with("post /v1beta/models/gemini-embedding-001:batchembedcontents "),
        "{head}"
    );
    assert!(head.contains("x-goog-api-key: key-123") && !head.contains("authorization"), "{head}");
    let each = |text| {
        format!(
            r#"{{"model":"models/gemini-embedding-001","content":{{"parts":[{{"text":"{text}"}}]}},"taskType":"RETRIEVAL_DOCUMENT","outputDimensionality":2}}"#
        )
    };
    assert_eq!(body, format!(r#"{{"requests":[{},{}]}}"#, each("one"), each("two")));
}

#[tokio::test]
async fn ollama_needs_no_key() {
    let answer = json!({ "embeddings": [[1.0, 0.0], [0.0, 1.0]], "prompt_eval_count": 4 });
    let (head, body) = vectors(ollama_embeddings("nomic-embed-text", 2), "", answer).await;
    assert!(head.starts_with("post /api/embed ") && !head.contains("authorization"), "{head}");
    assert_eq!(body, r#"{"model":"nomic-embed-text","input":["one","two"],"dimensions":2}"#);
}

#[tokio::test]
async fn voyage_and_cohere_are_told_the_purpose() {
    let data =
        json!([{ "index": 1, "embedding": [0.0, 1.0] }, { "index": 0, "embedding": [1.0, 0.0] }]);
    let answer = json!({ "data": data, "usage": { "total_tokens": 4 } });
    let builder = voyage_embeddings("voyage-3.5", 2).api_key("key-123".to_owned());
    let (head, body) = vectors(builder, "/v1", answer).await;
    assert!(head.starts_with("post /v1/embeddings "), "{head}");
    assert!(head.contains("authorization: bearer key-123"), "{head}");
    let expected = r#"{"model":"voyage-3.5","input":["one","two"],"input_type":"document","output_dimension":2}"#;
    assert_eq!(body, expected);
    let answer = json!({ "embeddings": { "float": [[1.0, 0.0], [0.0, 1.0]] } });
    let builder = cohere_embeddings("embed-v4.0", 2).api_key("key-123".to_owned());
    let (head, body) = vectors(builder, "", answer).await;
    assert!(head.starts_with("post /v2/embed "), "{head}");
    let expected = r#"{"model":"embed-v4.0","texts":["one","two"],"input_type":"search_document","embedding_types":["float"],"output_dimension":2}"#;
    assert_eq!(body, expected);
    let missing = voyage_embeddings("voyage-3.5", 2).build().unwrap_err().to_string();
    assert!(missing.contains("VOYAGE_API_KEY"), "{missing}");
}

async fn ranking(builder: HttpRerankerBuilder, answer: Value) -> (String, Vec<RerankResult>) {
    let provider = Server::start([json_reply(200, &answer)]);
    let url = format!("http://{}", provider.address);
    let reranker =
        builder.base_url(url).api_key("key-123".to_owned()).retry(quick()).build().unwrap();
    let documents = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let ranking = reranker.rerank("which?", &documents, Some(2)).await.unwrap();
    (provider.requests()[0].text.clone(), ranking.results)
}

#[tokio::test]
async fn rankings_come_best_first_whatever_the_vendor_calls_things() {
    let items =
        json!([{ "index": 0, "relevance_score": 0.1 }, { "index": 2, "relevance_score": 0.9 }]);
    let best = [RerankResult { index: 2, score: 0.9 }, RerankResult { index: 0, score: 0.1 }];
    let answer = json!({ "data": items, "usage": { "total_tokens": 9 } });
    let (body, ranked) = ranking(voyage_reranker("rerank-2.5"), answer).await;
    assert_eq!(ranked, best);
    assert_eq!(
        body,
        r#"{"model":"rerank-2.5","query":"which?","documents":["a","b","c"],"top_k":2}"#
    );
    let (body, ranked) = ranking(cohere_reranker("rerank-v3.5"), json!({ "results": items })).await;
    assert_eq!(ranked, best);
    assert_eq!(
        body,
        r#"{"model":"rerank-v3.5","query":"which?","documents":["a","b","c"],"top_n":2}"#
    );
}

#[tokio::test]
async fn a_ranking_that_makes_no_sense_is_refused_and_none_is_not_asked_for() {
    for items in [
        json!([{ "index": 3, "relevance_score": 0.1 }]),
        json!([{ "index": 0, "relevance_score": 0.1 }, { "index": 0, "relevance_score": 0.2 }]),
    ] {
        let provider = Server::start([json_reply(200, &json!({ "results": items }))]);
        let url = format!("http://{}", provider.address);
        let reranker = cohere_reranker("rerank-v3.5").base_url(url).api_key("key-123".to_owned());
        let reranker = reranker.build().unwrap();
        let documents = ["a".to_owned()];
        let error = reranker.rerank("which?", &documents, None).await.unwrap_err();
        assert_eq!(error.class, ModelErrorClass::Malformed, "{error}");
        assert!(reranker.rerank("which?", &[], None).await.unwrap().results.is_empty());
        assert_eq!(provider.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_catalog_is_refreshed_from_the_list_of_a_provider() {
    let list = json!({ "data": [
        { "id": "gpt-5.1" },
        { "id": "house-model", "context_length": 32_000, "pricing": { "prompt": "0.000001", "completion": "0.000002" } },
    ] });
    let provider = Server::start([json_reply(200, &list)]);
    let url = format!("http://{}/v1", provider.address);
    let fetched =
        ModelListing::openai("openai", url).api_key("key-123".to_owned()).fetch().await.unwrap();
    let request = &provider.requests()[0];
    assert!(request.head.starts_with("get /v1/models "), "{}", request.head);
    assert!(request.head.contains("authorization: bearer key-123"), "{}", request.head);
    let mut catalog = ModelCatalog::builtin().clone();
    let before = catalog.info("openai", "gpt-5.1");
    catalog.refresh(fetched);
    assert_eq!(catalog.info("openai", "gpt-5.1"), before, "what is known stays known");
    let new = catalog.info("openai", "house-model");
    assert_eq!(new.context_window, Some(32_000));
    assert_eq!(new.pricing.unwrap().output, 2.into());
    let tags = json!({ "models": [{ "name": "llama3.2:latest" }, { "name": "qwen2.5:0.5b" }] });
    let provider = Server::start([json_reply(200, &tags)]);
    let url = format!("http://{}", provider.address);
    catalog.refresh(ModelListing::ollama(url).fetch().await.unwrap());
    assert!(provider.requests()[0].head.starts_with("get /api/tags "));
    let names: Vec<&str> = catalog.models("ollama").collect();
    assert!(names.contains(&"llama3.2:latest") && names.contains(&"qwen2.5:0.5b"), "{names:?}");
}
