use super::*;

fn events(chunks: &[&[u8]]) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    let mut sink = |event: SseFrame<'_>| {
        if let Some(data) = event.data {
            seen.push((
                String::from_utf8_lossy(event.event).into_owned(),
                String::from_utf8_lossy(data).into_owned(),
            ));
        }
        Ok::<(), SseError>(())
    };
    let mut parser = SseParser::default();
    for chunk in chunks {
        parser.push(chunk, &mut sink).unwrap();
    }
    parser.finish(&mut sink).unwrap();
    seen
}

fn data(chunks: &[&[u8]]) -> Vec<String> {
    events(chunks).into_iter().map(|(_, data)| data).collect()
}

#[test]
fn every_line_ending_ends_a_line() {
    for text in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\r\rdata: b\r\r",
        "\u{feff}data:a\n\n: a comment\nid: 7\nretry: 5\ndata: b\n\n\n\n",
    ] {
        assert_eq!(data(&[text.as_bytes()]), ["a", "b"], "{text:?}");
    }
}

#[test]
fn fields_are_read_as_the_standard_says() {
    for (text, expected) in [
        ("event: ping\ndata: {}\n\n", vec![("ping", "{}")]),
        ("data: a\ndata: b\ndata\n\n", vec![("", "a\nb\n")]),
        ("data:  two spaces\n\n", vec![("", " two spaces")]),
        ("event: lonely\n\ndata: x\n\n", vec![("", "x")]),
        ("data: whole line, no blank one\n", vec![("", "whole line, no blank one")]),
        ("data: cut in its mid", vec![]),
        ("data: [DONE]", vec![("", "[DONE]")]),
        ("data: a:b\n\n", vec![("", "a:b")]),
    ] {
        let expected: Vec<_> =
            expected.into_iter().map(|(event, data)| (event.to_owned(), data.to_owned())).collect();
        assert_eq!(events(&[text.as_bytes()]), expected, "{text:?}");
    }
}

#[test]
fn the_place_where_chunks_break_does_not_matter() {
    let text = "\u{feff}event: e\r\ndata: {\"t\":\"Grüße 🦀\"}\r\n\r\ndata: a\ndata: b\n\ndata: c\r\rdata: [DONE]\n\n";
    let bytes = text.as_bytes();
    let whole = events(&[bytes]);
    assert_eq!(whole.len(), 4);
    for size in 1..bytes.len() {
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(events(&chunks), whole, "chunks of {size}");
    }
}

#[test]
fn an_event_that_does_not_end_is_refused() {
    for line in ["data: ", "event: ", "nonsense"] {
        let mut parser =
            SseParser::with_limits(SseLimits { event_bytes: 1000, ..SseLimits::default() });
        let mut result = parser.push(line.as_bytes(), |_| Ok::<(), SseError>(()));
        for _ in 0..200 {
            result = result.and_then(|()| parser.push(b"0123456789", |_| Ok(())));
        }
        assert_eq!(result, Err(SseError::TooLarge), "{line}");
    }
    let mut parser =
        SseParser::with_limits(SseLimits { event_bytes: 1000, ..SseLimits::default() });
    let many_lines = "data: 0123456789\n".repeat(200);
    assert_eq!(
        parser.push(many_lines.as_bytes(), |_| Ok::<(), SseError>(())),
        Err(SseError::TooLarge)
    );
}
