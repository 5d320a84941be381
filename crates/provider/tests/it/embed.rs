//! Embeddings wire over a real socket.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_core::Usage;
use provost_model::{Embedder, EmbeddingInputType, ModelErrorClass, RetryPolicy};
use provost_provider::{
    BatchClient, HttpEmbedder, HttpEmbedderBuilder, Timeouts, cohere_reranker, openai_embeddings,
};
use serde_json::{Value, json};

/// Reaction of the server to a request.
pub(crate) enum Reply {
    Json(u16, String),
    /// The connection is closed without a response.
    Reset,
    /// The server never responds.
    Silence,
}

/// A received request: its head in lower case, and its body.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) head: String,
    pub(crate) text: String,
    body: Value,
}

/// A server that accepts one request per connection.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    requests: Arc<Mutex<Vec<Recorded>>>,
}

impl Server {
    pub(crate) fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            requests: Arc::default(),
        };
        let (replies, requests) = (Arc::clone(&server.replies), Arc::clone(&server.requests));
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                requests.lock().unwrap().push(read(&stream));
                match replies.lock().unwrap().pop_front() {
                    Some(Reply::Json(status, body)) => {
                        let length = body.len();
                        let answer = format!(
                            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\n\
                             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
                        );
                        stream.write_all(answer.as_bytes()).unwrap();
                    }
                    Some(Reply::Silence) => silent.push(stream),
                    Some(Reply::Reset) | None => drop(stream),
                }
            }
        });
        server
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Recorded {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let (text, body) =
        (String::from_utf8(body.clone()).unwrap(), serde_json::from_slice(&body).ok());
    Recorded { head, text, body: body.unwrap_or_default() }
}

fn builder(provider: &Server) -> HttpEmbedderBuilder {
    let url = format!("http://{}/v1", provider.address);
    openai_embeddings("test", url, "embed-1", 2)
        .api_key("sk-hunter2".to_owned())
        .retry(RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() })
}

fn embedder(provider: &Server) -> HttpEmbedder {
    builder(provider).build().unwrap()
}

fn vectors(vectors: &[[f32; 2]], tokens: u64) -> Reply {
    let data: Vec<Value> = vectors
        .iter()
        .enumerate()
        .rev()
        .map(|(index, vector)| json!({ "index": index, "embedding": vector }))
        .collect();
    json_reply(200, &json!({ "data": data, "usage": { "prompt_tokens": tokens } }))
}

