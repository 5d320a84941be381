//! What all parts of a driver share, joined from what the agent and the run give; again whenever the conversation changes
//! hands.

use std::sync::{Arc, Weak};

use provost_core::RunId;
use provost_tool::{Guard, State};
use tokio::sync::OnceCell;

use super::Cx;
use crate::agent::AgentCore;
use crate::approval::OnApproval;
use crate::child::local::LocalSpawner;
use crate::child::{ChildHost, HooksFor, Hop};
use crate::drive::session::BoundSession;
use crate::error::Error;
use crate::handle::Control;
use crate::hook::{Hook, HookCx, Hooks};
use crate::pot::Pot;
use crate::request::RunOptions;
use crate::run::{Run, TRANSFER_PREFIX, tool_part};
use crate::stream::EventQueue;
use crate::team::{Seat, Team};

/// What a [`Cx`] is made of.
pub(super) struct Parts {
    pub(super) root: Arc<AgentCore>,
    pub(super) core: Arc<AgentCore>,
    /// Whose hooks see what the agent does, where it is not the run's first one.
    pub(super) hooks_of: HooksFor,
    pub(super) run_id: RunId,
    pub(super) state: State,
    pub(super) options: RunOptions,
    pub(super) queue: Arc<EventQueue>,
    pub(super) control: Arc<Control>,
    pub(super) pot: Arc<Pot>,
    pub(super) local: Option<LocalSpawner>,
    /// How the conversation came from the run's own agent to this one.
    pub(super) hops: Vec<Hop>,
    pub(super) seat: Option<Seat>,
}

impl Parts {
    pub(super) fn join(mut self) -> Arc<Cx> {
        self.seat = self.seat();
        // Also where only an agent that the conversation may go to has any: what it starts ends with the run.
        let may_have_children =
            self.core.family.has_children() || !self.core.family.hand_offs.is_empty();
        if self.local.is_none() && !may_have_children && self.seat.is_none() {
            return Arc::new(self.joined(None));
        }
        Arc::new_cyclic(|cx| {
            self.seat = self.seat.map(|seat| seat.taken(self.run_id, Weak::clone(cx)));
            let parts = match (&self.local, &self.options.children) {
                (None, None) if may_have_children => {
                    let local = Some(LocalSpawner::new(Weak::clone(cx)));
                    Self { local, ..self }
                }
                _ => self,
            };
            let host = match (&parts.options.children, &parts.local) {
                (Some(children), _) => {
                    Some(ChildHost::new(Arc::clone(children)).after(parts.hops.clone()))
                }
                (None, Some(local)) => {
                    local.set_parent(Weak::clone(cx));
                    Some(ChildHost::new(Arc::new(local.clone())))
                }
                (None, None) => None,
            };
            parts.joined(host)
        })
    }

    fn joined(self, children: Option<ChildHost>) -> Cx {
        let is_root = Arc::ptr_eq(&self.root, &self.core);
        let (hooks, guard) = (self.hooks(), self.guard());
        let Self {
            root, core, run_id, state, options, queue, control, pot, local, hops, seat, ..
        } = self;
        let mut deps = options.deps.clone();
        if let Some(seat) = &seat {
            deps = deps.with(seat.clone());
        }
        if let Some(children) = &children {
            deps = deps.with(children.clone());
        }
        let agent = options.path(&core.name);
        let label = options.label.clone();
        let hook_cx = HookCx {
            run_id,
            agent: Arc::clone(&agent),
            task_id: label,
            session: BoundSession::of_run(&options, &root),
            deps: deps.clone(),
            state: state.clone(),
        };
        // What the run gives in place of its agent's is not meant for other agents.
        let model = options.model.clone().filter(|_| is_root);
        let settings = options.settings.clone().filter(|_| is_root);
        let on_approval = options.on_approval.clone();
        let on_approval =
            on_approval.or_else(|| core.on_approval.clone()).or_else(|| root.on_approval.clone());
        Cx {
            run_id,
            agent,
            depth: options.parent.as_ref().map_or(0, |parent| parent.depth + 1),
            model: model.unwrap_or_else(|| Arc::clone(&core.model)),
            settings: settings.unwrap_or_else(|| core.settings.clone()),
            tools: core.tools.iter().chain(&options.tools).cloned().collect(),
            hooks: Hooks::new(hooks, hook_cx, root.env.clone()),
            shared_guard: guard,
            guard: OnceCell::new(),
            on_approval: match on_approval.unwrap_or_default() {
                // Nobody reads the events of this run, so nobody can answer them.
                OnApproval::Events if queue.is_unread() => OnApproval::Deny,
                answers => answers,
            },
            deps,
            state,
            started_at: root.env.now(),
            env: root.env.clone(),
            queue,
            control,
            pot,
            journal: options.journal.clone(),
            children,
            local,
            hops,
            seat,
            core,
            root,
            options,
        }
    }

