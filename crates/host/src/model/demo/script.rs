//! What the demo model says: a pure function of the request.

use provost_core::{Message, Role, ToolResult};
use provost_model::{ChatRequest, ToolChoice};
use serde_json::{Value, json};

/// Characters of a prompt that an answer quotes.
const QUOTED_CHARS_MAX: usize = 60;

/// What the model answers: text, and the calls it asks for.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    /// What it says.
    pub text: String,
    /// Tool names and arguments.
    pub calls: Vec<(&'static str, Value)>,
}

/// How a real model is connected; exact commands.
pub(crate) const CONNECT: &str = "\
```sh
export OPENAI_API_KEY=...       # or ANTHROPIC_API_KEY=...
provost chat

ollama pull llama3.2            # or a model on this machine
provost chat --model ollama/llama3.2

provost chat --model my-model --base-url http://127.0.0.1:8080/v1
```
";

/// Decides what to answer.
pub(crate) fn plan(request: &ChatRequest) -> Answer {
    let asked = request.messages.iter().rposition(|message| message.role == Role::User);
    let Some(asked) = asked else {
        return say("Hello! Say something, and I will show you what an agent does.");
    };
    let prompt = request.messages[asked].text();
    let results: Vec<&ToolResult> =
        request.messages[asked..].iter().flat_map(|message| message.tool_results()).collect();
    let is_first = !request.messages[..asked].iter().any(is_answer);
    if !results.is_empty() {
        return say(report(&results, is_first));
    }
    let mut calls = wanted_calls(&prompt, is_first);
    let offered = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    calls.retain(|(name, _)| offered(name) && request.tool_choice != ToolChoice::None);
    if calls.is_empty() {
        return say(talk(&prompt, is_first));
    }
    Answer { text: introduce(&calls).to_owned(), calls }
}

fn is_answer(message: &std::sync::Arc<Message>) -> bool {
    message.role == Role::Assistant && !message.text().is_empty()
}

fn say(text: impl Into<String>) -> Answer {
    Answer { text: text.into(), calls: Vec::new() }
}

/// The calls a prompt asks for. The very first prompt of a conversation always gets some, as a show.
fn wanted_calls(prompt: &str, is_first: bool) -> Vec<(&'static str, Value)> {
    let lower = prompt.to_lowercase();
    let says = |words: &[&str]| {
        lower.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word))
    };
    if says(&["save", "note", "remember", "write"]) {
        let text = note_text(prompt);
        return vec![("save_note", json!({ "name": slug(&text), "text": text }))];
    }
    let mut calls = Vec::new();
    if says(&["time", "date", "clock", "day", "today", "now"]) {
        calls.push(("clock", json!({})));
    }
    if let Some(expression) = expression(prompt) {
        calls.push(("calculator", json!({ "expression": expression })));
    }
    if calls.is_empty() && is_first && !says(&["connect", "help"]) {
        let words = prompt.split_whitespace().count().max(1);
        let letters = prompt.chars().filter(|c| !c.is_whitespace()).count();
        calls.push(("clock", json!({})));
        let expression = format!("{letters} / {words}");
        calls.push(("calculator", json!({ "expression": expression })));
    }
    calls
}

/// The longest stretch of a prompt that looks like arithmetic: at least two numbers and an operator between them.
fn expression(prompt: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_digit() || " .+-*/^()×÷".contains(c);
    let stretch = prompt
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
    Some(stretch.to_owned())
}

/// What a note should say: what follows a colon, or else the whole prompt.
fn note_text(prompt: &str) -> String {
    let text = match prompt.split_once(':') {
        Some((_, text)) if !text.trim().is_empty() => text,
        _ => prompt,
    };
    text.trim().to_owned()
}

/// A file name from the first words of a text.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.take(4).collect::<Vec<_>>().join("-");
    let cut: String = joined.chars().take(40).collect();
    if cut.is_empty() { "note".to_owned() } else { cut }
}

fn introduce(calls: &[(&'static str, Value)]) -> &'static str {
    match calls {
        [("save_note", _)] => "I will save that; you are asked first.",
        [_] => "Let me use a tool for that.",
        _ => "Let me use two tools at once.",
    }
}

/// The answer once the tools have run.
fn report(results: &[&ToolResult], is_first: bool) -> String {
    let mut text = String::new();
    for result in results {
        let said = result.to_text();
        let line = match (result.name.as_str(), result.is_error) {
            ("save_note", true) => format!("- The note was **not saved**: {said}\n"),
            ("save_note", false) => format!("- The note is there: {said}\n"),
            (name, true) => format!("- The tool `{name}` did not work: {said}\n"),
            ("clock", false) => format!("- The clock says **{said}**.\n"),
            ("calculator", false) => format!("- The calculator says **{said}**.\n"),
            (name, false) => format!("- The tool `{name}` says {said}\n"),
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
        text.push_str("*(demo model; `provost doctor` says how to connect a real one)*\n");
    }
    text
}

/// The answer to a prompt that needs no tools.
fn talk(prompt: &str, is_first: bool) -> String {
    if is_first || prompt.to_lowercase().contains("connect") {
        return format!(
            "I am the built-in *demo model*. I can only play a few scenes. Connect a real model:\n\n{CONNECT}"
        );
    }
    let words = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = words.chars().filter(|c| !c.is_control()).take(QUOTED_CHARS_MAX).collect();
    format!(
        "You said “{said}”. I am only the demo model, but you can try:\n\n\
         - `what is (2 + 3) * 4?`\n- `what time is it?`\n- `save a note: buy milk`\n- `how do I connect a real model?`\n"
    )
}
