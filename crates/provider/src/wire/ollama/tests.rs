use std::sync::Arc;

use provost_core::{StopReason, ToolDefinition, Usage};
use provost_model::{ModelErrorClass, OutputSchema, ReasoningEffort, ToolChoice};
use serde_json::json;

use super::*;
use crate::wire::testing::{decode, decode_response, encode, info, test_request};

#[test]
fn settings_are_options_and_a_schema_is_the_format() {
    let mut request = test_request();
    request.settings.max_tokens = Some(9);
    request.settings.stop = vec!["END".to_owned()];
    request.settings.seed = Some(3);
    let schema = json!({"type": "object"});
    request.output = Some(Arc::new(OutputSchema {
        name: "x".to_owned(),
        description: None,
        schema: schema.clone(),
    }));
    let wire = OllamaChat {
        context_tokens: Some(32_768),
        keep_alive: Some("10m".to_owned()),
        ..OllamaChat::default()
    };
    let body = encode(&wire, &request, &info());
    assert_eq!(
        body["options"],
        json!({"num_predict": 9, "num_ctx": 32_768, "stop": ["END"], "seed": 3})
    );
    assert_eq!((&body["format"], &body["keep_alive"]), (&schema, &json!("10m")));
}

#[test]
fn effort_is_a_switch_or_a_level() {
    let mut request = test_request();
    for (model, effort, expected) in [
        ("qwen3", ReasoningEffort::High, json!(true)),
        ("qwen3", ReasoningEffort::Minimal, json!(false)),
        ("gpt-oss:20b", ReasoningEffort::Minimal, json!("low")),
        ("gpt-oss:20b", ReasoningEffort::High, json!("high")),
    ] {
        request.settings.effort = Some(effort);
        let info = provost_model::ModelInfo { model: model.to_owned(), ..info() };
        assert_eq!(encode(&OllamaChat::default(), &request, &info)["think"], expected);
    }
}

#[test]
fn a_choice_of_tools_is_kept_by_what_is_offered() {
    let tool = |name: &str| {
        let def = ToolDefinition {
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        };
        Arc::new(def)
    };
    let mut request = test_request();
    request.tools = vec![tool("a"), tool("b")];
    for (choice, names) in [
        (ToolChoice::Auto, Some(vec!["a", "b"])),
        (ToolChoice::None, None),
        (ToolChoice::Tool("b".to_owned()), Some(vec!["b"])),
    ] {
        request.tool_choice = choice;
        let body = encode(&OllamaChat::default(), &request, &info());
        let offered = body.get("tools").map(|tools| {
            let tools = tools.as_array().unwrap().iter();
            tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
        });
        let names = names.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(offered, names);
    }
}

#[test]
fn lines_become_an_answer() {
    let whole = decode_response(
        &OllamaChat::default(),
        &[
            r#"{"model":"q","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}"#,
            r#"{"model":"q","message":{"role":"assistant","content":"hi","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},{"function":{"name":"g","arguments":"{\"b\":2}"}}]},"done":false}"#,
            r#"{"model":"q","message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":7,"eval_count":3}"#,
        ],
    )
    .unwrap();
    let calls: Vec<_> = whole.message.tool_calls().map(|call| call.arguments.as_str()).collect();
    assert_eq!(calls, ["{\"a\":1}", "{\"b\":2}"]);
    assert_eq!((whole.stop, whole.usage), (StopReason::ToolUse, Usage::new(7, 3)));
    assert_eq!(whole.message.reasoning().next().unwrap().text, "hm");
}

#[test]
fn an_error_line_and_a_missing_end_are_told() {
    let (_, result) = decode(&OllamaChat::default(), &[r#"{"error":"model 'x' not found"}"#]);
    assert!(result.unwrap_err().message.contains("not found"));
    let (_, result) =
        decode(&OllamaChat::default(), &[r#"{"message":{"content":"x"},"done":false}"#]);
    assert_eq!(result.unwrap_err().class, ModelErrorClass::StreamTruncated);
    let (_, result) = decode(
        &OllamaChat::default(),
        &[r#"{"message":{"tool_calls":[{"function":{"name":""}}]},"done":false}"#],
    );
    assert_eq!(result.unwrap_err().class, ModelErrorClass::Malformed);
}
