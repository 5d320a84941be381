//! The builder of agents.

use std::sync::{Arc, Weak};

use provost_core::text::first_chars;
use provost_core::usage::limits::{NAME_CHARS_MAX, OUTPUT_RETRIES_DEFAULT, PARALLEL_TOOLS_DEFAULT};
use provost_core::{Env, Limits};
use provost_model::{ChatModel, ModelSettings};
use provost_session::SessionStore;
use provost_session::shared_state::StateStore;
use provost_tool::{Guard, GuardServices, RuleDecision, RuleInput, RunContext, Tool, Toolset};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Map;

use crate::agent::output::{OutputSpec, parse};
use crate::agent::reference::AgentRef;
use crate::agent::{Agent, AgentDefinition};
use crate::approval::ApprovalMode;
use crate::context::ContextConfig;
use crate::error::BuildError;
use crate::handoff::{Handoff, MAX_HANDOFFS_DEFAULT};
use crate::hook::Hook;
use crate::instructions::{Instructions, PromptError, Template};
use crate::on_limit::OnLimit;
use crate::subagent::{FanOut, Subagent, task_tools};
use crate::team::{Mailbox, Team};

/// Builds an agent. [`build`](Self::build) checks everything that can be checked before a run.
#[must_use = "call `.build()` to get the agent"]
pub struct AgentBuilder<O = String> {
    definition: AgentDefinition,
    decode: fn(&str) -> Result<O, String>,
    problem: Option<BuildError>,
}

impl AgentBuilder {
    pub(crate) fn new(name: String, model: Arc<dyn ChatModel>) -> Self {
        let definition = AgentDefinition {
            origin: None,
            name: name.into(),
            model,
            instructions: Instructions::None,
            tools: Vec::new(),
            toolsets: Vec::new(),
            guard: Guard::default(),
            hooks: Vec::new(),
            settings: ModelSettings::default(),
            limits: Limits::default(),
            on_limit: OnLimit::Stop,
            parallel_tools: PARALLEL_TOOLS_DEFAULT,
            execute_tools: true,
            on_approval: None,
            context: None,
            output: None,
            output_retries: OUTPUT_RETRIES_DEFAULT,
            state: Map::new(),
            family: Arc::default(),
            max_handoffs: MAX_HANDOFFS_DEFAULT,
            session_store: None,
            state_store: None,
            env: Env::system(),
        };
        Self { definition, decode: |text| Ok(text.to_owned()), problem: None }
    }

    /// Sets the output type. The model must follow its schema, and an output that does not match goes back to the
    /// model.
    pub fn output<T: DeserializeOwned + JsonSchema + Send + 'static>(mut self) -> AgentBuilder<T> {
        self.definition.output = Some(OutputSpec::for_type::<T>());
        AgentBuilder { definition: self.definition, decode: parse::<T>, problem: self.problem }
    }

    /// Sets the output type and a check beyond its schema. The error text of the check goes back to the model.
    pub fn checked_output<T: DeserializeOwned + JsonSchema + Send + 'static>(
        self,
        check: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static,
    ) -> AgentBuilder<T> {
        let mut builder = self.output::<T>();
        builder.definition.output =
            builder.definition.output.map(|output| output.with_check(check));
        builder
    }
}

