use futures::StreamExt;
use futures::stream;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::*;
use crate::http::{HttpModel, Timeouts};
use crate::wire::openai_chat::OpenAiChat;

/// A call whose answer has begun with this body.
fn opened(timeouts: Timeouts, body: reqwest::Body) -> Call {
    let model = HttpModel::builder("test", "m", OpenAiChat::default())
        .base_url("http://127.0.0.1:9/v1")
        .timeouts(timeouts)
        .build()
        .unwrap();
    let mut call = Call::new(Arc::clone(&model.endpoint), ChatRequest::default());
    call.start().unwrap();
    let (status, headers) = (StatusCode::OK, HeaderMap::new());
    call.opened(Answer { status, headers, body: Body::Client(body) });
    call
}

/// A server that says every minute that it is still there, and nothing else.
fn pinging() -> reqwest::Body {
    let pings = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b": ping\n\n")), ()))
    });
    reqwest::Body::wrap_stream(pings)
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_alone_do_not_hold_a_call_for_ever() {
    let started = Instant::now();
    let mut call = opened(Timeouts::default(), pinging());
    let error = call.next().await.unwrap().unwrap_err();
    assert_eq!(error.class, ModelErrorClass::Timeout);
    assert!(error.message.contains("deadline"), "{}", error.message);
    assert_eq!(started.elapsed(), Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_keep_a_call_longer_than_silence_would() {
    let started = Instant::now();
    let said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
    let late = stream::once(async move { Ok::<_, std::io::Error>(Bytes::from(said)) });
    let pings = stream::unfold(0, |count| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        (count < 10).then(|| (Ok(Bytes::from_static(b": ping\n\n")), count + 1))
    });
    let mut call = opened(Timeouts::default(), reqwest::Body::wrap_stream(pings.chain(late)));
    assert_eq!(call.next().await.unwrap().unwrap(), ModelEvent::Text("x".to_owned()));
    assert!(started.elapsed() > Timeouts::default().idle);
}

#[tokio::test]
async fn a_body_without_end_is_refused() {
    let mut call = opened(Timeouts::default(), pinging());
    let State::Reading(reading) = &mut call.state else { panic!("not reading") };
    let mut out = Vec::new();
    reading.bytes = BODY_BYTES_MAX - 4;
    reading.feed(b":ok\n", &mut out).unwrap();
    let error = reading.feed(b"\n", &mut out).unwrap_err();
    assert_eq!(error.class, ModelErrorClass::Malformed);
    assert!(error.message.contains(&BODY_BYTES_MAX.to_string()), "{}", error.message);
}

#[tokio::test]
async fn a_long_page_is_given_out_piece_by_piece() {
    let said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
    let words = 10 * PIECE_BYTES / said.len();
    let page = said.repeat(words) + "data: [DONE]\n\n";
    let body = reqwest::Body::from(page);
    let mut call = opened(Timeouts::default(), body);
    assert_eq!(call.next().await.unwrap().unwrap(), ModelEvent::Text("x".to_owned()));
    assert!(call.queue.len() < words / 5, "{} of {words}", call.queue.len());
    let rest: Vec<_> = call.map(Result::unwrap).collect().await;
    let texts = rest.iter().filter(|event| matches!(event, ModelEvent::Text(_))).count();
    assert_eq!(texts, words - 1);
    assert!(matches!(rest.last(), Some(ModelEvent::Stop(_))));
}
