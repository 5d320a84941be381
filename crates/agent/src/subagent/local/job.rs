//! Runs one child from its start to its outcome.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use provost_core::{AgentUsage, EventKind, LimitReached, RunId, StopReason};
use provost_tool::{ToolContext, ToolError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::AgentDefinition;
use crate::budget::UsageBudget;
use crate::driver::DriverContext;
use crate::error::Error;
use crate::hook::SubagentInfo;
use crate::outcome::{RunOutcome, SuspendedRun};
use crate::run_builder::{ChildRunOptions, InheritedContext, Parent, RunBuilder, RunSource};
use crate::subagent::path::ResolvedAgent;
use crate::subagent::{AgentPath, ChildLifetime, ChildStatus, SpawnRequest};
use crate::team::MemberOutcome;

/// The agent of a child, and the settings that it inherits.
pub(super) struct ChildTemplate {
    pub(super) definition: Arc<AgentDefinition>,
    inherited: Arc<InheritedContext>,
    parent: Parent,
}

impl ChildTemplate {
    pub(super) fn resolve(
        parent: &DriverContext,
        call: &ToolContext,
        place: &AgentPath,
    ) -> Result<Self, ToolError> {
        let ResolvedAgent { definition, hooks } =
            parent.definition.resolve(place).map_err(ToolError::Failed)?;
        let inherited = Arc::new(InheritedContext::new(parent, call.call_id(), hooks));
        Ok(Self { definition, inherited, parent: Parent::of_call(call) })
    }
}

/// A child that has not run yet.
pub(super) struct ChildJob {
    pub(super) parent: Arc<DriverContext>,
    pub(super) template: ChildTemplate,
    pub(super) request: SpawnRequest,
    /// The suspended run of a child that continues after an approval.
    pub(super) suspended: Option<SuspendedRun>,
    pub(super) run: RunId,
    pub(super) task_id: Option<String>,
    pub(super) cancel: CancellationToken,
}

/// The result of a child's run.
pub(super) enum ChildOutcome {
    /// The child waits for an approval.
    Suspended(Box<SuspendedRun>),
    Finished(FinishedChild),
}

/// The result of a child that has ended.
pub(super) struct FinishedChild {
    pub(super) status: ChildStatus,
    pub(super) text: String,
    pub(super) error: Option<String>,
    pub(super) limit: Option<LimitReached>,
    pub(super) used: Vec<AgentUsage>,
}

impl ChildJob {
    /// Runs the child. A panic counts as a failure, because the callers that wait for the child must receive its end.
    pub(super) async fn outcome(self) -> ChildOutcome {
        let outcome = AssertUnwindSafe(self.run()).catch_unwind().await;
        outcome.unwrap_or_else(|_panic| {
            ChildOutcome::Finished(FinishedChild::failed("it panicked".to_owned()))
        })
    }

    /// Runs the child with its hooks, and records the end of a team member.
    async fn run(self) -> ChildOutcome {
        let parent = Arc::clone(&self.parent);
        let info = self.info();
        if let Some(info) = &info {
            let hook = pin!(call_hook(&parent, info, parent.hooks.on_subagent_start(info)));
            // A hook that hangs must not delay a cancelled child.
            futures::future::select(hook, pin!(self.cancel.cancelled())).await;
        }
        let started = Instant::now();
        let member = self.request.member().map(str::to_owned);
        let finished = match self.run_to_end().await {
            ChildOutcome::Finished(finished) => finished,
            suspended @ ChildOutcome::Suspended(_) => return suspended,
        };
        let duration = started.elapsed();
        if let Some(name) = member {
            parent.end_member(&name, finished.member_outcome(), duration).await;
        }
        if let Some(info) = info {
            let info = SubagentInfo { result: Some(finished.result()), duration, ..info };
            call_hook(&parent, &info, parent.hooks.on_subagent_stop(&info)).await;
        }
        ChildOutcome::Finished(finished)
    }

    /// Runs the child until it ends or times out.
    async fn run_to_end(self) -> ChildOutcome {
        let (cancel, timeout) = (self.cancel.clone(), self.request.timeout);
        let builder = self.builder();
        let (budget, path) = (builder.budget(), builder.path());
        let mut run = pin!(builder.outcome_of_child());
        let mut timed_out = None;
        let outcome = tokio::select! {
            biased;
            outcome = &mut run => outcome,
            limit = wait_for_timeout(timeout) => {
                timed_out = Some(limit);
                cancel.cancel();
                run.await
            }
        };
        let mut outcome = ChildOutcome::of(outcome, &path, &budget);
        if let (ChildOutcome::Finished(finished), Some(limit)) = (&mut outcome, timed_out)
            && finished.status == ChildStatus::Cancelled
        {
            finished.error = Some(format!("it exceeded its timeout of {} s", limit.as_secs_f64()));
        }
        outcome
    }

    /// Creates the run of the child with the settings that it inherits.
    fn builder(self) -> RunBuilder {
        let Self { parent, template, request, suspended, run, task_id, cancel } = self;
        let membership = parent.relations.membership.as_ref().zip(request.member());
        let options = ChildRunOptions {
            inherited: template.inherited,
            parent: template.parent,
            run,
            cancel,
            task_id,
            max_turns: request.max_turns,
            may_suspend: request.lifetime == ChildLifetime::Call,
            membership: membership.map(|(membership, name)| membership.for_member(name)),
        };
        let source = match suspended {
            Some(suspended) => RunSource::Resume(Box::new(suspended.approve_all())),
            None => RunSource::message(request.task.into()),
        };
        RunBuilder::for_child(&parent, template.definition, source, options)
    }

    /// Returns the data for the subagent hooks. `None` for a child without a task id, which has no such hooks.
    fn info(&self) -> Option<SubagentInfo> {
        Some(SubagentInfo {
            task_id: self.task_id.clone()?,
            agent: self.template.definition.name.to_string(),
            task: self.request.task.clone(),
            result: None,
            duration: Duration::ZERO,
        })
    }
}

/// Waits for the timeout and returns it. Never returns without one.
async fn wait_for_timeout(timeout: Option<Duration>) -> Duration {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
    timeout.unwrap_or_default()
}

impl ChildOutcome {
    /// Converts the outcome of a run. `path` and `budget` provide the usage of runs that do not report it.
    fn of(outcome: Result<RunOutcome, Error>, path: &str, budget: &UsageBudget) -> Self {
        Self::Finished(match outcome {
            Ok(RunOutcome::Suspended(suspended)) => return Self::Suspended(Box::new(suspended)),
            Ok(RunOutcome::Completed(result)) => {
                let parent_limit = || match result.stop {
                    StopReason::Limit => budget.exhausted_parent(),
                    _ => None,
                };
                FinishedChild {
                    status: ChildStatus::Completed,
                    limit: result.limit.clone().or_else(parent_limit),
                    used: usage_or(&result.agents, || AgentUsage {
                        agent: path.to_owned(),
                        turns: result.turns,
                        usage: result.usage,
                        cost: result.cost,
                        unpriced_calls: result.unpriced_calls,
                    }),
                    text: result.output,
                    error: None,
                }
            }
            Ok(RunOutcome::Cancelled(summary)) => FinishedChild {
                status: ChildStatus::Cancelled,
                used: usage_or(&summary.agents, || AgentUsage {
                    agent: path.to_owned(),
                    turns: summary.turns,
                    usage: summary.usage,
                    cost: summary.cost,
                    unpriced_calls: summary.unpriced_calls,
                }),
                text: summary.text,
                error: None,
                limit: None,
            },
            Ok(RunOutcome::Denied { reason }) => FinishedChild::failed(reason),
            Err(error) => {
                let used = vec![budget.used().into_agent_usage(path)];
                FinishedChild { used, ..FinishedChild::failed(error.to_string()) }
            }
        })
    }
}

/// Returns the usage of each agent, or `single` if the run reports none.
fn usage_or(agents: &[AgentUsage], single: impl FnOnce() -> AgentUsage) -> Vec<AgentUsage> {
    if agents.is_empty() { vec![single()] } else { agents.to_vec() }
}

impl FinishedChild {
    fn failed(error: String) -> Self {
        Self {
            status: ChildStatus::Failed,
            text: String::new(),
            error: Some(error),
            limit: None,
            used: Vec::new(),
        }
    }

    /// Returns the response or the error for hooks.
    fn result(&self) -> Result<String, String> {
        match self.status {
            ChildStatus::Completed => Ok(self.text.clone()),
            _ => Err(self.error.clone().unwrap_or_else(|| "it was stopped".to_owned())),
        }
    }

    /// Returns the outcome for the team of the parent run.
    fn member_outcome(&self) -> MemberOutcome {
        match self.status {
            ChildStatus::Completed => MemberOutcome::Completed(match &self.limit {
                Some(reached) => format!(
                    "[incomplete: stopped at its limit of {} {}]\n{}",
                    reached.allowed,
                    reached.limit.as_str(),
                    self.text
                ),
                None => self.text.clone(),
            }),
            ChildStatus::Cancelled => MemberOutcome::Stopped(self.error.clone()),
            ChildStatus::Failed | ChildStatus::Running => {
                MemberOutcome::Failed(self.error.clone().unwrap_or_default())
            }
        }
    }
}

/// Calls a hook. A panic of the hook becomes a warning, because callers wait for the child.
async fn call_hook(parent: &DriverContext, info: &SubagentInfo, hook: impl Future<Output = ()>) {
    if AssertUnwindSafe(hook).catch_unwind().await.is_err() {
        let message = format!("a subagent hook panicked: {}", info.task_id);
        parent.events.emit(EventKind::Warning { message });
    }
}