impl<O: Send + 'static> AgentBuilder<O> {
    /// Sets the instructions. A text that contains template marks (`{{ name }}`) is a template, rendered with the
    /// run's state.
    pub fn instructions(mut self, text: impl AsRef<str>) -> Self {
        match Instructions::parse(text.as_ref()) {
            Ok(instructions) => self.definition.instructions = instructions,
            Err(error) => self.record_problem(BuildError::Template(error.to_string())),
        }
        self
    }

    /// Sets the instructions to a template with its own functions or required values.
    pub fn template(mut self, template: Template) -> Self {
        self.definition.instructions = Instructions::Template(Arc::new(template));
        self
    }

    /// Sets the instructions to an async function that is called when a run starts.
    pub fn instructions_from<F, Fut>(mut self, provider: F) -> Self
    where
        F: Fn(RunContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.definition.instructions = Instructions::Provider(Arc::new(move |cx| {
            let text = provider(cx);
            Box::pin(async move { text.await.map_err(PromptError::Provider) })
        }));
        self
    }

    /// Sets a value of the initial state of each run.
    pub fn state(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => {
                self.definition.state.insert(name.into(), value);
            }
            Err(error) => {
                let name = name.into();
                self.record_problem(BuildError::Setting(format!(
                    "state `{name}` has no JSON form: {error}"
                )));
            }
        }
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.definition.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.definition.tools.extend(tools);
        self
    }

    /// Adds a toolset. Its tools are listed again before each model call.
    pub fn toolset(mut self, toolset: impl Toolset) -> Self {
        self.definition.toolsets.push(Arc::new(toolset));
        self
    }

    /// Lets the model call another agent as a tool. The subagent sees only its task, and its output is the result of
    /// the call.
    pub fn subagent(mut self, subagent: Subagent) -> Self {
        let has_task_tools = self.definition.family.subagents.iter().any(|other| other.background);
        self.add_tools(subagent.tool().map(|tool| vec![tool]));
        if subagent.background && !has_task_tools {
            self.add_tools(task_tools::tools());
        }
        Arc::make_mut(&mut self.definition.family).subagents.push(subagent);
        self
    }

    /// Lets the model run another agent on many tasks in parallel.
    pub fn fan_out(mut self, fan_out: FanOut) -> Self {
        self.add_tools(fan_out.tool().map(|tool| vec![tool]));
        Arc::make_mut(&mut self.definition.family).fan_outs.push(fan_out);
        self
    }

    /// Lets the model hand the conversation off to another agent, which continues it with its own instructions and
    /// tools.
    pub fn handoff(mut self, handoff: Handoff) -> Self {
        self.add_tools(handoff.tool().map(|tool| vec![tool]));
        Arc::make_mut(&mut self.definition.family).handoffs.push(handoff);
        self
    }

    /// Makes the agent the lead of a team: it can start teammates that run in parallel, send messages to them and
    /// share a task board with them.
    pub fn team(mut self, team: Team) -> Self {
        if self.definition.family.team.is_some() {
            self.record_problem(BuildError::Setting("an agent leads one team at most".to_owned()));
            return self;
        }
        self.add_tools(team.check().and_then(|()| team.lead_tools()));
        let family = Arc::make_mut(&mut self.definition.family);
        (family.pushes_messages, family.team) = (team.push_messages, Some(team));
        self
    }

    /// Sets the transport of the team's messages. It has no effect without a team.
    pub fn mailbox(mut self, mailbox: impl Mailbox) -> Self {
        Arc::make_mut(&mut self.definition.family).mailbox = Some(Arc::new(mailbox));
        self
    }

    /// Sets how many handoffs one run may have. After the last one the active agent must respond itself.
    pub fn max_handoffs(mut self, handoffs: u32) -> Self {
        self.definition.max_handoffs = handoffs;
        self
    }

    /// Adds a rule for tool calls: allow, require approval or deny. The most restrictive decision of all rules wins.
    pub fn guard_rule(
        mut self,
        rule: impl Fn(&RuleInput<'_>) -> RuleDecision + Send + Sync + 'static,
    ) -> Self {
        self.definition.guard.add_rule(rule);
        self
    }

    /// Sets the services that the guard uses for each tool call: policy, redaction, audit and usage records.
    pub fn guard_services(mut self, services: GuardServices) -> Self {
        self.definition.guard = self.definition.guard.with_services(services);
        self
    }

    /// Adds a hook. Hooks run in the order in which they were added.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.definition.hooks.push(Arc::new(hook));
        self
    }

    /// Sets sampling and other settings of the model.
    pub fn settings(mut self, settings: ModelSettings) -> Self {
        self.definition.settings = settings;
        self
    }

    /// Sets the limits of a run.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.definition.limits = limits;
        self
    }

    /// Sets the action at a limit: stop, request a final response, or call a function of the program.
    pub fn on_limit(mut self, on_limit: OnLimit) -> Self {
        self.definition.on_limit = on_limit;
        self
    }

    /// Sets how many tool calls of one turn run in parallel; 1 runs them one after another.
    pub fn max_parallel_tools(mut self, parallel: usize) -> Self {
        self.definition.parallel_tools = parallel;
        self
    }

    /// Leaves tool calls to the caller: the run ends with the calls pending.
    pub fn external_tools(mut self) -> Self {
        self.definition.execute_tools = false;
        self
    }

    /// Sets how tool calls that require an approval are decided.
    pub fn approvals(mut self, on_approval: ApprovalMode) -> Self {
        self.definition.on_approval = Some(on_approval);
        self
    }

    /// Sets how conversations are fitted into the model's context window: a strategy, or a [`ContextConfig`] with
    /// token limits.
    pub fn context(mut self, context: impl Into<ContextConfig>) -> Self {
        self.definition.context = Some(context.into());
        self
    }

    /// Sets how often an output of the wrong type goes back to the model.
    pub fn output_retries(mut self, retries: u32) -> Self {
        self.definition.output_retries = retries;
        self
    }

    /// Sets the store of the sessions of this agent's runs.
    pub fn session_store(mut self, store: impl SessionStore) -> Self {
        self.definition.session_store = Some(Arc::new(store));
        self
    }

    /// Sets the store of state values that outlive a run: values of a session, of a user or of all runs.
    pub fn shared_state(mut self, store: impl StateStore) -> Self {
        self.definition.state_store = Some(Arc::new(store));
        self
    }

    /// Sets the source of time and ids, for tests and simulations.
    pub fn env(mut self, env: Env) -> Self {
        self.definition.env = env;
        self
    }

    /// Validates the definition and returns the agent. Returns the first error that any method of the builder found.
    pub fn build(self) -> Result<Agent<O>, BuildError> {
        let Self { definition, decode, .. } = self.checked()?;
        Ok(Agent { definition: Arc::new(definition), decode })
    }

    /// Builds an agent whose handoffs lead back to it. `add` receives a reference to the agent and this builder; it
    /// builds the other agents with the reference and adds them. The agent owns them, so keep it while they are in use.
    ///
    /// ```
    /// # use provost_agent::{Agent, Handoff};
    /// # use provost_model::ScriptedModel;
    /// # fn model() -> ScriptedModel { ScriptedModel::new() }
    /// let front = Agent::builder("front", model()).build_cyclic(|front, builder| {
    ///     let back = Handoff::to(front, "All else");
    ///     let billing = Agent::builder("billing", model()).handoff(back).build()?;
    ///     Ok(builder.handoff(Handoff::to(&billing, "Money questions")))
    /// })?;
    /// # assert_eq!(front.name(), "front");
    /// # Ok::<(), provost_agent::BuildError>(())
    /// ```
    pub fn build_cyclic(
        self,
        add: impl FnOnce(&AgentRef, Self) -> Result<Self, BuildError>,
    ) -> Result<Agent<O>, BuildError> {
        let mut problem = None;
        let (unfinished, mut decode) = (self.definition.clone(), self.decode);
        let definition = Arc::new_cyclic(|definition| {
            let owner = AgentRef::owner(Arc::clone(&unfinished.name), Weak::clone(definition));
            match add(&owner, self).and_then(Self::checked) {
                Ok(builder) => {
                    decode = builder.decode;
                    builder.definition
                }
                Err(error) => {
                    problem = Some(error);
                    unfinished
                }
            }
        });
        match problem {
            Some(problem) => Err(problem),
            None => Ok(Agent { definition, decode }),
        }
    }

    /// Returns this builder. Returns an error if a method recorded one or the definition is not valid.
    fn checked(mut self) -> Result<Self, BuildError> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        check_name(&self.definition.name)?;
        check_tools(&self.definition.tools, self.definition.output.as_ref())?;
        if self.definition.parallel_tools == 0 {
            return Err(BuildError::Setting("max_parallel_tools must be at least 1".to_owned()));
        }
        Ok(self)
    }

    /// Adds tools, or records the error.
    fn add_tools(&mut self, tools: Result<Vec<Arc<dyn Tool>>, BuildError>) {
        match tools {
            Ok(tools) => self.definition.tools.extend(tools),
            Err(problem) => self.record_problem(problem),
        }
    }

    /// Keeps an error until [`build`](Self::build) returns it. Later errors are dropped.
    fn record_problem(&mut self, problem: BuildError) {
        self.problem.get_or_insert(problem);
    }
}

/// Returns an error if the name is not valid.
fn check_name(name: &str) -> Result<(), BuildError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(legal) {
        return Err(BuildError::Name(first_chars(name, 2 * NAME_CHARS_MAX).to_owned()));
    }
    Ok(())
}

/// Returns an error if tools have the same name, including the tool of a typed output: the model could not distinguish
/// them.
pub(crate) fn check_tools(
    tools: &[Arc<dyn Tool>],
    output: Option<&OutputSpec>,
) -> Result<(), BuildError> {
    for (place, tool) in tools.iter().enumerate() {
        let name = tool.spec().name();
        if tools[..place].iter().any(|earlier| earlier.spec().name() == name)
            || output.is_some_and(|output| output.tool.name == name)
        {
            return Err(BuildError::DuplicateTool(name.to_owned()));
        }
    }
    Ok(())
}
