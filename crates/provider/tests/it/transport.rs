//! Connections: injected, shared, reused and closed.

use std::sync::Arc;

use futures::StreamExt;
use provost_core::Message;
use provost_model::{ChatModel, ChatRequest, ModelErrorClass, ModelEvent, OutputSchema, complete};
use provost_testkit::{Failure, FakeProvider, Reply};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::json;

use crate::harness::{Options, WIRES, drain, first_words, model, model_with, texts};

fn ask() -> ChatRequest {
    ChatRequest::new([Message::user("Hi")])
}

#[tokio::test]
async fn s228_dropping_the_stream_ends_the_request() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.reply(Reply::text("half").hang_midway());
        let asked = model(wire, &provider);
        let mut stream = asked.stream(ask());
        loop {
            let event = stream.next().await.unwrap().unwrap();
            if matches!(event, ModelEvent::Text(_)) {
                break;
            }
        }
        drop(stream);
        provider.wait_for_abandoned(1).await;
    }
}

#[tokio::test]
async fn s228_dropping_the_stream_before_the_first_byte_ends_the_request() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.replies([Reply::never_respond(), Reply::text("next")]);
        let asked = model(wire, &provider);
        let mut stream = asked.stream(ask());
        tokio::select! {
            item = stream.next() => panic!("{item:?}"),
            () = provider.wait_for_requests(1) => {}
        }
        drop(stream);
        let (events, failure) = drain(&asked, ask()).await;
        assert_eq!((texts(&events), failure), (vec!["next"], None));
        assert_eq!(provider.connection_count(), 2);
    }
}

/// The source tests this twice, because a typed response takes another path there.
#[tokio::test]
async fn s228_an_error_ends_the_stream_and_the_request_with_a_typed_answer_too() {
    let shape = OutputSchema {
        name: "answer".to_owned(),
        description: None,
        schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    };
    for wire in WIRES {
        for output in [None, Some(Arc::new(shape.clone()))] {
            let provider = FakeProvider::start().await;
            let failing = Reply::text("{").fail_midway(Failure::Overloaded).hang_midway();
            provider.replies([failing, Reply::text("{\"n\":1}").hang_midway()]);
            let asked = model(wire, &provider);
            let request = ChatRequest { output: output.clone(), ..ask() };
            let mut stream = asked.stream(request.clone());
            let failure = loop {
                match stream.next().await.unwrap() {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(failure.class, ModelErrorClass::Overloaded);
            drop(stream);
            provider.wait_for_abandoned(1).await;
            let mut stream = asked.stream(request);
            while !matches!(stream.next().await.unwrap().unwrap(), ModelEvent::Text(_)) {}
            drop(stream);
            provider.wait_for_abandoned(2).await;
        }
    }
}

#[tokio::test]
async fn s229_an_injected_client_is_the_one_that_is_used() {
    // The client is built without the process-wide crypto provider, which this feature set of the library lacks.
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.reply(Reply::text("x"));
        let mut marks = HeaderMap::new();
        marks.insert("x-injected", HeaderValue::from_static("yes"));
        let provider_of_crypto = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider_of_crypto)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .default_headers(marks)
            .build()
            .unwrap();
        let options = Options { client: Some(client), ..Options::default() };
        complete(&model_with(wire, &provider, options), ask()).await.unwrap();
        assert_eq!(provider.requests()[0].header("x-injected"), Some("yes"));
    }
}

#[tokio::test]
async fn one_connection_serves_many_calls() {
    for wire in WIRES {
        let provider = FakeProvider::answering(|_| Reply::text("x")).await;
        for _ in 0..20 {
            // A new model each time, because all models share connections.
            complete(&model(wire, &provider), ask()).await.unwrap();
        }
        assert_eq!(provider.connection_count(), 1, "{wire:?}");
    }
}

#[test]
fn the_shared_client_outlives_the_runtime_that_first_used_it() {
    for wire in WIRES {
        let serving = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let provider = serving.block_on(FakeProvider::answering(|_| Reply::text("x")));
        for _ in 0..3 {
            let asking =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let (events, failure) = asking.block_on(drain(&model(wire, &provider), ask()));
            assert_eq!((texts(&events), failure), (vec!["x"], None));
        }
    }
}

#[tokio::test]
async fn many_calls_at_once_do_not_mix() {
    for wire in WIRES {
        let provider = FakeProvider::answering(move |request| {
            let said = first_words(wire, &request.json());
            Reply::new().deltas(said.split(' ').map(str::to_owned).collect::<Vec<_>>())
        })
        .await;
        let asked = model(wire, &provider);
        let calls = (0..100).map(|n| {
            let asked = asked.clone();
            async move {
                let said = format!("I am {n}");
                let request = ChatRequest::new([Message::user(said.clone())]);
                let answer = complete(&asked, request).await.unwrap();
                assert_eq!(answer.message.text(), said.replace(' ', ""));
            }
        });
        futures::future::join_all(calls).await;
    }
}
