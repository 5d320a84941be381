//! Batch APIs of vendors over a real socket. One client submits a batch and another one collects it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_core::{Message, ToolDefinition, Usage};
use provost_model::{
    BatchJob, BatchPhase, BatchRequest, ChatRequest, ModelErrorClass, RetryPolicy, ScriptedModel,
    fail, run_batch, text,
};
use provost_provider::{BatchClient, BatchClientBuilder};
use serde_json::{Value, json};

use crate::embed::{Reply, Server, json_reply};

fn requests(ids: &[&str]) -> Vec<BatchRequest> {
    let request = |id: &&str| BatchRequest {
        id: (*id).to_owned(),
        request: ChatRequest::new([Message::user(format!("question {id}"))]),
    };
    ids.iter().map(request).collect()
}

fn built(builder: BatchClientBuilder, server: &Server, prefix: &str) -> BatchClient {
    builder
        .base_url(format!("http://{}{prefix}", server.address))
        .api_key("key-123".to_owned())
        .poll_interval(Duration::from_millis(1))
        .retry(RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() })
        .build()
        .unwrap()
}

/// Returns the job as another process reads it.
fn carried(job: &BatchJob) -> BatchJob {
    serde_json::from_str(&serde_json::to_string(job).unwrap()).unwrap()
}

fn lines(lines: &[Value]) -> Reply {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    Reply::Json(200, text.join("\n"))
}

fn completion(words: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-x",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": words } }],
        "usage": { "prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5 },
    })
}

