//! Builds the context of the active agent, at the start of a run and at each handoff.

use std::sync::{Arc, Weak};

use provost_tool::{Guard, RunContext};
use tokio::sync::OnceCell;

use super::{DriverContext, RunRelations, RunShared};
use crate::agent::AgentDefinition;
use crate::approval::ApprovalMode;
use crate::driver::session::RunSession;
use crate::error::Error;
use crate::hook::{Hook, HookChain};
use crate::run::{Run, TRANSFER_PREFIX, tool_name_part};
use crate::subagent::{AgentPathSegment, ChildSpawnerHandle, HookInheritance};
use crate::team::Team;

impl RunRelations {
    /// Returns the relations of the agent that becomes active. Keeps the children and the team of the agent before it.
    fn of_agent(self, definition: &AgentDefinition, shared: &RunShared) -> Self {
        let Self { local, hops, .. } = &self;
        let open = |team: &Team| {
            team.open(shared.run_id, definition.family.mailbox.as_ref(), &shared.state, &shared.env)
        };
        let membership = self.membership.clone().or_else(|| shared.options.membership.clone());
        let membership = membership.or_else(|| definition.family.team.as_ref().map(open));
        let membership = membership.map(|membership| membership.for_run(shared.run_id));
        // Children are possible also if only a handoff target has them: they end with the run.
        let may_have_children =
            definition.family.has_children() || !definition.family.handoffs.is_empty();
        let (local, children) = match (&shared.options.spawner, local) {
            (Some(children), local) => {
                let host =
                    ChildSpawnerHandle::new(Arc::clone(children)).after_handoffs(hops.clone());
                (local.clone(), (may_have_children || membership.is_some()).then_some(host))
            }
            (None, None) if !may_have_children => (None, None),
            (None, local) => {
                let local = local.clone().unwrap_or_default();
                let host = ChildSpawnerHandle::new(Arc::new(local.clone()));
                (Some(local), Some(host))
            }
        };
        Self { local, children, hops: self.hops, membership }
    }

    /// Sets the agent context that the spawner and the team membership refer to.
    fn bind(&self, cx: &Weak<DriverContext>) {
        if let Some(local) = &self.local {
            local.set_parent(Weak::clone(cx));
        }
        if let Some(membership) = &self.membership {
            membership.bind(Weak::clone(cx));
        }
    }
}

impl DriverContext {
    /// Builds the context of the run's root agent.
    pub(super) fn of_run(shared: RunShared) -> Arc<Self> {
        let definition = Arc::clone(&shared.root);
        Self::of_agent(
            Arc::new(shared),
            definition,
            HookInheritance::Inherit,
            RunRelations::default(),
        )
    }

    /// Builds the context of an agent of the run.
    fn of_agent(
        shared: Arc<RunShared>,
        definition: Arc<AgentDefinition>,
        hooks_of: HookInheritance,
        before: RunRelations,
    ) -> Arc<Self> {
        let relations = before.of_agent(&definition, &shared);
        let RunShared { root, options, .. } = &*shared;
        let is_root = Arc::ptr_eq(root, &definition);
        let mut deps = options.deps.clone();
        if let Some(membership) = &relations.membership {
            deps = deps.with(membership.clone());
        }
        if let Some(children) = &relations.children {
            deps = deps.with(children.clone());
        }
        let agent = options.path(&definition.name);
        let context = RunContext {
            run_id: shared.run_id,
            agent: Arc::clone(&agent),
            turn: 0,
            task_id: options.task_id.clone(),
            session: RunSession::of_run(options, root),
            deps: deps.clone(),
            state: shared.state.clone(),
        };
        // The model and settings of a run apply only to its root agent.
        let model = options.model.clone().filter(|_| is_root);
        let settings = options.settings.clone().filter(|_| is_root);
        let hooks =
            HookChain::new(hooks(&shared, &definition, hooks_of), context, root.env.clone());
        let cx = Arc::new(Self {
            agent,
            model: model.unwrap_or_else(|| Arc::clone(&definition.model)),
            settings: settings.unwrap_or_else(|| definition.settings.clone()),
            tools: definition.tools.iter().chain(&options.tools).cloned().collect(),
            hooks,
            shared_guard: guard(&shared, &definition),
            guard: OnceCell::new(),
            on_approval: on_approval(&shared, &definition),
            deps,
            relations,
            definition,
            shared,
        });
        cx.relations.bind(&Arc::downgrade(&cx));
        cx
    }
}

