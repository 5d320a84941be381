//! The door to every tool: checks a call, hands out a permit, runs what is permitted.
//!
//! Invariant: a [`Permit`] is made in this file only, and a tool cannot be called without one.

mod bounds;
mod oversight;
pub(crate) mod pause_clock;
pub(crate) mod policy;
mod record;

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

pub use oversight::Oversight;

use crate::guard::policy::{Origin, Seat, denied, unread};
use crate::task::{TaskFailure, run_in_task};
use crate::{Approval, Tool, ToolCx, ToolError, ToolOutput, ToolSpec};

/// Proof that one exact call may run: this tool, these arguments. Used up by running it.
pub struct Permit {
    tool: Arc<dyn Tool>,
    arguments: Value,
    seat: Option<Arc<Seat>>,
    /// How often it was tried; what runs it counts.
    attempts: Arc<AtomicU32>,
}

impl Permit {
    /// The checked arguments.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// The revision of the policy that let it through; what an approval is bound to besides tool, arguments, agent and run.
    pub fn revision(&self) -> Option<&str> {
        self.seat.as_ref().and_then(|seat| seat.revision())
    }

    /// Where the call comes from, if the guard was told.
    pub fn origin(&self) -> Option<&Origin> {
        self.seat.as_ref().map(|seat| &seat.origin)
    }

    pub(crate) fn attempts(&self) -> &Arc<AtomicU32> {
        &self.attempts
    }

    pub(crate) fn into_arguments(self) -> Value {
        self.arguments
    }

    /// The arguments as a type; the error tells the model what is wrong and where.
    pub fn parse<A: DeserializeOwned + 'static>(self) -> Result<A, ToolError> {
        // A tool without arguments is a unit type; models send it an empty object.
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

/// What the guard says about a call.
pub enum Verdict {
    /// It may run.
    Allow(Permit),
    /// A person must decide first.
    Ask(Asked),
    /// It may not run, whatever anybody says; the message is for the model.
    Deny(ToolContractError),
    /// The arguments are wrong; the text tells the model how.
    Invalid(String),
}

/// What a person must decide, and who may.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// What asks for it, if it is not the tool itself.
    pub why: Option<String>,
    /// Whose approval counts.
    pub needed: Approvers,
    /// The revision of the policy that asks; another revision needs another approval.
    pub revision: Option<String>,
}

/// What a rule says about a call; of several, the strictest counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Ruling {
    /// Nothing against it.
    #[default]
    Allow,
    /// A person must decide.
    Ask,
    /// It may not run; the text is for the model.
    Deny(String),
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// The tool.
    pub spec: &'a ToolSpec,
    /// The call.
    pub call: &'a ToolCall,
    /// Its arguments; they fit the tool's schema.
    pub arguments: &'a Value,
    /// Where it comes from, if the guard was told.
    pub origin: Option<&'a Origin>,
    /// The revision of the policy that counts.
    pub revision: Option<&'a str>,
}