#[tokio::test]
async fn a_batch_of_openai_is_a_file_and_another_process_collects_it() {
    let first = Server::start([
        json_reply(200, &json!({ "id": "file-1" })),
        json_reply(200, &json!({ "id": "batch_1", "status": "validating" })),
    ]);
    let job = built(BatchClient::openai("gpt-5-mini"), &first, "/v1")
        .submit(&requests(&["a", "b", "c"]))
        .await
        .unwrap();
    let [upload, batch] = &first.requests()[..] else { panic!("two requests") };
    assert!(
        upload.head.starts_with("post /v1/files ") && upload.head.contains("multipart/form-data")
    );
    assert!(upload.text.contains(r#"name="purpose""#) && upload.text.contains("question b"));
    assert!(
        upload.text.contains(r#""custom_id":"b""#) && !upload.text.contains(r#""stream""#),
        "{}",
        upload.text
    );
    assert!(batch.head.starts_with("post /v1/batches "), "{}", batch.head);
    let body: Value = serde_json::from_str(&batch.text).unwrap();
    let expected = json!({ "input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h" });
    assert_eq!(body, expected);

    let counts = |done: u64| json!({ "total": 3, "completed": done, "failed": 0 });
    let ended = json!({
        "id": "batch_1", "status": "completed", "request_counts": counts(2),
        "output_file_id": "file-2", "error_file_id": "file-3",
    });
    let second = Server::start([
        json_reply(
            200,
            &json!({ "id": "batch_1", "status": "in_progress", "request_counts": counts(1) }),
        ),
        json_reply(200, &ended),
        lines(&[
            json!({ "custom_id": "c", "response": { "status_code": 200, "body": completion("answer c") } }),
            json!({ "custom_id": "a", "response": { "status_code": 200, "body": completion("answer a") } }),
        ]),
        lines(&[
            json!({ "custom_id": "b", "response": { "status_code": 429, "body": { "error": { "message": "slow down", "type": "rate_limit_error" } } } }),
        ]),
    ]);
    let mut told = Vec::new();
    let outcome = built(BatchClient::openai("gpt-5-mini"), &second, "/v1")
        .wait(&carried(&job), |state| told.push((state.phase, state.done)))
        .await
        .unwrap();
    assert_eq!(told, [(BatchPhase::InProgress, 1), (BatchPhase::Completed, 2)]);
    let ids: Vec<&str> = outcome.results.iter().map(|item| item.id.as_str()).collect();
    assert_eq!((ids, outcome.succeeded()), (vec!["a", "b", "c"], 2));
    assert_eq!(outcome.results[0].outcome.as_ref().unwrap().message.text(), "answer a");
    assert_eq!(
        outcome.results[1].outcome.as_ref().unwrap_err().class,
        ModelErrorClass::RateLimited
    );
    assert_eq!(outcome.usage(), Usage::new(4, 6));
}

#[tokio::test]
async fn a_batch_of_anthropic_is_one_request_and_its_answers_are_lines() {
    let server = Server::start([
        json_reply(200, &json!({ "id": "msgbatch_1", "processing_status": "in_progress" })),
        json_reply(
            200,
            &json!({
                "id": "msgbatch_1", "processing_status": "ended",
                "request_counts": { "processing": 0, "succeeded": 1, "errored": 1, "canceled": 0, "expired": 0 },
            }),
        ),
        lines(&[
            json!({ "custom_id": "b", "result": { "type": "errored", "error": { "type": "error", "error": { "type": "invalid_request_error", "message": "no" } } } }),
            json!({ "custom_id": "a", "result": { "type": "succeeded", "message": {
                "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
                "content": [{ "type": "text", "text": "answer a" }],
                "stop_reason": "end_turn", "usage": { "input_tokens": 2, "output_tokens": 3 } } } }),
        ]),
    ]);
    let batch = built(BatchClient::anthropic("claude-haiku-4-5"), &server, "");
    let job = batch.submit(&requests(&["a", "b", "c"])).await.unwrap();
    let outcome = batch.wait(&carried(&job), |_| {}).await.unwrap();
    let asked = server.requests();
    assert!(asked[0].head.starts_with("post /v1/messages/batches "), "{}", asked[0].head);
    assert!(
        asked[0].head.contains("x-api-key: key-123")
            && asked[0].head.contains("anthropic-version: ")
    );
    let body: Value = serde_json::from_str(&asked[0].text).unwrap();
    assert_eq!(body["requests"][1]["custom_id"], "b");
    assert_eq!(body["requests"][1]["params"]["model"], "claude-haiku-4-5");
    assert_eq!(body["requests"][1]["params"].get("stream"), None);
    assert!(asked[2].head.starts_with("get /v1/messages/batches/msgbatch_1/results "));
    assert_eq!(outcome.results[0].outcome.as_ref().unwrap().message.text(), "answer a");
    assert_eq!(
        outcome.results[1].outcome.as_ref().unwrap_err().class,
        ModelErrorClass::InvalidRequest
    );
    assert_eq!(
        outcome.results[2].outcome.as_ref().unwrap_err().class,
        ModelErrorClass::StreamTruncated
    );
}

#[tokio::test]
async fn a_batch_of_gemini_is_an_operation_with_its_answers_inside() {
    let chunk = json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": "answer a" }] }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 2, "candidatesTokenCount": 3, "totalTokenCount": 5 },
    });
    let ended = json!({
        "name": "batches/1", "done": true,
        "metadata": { "state": "BATCH_STATE_SUCCEEDED", "batchStats": { "requestCount": "2", "successfulRequestCount": "1", "failedRequestCount": "1" } },
        "response": { "inlinedResponses": { "inlinedResponses": [
            { "metadata": { "key": "a" }, "response": chunk },
            { "metadata": { "key": "b" }, "error": { "code": 500, "message": "broke" } },
        ] } },
    });
    let server = Server::start([
        json_reply(
            200,
            &json!({ "name": "batches/1", "metadata": { "state": "BATCH_STATE_PENDING" } }),
        ),
        json_reply(
            200,
            &json!({ "name": "batches/1", "metadata": { "state": "BATCH_STATE_RUNNING" } }),
        ),
        json_reply(200, &ended),
        json_reply(200, &json!({})),
    ]);
    let batch = built(BatchClient::gemini("gemini-2.5-flash"), &server, "/v1beta");
    let job = batch.submit(&requests(&["a", "b"])).await.unwrap();
    let mut told = Vec::new();
    let outcome =
        batch.wait(&carried(&job), |state| told.push((state.done, state.total))).await.unwrap();
    assert_eq!(told, [(0, 2), (2, 2)]);
    assert_eq!(outcome.results[0].outcome.as_ref().unwrap().message.text(), "answer a");
    assert_eq!(outcome.results[1].outcome.as_ref().unwrap_err().class, ModelErrorClass::Overloaded);
    batch.cancel(&job).await.unwrap();
    let asked = server.requests();
    assert!(
        asked[0].head.starts_with("post /v1beta/models/gemini-2.5-flash:batchgeneratecontent ")
    );
    assert!(asked[1].head.starts_with("get /v1beta/batches/1 "), "{}", asked[1].head);
    assert!(asked[3].head.starts_with("post /v1beta/batches/1:cancel "), "{}", asked[3].head);
}

#[tokio::test]
async fn tools_have_their_own_names_again_when_another_process_collects() {
    let mut answer = completion("x");
    answer["choices"][0]["message"]["tool_calls"] = json!([{ "id": "c1", "type": "function", "function": { "name": "memory_read", "arguments": "{}" } }]);
    answer["choices"][0]["finish_reason"] = "tool_calls".into();
    let server = Server::start([
        json_reply(200, &json!({ "id": "file-1" })),
        json_reply(200, &json!({ "id": "batch_1", "status": "validating" })),
        json_reply(
            200,
            &json!({ "id": "batch_1", "status": "completed", "output_file_id": "file-2" }),
        ),
        lines(&[json!({ "custom_id": "a", "response": { "status_code": 200, "body": answer } })]),
    ]);
    let batch = built(BatchClient::openai("gpt-5-mini"), &server, "/v1");
    let mut asked = requests(&["a"]);
    let (name, description) = ("memory.read".to_owned(), "Reads".to_owned());
    let input_schema = json!({ "type": "object" });
    asked[0].request.tools.push(Arc::new(ToolDefinition { name, description, input_schema }));
    let job = batch.submit(&asked).await.unwrap();
    assert!(server.requests()[0].text.contains("memory_read"), "the vendor refuses dots");
    let outcome = batch.wait(&carried(&job), |_| {}).await.unwrap();
    let response = outcome.results[0].outcome.as_ref().unwrap();
    assert_eq!(response.message.tool_calls().next().unwrap().name, "memory.read");
}

#[tokio::test]
async fn a_batch_is_begun_only_once_and_looked_at_as_often_as_it_takes() {
    let server = Server::start([
        json_reply(503, &json!({})),
        json_reply(503, &json!({})),
        json_reply(200, &json!({ "id": "msgbatch_1", "processing_status": "in_progress" })),
    ]);
    let batch = built(BatchClient::anthropic("claude-haiku-4-5"), &server, "");
    let error = batch.submit(&requests(&["a"])).await.unwrap_err();
    assert_eq!((error.class, server.requests().len()), (ModelErrorClass::Overloaded, 1));
    let (provider, model) = ("anthropic".to_owned(), "claude-haiku-4-5".to_owned());
    let (id, requests_of) = ("msgbatch_1".to_owned(), vec!["a".to_owned()]);
    let tool_names = BTreeMap::new();
    let job = BatchJob { provider, model, id, requests: requests_of, tool_names };
    assert_eq!(batch.status(&job).await.unwrap().phase, BatchPhase::InProgress);
    for bad in [requests(&["a", "a"]), requests(&[""]), Vec::new()] {
        let error = batch.submit(&bad).await.unwrap_err();
        assert_eq!(error.class, ModelErrorClass::InvalidRequest);
    }
    assert_eq!(server.requests().len(), 3, "nothing else was sent");
}

#[tokio::test(start_paused = true)]
async fn elsewhere_so_many_calls_are_made_at_a_time() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inside, peak) = (Arc::clone(&now), Arc::clone(&most));
    let model = ScriptedModel::from_fn(move |_, n| {
        let running = inside.fetch_add(1, Ordering::SeqCst) + 1;
        peak.fetch_max(running, Ordering::SeqCst);
        match n % 5 {
            4 => fail(ModelErrorClass::ContentFilter, "no"),
            _ => text(format!("answer {n}")),
        }
        .delay(Duration::from_secs(1))
    });
    let ids: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut told = Vec::new();
    let start = tokio::time::Instant::now();
    let outcome = run_batch(&model, requests(&ids), 4, |item, progress| {
        now.fetch_sub(1, Ordering::SeqCst);
        told.push((item.id.clone(), progress.done));
    })
    .await
    .unwrap();
    assert_eq!((outcome.results.len(), outcome.succeeded()), (20, 16));
    assert!(
        outcome.results.iter().map(|item| item.id.as_str()).eq(ids),
        "in the order of the requests"
    );
    assert_eq!(most.load(Ordering::SeqCst), 4);
    assert_eq!(told.last().unwrap().1, 20);
    assert!(start.elapsed() >= Duration::from_secs(4), "{:?}", start.elapsed());
}
