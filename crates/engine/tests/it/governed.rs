//! Durable runs under a policy: several people approve, models and tokens are bounded, and the policy may change meanwhile.

mod bounds;
mod children;
mod people;

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use provost_core::command::TaskRequest;
use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
use provost_core::resource::{AgentPolicy, ToolPermission};
use provost_core::{ApprovalId, RunId};
use provost_engine::{Accepted, Answered, EngineError};
use provost_model as scripted;
use provost_store::table::governance::approval::ApprovalRow;
use provost_tool::{Governor, GovernorError, Origin};
use serde_json::{Value, json};

use crate::house::{House, last_result};
use crate::stage::command;

/// What governs at the moment.
#[derive(Clone)]
struct Policy {
    revision: &'static str,
    tool: &'static str,
    verdict: &'static str,
    approvers: Value,
    models: Vec<String>,
    tokens: Option<u64>,
}

impl Policy {
    /// The tool `opaque` needs these people's approval.
    fn asking(approvers: Value) -> Self {
        let (models, tokens) = (Vec::new(), None);
        let (revision, tool, verdict) = ("1", "opaque", "approval_required");
        Self { revision, tool, verdict, approvers, models, tokens }
    }

    fn allowing() -> Self {
        Self { verdict: "allow", ..Self::asking(Value::Null) }
    }
}

/// A policy that a test changes.
#[derive(Clone)]
struct Law(Arc<Mutex<Policy>>);

impl Law {
    fn becomes(&self, policy: Policy) {
        *self.0.lock().unwrap() = policy;
    }
}

impl Governor for Law {
    fn governance<'a>(
        &'a self,
        origin: &'a Origin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, GovernorError>> {
        let policy = self.0.lock().unwrap().clone();
        let allowed_tools = vec!["helper".to_owned()];
        let subject =
            PolicySubject { allowed_tools, ..PolicySubject::new(&origin.namespace, &origin.agent) };
        let mut parts = PolicySources::new(policy.revision, subject);
        let rule: ToolPermission = serde_json::from_value(json!({
            "name": policy.tool, "namespace": origin.namespace, "approvers": policy.approvers,
            "operation_rules": [{"operation_class": "*", "verdict": policy.verdict}],
        }))
        .unwrap();
        parts.permissions = vec![rule];
        parts.policies = vec![AgentPolicy {
            allowed_models: policy.models,
            max_tokens_per_run: policy.tokens,
            ..AgentPolicy::global(&origin.namespace, "p")
        }];
        let governance = CompiledPolicy::compile(parts).map(Arc::new);
        Box::pin(std::future::ready(governance.map_err(|error| GovernorError(error.to_string()))))
    }
}

/// A house under a law, whose agent calls `opaque` once and says what it was told.
async fn governed(policy: Policy) -> (House, Law) {
    let house = House::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("opaque", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let law = Law(Arc::new(Mutex::new(policy)));
    assert!(house.rooms.governor.set(Arc::new(law.clone())).is_ok());
    (house, law)
}

/// Somebody hands in a task.
async fn asks(house: &House, by: Option<&str>) -> Accepted {
    let requested_by = by.map(str::to_owned);
    let timeout_ms = Some(0);
    house.accept(TaskRequest { requested_by, timeout_ms, ..command("chat", "go") }).await
}

/// The one open question of a parked run.
async fn asked(house: &House, run: RunId) -> ApprovalRow {
    house.parked(run).await;
    let mut questions = house.questions().await;
    assert_eq!(questions.len(), 1, "{questions:?}");
    questions.remove(0)
}

async fn approve(house: &House, id: ApprovalId, by: &str) -> Result<Answered, EngineError> {
    house.engine.approvals().approve(&house.namespace, id, Default::default(), by).await
}

async fn deny(house: &House, id: ApprovalId, by: &str) -> Result<Answered, EngineError> {
    let decision = provost_core::ApprovalDecision::Deny { reason: "too dear".to_owned() };
    house.engine.approvals().answer(&house.namespace, id, decision, by).await
}
