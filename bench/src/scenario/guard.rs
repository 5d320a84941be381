//! Cost of the guard: a call without journal and network, a policy decision, an HTTP tool against its raw client, and a
//! gRPC tool against raw `tonic`.

mod grpc;
mod http;

use std::hint::black_box;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject, ToolAttributes};
use provost_core::recovery::EffectKey;
use provost_core::resource::{
    AgentRole, OperationClass, OperationRule, OperationVerdict, ToolPermission,
};
use provost_core::{Env, Secret, ToolCall};
use provost_redact::Redactor;
use provost_tool::{
    Deps, EffectClass, FnTool, Guard, GuardDecision, GuardServices, NoCallbacks, RecordSink,
    SinkError, State, Tool, ToolContext, ToolContextParts, ToolOutput, ToolSpec,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::measure::{local_runtime, time_each};
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Permissions for tools.
const PERMISSIONS: usize = 1000;
/// Roles of the agent.
const ROLES: usize = 100;
/// Secrets of the redactor.
const SECRETS: usize = 1000;
/// Limit of a guarded call.
const CALL_SECONDS_MAX: f64 = 20e-6;
/// Limit of a decision.
const DECISION_SECONDS_MAX: f64 = 10e-6;

/// Measures all parts, one after another.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let (batches, uses) = (plan.pick(15, 5), plan.pick(2000, 300));
    let governance = Arc::new(governance()?);
    let facts = ToolAttributes::new("tool-500", &[OperationClass::Write]);
    let decision = time_each(batches, uses, || {
        black_box(governance.decide(black_box(&facts), "invoke"));
        Ok(())
    })?;
    let what = "a policy decision, 1000 permissions, 100 roles";
    table.at_most(what, Unit::Time, decision, DECISION_SECONDS_MAX);

    let runtime = local_runtime()?;
    let (bare, governed) = (Guard::default(), guard_with_services()?.with_policy(governance));
    let tool = echo()?;
    let rows =
        [("a guarded call", bare), ("a guarded call with policy, redaction and records", governed)];
    for (what, guard) in rows {
        let took = time_each(batches, uses, || runtime.block_on(call(&guard, &tool)))?;
        table.at_most(what, Unit::Time, took, CALL_SECONDS_MAX);
    }
    http::measure(plan, table)?;
    grpc::measure(plan, table)
}

/// Returns a policy in which the agent has every role, and each tool needs a permission of one of them.
fn governance() -> Result<CompiledPolicy> {
    let mut parts = PolicySources::new("1", PolicySubject::new("default", "bench"));
    for number in 0..ROLES {
        let grants = (0..PERMISSIONS / ROLES).map(|grant| format!("tool:{number}:{grant}"));
        parts.roles.push(AgentRole::new("default", format!("role-{number}"), grants));
        parts.subject.roles.push(format!("role-{number}"));
    }
    for number in 0..PERMISSIONS {
        let needed = format!("tool:{}:{}", number % ROLES, number / ROLES);
        let allow = OperationRule {
            operation_class: OperationClass::Write.into(),
            verdict: OperationVerdict::Allow,
        };
        let tool = if number == 0 { "echo".to_owned() } else { format!("tool-{number}") };
        parts.permissions.push(ToolPermission {
            required_permissions: vec![needed],
            operation_rules: vec![allow],
            ..ToolPermission::new("default", format!("rule-{number}"), tool)
        });
    }
    Ok(CompiledPolicy::compile(parts)?)
}

/// Returns a guard with redaction and discarded records, but without a journal.
fn guard_with_services() -> Result<Guard> {
    let redactor = Redactor::new();
    for number in 0..SECRETS {
        redactor.register(&Secret::new(format!("a-secret-of-this-machine-{number:04}")))?;
    }
    Ok(Guard::default().with_services(GuardServices {
        redact: Some(Arc::new(redactor)),
        audit: Some(Arc::new(DiscardSink)),
        usage: Some(Arc::new(DiscardSink)),
        ..GuardServices::default()
    }))
}

fn echo() -> Result<Arc<dyn Tool>> {
    let schema = json!({
        "type": "object",
        "properties": { "words": { "type": "string" }, "times": { "type": "integer" } },
        "required": ["words"],
    });
    let spec = ToolSpec::new("echo", "Repeats", schema)?.effect(EffectClass::Idempotent);
    Ok(Arc::new(FnTool::new(spec, |permit, _cx| {
        let words = permit.arguments()["words"].as_str().unwrap_or_default().to_owned();
        std::future::ready(Ok(ToolOutput::text(words))).boxed()
    })))
}

/// Makes a call like a run: checked, authorised and executed.
async fn call(guard: &Guard, tool: &Arc<dyn Tool>) -> Result<()> {
    let arguments = json!({ "words": "so it goes, as it always did", "times": 3 });
    call_with(guard, tool, &arguments).await
}

/// Like [`call`], with other arguments.
pub(crate) async fn call_with(
    guard: &Guard,
    tool: &Arc<dyn Tool>,
    arguments: &Value,
) -> Result<()> {
    let asked = ToolCall::new("call_1", tool.spec().name(), arguments);
    let GuardDecision::Allow(permit) = guard.check_and_record(tool, &asked, false).await else {
        return Err("the guard does not let it through".into());
    };
    let ran = guard.run(permit, context(&asked)).await;
    black_box(ran.map_err(|error| error.to_string())?);
    Ok(())
}

/// Returns the context of a call without observers.
fn context(call: &ToolCall) -> ToolContext {
    let run_id = Env::system().id();
    ToolContext::new(ToolContextParts {
        run_id,
        agent: "bench".into(),
        depth: 0,
        depth_max: None,
        call_id: call.id.clone(),
        tool: call.name.clone(),
        effect_key: EffectKey::new(run_id, 1, 0),
        retries_left: 0,
        cancel: CancellationToken::new(),
        deps: Deps::default(),
        state: State::default(),
        callbacks: Arc::new(NoCallbacks),
        redact: None,
    })
}

/// Sink that discards its records.
struct DiscardSink;

impl<E: Send + 'static> RecordSink<E> for DiscardSink {
    fn record(&self, event: E) -> BoxFuture<'_, Result<(), SinkError>> {
        black_box(event);
        std::future::ready(Ok(())).boxed()
    }
}
