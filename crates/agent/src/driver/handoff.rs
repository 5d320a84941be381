//! Another agent goes on with the conversation: its model, tools, hooks and instructions from here on.

use std::sync::Arc;

use provost_core::{EventKind, HandOff};

use super::Driver;
use super::setup::Cx;
use crate::context::Fitted;
use crate::error::Error;
use crate::hook::Gate;
use crate::journal::Effect;
use crate::run::{Feed, HandedOff, TRANSFER_PREFIX, tool_part};

impl Driver {
    pub(super) async fn hand_off(&mut self, to: &str) -> Result<(), Error> {
        let Some(hand_off) = self.run.hand_off() else {
            return Err(Error::Bug("a hand-off that nobody asked for".to_owned()));
        };
        let policy = self.cx.core.family.hand_off(to).map(|(_, terms)| terms.history.clone());
        let policy = policy.unwrap_or_default();
        self.cx.check_models(policy.model()).await?;
        if let (Some(journal), true) = (&self.cx.journal, policy.model().is_some()) {
            journal.begin(Effect::Compact { turn: self.run.turns() + 1 }).await?;
        }
        let context = self.run.context();
        let fitted = match policy.apply(context, self.now()).await {
            Ok(fitted) => fitted,
            Err(error) => {
                let message = format!("`{to}` gets the whole conversation: {error}");
                self.cx.queue.emit(EventKind::Warning { message });
                Fitted::messages(context)
            }
        };
        let next = self.cx.handed_to(to)?;
        let handed = HandedOff {
            hand_off: hand_off.clone(),
            transfers: next.transfers(),
            output: Some(next.output_plan()).filter(|plan| *plan != self.run.config().output),
            messages: self.run.pieces(&fitted.messages),
            usage: fitted.usage,
            cost: fitted.cost,
            unmetered_calls: fitted.unmetered_calls,
            at: self.now(),
        };
        self.feed(Feed::HandedOff(Box::new(handed)))?;
        self.recount();
        self.system = next.instructions(&self.run.config().output).await?;
        self.cx = next;
        self.cx.queue.emit(EventKind::HandedOff(Box::new(hand_off)));
        Ok(())
    }
}

impl Cx {
    /// Whether a call that gives the conversation away may do so; the reason, if not.
    pub(super) async fn check_hand_off(&self, tool: &str, arguments: &str) -> Result<(), String> {
        let Some(name) = tool.strip_prefix(TRANSFER_PREFIX) else { return Ok(()) };
        let of_tool = |(agent, _): &&(_, _)| {
            let agent: &crate::subagent::AgentRef = agent;
            tool_part(agent.name()) == name
        };
        let Some((agent, terms)) = self.core.family.hand_offs.iter().find(of_tool) else {
            return Ok(());
        };
        let Some(core) = agent.core() else {
            return Err(format!("agent `{}` was promised and never given", agent.name()));
        };
        let mut needs = core.tools.iter().flat_map(|tool| &tool.spec().deps);
        if let Some(dep) = needs.find(|dep| !self.deps.has(dep)) {
            let (agent, dep) = (agent.name(), dep.name());
            return Err(format!("agent `{agent}` needs a `{dep}`, which this run does not have"));
        }
        let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
        let hand_off = HandOff {
            from: self.core.name.to_string(),
            to: agent.name().to_string(),
            reason: arguments.get("reason").and_then(|reason| reason.as_str()).map(str::to_owned),
        };
        let own = terms.check.as_ref().map_or(Gate::Allow, |check| check(&hand_off));
        let gate = match own {
            Gate::Allow => self.hooks.on_hand_off(&hand_off).await,
            deny => deny,
        };
        match gate {
            Gate::Allow => Ok(()),
            Gate::Deny(reason) => Err(reason),
        }
    }

    /// The agents that the active one may give the conversation to.
    pub(super) fn transfers(&self) -> Vec<Arc<str>> {
        self.core.family.hand_offs.iter().map(|(agent, _)| Arc::clone(agent.name())).collect()
    }
}
