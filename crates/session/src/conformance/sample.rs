//! Sample messages with every storable kind of content.

use provost_core::{
    ContentPart, Document, Image, Message, ProviderData, Reasoning, Role, Timestamp, ToolCall,
    ToolResult, ToolResultPart,
};
use serde_json::json;

/// Returns messages with all roles, kinds of parts and fields, unusual characters and a long text.
pub(super) fn sample_messages() -> Vec<Message> {
    let opaque = ProviderData {
        provider: "p".into(),
        kind: "signature".into(),
        data: "\u{0}\u{2028}é\"\\".into(),
    };
    let call = ToolCall {
        opaque: Some(opaque.clone()),
        ..ToolCall::new("c1", "look", &json!({"at": [1.5, null, "x"]}))
    };
    let image = Image::bytes("image/png", [0, 1, 254, 255]);
    let result = ToolResult {
        parts: vec![
            ToolResultPart::Text { text: "seen".into() },
            ToolResultPart::Image(image.clone()),
            ToolResultPart::File(Document::bytes("a.txt", "text/plain", "hi")),
            ToolResultPart::Unknown(json!({"type": "hologram", "size": 3})),
        ],
        metadata: Some(json!({"rows": 3})),
        ..ToolResult::error(&call, "")
    };
    let mut answer = Message::new(
        Role::Assistant,
        vec![
            ContentPart::Reasoning(Reasoning { text: "hm".into(), opaque: Some(opaque) }),
            ContentPart::text("let me look"),
            ContentPart::ToolCall(call.clone()),
        ],
        Timestamp::from_millis(1_700_000_000_123),
    );
    answer.model = Some("m-1".into());
    answer.interrupted = true;
    let mut user = Message::user("Grüße, 世界 👋🏽 \u{0}\u{1F}\r\n\u{2028}");
    user.parts.extend([
        ContentPart::Image(image),
        ContentPart::Document(Document::bytes("b.pdf", "application/pdf", [7; 32])),
        ContentPart::Unknown(json!({"type": "smell", "of": "rain"})),
    ]);
    vec![
        Message::summary("what was before"),
        user,
        answer,
        Message::results([result]),
        Message::results([ToolResult::placeholder(&call)]),
        Message::user("long text ".repeat(120_000)),
        Message::new(Role::User, Vec::new(), Timestamp::from_millis(-1)),
    ]
}