    /// The run's place in a team: the one it has or was given, else that of the lead of its own.
    fn seat(&self) -> Option<Seat> {
        let given = self.seat.clone().or_else(|| self.options.seat.clone());
        let family = &self.core.family;
        let open = |team: &Team| {
            team.open(self.run_id, family.mailbox.as_ref(), &self.state, &self.root.env)
        };
        given.or_else(|| family.team.as_ref().map(open))
    }

    /// What the agent asks of calls, and everybody above it: nobody gets rid of what governs a run by handing it over or
    /// starting another one.
    fn guard(&self) -> Guard {
        let mut guard = self.core.guard.clone();
        if !Arc::ptr_eq(&self.root, &self.core) {
            guard = guard.within(&self.root.guard);
        }
        match &self.options.inherited {
            Some(above) => guard.within(&above.guard),
            None => guard,
        }
    }

    /// The hooks of the run, in the order they are asked.
    fn hooks(&self) -> Vec<Arc<dyn Hook>> {
        let above = self.options.inherited.as_ref();
        let mut hooks: Vec<_> = above.map(|above| above.hooks.clone()).unwrap_or_default();
        let own = above.is_none_or(|above| above.own_hooks);
        let is_root = Arc::ptr_eq(&self.root, &self.core);
        if own && (is_root || self.hooks_of == HooksFor::Inherit) {
            hooks.extend(self.root.hooks.iter().cloned());
        }
        if own && !is_root && self.hooks_of != HooksFor::None {
            hooks.extend(self.core.hooks.iter().cloned());
        }
        hooks.extend(self.options.hooks.iter().cloned());
        hooks
    }
}

impl Cx {
    /// The same run in the hands of another agent that the active one names.
    pub(crate) fn handed_to(&self, to: &str) -> Result<Arc<Self>, Error> {
        let hop = Hop::HandOff { agent: to.to_owned() };
        let found = self.core.below(std::slice::from_ref(&hop)).map_err(Error::Start)?;
        let root = &self.root;
        let core = match Arc::ptr_eq(root, &found.core) {
            true => found.core,
            // The answer is what the run was asked for, whoever gives it.
            false => Arc::new(AgentCore {
                output: root.output.clone(),
                output_retries: root.output_retries,
                execute_tools: root.execute_tools,
                ask_limit: root.ask_limit.clone(),
                ..AgentCore::clone(&found.core)
            }),
        };
        let parts = Parts {
            root: Arc::clone(root),
            core,
            hooks_of: found.hooks,
            run_id: self.run_id,
            state: self.state.clone(),
            options: self.options.clone(),
            queue: Arc::clone(&self.queue),
            control: Arc::clone(&self.control),
            pot: Arc::clone(&self.pot),
            local: self.local.clone(),
            hops: self.hops.iter().cloned().chain([hop]).collect(),
            seat: self.seat.clone(),
        };
        let next = parts.join();
        next.check()?;
        next.queue.set_agent(&next.agent);
        Ok(next)
    }

    /// The same run in the hands of whoever had it when it was stored.
    pub(super) fn handed_along(self: &Arc<Self>, run: &Run) -> Result<Arc<Self>, Error> {
        let mut cx = Arc::clone(self);
        for to in run.handed_to() {
            cx = cx.handed_to(to)?;
        }
        Ok(cx)
    }

    /// True for a tool by which the conversation is given away.
    pub(crate) fn gives_away(&self, tool: &str) -> bool {
        let name = tool.strip_prefix(TRANSFER_PREFIX);
        let of_tool = |name| self.transfers().iter().any(|to| tool_part(to) == name);
        name.is_some_and(of_tool)
    }
}
