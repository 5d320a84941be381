//! The responses of the demo model: a pure function of the request.

use provost_core::{Message, Role, ToolResult};
use provost_model::{ChatRequest, ToolChoice};
use serde_json::{Value, json};

/// Maximum number of characters of a prompt that a response quotes.
const QUOTED_CHARS_MAX: usize = 60;

/// Response of the demo model.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ScriptedResponse {
    /// Text of the response.
    pub text: String,
    /// Names and arguments of the tool calls.
    pub calls: Vec<(&'static str, Value)>,
}

/// Commands that connect a real model.
pub(crate) const CONNECT: &str = "\
```sh
export OPENAI_API_KEY=...       # or ANTHROPIC_API_KEY=...
provost chat

ollama pull llama3.2            # or a model on this machine
provost chat --model ollama/llama3.2

provost chat --model my-model --base-url http://127.0.0.1:8080/v1
```
";

/// Returns the response to a request.
pub(crate) fn plan(request: &ChatRequest) -> ScriptedResponse {
    let last_prompt = request.messages.iter().rposition(|message| message.role == Role::User);
    let Some(last_prompt) = last_prompt else {
        return text_response("Hello! Send a message, and I will show you what an agent does.");
    };
    let prompt = request.messages[last_prompt].text();
    let results: Vec<&ToolResult> =
        request.messages[last_prompt..].iter().flat_map(|message| message.tool_results()).collect();
    let is_first = !request.messages[..last_prompt].iter().any(is_answer);
    if !results.is_empty() {
        return text_response(report(&results, is_first));
    }
    let mut calls = calls_for(&prompt, is_first);
    let is_available = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    calls.retain(|(name, _)| is_available(name) && request.tool_choice != ToolChoice::None);
    if calls.is_empty() {
        return text_response(answer_without_tools(&prompt, is_first));
    }
    ScriptedResponse { text: introduce(&calls).to_owned(), calls }
}

fn is_answer(message: &std::sync::Arc<Message>) -> bool {
    message.role == Role::Assistant && !message.text().is_empty()
}

fn text_response(text: impl Into<String>) -> ScriptedResponse {
    ScriptedResponse { text: text.into(), calls: Vec::new() }
}

/// Returns the tool calls for a prompt. The first prompt of a conversation always gets calls, as a demonstration.
fn calls_for(prompt: &str, is_first: bool) -> Vec<(&'static str, Value)> {
    let lower = prompt.to_lowercase();
    let contains = |words: &[&str]| {
        lower.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word))
    };
    if contains(&["save", "note", "remember", "write"]) {
        let text = note_text(prompt);
        return vec![("save_note", json!({ "name": slug(&text), "text": text }))];
    }
    let mut calls = Vec::new();
    if contains(&["time", "date", "clock", "day", "today", "now"]) {
        calls.push(("clock", json!({})));
    }
    if let Some(expression) = expression(prompt) {
        calls.push(("calculator", json!({ "expression": expression })));
    }
    if calls.is_empty() && is_first && !contains(&["connect", "help"]) {
        let words = prompt.split_whitespace().count().max(1);
        let letters = prompt.chars().filter(|c| !c.is_whitespace()).count();
        calls.push(("clock", json!({})));
        let expression = format!("{letters} / {words}");
        calls.push(("calculator", json!({ "expression": expression })));
    }
    calls
}

/// Returns the longest part of a prompt that resembles arithmetic: at least two numbers and an operator between them.
fn expression(prompt: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_digit() || " .+-*/^()×÷".contains(c);
    let longest = prompt
        .split(|c: char| !legal(c))
        .map(|piece| {
            let start = |c: char| !c.is_ascii_digit() && !"(.-".contains(c);
            let end = |c: char| !c.is_ascii_digit() && c != ')';
            piece.trim_start_matches(start).trim_end_matches(end)
        })
        .filter(|piece| piece.contains(['+', '-', '*', '/', '^', '×', '÷']))
        .filter(|piece| {
            let numbers = piece.split(|c: char| !c.is_ascii_digit() && c != '.');
            numbers.filter(|number| !number.is_empty()).count() >= 2
        })
        .max_by_key(|piece| piece.len())?;
    Some(longest.to_owned())
}

/// Returns the text of a note: the text after a colon, or else the whole prompt.
fn note_text(prompt: &str) -> String {
    let text = match prompt.split_once(':') {
        Some((_, text)) if !text.trim().is_empty() => text,
        _ => prompt,
    };
    text.trim().to_owned()
}

/// Returns a file name from the first words of a text.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.take(4).collect::<Vec<_>>().join("-");
    let cut: String = joined.chars().take(40).collect();
    if cut.is_empty() { "note".to_owned() } else { cut }
}

/// Returns the text before the tool calls of a turn.
fn introduce(calls: &[(&'static str, Value)]) -> &'static str {
    match calls {
        [("save_note", _)] => "I will save that after your approval.",
        [_] => "Let me use a tool for that.",
        _ => "Let me use two tools at once.",
    }
}

/// Returns the response after the tools have run.
fn report(results: &[&ToolResult], is_first: bool) -> String {
    let mut text = String::new();
    for result in results {
        let output = result.to_text();
        let line = match (result.name.as_str(), result.is_error) {
            ("save_note", true) => format!("- The note was **not saved**: {output}\n"),
            ("save_note", false) => format!("- The note was saved: {output}\n"),
            (name, true) => format!("- The tool `{name}` failed: {output}\n"),
            ("clock", false) => format!("- The clock says **{output}**.\n"),
            ("calculator", false) => format!("- The calculator says **{output}**.\n"),
            (name, false) => format!("- The tool `{name}` returned {output}\n"),
        };
        text.push_str(&line);
    }
    text.push('\n');
    if is_first {
        text.push_str(
            "I am the built-in *demo model*: there is no intelligence behind me, but the loop, the tools and the \
             approvals around me are real.\nConnect a real model:\n\n",
        );
        text.push_str(CONNECT);
    } else {
        text.push_str("*(demo model; `provost doctor` shows how to connect a real model)*\n");
    }
    text
}

/// Returns the response to a prompt that needs no tools.
fn answer_without_tools(prompt: &str, is_first: bool) -> String {
    if is_first || prompt.to_lowercase().contains("connect") {
        return format!(
            "I am the built-in *demo model*. I know only a few scripted responses. Connect a real model:\n\n{CONNECT}"
        );
    }
    let words = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = words.chars().filter(|c| !c.is_control()).take(QUOTED_CHARS_MAX).collect();
    format!(
        "You said “{said}”. I am only the demo model, but you can try:\n\n\
         - `what is (2 + 3) * 4?`\n- `what time is it?`\n- `save a note: buy milk`\n- `how do I connect a real model?`\n"
    )
}
