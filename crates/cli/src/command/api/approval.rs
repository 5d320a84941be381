//! `provost approval`: lists approval requests and decides them.

use clap::Subcommand;
use provost_api::{Approval, ApprovalQuery, ApprovalReceipt, Decision, DecisionRequest, VoteCount};
use provost_core::lifecycle::{ApprovalState, GrantScope};
use provost_core::{ApprovalId, ErrorKind, RunId, TaskId};

use super::ApiCommand;
use super::listing::ListArgs;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::printer::Format;

const EXAMPLES: &str = "\
Examples:
  provost approval list --watch
  provost approval approve appr_01…
  provost approval approve appr_01… --scope session       also approves the same call later in the session
  provost approval deny appr_01… --reason \"not on a Friday\"
  provost approval reply appr_01… \"the blue one\"";

/// Arguments of `provost approval`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: ApprovalCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

/// Arguments of a command of an earlier version, such as `provost approve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Alias<T: clap::Args> {
    #[command(flatten)]
    args: T,
    #[command(flatten)]
    remote: ConnectionArgs,
}

impl<T: clap::Args + Into<ApprovalCommand>> From<Alias<T>> for Args {
    fn from(alias: Alias<T>) -> Self {
        Self { action: alias.args.into(), remote: alias.remote }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalCommand {
    /// List approval requests, newest first
    #[command(visible_alias = "ls")]
    List(ListApprovals),
    /// Approve a request
    Approve(Approve),
    /// Deny a request
    Deny(Deny),
    /// Answer a question with text
    #[command(alias = "answer")]
    Reply(Reply),
}

/// Arguments of `provost approval list`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost approval list --watch\n  provost approval list --all --task task_01…"
)]
pub(crate) struct ListApprovals {
    /// Include decided and expired requests
    #[arg(long)]
    all: bool,
    /// Only requests of this run
    #[arg(long)]
    run: Option<RunId>,
    /// Only requests of this task
    #[arg(long)]
    task: Option<TaskId>,
    #[command(flatten)]
    list: ListArgs,
}

/// Arguments of `provost approval approve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost approval approve appr_01…\n  provost approval approve appr_01… --scope session"
)]
pub(crate) struct Approve {
    /// Id of the request
    approval: ApprovalId,
    /// Calls that the approval covers: once, run, session, always
    #[arg(long, alias = "for", value_name = "SCOPE")]
    scope: Option<GrantScope>,
}

/// Arguments of `provost approval deny`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost approval deny appr_01…\n  provost approval deny appr_01… --reason \"not on a Friday\""
)]
pub(crate) struct Deny {
    /// Id of the request
    approval: ApprovalId,
    /// Reason, which the agent receives
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Arguments of `provost approval reply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  provost approval reply appr_01… \"the blue one\"")]
pub(crate) struct Reply {
    /// Id of the question
    approval: ApprovalId,
    /// Answer
    text: String,
}

impl From<ListApprovals> for ApprovalCommand {
    fn from(args: ListApprovals) -> Self {
        Self::List(args)
    }
}

impl From<Approve> for ApprovalCommand {
    fn from(args: Approve) -> Self {
        Self::Approve(args)
    }
}

impl From<Deny> for ApprovalCommand {
    fn from(args: Deny) -> Self {
        Self::Deny(args)
    }
}

impl From<Reply> for ApprovalCommand {
    fn from(args: Reply) -> Self {
        Self::Reply(args)
    }
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        match &self.action {
            ApprovalCommand::List(args) => args.run(cx).await,
            ApprovalCommand::Approve(args) => {
                let request =
                    DecisionRequest { decision: Decision::Approve, text: None, grant: args.scope };
                decide(cx, args.approval, &request).await
            }
            ApprovalCommand::Deny(args) => {
                let text = args.reason.clone();
                let request = DecisionRequest { decision: Decision::Deny, text, grant: None };
                decide(cx, args.approval, &request).await
            }
            ApprovalCommand::Reply(args) => {
                let text = Some(args.text.clone());
                let request = DecisionRequest { decision: Decision::Reply, text, grant: None };
                decide(cx, args.approval, &request).await
            }
        }
    }
}

impl ListApprovals {
    async fn run(&self, cx: &Connection) -> Result<u8, CliError> {
        let query = ApprovalQuery {
            all: self.all.then_some(true),
            run: self.run,
            task: self.task,
            limit: self.list.limit,
            cursor: self.list.cursor.clone(),
            ..ApprovalQuery::default()
        };
        self.list.run(&cx.printer, async || cx.client.approvals(&query).await).await
    }
}

/// Sends a decision. The exit code reports a conflict if an earlier decision counts.
async fn decide(
    cx: &Connection,
    id: ApprovalId,
    request: &DecisionRequest,
) -> Result<u8, CliError> {
    let receipt = cx.client.decide_approval(id, request).await?;
    let ApprovalReceipt { accepted, approval } = &receipt;
    cx.printer.print_result(&receipt, &id.to_string(), &decision_text(*accepted, approval))?;
    if !accepted {
        return Ok(ErrorKind::Conflict.exit_code());
    }
    let (run, flags) = (approval.run, cx.flags());
    let is_decided = approval.state != ApprovalState::Pending;
    if is_decided && cx.is_local() && cx.printer.format == Format::Table {
        cx.printer
            .output
            .note(&format!("→ `provost run wait {run}{flags}` continues the run here"));
    }
    Ok(0)
}

/// Describes the effect of a decision in one line.
fn decision_text(accepted: bool, approval: &Approval) -> String {
    let Approval { id, state, request, vote_count, .. } = approval;
    let call = &request.call.name;
    match (accepted, vote_count) {
        (true, Some(votes)) if *state == ApprovalState::Pending => {
            let VoteCount { approved, required, .. } = votes;
            format!("{id} {approved} of {required}: {call}; {}", votes.describe_missing())
        }
        (true, _) => format!("{id} {state}: {call}"),
        (false, _) => format!("{id} was already decided: {state}"),
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
        let text = decision_text(true, &approval);
        assert_eq!(text, format!("{id} 1 of 2: pay; 1 more of bob, eve must approve"));
        approval.state = ApprovalState::Approved;
        assert_eq!(decision_text(true, &approval), format!("{id} approved: pay"));
        let settled = format!("{id} was already decided: approved");
        assert_eq!(decision_text(false, &approval), settled);
        (approval.state, approval.vote_count) = (ApprovalState::Denied, None);
        assert_eq!(decision_text(true, &approval), format!("{id} denied: pay"));
    }
}
