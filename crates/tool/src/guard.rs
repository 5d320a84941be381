//! The guard: the only door to a tool. It checks a call, issues a permit and executes the permitted call.
//!
//! Invariant: only this file creates a [`Permit`], and a tool cannot be called without one.

mod bounds;
pub(crate) mod pause_clock;
pub(crate) mod policy;
mod record;
mod services;

use std::any::TypeId;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use provost_core::ToolCall;
use provost_core::contract::{OPERATION_INVOKE, ToolContractError, ToolErrorCode};
use provost_core::policy::{CompiledPolicy, PolicyDecision};
use provost_core::resource::Approvers;
use provost_core::usage::limits::TOOL_ARGUMENTS_BYTES_MAX;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use services::GuardServices;

use crate::guard::policy::{CallOrigin, RunPolicy, denied_error, policy_unavailable};
use crate::task::{TaskFailure, run_in_task};
use crate::{RequiresApproval, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};

/// Proof that the guard allows one exact call: a tool with its arguments. Executing the call consumes the permit.
pub struct Permit {
    tool: Arc<dyn Tool>,
    arguments: Value,
    run_policy: Option<Arc<RunPolicy>>,
    /// Number of attempts so far. The code that executes the tool increments it.
    attempts: Arc<AtomicU32>,
}

impl Permit {
    /// Returns the validated arguments.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// Returns the revision of the policy that allowed the call. An approval is bound to this revision, and to the
    /// tool, the arguments, the agent and the run.
    pub fn revision(&self) -> Option<&str> {
        self.run_policy.as_ref().and_then(|run_policy| run_policy.revision())
    }

    /// Returns the origin of the call. `None` if the guard has neither a run nor a policy: it was created without
    /// [`Guard::for_run`] and [`Guard::with_policy`].
    pub fn origin(&self) -> Option<&CallOrigin> {
        self.run_policy.as_ref().map(|run_policy| &run_policy.origin)
    }

    /// Returns the counter of attempts, which the tool increments.
    pub(crate) fn attempts(&self) -> &Arc<AtomicU32> {
        &self.attempts
    }

    pub(crate) fn into_arguments(self) -> Value {
        self.arguments
    }

    /// Deserializes the arguments. An error names the invalid argument, and the model can correct it.
    pub fn parse<A: DeserializeOwned + 'static>(self) -> Result<A, ToolError> {
        // The arguments of a tool without parameters are a unit type, but models send an empty object.
        let value = match self.arguments {
            Value::Object(map) if map.is_empty() && TypeId::of::<A>() == TypeId::of::<()>() => {
                Value::Null
            }
            other => other,
        };
        serde_path_to_error::deserialize(value).map_err(|error| {
            ToolError::Retry(format!("argument `{}`: {}", error.path(), error.inner()))
        })
    }
}

/// Decision of the guard about one call: allow, ask for approval, deny, or reject invalid arguments.
pub enum GuardDecision {
    /// The call may run.
    Allow(Permit),
    /// A person must approve the call first.
    Ask(ApprovalRequirement),
    /// The call may not run, and no approver may allow it. The message is for the model.
    Deny(ToolContractError),
    /// The arguments are invalid. The text explains the problem to the model.
    Invalid(String),
}

/// Reason and approvers of an approval that a call needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalRequirement {
    /// Reason that the policy gave. `None` if the tool itself or a rule in code requires the approval.
    pub reason: Option<String>,
    /// Approvers whose decision counts, and how many of them must approve.
    pub approvers: Approvers,
    /// Revision of the policy that requires the approval. An approval under another revision does not count.
    pub revision: Option<String>,
}

/// Decision of a rule about one call. The most restrictive decision of all rules wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum RuleDecision {
    /// Does not object to the call.
    #[default]
    Allow,
    /// Requires approval by a person.
    Ask,
    /// Denies the call. The text is for the model.
    Deny(String),
}

/// The call and its context that a rule decides on.
#[derive(Debug, Clone, Copy)]
pub struct RuleInput<'a> {
    /// Specification of the tool.
    pub spec: &'a ToolSpec,
    /// The tool call.
    pub call: &'a ToolCall,
    /// Arguments of the call. They match the schema of the tool.
    pub arguments: &'a Value,
    /// Origin of the call. `None` if the guard does not know it.
    pub origin: Option<&'a CallOrigin>,
    /// Revision of the active policy. `None` without a policy.
    pub revision: Option<&'a str>,
}

