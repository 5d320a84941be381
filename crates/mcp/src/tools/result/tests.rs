//! Results of every kind, good and bad.

use super::*;

fn typed(value: Value) -> ToolOutput {
    to_output(serde_json::from_value(value).unwrap())
}

#[test]
fn text_and_pictures_and_files_keep_their_order() {
    let given = typed(json!({ "content": [
        { "type": "text", "text": "look" },
        { "type": "image", "data": "AQID", "mimeType": "image/png" },
        { "type": "audio", "data": "AQID", "mimeType": "audio/wav" },
        { "type": "resource", "resource": { "uri": "file:///a/b.pdf", "mimeType": "application/pdf", "blob": "AQID" } },
        { "type": "resource", "resource": { "uri": "file:///n.txt", "text": "note" } },
        { "type": "resource_link", "uri": "file:///c", "name": "c" },
    ] }));
    assert!(!given.is_error);
    assert_eq!(given.parts[0], text_part("look"));
    assert_eq!(given.parts[1], ToolResultPart::Image(Image::bytes("image/png", [1, 2, 3])));
    assert!(matches!(&given.parts[2], ToolResultPart::File(file) if file.name.is_none()));
    assert_eq!(
        given.parts[3],
        ToolResultPart::File(Document::bytes("b.pdf", "application/pdf", [1, 2, 3]))
    );
    assert_eq!(given.parts[4], text_part("[resource file:///n.txt]\nnote"));
    assert_eq!(given.parts[5], text_part("[resource file:///c: c]"));
}

#[test]
fn an_error_is_an_error() {
    let given = typed(json!({ "content": [{ "type": "text", "text": "no" }], "isError": true }));
    assert!(given.is_error);
    assert_eq!(given.to_text(), "no");
    assert!(typed(json!({ "content": [], "isError": true })).to_text().contains("failed"));
    assert_eq!(typed(json!({ "content": [] })).to_text(), "done");
}

#[test]
fn structured_content_is_seen_once() {
    let told = typed(json!({
        "content": [{ "type": "text", "text": "{ \"a\": 1 }" }],
        "structuredContent": { "a": 1 },
    }));
    assert_eq!(told.parts.len(), 1);
    assert_eq!(told.metadata, Some(json!({ "structured_content": { "a": 1 } })));
    let wrapped = typed(json!({
        "content": [{ "type": "text", "text": "five" }],
        "structuredContent": { "result": "five" },
    }));
    assert_eq!(wrapped.to_text(), "five");
    let untold = typed(json!({ "content": [], "structuredContent": { "a": 1 } }));
    assert_eq!(untold.to_text(), r#"{"a":1}"#);
}

#[test]
fn what_is_no_base_64_is_not_passed_on() {
    let given = typed(json!({ "content": [
        { "type": "image", "data": "%%%", "mimeType": "image/png" },
    ] }));
    assert!(given.to_text().contains("not valid base 64"));
}

#[test]
fn too_many_parts_are_counted() {
    let content = vec![json!({ "type": "text", "text": "x" }); PARTS_MAX + 7];
    let given = typed(json!({ "content": content }));
    assert_eq!(given.parts.len(), PARTS_MAX + 1);
    assert_eq!(given.parts[PARTS_MAX], text_part("[7 further parts omitted]"));
}

#[test]
fn a_result_that_is_partly_wrong_keeps_what_is_right() {
    let given = parse_loose_output(json!({ "content": [
        { "type": "text", "text": "good" },
        { "type": "hologram", "data": 1 },
        "bare",
    ], "isError": true }))
    .unwrap();
    assert!(given.is_error);
    assert_eq!(given.parts[0], text_part("good"));
    assert!(matches!(&given.parts[1], ToolResultPart::Text { text } if text.contains("hologram")));
    assert_eq!(given.parts[2], text_part("bare"));
    assert_eq!(parse_loose_output(json!({ "nothing": 1 })), None);
    assert_eq!(parse_loose_output(json!(7)), None);
}
