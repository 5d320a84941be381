//! `provost approve`, `deny`, `answer` and `approvals`: what waits for a person, and what they say.

use provost_api::{Answer, Answered, Approval, ApprovalList, Decision, Tally};
use provost_core::lifecycle::{ApprovalState, GrantScope};
use provost_core::{ApprovalId, ErrorKind, RunId, TaskId};

use super::ApiCommand;
use super::listing::ListArgs;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::show::Format;

/// What `approve` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  provost approvals\n  provost approve appr_01…\n  \
                        provost approve appr_01… --for session     the same call is not asked again there")]
pub(crate) struct ApproveArgs {
    /// The question
    approval: ApprovalId,
    /// How far the yes reaches: once, run, session, always
    #[arg(long = "for", value_name = "REACH")]
    reach: Option<GrantScope>,
    #[command(flatten)]
    remote: ConnectionArgs,
}

/// What `deny` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost deny appr_01…\n  provost deny appr_01… --reason \"not on a Friday\""
)]
pub(crate) struct DenyArgs {
    /// The question
    approval: ApprovalId,
    /// Why not; the agent is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    remote: ConnectionArgs,
}

/// What `answer` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  provost answer appr_01… \"the blue one\"")]
pub(crate) struct AnswerArgs {
    /// The question
    approval: ApprovalId,
    /// The answer
    text: String,
    #[command(flatten)]
    remote: ConnectionArgs,
}

/// What `approvals` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost approvals --watch\n  provost approvals --all --task task_01…"
)]
pub(crate) struct ListApprovals {
    /// Also those that are settled
    #[arg(long)]
    all: bool,
    /// Only of this run
    #[arg(long)]
    run: Option<RunId>,
    /// Only of this task
    #[arg(long)]
    task: Option<TaskId>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    remote: ConnectionArgs,
}

impl ApiCommand for ApproveArgs {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let answer = Answer { decision: Decision::Approve, text: None, grant: self.reach };
        settle(cx, self.approval, &answer).await
    }
}

impl ApiCommand for DenyArgs {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let text = self.reason.clone();
        settle(cx, self.approval, &Answer { decision: Decision::Deny, text, grant: None }).await
    }
}

impl ApiCommand for AnswerArgs {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let text = Some(self.text.clone());
        settle(cx, self.approval, &Answer { decision: Decision::Answer, text, grant: None }).await
    }
}

async fn settle(cx: &Connection, id: ApprovalId, answer: &Answer) -> Result<u8, Problem> {
    let Answered { counts, approval } = cx.client.answer(id, answer).await?;
    let sentence = sentence(counts, &approval);
    cx.show.done(&Answered { counts, approval: approval.clone() }, &id.to_string(), &sentence)?;
    if !counts {
        return Ok(ErrorKind::Conflict.exit_code());
    }
    let (run, flags) = (approval.run, cx.flags());
    let is_settled = approval.state != ApprovalState::Pending;
    if is_settled && cx.is_local() && cx.show.format == Format::Table {
        let told = format!("→ `provost runs wait {run}{flags}` goes on with it here");
        cx.show.output.dim(&told);
    }
    Ok(0)
}

/// What an answer did, in one line.
fn sentence(counts: bool, approval: &Approval) -> String {
    let Approval { id, state, request, tally, .. } = approval;
    let call = &request.call.name;
    match (counts, tally) {
        (true, Some(tally)) if *state == ApprovalState::Pending => {
            let Tally { have, needed, .. } = tally;
            format!("{id} {have} of {needed}: {call}; {}", tally.missing())
        }
        (true, _) => format!("{id} {state}: {call}"),
        (false, _) => format!("{id} had been settled before: {state}"),
    }
}

impl ApiCommand for ListApprovals {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let asked = ApprovalList {
            all: self.all.then_some(true),
            run: self.run,
            task: self.task,
            limit: self.list.limit,
            cursor: self.list.cursor.clone(),
            ..ApprovalList::default()
        };
        self.list.run(&cx.show, async || cx.client.approvals(&asked).await).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_vote_that_does_not_decide_says_how_many_are_missing() {
        let mut approval: Approval = serde_json::from_value(json!({
            "id": "appr_01jd0000000000000000000000", "task": "task_01jd0000000000000000000000",
            "run": "run_01jd0000000000000000000000", "kind": "tool", "state": "pending",
            "request": {"id": "appr_01jd0000000000000000000000",
                "call": {"id": "c", "name": "pay", "arguments": "{}"}},
            "plan": {}, "fallback": "deny", "expires": "2026-01-01T00:00:00Z",
            "created": "2026-01-01T00:00:00Z",
            "tally": {"needed": 2, "have": 1, "of": ["ada", "bob", "eve"], "awaited": ["bob", "eve"]},
        }))
        .unwrap();
        let id = approval.id;
        let told = sentence(true, &approval);
        assert_eq!(told, format!("{id} 1 of 2: pay; 1 more of bob, eve must approve"));
        approval.state = ApprovalState::Approved;
        assert_eq!(sentence(true, &approval), format!("{id} approved: pay"));
        let settled = format!("{id} had been settled before: approved");
        assert_eq!(sentence(false, &approval), settled);
        (approval.state, approval.tally) = (ApprovalState::Denied, None);
        assert_eq!(sentence(true, &approval), format!("{id} denied: pay"));
    }
}
