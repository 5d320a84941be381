use std::pin::Pin;

use futures::stream;

use super::*;
use crate::http::Timeouts;
use crate::wire::openai_chat::OpenAiChat;

const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";

type Events = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// Returns the events of a response with this body.
fn events(body: reqwest::Body) -> Events {
    let Timeouts { idle, total, .. } = Timeouts::default();
    let response = reqwest::Response::from(http::Response::new(body));
    let deadline = total.map(|total| Instant::now() + total);
    let response = VendorResponse::new(response, "test:80".to_owned(), idle, deadline);
    Box::pin(async_stream::stream! {
        let wire = OpenAiChat::default();
        for await event in read_events(&wire, response) {
            yield event;
        }
    })
}

/// Returns the body of a server that sends only a keep-alive every minute.
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
    let error = events(pinging()).next().await.unwrap().unwrap_err();
    assert_eq!(error.class, ModelErrorClass::Timeout);
    assert!(error.message.contains("deadline"), "{}", error.message);
    assert_eq!(started.elapsed(), Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_keep_a_call_longer_than_silence_would() {
    let started = Instant::now();
    let late = stream::once(async move { Ok::<_, std::io::Error>(Bytes::from(WORD)) });
    let pings = stream::unfold(0, |count| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        (count < 10).then(|| (Ok(Bytes::from_static(b": ping\n\n")), count + 1))
    });
    let mut events = events(reqwest::Body::wrap_stream(pings.chain(late)));
    assert_eq!(events.next().await.unwrap().unwrap(), ModelEvent::Text("x".to_owned()));
    assert!(started.elapsed() > Timeouts::default().idle);
}

#[test]
fn a_body_without_end_is_refused() {
    let mut decoder = BodyDecoder::new(&OpenAiChat::default());
    let mut out = Vec::new();
    decoder.bytes = BODY_BYTES_MAX - 4;
    decoder.push(b":ok\n", &mut out).unwrap();
    let error = decoder.push(b"\n", &mut out).unwrap_err();
    assert_eq!(error.class, ModelErrorClass::Malformed);
    assert!(error.message.contains(&BODY_BYTES_MAX.to_string()), "{}", error.message);
}

#[tokio::test]
async fn a_long_page_is_decoded_whole() {
    let words = 1000;
    let page = WORD.repeat(words) + "data: [DONE]\n\n";
    let events: Vec<_> = events(page.into()).map(Result::unwrap).collect().await;
    let texts = events.iter().filter(|event| matches!(event, ModelEvent::Text(_))).count();
    assert_eq!(texts, words);
    assert!(matches!(events.last(), Some(ModelEvent::Stop(_))));
}
