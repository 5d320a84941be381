use std::sync::Arc;

use provost_core::{Message, ToolCall, ToolDefinition, ToolResult};
use provost_model::complete;
use serde_json::json;

use super::*;

fn request(messages: impl IntoIterator<Item = Message>) -> ChatRequest {
    let mut request = ChatRequest::new(messages);
    for name in ["clock", "calculator", "save_note"] {
        request.tools.push(Arc::new(ToolDefinition {
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({ "type": "object" }),
        }));
    }
    request
}

async fn answer(request: ChatRequest) -> Message {
    let model = DemoModel::new(Duration::ZERO);
    complete(&model, request).await.unwrap().message
}

fn calls(message: &Message) -> Vec<(String, serde_json::Value)> {
    message.tool_calls().map(|call| (call.name.clone(), call.parse_arguments().unwrap())).collect()
}

#[tokio::test]
async fn the_first_prompt_always_shows_tools() {
    let message = answer(request([Message::user("hello there")])).await;
    let expected = [
        ("clock".to_owned(), json!({})),
        ("calculator".to_owned(), json!({ "expression": "10 / 2" })),
    ];
    assert_eq!(calls(&message), expected);
}

#[tokio::test]
async fn prompts_choose_the_tool() {
    for (prompt, name, arguments) in [
        ("what is (2 + 3) * 4?", "calculator", json!({ "expression": "(2 + 3) * 4" })),
        ("1-2 please", "calculator", json!({ "expression": "1-2" })),
        ("What time is it?", "clock", json!({})),
        ("save a note: buy milk", "save_note", json!({ "name": "buy-milk", "text": "buy milk" })),
    ] {
        let message = answer(request([Message::user(prompt)])).await;
        assert_eq!(calls(&message), [(name.to_owned(), arguments)], "{prompt}");
    }
}

#[tokio::test]
async fn it_answers_from_the_results_and_says_how_to_go_on() {
    let asked = Message::user("what is 6*7?");
    let call = ToolCall::new("c1", "calculator", &json!({ "expression": "6*7" }));
    let result = ToolResult::text(&call, "42");
    let history = [asked, Message::calls([call]), Message::results([result])];
    let message = answer(request(history)).await;
    assert_eq!(message.tool_calls().count(), 0);
    let text = message.text();
    assert!(text.contains("The calculator says **42**"), "{text}");
    assert!(text.contains("export OPENAI_API_KEY="), "{text}");
    assert!(text.contains("provost chat --model ollama/llama3.2"), "{text}");
}

#[tokio::test]
async fn a_refused_note_is_reported_as_not_saved() {
    let call = ToolCall::new("c1", "save_note", &json!({ "name": "x", "text": "x" }));
    let result = ToolResult::error(&call, "the call was not approved");
    let history =
        [Message::user("save a note: x"), Message::calls([call]), Message::results([result])];
    let text = answer(request(history)).await.text();
    assert!(text.contains("**not saved**: the call was not approved"), "{text}");
}

#[tokio::test]
async fn later_prompts_without_a_task_are_answered_without_tools() {
    let history = [Message::user("hello"), Message::assistant("hi"), Message::user("nice weather")];
    let message = answer(request(history)).await;
    assert_eq!(message.tool_calls().count(), 0);
    assert!(message.text().contains("You said “nice weather”"));
}

#[tokio::test]
async fn tools_that_are_not_offered_are_not_called() {
    let message = answer(ChatRequest::new([Message::user("hello")])).await;
    assert_eq!(message.tool_calls().count(), 0);
    assert!(message.text().contains("demo model"));
    let nothing = answer(ChatRequest::default()).await;
    assert!(nothing.text().starts_with("Hello!"));
}

#[test]
fn the_text_streams_word_by_word_and_is_the_same_each_time() {
    let asked = request([Message::user("how do I connect?")]);
    let events = respond(&asked);
    assert_eq!(events, respond(&asked));
    let texts = events.iter().filter(|event| matches!(event, ModelEvent::Text(_)));
    assert!(texts.count() > 20);
    let pieces: Vec<&str> = words("a  b\n\n c ").collect();
    assert_eq!(pieces, ["a  ", "b\n\n ", "c "]);
}

#[tokio::test(start_paused = true)]
async fn the_pace_is_per_word() {
    let model = DemoModel::new(Duration::from_millis(10));
    let begin = tokio::time::Instant::now();
    complete(&model, ChatRequest::default()).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(100));
}
