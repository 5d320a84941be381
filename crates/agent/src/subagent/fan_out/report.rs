//! The result of a fan-out, as JSON for the model.

use provost_core::text::first_bytes;
use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;
use serde::Serialize;

use crate::subagent::{ChildReport, ChildStatus};

#[derive(Serialize)]
struct FanOutReport<'a> {
    results: Vec<TaskReport<'a>>,
    completed: usize,
    /// Number of tasks that stopped at a limit.
    #[serde(skip_serializing_if = "is_zero")]
    partial: usize,
    failed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize)]
struct TaskReport<'a> {
    /// Number of the task, from 1.
    item: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    status: FanOutTaskStatus,
    /// The response, possibly shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum FanOutTaskStatus {
    Completed,
    /// The task stopped at a limit.
    Partial,
    Running,
    Failed,
    Cancelled,
}

/// Returns the report of all tasks as JSON, cut to the maximum size of a tool output.
///
/// The JSON is always complete. The first step omits the tasks, which the model knows; further steps shorten each
/// entry.
pub(super) fn report_text(tasks: &[String], ended: &[ChildReport]) -> serde_json::Result<String> {
    let mut text = full_report(tasks, ended)?;
    let mut share = TOOL_OUTPUT_BYTES_MAX / ended.len().max(1);
    while text.len() > TOOL_OUTPUT_BYTES_MAX {
        text = cut_to(share, ended)?;
        if share == 0 {
            break;
        }
        share /= 2;
    }
    Ok(text)
}

/// Returns one entry per task, in order. A failed task does not fail the call.
fn full_report(tasks: &[String], ended: &[ChildReport]) -> serde_json::Result<String> {
    let tasks = tasks.iter().map(|task| Some(task.as_str()));
    let entry = |(index, (task, report))| TaskReport { task, ..TaskReport::of(index, report) };
    let results = tasks.zip(ended).enumerate().map(entry).collect();
    serde_json::to_string(&FanOutReport::of(results, None))
}

/// Returns the entries without the tasks and with at most `share` bytes of each result.
fn cut_to(share: usize, ended: &[ChildReport]) -> serde_json::Result<String> {
    let note = format!(
        "all results together were too long: each was cut to {share} bytes; give fewer tasks at once to see more"
    );
    let entry = |(index, report)| TaskReport::of(index, report).cut_to(share);
    let results = ended.iter().enumerate().map(entry).collect();
    serde_json::to_string(&FanOutReport::of(results, Some(note)))
}

impl<'a> FanOutReport<'a> {
    fn of(results: Vec<TaskReport<'a>>, note: Option<String>) -> Self {
        let count = |status| results.iter().filter(|result| result.status == status).count();
        let (completed, partial) =
            (count(FanOutTaskStatus::Completed), count(FanOutTaskStatus::Partial));
        Self { completed, partial, failed: results.len() - completed - partial, results, note }
    }
}

impl TaskReport<'_> {
    fn of(index: usize, report: &ChildReport) -> Self {
        let status = match (report.status, &report.limit) {
            (ChildStatus::Completed, None) => FanOutTaskStatus::Completed,
            (ChildStatus::Completed, Some(_)) => FanOutTaskStatus::Partial,
            (ChildStatus::Running, _) => FanOutTaskStatus::Running,
            (ChildStatus::Failed, _) => FanOutTaskStatus::Failed,
            (ChildStatus::Cancelled, _) => FanOutTaskStatus::Cancelled,
        };
        let has_answer = report.status == ChildStatus::Completed;
        Self {
            item: index + 1,
            task: None,
            status,
            result: has_answer.then(|| report.to_model_text()),
            error: (!has_answer).then(|| report.failure_text()),
        }
    }

    fn cut_to(mut self, share: usize) -> Self {
        for text in [&mut self.result, &mut self.error].into_iter().flatten() {
            text.truncate(first_bytes(text, share).len());
        }
        self
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use provost_core::{Env, LimitKind, LimitReached};
    use serde_json::{Value, json};

    use super::*;

    fn report(status: ChildStatus, text: &str) -> ChildReport {
        ChildReport {
            run: Env::simulated(1).id(),
            task_id: None,
            agent: "child".into(),
            status,
            text: text.to_owned(),
            error: None,
            limit: None,
            used: Vec::new(),
        }
    }

    #[test]
    fn every_text_is_whole_json() {
        let texts = ["", "plain", "\"quoted\" \\ and\nlines\u{1}\u{7f}", "ä \u{2028} 🙂", "tab\t"];
        let tasks: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let ended: Vec<_> = texts.iter().map(|text| report(ChildStatus::Completed, text)).collect();
        let told: Value = serde_json::from_str(&full_report(&tasks, &ended).unwrap()).unwrap();
        for (index, text) in texts.iter().enumerate() {
            let item = json!({
                "item": index + 1, "task": text, "status": "completed", "result": text,
            });
            assert_eq!(told["results"][index], item);
        }
        assert_eq!((&told["completed"], &told["failed"]), (&json!(5), &json!(0)));
        assert!(told.get("partial").is_none() && told.get("note").is_none());
    }

    #[test]
    fn what_gave_no_whole_answer_says_so() {
        let reached =
            LimitReached { limit: LimitKind::Turns, allowed: "1".into(), used: "1".into() };
        let part = ChildReport { limit: Some(reached), ..report(ChildStatus::Completed, "a part") };
        let error = Some("no \"way\"".to_owned());
        let failed = ChildReport { error, ..report(ChildStatus::Failed, "") };
        let ended = [part, failed, report(ChildStatus::Cancelled, "")];
        let told: Value = serde_json::from_str(&cut_to(6, &ended).unwrap()).unwrap();
        let item = |item: u32, status: &str, key: &str, text: &str| json!({ "item": item, "status": status, key: text });
        let results = json!([
            item(1, "partial", "result", "[child"),
            item(2, "failed", "error", "child "),
            item(3, "cancelled", "error", "child "),
        ]);
        assert_eq!(told["results"], results);
        let counts = (&told["completed"], &told["partial"], &told["failed"]);
        assert_eq!(counts, (&json!(0), &json!(1), &json!(2)));
        assert!(told["note"].as_str().unwrap().contains("cut to 6 bytes"));
    }
}