pub(crate) fn json_reply(status: u16, body: &Value) -> Reply {
    Reply::Json(status, body.to_string())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn texts_go_in_batches_and_come_back_in_order() {
    let provider =
        Server::start([vectors(&[[1.0, 0.0], [2.0, 0.0]], 5), vectors(&[[3.0, 0.0]], 2)]);
    let embedder = builder(&provider).batch_texts(2).request_dimensions().build().unwrap();
    let made =
        embedder.embed(&texts(&["a", "b", "c"]), EmbeddingInputType::Document).await.unwrap();
    assert_eq!(made.vectors, [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]);
    assert_eq!((made.usage, made.usage_known), (Usage::new(7, 0), true));
    let requests = provider.requests();
    for line in
        ["post /v1/embeddings ", "authorization: bearer sk-hunter2", "accept: application/json"]
    {
        assert!(requests[0].head.contains(line), "{line} in {}", requests[0].head);
    }
    let body = json!({ "model": "embed-1", "input": ["a", "b"], "encoding_format": "float", "dimensions": 2 });
    assert_eq!(requests[0].body, body);
    assert_eq!(requests[1].body["input"], json!(["c"]));
}

#[tokio::test]
async fn purposes_have_their_prefixes() {
    let provider = Server::start([vectors(&[[1.0, 0.0]], 1), vectors(&[[1.0, 0.0]], 1)]);
    let embedder = builder(&provider).prefixes("passage: ", "query: ").build().unwrap();
    embedder.embed(&texts(&["a"]), EmbeddingInputType::Document).await.unwrap();
    embedder.embed(&texts(&["a"]), EmbeddingInputType::Query).await.unwrap();
    let requests = provider.requests();
    let asked: Vec<&Value> = requests.iter().map(|request| &request.body["input"][0]).collect();
    assert_eq!(asked, ["passage: a", "query: a"]);
    assert!(requests[0].body.get("dimensions").is_none());
}

#[tokio::test]
async fn passing_faults_are_tried_again() {
    let busy = json_reply(503, &json!({ "error": { "message": "busy" } }));
    let provider = Server::start([busy, Reply::Reset, vectors(&[[1.0, 0.0]], 1)]);
    let made = embedder(&provider).embed(&texts(&["a"]), EmbeddingInputType::Query).await.unwrap();
    assert_eq!(made.vectors.len(), 1);
    assert_eq!(provider.requests().len(), 3);
}

#[tokio::test]
async fn lasting_faults_are_typed_and_hold_no_key() {
    for (status, body, class) in [
        (401, json!({ "error": { "message": "bad key sk-hunter2" } }), ModelErrorClass::Auth),
        (404, json!({ "error": { "message": "no such model" } }), ModelErrorClass::ModelNotFound),
        (200, json!({ "data": [] }), ModelErrorClass::Malformed),
        (200, json!({ "data": [{ "embedding": [1.0] }] }), ModelErrorClass::Malformed),
    ] {
        let provider = Server::start([json_reply(status, &body)]);
        let error =
            embedder(&provider).embed(&texts(&["a"]), EmbeddingInputType::Query).await.unwrap_err();
        assert_eq!(error.class, class, "{error}");
        assert!(!error.message.contains("hunter2"), "{error}");
        assert_eq!(provider.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_empty_text_is_refused_before_anything_is_sent() {
    let provider = Server::start([]);
    let refused =
        embedder(&provider).embed(&texts(&["a", " "]), EmbeddingInputType::Document).await;
    assert_eq!(refused.unwrap_err().class, ModelErrorClass::InvalidRequest);
    let none = embedder(&provider).embed(&[], EmbeddingInputType::Document).await.unwrap();
    assert!(none.vectors.is_empty());
    assert_eq!(provider.requests().len(), 0);
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let provider = Server::start([Reply::Silence]);
    let timeouts = Timeouts { first_byte: Duration::from_millis(50), ..Timeouts::default() };
    let embedder =
        builder(&provider).timeouts(timeouts).retry(RetryPolicy::never()).build().unwrap();
    let error = embedder.embed(&texts(&["a"]), EmbeddingInputType::Query).await.unwrap_err();
    assert_eq!(error.class, ModelErrorClass::Timeout, "{error}");
}

#[test]
fn what_cannot_work_is_refused_when_it_is_built() {
    let bad = |url: &str, model: &str| openai_embeddings("p", url, model, 2).build().is_err();
    assert!(bad("nonsense", "m") && bad("http://localhost/v1", " "));
    let embedder = openai_embeddings("p", "http://localhost/v1", "m", 2).build().unwrap();
    assert_eq!(embedder.info().space(), "p/m/2");
}

#[test]
fn a_refused_base_url_is_shown_without_user_and_password() {
    let url = "https://alice:hunter2@example.com/v1";
    let embedder = openai_embeddings("acme", url, "m", 3).build().err().unwrap();
    let reranker = cohere_reranker("m").api_key("key").base_url(url).build().err().unwrap();
    let batch = BatchClient::openai("m").api_key("key").base_url(url).build().err().unwrap();
    for error in [embedder, reranker, batch] {
        let said = format!("{error} {error:?}");
        assert!(said.contains("https://***@example.com/v1"), "{said}");
        assert!(!said.contains("hunter2") && !said.contains("alice"), "{said}");
    }
}