/// Returns the approval mode: of the run, the agent or the root agent, in this order. Without a reader, interactive
/// approvals are denied.
fn on_approval(shared: &RunShared, definition: &AgentDefinition) -> ApprovalMode {
    let RunShared { root, options, events, .. } = shared;
    let given = options.on_approval.as_ref().or(definition.on_approval.as_ref());
    match given.or(root.on_approval.as_ref()).cloned().unwrap_or_default() {
        // The events of this run are discarded, so a reader cannot decide.
        ApprovalMode::Interactive if events.discards_events() => ApprovalMode::Deny,
        answers => answers,
    }
}

/// Combines the guards of the agent and all its ancestors: neither a handoff nor a child run escapes a policy.
fn guard(shared: &RunShared, definition: &Arc<AgentDefinition>) -> Guard {
    let mut guard = definition.guard.clone();
    if !Arc::ptr_eq(&shared.root, definition) {
        guard = guard.inherit_from(&shared.root.guard);
    }
    if let Some(inherited) = &shared.options.inherited {
        guard = guard.inherit_from(&inherited.guard);
    }
    match &shared.options.guard_services {
        Some(services) => guard.with_services(Arc::clone(services)),
        None => guard,
    }
}

/// Returns the hooks of the run, in call order.
fn hooks(
    shared: &RunShared,
    definition: &Arc<AgentDefinition>,
    hooks_of: HookInheritance,
) -> Vec<Arc<dyn Hook>> {
    let RunShared { root, options, .. } = shared;
    let inherited = options.inherited.as_ref();
    let mut hooks: Vec<_> = inherited.map(|above| above.hooks.clone()).unwrap_or_default();
    let own = inherited.is_none_or(|above| above.own_hooks);
    let is_root = Arc::ptr_eq(root, definition);
    if own && (is_root || hooks_of == HookInheritance::Inherit) {
        hooks.extend(root.hooks.iter().cloned());
    }
    if own && !is_root && hooks_of != HookInheritance::None {
        hooks.extend(definition.hooks.iter().cloned());
    }
    hooks.extend(options.hooks.iter().cloned());
    hooks
}

impl DriverContext {
    /// Builds the context of the same run for another agent, which the active agent names as a handoff target. Returns
    /// an error if the agent is not defined or not valid in this run.
    pub(crate) fn for_handoff(&self, to: &str) -> Result<Arc<Self>, Error> {
        let hop = AgentPathSegment::Handoff { agent: to.to_owned() };
        let found = self.definition.resolve(std::slice::from_ref(&hop)).map_err(Error::Start)?;
        let root = &self.root;
        let definition = match Arc::ptr_eq(root, &found.definition) {
            true => found.definition,
            // The caller's output type and limits still apply, whichever agent responds.
            false => Arc::new(AgentDefinition {
                output: root.output.clone(),
                output_retries: root.output_retries,
                execute_tools: root.execute_tools,
                on_limit: root.on_limit.clone(),
                ..AgentDefinition::clone(&found.definition)
            }),
        };
        let relations = RunRelations {
            hops: self.relations.hops.iter().cloned().chain([hop]).collect(),
            ..self.relations.clone()
        };
        let next = Self::of_agent(Arc::clone(&self.shared), definition, found.hooks, relations);
        next.validate()?;
        next.events.set_agent(&next.agent);
        Ok(next)
    }

    /// Repeats the handoffs of a stored run, so that its active agent is active again.
    pub(super) fn after_handoffs(self: &Arc<Self>, run: &Run) -> Result<Arc<Self>, Error> {
        let mut cx = Arc::clone(self);
        for to in run.handoffs() {
            cx = cx.for_handoff(to)?;
        }
        Ok(cx)
    }

    /// Returns true if the tool hands the conversation off.
    pub(crate) fn hands_off(&self, tool: &str) -> bool {
        let name = tool.strip_prefix(TRANSFER_PREFIX);
        let of_tool = |name| self.handoff_targets().iter().any(|to| tool_name_part(to) == name);
        name.is_some_and(of_tool)
    }
}