type Rule = dyn Fn(&CallFacts<'_>) -> Ruling + Send + Sync;

/// Decides about calls and runs the permitted ones. Cheap to clone.
///
/// The tool's own wish for approval is its first rule; further ones can only make the answer stricter.
#[derive(Clone, Default)]
pub struct Guard {
    rules: Vec<Arc<Rule>>,
    oversight: Option<Arc<Oversight>>,
    seat: Option<Arc<Seat>>,
}

impl Guard {
    /// Puts calls under oversight: who governs, what secrets are, where long outputs and records go.
    #[must_use]
    pub fn with_oversight(mut self, oversight: Oversight) -> Self {
        self.oversight = Some(Arc::new(oversight));
        self
    }

    /// Puts every call under a snapshot that is there already.
    #[must_use]
    pub fn governed(mut self, governance: Arc<CompiledPolicy>) -> Self {
        self.seat = Some(Arc::new(Seat::of(governance)));
        self
    }

    /// The guard of one run: asks the governor, if there is one, what counts for it. If that cannot be found out, the guard
    /// that comes back denies everything. A guard with a governor that was not asked denies everything too.
    pub async fn for_run(&self, origin: Origin) -> Self {
        let governor = self.oversight.as_ref().and_then(|oversight| oversight.governor.as_deref());
        let seat = match governor {
            Some(governor) => Seat::read(governor, origin).await,
            None => Seat::kept(self.seat.as_deref(), origin),
        };
        Self { seat: Some(Arc::new(seat)), ..self.clone() }
    }

    /// The revision of the policy that counts.
    pub fn revision(&self) -> Option<&str> {
        self.seat.as_ref().and_then(|seat| seat.revision())
    }

    /// This guard below another one: the rules of both count, and what has no oversight of its own is under that of the other.
    #[must_use]
    pub fn within(&self, above: &Self) -> Self {
        if above.rules.is_empty() && !above.is_governed() {
            return self.clone();
        }
        Self {
            rules: above.rules.iter().chain(&self.rules).cloned().collect(),
            oversight: self.oversight.clone().or_else(|| above.oversight.clone()),
            seat: self.seat.clone().or_else(|| above.seat.clone()),
        }
    }

    /// True if more than the tools themselves and rules in code decide about calls.
    pub fn is_governed(&self) -> bool {
        self.oversight.is_some() || self.seat.is_some()
    }

    /// Adds a rule. One that panics denies: a broken rule must not open the door.
    pub fn add_rule(&mut self, rule: impl Fn(&CallFacts<'_>) -> Ruling + Send + Sync + 'static) {
        self.rules.push(Arc::new(rule));
    }

    /// Looks at one call. `approved` says that a person has approved this exact call.
    pub fn check(&self, tool: &Arc<dyn Tool>, call: &ToolCall, approved: bool) -> Verdict {
        self.check_action(tool, call, OPERATION_INVOKE, approved)
    }

    /// Looks at one call that does something else than to invoke the tool.
    pub fn check_action(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        action: &str,
        approved: bool,
    ) -> Verdict {
        let spec = tool.spec();
        let arguments = match parse(spec, call) {
            Ok(arguments) => arguments,
            Err(problem) => return Verdict::Invalid(problem),
        };
        let seat = self.seat.as_deref();
        let revision = seat.and_then(Seat::revision);
        let facts = CallFacts {
            spec,
            call,
            arguments: &arguments,
            origin: seat.map(|seat| &seat.origin),
            revision,
        };
        match combine(self.rule(&facts), self.decide(spec, action), revision) {
            Err(denied) => Verdict::Deny(denied),
            Ok(Some(asked)) if !approved => Verdict::Ask(asked),
            Ok(_) => Verdict::Allow(Permit {
                tool: Arc::clone(tool),
                arguments,
                seat: self.seat.clone(),
                attempts: Arc::default(),
            }),
        }
    }

    /// What governance says; nothing where nobody governs.
    fn decide(&self, spec: &ToolSpec, action: &str) -> Option<PolicyDecision> {
        let governor =
            self.oversight.as_ref().is_some_and(|oversight| oversight.governor.is_some());
        match &self.seat {
            None if governor => Some(unread()),
            None => None,
            Some(seat) => seat.decide(&spec.tool_facts(), action),
        }
    }

    fn rule(&self, facts: &CallFacts<'_>) -> Ruling {
        let confirmation = match &facts.spec.approval {
            Approval::Never => Ruling::Allow,
            Approval::Always => Ruling::Ask,
            Approval::When(needs) => {
                match std::panic::catch_unwind(AssertUnwindSafe(|| needs(facts.arguments))) {
                    Ok(false) => Ruling::Allow,
                    Ok(true) | Err(_) => Ruling::Ask,
                }
            }
        };
        self.rules.iter().fold(confirmation, |strictest, rule| {
            let ruling =
                std::panic::catch_unwind(AssertUnwindSafe(|| rule(facts))).unwrap_or_else(|_| {
                    Ruling::Deny("a rule failed, so the call is denied".to_owned())
                });
            strictest.max(ruling)
        })
    }

    /// Runs a permitted call: within its time, so that a panic stays inside, with a bounded result.
    /// Time that people take to answer the tool's questions is not the tool's. Dropping the future stops the tool.
    ///
    /// Under oversight it is recorded before and after, secrets are taken out, and what is too long is kept whole elsewhere.
    pub async fn run(&self, permit: Permit, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        match &self.oversight {
            Some(oversight) => Box::pin(self.run_overseen(oversight, permit, cx)).await,
            None => {
                let result = self.execute(permit, cx).await;
                result.map(ToolOutput::bounded).map_err(ToolError::bounded)
            }
        }
    }

    /// Runs a permitted call in a task of its own. The call itself may panic before it returns a future, so it is made there.
    async fn execute(&self, permit: Permit, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let tool = Arc::clone(&permit.tool);
        let timeout = tool.spec().timeout;
        let watched = cx.clone();
        let body = async move { tool.call(permit, cx).await };
        tokio::select! {
            biased;
            ended = run_in_task(body) => match ended {
                Ok(result) => result,
                Err(TaskFailure::Panicked(panic)) => {
                    Err(ToolError::Failed(format!("the tool panicked: {panic}")))
                }
                Err(TaskFailure::Aborted) => Err(ToolError::failed("the tool was stopped")),
            },
            () = watched.asking().worked_for(timeout) => {
                let message = format!("the tool did not finish within {} s", timeout.as_secs_f64());
                Err(ToolError::Fault(ToolContractError::new(ToolErrorCode::Timeout, message)))
            }
        }
    }
}

/// Parses the arguments and checks them against the schema. The error tells the model what is wrong.
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
        .map_err(|error| format!("the arguments do not fit the schema: {error}"))?;
    Ok(arguments)
}

/// Combines the rules and the policy: a denial wins over an approval, and an approval over permission. Returns the approval that
/// is needed, if any.
fn combine(
    ruling: Ruling,
    decision: Option<PolicyDecision>,
    revision: Option<&str>,
) -> Result<Option<Asked>, ToolContractError> {
    let asked = |why, needed| Some(Asked { why, needed, revision: revision.map(str::to_owned) });
    match (ruling, decision) {
        (Ruling::Deny(reason), _) => Err(denied(reason, revision)),
        (_, Some(PolicyDecision::Deny { code, reason: why })) => {
            Err(ToolContractError { code, reason: code.reason(), ..denied(why, revision) })
        }
        (_, Some(PolicyDecision::Approval { reason: why, approvers: needed })) => {
            Ok(asked(Some(why), needed))
        }
        (Ruling::Ask, _) => Ok(asked(None, Approvers::default())),
        (Ruling::Allow, _) => Ok(None),
    }
}
