use super::*;

type Events = Vec<(String, String)>;

fn cut(framing: Framing, chunks: &[&[u8]]) -> (Events, Result<(), FrameError>) {
    let mut frames = FrameParser::new(framing);
    let mut events = Vec::new();
    let mut sink = |event: SseEvent<'_>| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        events.push((text(event.event), text(event.data)));
        Ok(())
    };
    let mut result = Ok(());
    for chunk in chunks {
        result = frames.push(chunk, &mut sink);
        if result.is_err() {
            break;
        }
    }
    let result = result.and_then(|()| frames.finish(&mut sink));
    (events, result)
}

/// Returns a valid frame.
fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(name.len() as u8);
        head.extend_from_slice(name.as_bytes());
        head.push(7);
        head.extend_from_slice(&(value.len() as u16).to_be_bytes());
        head.extend_from_slice(value.as_bytes());
    }
    let mut frame = Vec::new();
    frame.extend_from_slice(&((16 + head.len() + payload.len()) as u32).to_be_bytes());
    frame.extend_from_slice(&(head.len() as u32).to_be_bytes());
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&head);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame
}

fn pair(event: &str, data: &str) -> (String, String) {
    (event.to_owned(), data.to_owned())
}

#[test]
fn lines_come_whole_wherever_the_chunks_break() {
    let text = "{\"a\":\"ü\"}\r\n\n{\"b\":2}\n{\"c\":3}".as_bytes();
    let expected = [pair("", "{\"a\":\"ü\"}"), pair("", "{\"b\":2}"), pair("", "{\"c\":3}")];
    for at in 0..text.len() {
        let (events, result) = cut(Framing::Ndjson, &[&text[..at], &text[at..]]);
        assert_eq!((events.as_slice(), result), (&expected[..], Ok(())), "cut at {at}");
    }
    let (events, result) = cut(Framing::Ndjson, &[b"{\"a\":1}\n{\"b\":"]);
    assert_eq!((events.len(), result), (1, Ok(())), "half a line is dropped");
}

#[test]
fn frames_come_whole_wherever_the_chunks_break() {
    let mut bytes = frame(&[(":message-type", "event"), (":event-type", "messageStart")], b"{}");
    bytes.extend(frame(&[(":exception-type", "throttlingException")], b"{\"message\":\"x\"}"));
    let expected = [pair("messageStart", "{}"), pair("throttlingException", "{\"message\":\"x\"}")];
    for at in 0..bytes.len() {
        let (events, result) = cut(Framing::AwsEventStream, &[&bytes[..at], &bytes[at..]]);
        assert_eq!((events.as_slice(), result), (&expected[..], Ok(())), "cut at {at}");
    }
}

#[test]
fn a_damaged_frame_is_no_event() {
    let whole = frame(&[(":event-type", "messageStart")], b"{\"role\":\"assistant\"}");
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 0x20;
        let (events, result) = cut(Framing::AwsEventStream, &[&broken]);
        assert!(events.is_empty() && result.is_err(), "byte {at}: {events:?} {result:?}");
    }
}

#[test]
fn the_length_of_a_frame_is_bounded_and_a_page_is_no_frame() {
    let mut endless = Vec::new();
    endless.extend_from_slice(&u32::MAX.to_be_bytes());
    endless.extend_from_slice(&0_u32.to_be_bytes());
    endless.extend_from_slice(&crc32fast::hash(&endless).to_be_bytes());
    assert_eq!(cut(Framing::AwsEventStream, &[&endless]).1, Err(FrameError::TooLarge));
    assert_eq!(
        cut(Framing::AwsEventStream, &[b"<html>hello</html>"]).1,
        Err(FrameError::Malformed)
    );
    let line = vec![b'x'; SSE_EVENT_BYTES_MAX + 1];
    assert_eq!(cut(Framing::Ndjson, &[&line]).1, Err(FrameError::TooLarge));
}

#[test]
fn a_flood_of_comments_is_an_error() {
    let flood = ": alive\n\n".repeat(200_000);
    let result = cut(Framing::Sse, &[flood.as_bytes()]).1;
    assert_eq!(result, Err(FrameError::OnlyComments));
    let calm = format!("{}data: x\n\n", ": alive\n\n".repeat(100)).repeat(2000);
    assert_eq!(cut(Framing::Sse, &[calm.as_bytes()]).0.len(), 2000);
}
