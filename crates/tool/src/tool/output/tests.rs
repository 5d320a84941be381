use serde_json::json;

use super::*;

#[test]
fn s213_responses_of_every_kind() {
    assert_eq!(ToolOutput::text("a").to_text(), "a");
    assert!(ToolOutput::error("a").is_error);
    assert_eq!(ToolOutput::json(&json!({"a": 1})).to_text(), r#"{"a":1}"#);
    let unmarshalable = std::collections::HashMap::from([((1, 2), 3)]);
    assert!(ToolOutput::json(&unmarshalable).is_error);
    assert!(matches!(ToolOutput::image(Image::url("u")).parts[..], [ToolResultPart::Image(_)]));
    let file = ToolOutput::file(Document::bytes("a.txt", "text/plain", b"abc"));
    match &file.parts[..] {
        [ToolResultPart::File(file)] => assert_eq!(file.source.decode().unwrap(), b"abc"),
        other => panic!("{other:?}"),
    }
    let with = ToolOutput::text("a").with_metadata(json!({"k": 1}));
    assert_eq!(with.metadata, Some(json!({"k": 1})));
    assert_eq!(with.clone().with_metadata(None::<u8>).metadata, with.metadata);
}

#[test]
fn every_serializable_value_is_an_output() {
    assert_eq!("text".into_tool_output().to_text(), "text");
    assert_eq!(String::from("text").into_tool_output().to_text(), "text");
    assert_eq!(3.5.into_tool_output().to_text(), "3.5");
    assert_eq!(().into_tool_output().to_text(), "done");
    assert_eq!(vec![1, 2].into_tool_output().to_text(), "[1,2]");
}

#[test]
fn a_huge_text_keeps_its_start_and_end() {
    let text = format!("start{}é end", "ü".repeat(25 * 1024 * 1024));
    let cut = ToolOutput::text(text).into_bounded().to_text();
    assert!(cut.len() <= TOOL_OUTPUT_BYTES_MAX + 64, "{}", cut.len());
    assert!(cut.starts_with("start") && cut.ends_with("é end"));
    assert!(cut.contains("bytes cut"));
}

#[test]
fn a_huge_file_is_replaced_by_a_note() {
    let file = Document::bytes("big", "application/zip", vec![0u8; TOOL_BINARY_BYTES_MAX + 10]);
    assert!(ToolOutput::file(file).into_bounded().to_text().contains("omitted"));
}

#[test]
fn whatever_is_not_text_is_bounded_too() {
    let huge = || "x".repeat(TOOL_BINARY_BYTES_MAX / 3 * 4 + 3);
    for (part, what) in [
        (
            ToolResultPart::Image(Image::url(format!("data:image/png;base64,{}", huge()))),
            "a data URL of 20971536 bytes",
        ),
        (
            ToolResultPart::File(Document { source: MediaSource::Url(huge()), name: None }),
            "a URL of 27962027 bytes",
        ),
        (
            ToolResultPart::Unknown(json!({"type": "new", "data": huge()})),
            "a part of an unknown kind of 27962051 bytes",
        ),
    ] {
        let text = ToolOutput::text("kept").with(part).into_bounded().to_text();
        assert!(text.starts_with(&format!("kept\n[{what} omitted")), "{:.80}", text);
    }
    let file = Document::bytes(huge(), huge(), b"abc");
    match &ToolOutput::file(file).into_bounded().parts[..] {
        [
            ToolResultPart::File(Document { source: MediaSource::Base64 { media_type, .. }, name }),
        ] => {
            assert!(media_type.len() < 2 * LABEL_BYTES_MAX);
            assert!(name.as_ref().unwrap().len() < 2 * LABEL_BYTES_MAX);
        }
        other => panic!("{} parts", other.len()),
    }
    let small = ToolResultPart::Unknown(json!({"type": "new"}));
    let output = ToolOutput::image(Image::url("https://a.example/x.png")).with(small);
    assert_eq!(output.clone().into_bounded(), output);
}

#[test]
fn huge_metadata_is_replaced_by_a_note() {
    let small = ToolOutput::text("x").with_metadata(json!({"k": [1, 2]}));
    assert_eq!(small.clone().into_bounded(), small);
    let huge = ToolOutput::text("x").with_metadata("m".repeat(1_000_000)).into_bounded();
    let note = "[metadata of 1000002 bytes omitted: the maximum is 262144]";
    assert_eq!(huge.metadata, Some(json!(note)));
    assert_eq!(huge.to_text(), "x");
}
