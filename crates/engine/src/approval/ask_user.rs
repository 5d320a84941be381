//! The tool `ask_user`: an agent asks the user a question, and its run is parked until the answer arrives.

use std::time::Duration;

use futures::FutureExt;
use provost_core::ApprovalRequest;
use provost_core::recovery::EffectClass;
use provost_tool::{FnTool, ToolError, ToolSpec, ToolSpecError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The name of the tool.
const ASK_USER: &str = "ask_user";
/// The result of a question that expired.
pub(crate) const NO_ANSWER: &str = "no_answer: the user did not answer in time. Continue without the answer, or state what you need.";

/// Maximum number of questions in one call.
const QUESTIONS_MAX: usize = 3;
/// Number of options of a question that has options.
const OPTIONS: std::ops::RangeInclusive<usize> = 2..=4;
/// Seconds that a question may stay open.
const TIMEOUT_S: std::ops::RangeInclusive<u64> = 30..=3600;

const DESCRIPTION: &str = "Asks the user a question and waits for the answer. Use it if you need information or a decision that \
     only the user can give. The user can always answer with free text.";

/// Arguments of `ask_user`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct AskUserArgs {
    questions: Vec<AskUserQuestion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_s: Option<u64>,
}

/// A question with its possible answers, or an open question.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct AskUserQuestion {
    question: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
}

/// Creates the tool `ask_user`. The run is parked until a user answers or the question expires.
pub fn ask_user() -> Result<FnTool, ToolSpecError> {
    let spec = ToolSpec::new(ASK_USER, DESCRIPTION, schema())?.effect(EffectClass::Pure);
    Ok(FnTool::new(spec, |permit, _cx| {
        let question = permit.parse::<AskUserArgs>().and_then(|arguments| arguments.into_error());
        // The answer becomes the result of the call; the tool itself never continues.
        std::future::ready(Err(question.unwrap_or_else(|error| error))).boxed()
    }))
}

/// Returns the JSON schema of the arguments.
fn schema() -> Value {
    let options = json!({
        "type": "array", "items": {"type": "string"}, "maxItems": OPTIONS.end(),
        "description": "2 to 4 answers to choose from. Omit it for an open question.",
    });
    let question = json!({
        "type": "object", "additionalProperties": false, "required": ["question"],
        "properties": {"question": {"type": "string"}, "options": options},
    });
    json!({
        "type": "object", "additionalProperties": false, "required": ["questions"],
        "properties": {
            "questions": {"type": "array", "items": question, "minItems": 1, "maxItems": QUESTIONS_MAX},
            "timeout_s": {"type": "integer", "minimum": TIMEOUT_S.start(), "maximum": TIMEOUT_S.end()},
        },
    })
}

impl AskUserArgs {
    /// Returns the error that suspends the call until a user answers. Fails for a question with a wrong number of
    /// options.
    fn into_error(self) -> Result<ToolError, ToolError> {
        let wrong = |question: &&AskUserQuestion| {
            !question.options.is_empty() && !OPTIONS.contains(&question.options.len())
        };
        if let Some(question) = self.questions.iter().find(wrong) {
            let count = question.options.len();
            return Err(ToolError::retry(format!("{count} options: give 2 to 4, or none")));
        }
        let texts: Vec<&str> =
            self.questions.iter().map(|question| question.question.as_str()).collect();
        Ok(ToolError::NeedsAnswer { question: texts.join("\n"), payload: Some(json!(self)) })
    }
}

/// Returns the time that a question may stay open. `None` if the request does not set it.
pub(crate) fn answer_timeout(request: &ApprovalRequest) -> Option<Duration> {
    let question = request.payload.as_ref()?.get("timeout_s")?.as_u64()?;
    Some(Duration::from_secs(question.clamp(*TIMEOUT_S.start(), *TIMEOUT_S.end())))
}

/// Returns the result of a question that the user declined.
pub(crate) fn declined_result(reason: &str) -> String {
    match reason {
        "" => "The user declined to answer.".to_owned(),
        reason => format!("The user declined to answer: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: Value) -> Result<ToolError, ToolError> {
        serde_json::from_value::<AskUserArgs>(value).unwrap().into_error()
    }

    #[test]
    fn a_question_is_shown_with_its_options() {
        let colour = json!({"question": "Which colour?", "options": ["red", "blue"]});
        let Ok(ToolError::NeedsAnswer { question, payload }) =
            parsed(json!({"questions": [colour]}))
        else {
            panic!("it asks")
        };
        assert_eq!(question, "Which colour?");
        assert_eq!(payload.unwrap()["questions"][0]["options"][1], "blue");
    }

    #[test]
    fn one_option_is_no_choice() {
        let question = json!({"question": "Which colour?", "options": ["red"]});
        let refused = parsed(json!({"questions": [question]})).unwrap_err();
        assert!(refused.to_string().contains("2 to 4"), "{refused}");
    }

    #[test]
    fn the_tool_can_be_defined() {
        ask_user().unwrap();
    }
}
