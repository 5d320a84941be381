//! What came of many tasks, as the JSON that the model reads.
//!
//! It is written by hand: of a thousand entries most bytes are the same few words, and the run does nothing else meanwhile.

use std::borrow::Cow;
use std::fmt::Write;

use crate::child::{ChildReport, ChildStatus};

/// Bytes of an entry besides the texts in it, for the first guess.
const ENTRY_BYTES: usize = 64;

/// One entry for each task, in their order; a failure is the item's, never the call's.
pub(super) fn whole(tasks: &[String], ended: &[ChildReport]) -> serde_json::Result<String> {
    let tasks = tasks.iter().map(|task| Some(task.as_str()));
    written(tasks.zip(ended), usize::MAX, None)
}

/// The same without the tasks and with at most so many bytes of each result.
pub(super) fn cut_to(share: usize, ended: &[ChildReport]) -> serde_json::Result<String> {
    let note = format!(
        "all results together were too long: each was cut to {share} bytes; give fewer tasks at once to see more"
    );
    written(ended.iter().map(|report| (None, report)), share, Some(&note))
}

fn written<'a>(
    each: impl Iterator<Item = (Option<&'a str>, &'a ChildReport)> + Clone,
    share: usize,
    note: Option<&str>,
) -> serde_json::Result<String> {
    let bytes = |(task, report): (Option<&str>, &ChildReport)| {
        ENTRY_BYTES + task.map_or(0, str::len) + report.text.len().min(share)
    };
    let mut out = String::with_capacity(each.clone().map(bytes).sum());
    // Those that gave their answer, those that stopped at a limit with a part of it, and all others.
    let (mut completed, mut partial, mut failed) = (0, 0, 0);
    out.push_str("{\"results\":[");
    for (index, (task, report)) in each.enumerate() {
        let came_to = CameTo::of(report);
        *match came_to.status {
            COMPLETED => &mut completed,
            PARTIAL => &mut partial,
            _ => &mut failed,
        } += 1;
        out.push_str(if index == 0 { "{\"item\":" } else { ",{\"item\":" });
        number(&mut out, index + 1);
        if let Some(task) = task {
            out.push_str(",\"task\":");
            string(&mut out, task)?;
        }
        out.push_str(",\"status\":\"");
        out.push_str(came_to.status);
        out.push_str(if came_to.is_answer { "\",\"result\":" } else { "\",\"error\":" });
        string(&mut out, &came_to.text[..came_to.text.floor_char_boundary(share)])?;
        out.push('}');
    }
    out.push_str("],\"completed\":");
    number(&mut out, completed);
    if partial > 0 {
        out.push_str(",\"partial\":");
        number(&mut out, partial);
    }
    out.push_str(",\"failed\":");
    number(&mut out, failed);
    if let Some(note) = note {
        out.push_str(",\"note\":");
        string(&mut out, note)?;
    }
    out.push('}');
    Ok(out)
}

/// What came of one task.
struct CameTo<'a> {
    status: &'static str,
    /// True for an answer, or a part of one; else the text says what went wrong.
    is_answer: bool,
    text: Cow<'a, str>,
}

const COMPLETED: &str = "completed";
/// Its run stopped at a limit.
const PARTIAL: &str = "partial";

impl<'a> CameTo<'a> {
    fn of(report: &'a ChildReport) -> Self {
        let problem = |status| Self { status, is_answer: false, text: report.problem().into() };
        match (report.status, &report.limit) {
            (ChildStatus::Completed, None) => {
                Self { status: COMPLETED, is_answer: true, text: (&*report.text).into() }
            }
            (ChildStatus::Completed, Some(_)) => {
                Self { status: PARTIAL, is_answer: true, text: report.told().into() }
            }
            (ChildStatus::Running, _) => problem("running"),
            (ChildStatus::Failed, _) => problem("failed"),
            (ChildStatus::Cancelled, _) => problem("cancelled"),
        }
    }
}

fn number(out: &mut String, number: usize) {
    // Writing to a text cannot fail.
    let _written = write!(out, "{number}");
}

fn string(out: &mut String, text: &str) -> serde_json::Result<()> {
    let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    if text.bytes().any(is_special) {
        out.push_str(&serde_json::to_string(text)?);
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use provost_core::{Env, LimitKind, LimitReached};
    use serde_json::{Value, json};

    use super::*;

    fn report(status: ChildStatus, text: &str) -> ChildReport {
        ChildReport {
            run: Env::simulated(1).id(),
            label: None,
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
        let told: Value = serde_json::from_str(&whole(&tasks, &ended).unwrap()).unwrap();
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
