//! A handoff: another agent continues the conversation with its own model, tools, hooks and instructions.

use std::sync::Arc;

use provost_core::{AgentHandoff, EventKind};

use super::Driver;
use super::setup::DriverContext;
use crate::context::CompactionResult;
use crate::error::Error;
use crate::handoff::Handoff;
use crate::hook::HookDecision;
use crate::journal::Effect;
use crate::run::{HandoffApplied, JournalEntry, TRANSFER_PREFIX, tool_name_part};
use crate::subagent::missing_agent;

impl Driver {
    /// Performs the requested handoff: prepares the conversation by the history policy and activates the next agent.
    pub(super) async fn handoff(&mut self, to: &str) -> Result<(), Error> {
        let Some(handoff) = self.run.handoff() else {
            return Err(Error::Bug("the state machine has no pending handoff".to_owned()));
        };
        let policy = self.cx.definition.family.handoff(to).map(|handoff| handoff.history.clone());
        let policy = policy.unwrap_or_default();
        self.cx.check_models(policy.model()).await?;
        if let (Some(journal), true) = (&self.cx.journal, policy.model().is_some()) {
            journal.begin_effect(Effect::Compact { turn: self.run.turns() + 1 }).await?;
        }
        let context = self.run.context();
        let fitted = match policy.apply(context, self.now()).await {
            Ok(fitted) => fitted,
            Err(error) => {
                let message = format!("`{to}` gets the whole conversation: {error}");
                self.cx.events.emit(EventKind::Warning { message });
                CompactionResult::messages(context)
            }
        };
        let next = self.cx.for_handoff(to)?;
        let handed = HandoffApplied {
            handoff: handoff.clone(),
            handoff_targets: next.handoff_targets(),
            output: Some(next.output_mode()).filter(|plan| *plan != self.run.config().output),
            messages: self.run.diff_context(&fitted.messages),
            usage: fitted.usage,
            cost: fitted.cost,
            calls_without_usage: fitted.calls_without_usage,
            at: self.now(),
        };
        self.apply_entry(JournalEntry::HandoffApplied(Box::new(handed)))?;
        self.recount();
        self.system = next.instructions(&self.run.config().output).await?;
        self.cx = next;
        self.cx.events.emit(EventKind::HandedOff(Box::new(handoff)));
        Ok(())
    }
}

impl DriverContext {
    /// Returns the reason if a call may not hand the conversation off. Does nothing for other tools.
    pub(super) async fn check_handoff(&self, tool: &str, arguments: &str) -> Result<(), String> {
        let Some(name) = tool.strip_prefix(TRANSFER_PREFIX) else { return Ok(()) };
        let of_tool = |target: &&Handoff| tool_name_part(target.agent.name()) == name;
        let Some(target) = self.definition.family.handoffs.iter().find(of_tool) else {
            return Ok(());
        };
        let agent = &target.agent;
        let Some(definition) = agent.definition() else {
            return Err(missing_agent(agent));
        };
        let mut needs = definition.tools.iter().flat_map(|tool| &tool.spec().deps);
        if let Some(dep) = needs.find(|dep| !self.deps.has(dep)) {
            let (agent, dep) = (agent.name(), dep.name());
            return Err(format!("agent `{agent}` needs a `{dep}`, which this run does not have"));
        }
        let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
        let handoff = AgentHandoff {
            from: self.definition.name.to_string(),
            to: agent.name().to_string(),
            reason: arguments.get("reason").and_then(|reason| reason.as_str()).map(str::to_owned),
        };
        let own = target.check.as_ref().map_or(HookDecision::Allow, |check| check(&handoff));
        let gate = match own {
            HookDecision::Allow => self.hooks.on_handoff(&handoff).await,
            deny => deny,
        };
        match gate {
            HookDecision::Allow => Ok(()),
            HookDecision::Deny(reason) => Err(reason),
        }
    }

    /// Returns the agents to which the active agent may hand off.
    pub(super) fn handoff_targets(&self) -> Vec<Arc<str>> {
        self.definition
            .family
            .handoffs
            .iter()
            .map(|target| Arc::clone(target.agent.name()))
            .collect()
    }
}