type Rule = dyn Fn(&RuleInput<'_>) -> RuleDecision + Send + Sync;

/// Decides about tool calls and executes the permitted calls. Cheap to clone.
///
/// The approval setting of the tool is the first rule. Further rules can only make the decision more restrictive.
#[derive(Clone, Default)]
pub struct Guard {
    rules: Vec<Arc<Rule>>,
    services: Option<Arc<GuardServices>>,
    run_policy: Option<Arc<RunPolicy>>,
}

impl Guard {
    /// Sets the services that the guard uses: policies, redaction, artifacts, audit and usage records.
    #[must_use]
    pub fn with_services(mut self, services: impl Into<Arc<GuardServices>>) -> Self {
        self.services = Some(services.into());
        self
    }

    /// Applies a compiled policy to every call.
    #[must_use]
    pub fn with_policy(mut self, policy: Arc<CompiledPolicy>) -> Self {
        self.run_policy = Some(Arc::new(RunPolicy::from_policy(policy)));
        self
    }

    /// Returns the guard of one run, with the policy from the policy provider. If the policy cannot be loaded, the
    /// returned guard denies every call. A guard with a policy provider also denies every call until `for_run` was
    /// called.
    pub async fn for_run(&self, origin: CallOrigin) -> Self {
        let provider = self.services.as_ref().and_then(|services| services.policies.as_deref());
        let run_policy = match provider {
            Some(provider) => RunPolicy::load(provider, origin).await,
            None => RunPolicy::inherit(self.run_policy.as_deref(), origin),
        };
        Self { run_policy: Some(Arc::new(run_policy)), ..self.clone() }
    }

    /// Returns the revision of the active policy. `None` if there is no policy.
    pub fn revision(&self) -> Option<&str> {
        self.run_policy.as_ref().and_then(|run_policy| run_policy.revision())
    }

    /// Adds the rules of a parent guard to this one. Services and policy of the parent apply where this guard has none.
    #[must_use]
    pub fn inherit_from(&self, parent: &Self) -> Self {
        if parent.rules.is_empty() && !parent.has_policy() {
            return self.clone();
        }
        Self {
            rules: parent.rules.iter().chain(&self.rules).cloned().collect(),
            services: self.services.clone().or_else(|| parent.services.clone()),
            run_policy: self.run_policy.clone().or_else(|| parent.run_policy.clone()),
        }
    }

    /// Returns true if services or a policy are set, so that more than the tools and the rules in code decides about
    /// calls.
    pub fn has_policy(&self) -> bool {
        self.services.is_some() || self.run_policy.is_some()
    }

    /// Adds a rule. A rule that panics denies the call.
    pub fn add_rule(
        &mut self,
        rule: impl Fn(&RuleInput<'_>) -> RuleDecision + Send + Sync + 'static,
    ) {
        self.rules.push(Arc::new(rule));
    }

    /// Checks one call. `approved` is true if a person has approved this exact call.
    pub fn check(&self, tool: &Arc<dyn Tool>, call: &ToolCall, approved: bool) -> GuardDecision {
        self.check_action(tool, call, OPERATION_INVOKE, approved)
    }

    /// Checks one call whose action is not `invoke`.
    pub fn check_action(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        action: &str,
        approved: bool,
    ) -> GuardDecision {
        let spec = tool.spec();
        let arguments = match parse(spec, call) {
            Ok(arguments) => arguments,
            Err(problem) => return GuardDecision::Invalid(problem),
        };
        let run_policy = self.run_policy.as_deref();
        let revision = run_policy.and_then(RunPolicy::revision);
        let input = RuleInput {
            spec,
            call,
            arguments: &arguments,
            origin: run_policy.map(|run_policy| &run_policy.origin),
            revision,
        };
        match combine(self.apply_rules(&input), self.decide(spec, action), revision) {
            Err(denied) => GuardDecision::Deny(denied),
            Ok(Some(requirement)) if !approved => GuardDecision::Ask(requirement),
            Ok(_) => GuardDecision::Allow(Permit {
                tool: Arc::clone(tool),
                arguments,
                run_policy: self.run_policy.clone(),
                attempts: Arc::default(),
            }),
        }
    }

    /// Returns the decision of the policy about a call. `None` if no policy applies.
    fn decide(&self, spec: &ToolSpec, action: &str) -> Option<PolicyDecision> {
        let has_provider =
            self.services.as_ref().is_some_and(|services| services.policies.is_some());
        match &self.run_policy {
            None if has_provider => Some(policy_unavailable()),
            None => None,
            Some(run_policy) => run_policy.decide(&spec.tool_attributes(), action),
        }
    }

    /// Returns the most restrictive decision of the tool's approval setting and the rules. A rule that panics denies
    /// the call.
    fn apply_rules(&self, input: &RuleInput<'_>) -> RuleDecision {
        let tool_decision = match &input.spec.approval {
            RequiresApproval::Never => RuleDecision::Allow,
            RequiresApproval::Always => RuleDecision::Ask,
            RequiresApproval::When(needs) => {
                match std::panic::catch_unwind(AssertUnwindSafe(|| needs(input.arguments))) {
                    Ok(false) => RuleDecision::Allow,
                    Ok(true) | Err(_) => RuleDecision::Ask,
                }
            }
        };
        self.rules.iter().fold(tool_decision, |strictest, rule| {
            let decision = std::panic::catch_unwind(AssertUnwindSafe(|| rule(input)))
                .unwrap_or_else(|_| {
                    RuleDecision::Deny("a rule failed, so the call is denied".to_owned())
                });
            strictest.max(decision)
        })
    }

    /// Executes a permitted call and truncates its output. The call fails at the timeout of the tool; time that it
    /// waits for people does not count. A panic of the tool is an error of the call. Dropping the future stops the
    /// tool.
    ///
    /// With services, the guard records the call before and after, redacts its output and stores long outputs as
    /// artifacts.
    pub async fn run(&self, permit: Permit, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        match &self.services {
            Some(services) => Box::pin(self.execute_recorded(services, permit, cx)).await,
            None => {
                let result = self.execute(permit, cx).await;
                result.map(ToolOutput::into_bounded).map_err(ToolError::into_bounded)
            }
        }
    }

    /// Executes a permitted call in its own task with the timeout of the tool. A panic of the tool becomes an error.
    async fn execute(&self, permit: Permit, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let tool = Arc::clone(&permit.tool);
        let timeout = tool.spec().timeout;
        let context = cx.clone();
        let body = async move { tool.call(permit, cx).await };
        tokio::select! {
            biased;
            result = run_in_task(body) => match result {
                Ok(result) => result,
                Err(TaskFailure::Panicked(panic)) => {
                    Err(ToolError::Failed(format!("the tool panicked: {panic}")))
                }
                Err(TaskFailure::Aborted) => Err(ToolError::failed("the tool was stopped")),
            },
            () = context.pause_clock().wait_active(timeout) => {
                let message = format!("the tool did not finish within {} s", timeout.as_secs_f64());
                Err(ToolError::Fault(ToolContractError::new(ToolErrorCode::Timeout, message)))
            }
        }
    }
}

/// Parses the arguments and validates them against the schema. The error message is for the model.
fn parse(spec: &ToolSpec, call: &ToolCall) -> Result<Value, String> {
    let bytes = call.arguments.len();
    if bytes > TOOL_ARGUMENTS_BYTES_MAX {
        return Err(format!(
            "the arguments are {bytes} bytes long, at most {TOOL_ARGUMENTS_BYTES_MAX} are accepted"
        ));
    }
    let arguments = call
        .parse_arguments()
        .map_err(|error| format!("the arguments are not valid JSON: {error}"))?;
    spec.check(&arguments)
        .map_err(|error| format!("the arguments do not match the schema: {error}"))?;
    Ok(arguments)
}

/// Combines the decisions of the rules and of the policy: a denial wins over an approval, an approval over permission.
/// Returns the required approval, `None` if the call is allowed, or an error if it is denied.
fn combine(
    rule_decision: RuleDecision,
    policy_decision: Option<PolicyDecision>,
    revision: Option<&str>,
) -> Result<Option<ApprovalRequirement>, ToolContractError> {
    let requirement = |reason, approvers| {
        let revision = revision.map(str::to_owned);
        Some(ApprovalRequirement { reason, approvers, revision })
    };
    match (rule_decision, policy_decision) {
        (RuleDecision::Deny(reason), _) => Err(denied_error(reason, revision)),
        (_, Some(PolicyDecision::Deny { code, reason })) => {
            Err(ToolContractError { code, reason: code.reason(), ..denied_error(reason, revision) })
        }
        (_, Some(PolicyDecision::Approval { reason, approvers })) => {
            Ok(requirement(Some(reason), approvers))
        }
        (RuleDecision::Ask, _) => Ok(requirement(None, Approvers::default())),
        (RuleDecision::Allow, _) => Ok(None),
    }
}
