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
use provost_engine::{ApprovalReceipt, EngineError, SubmitReceipt};
use provost_model as scripted;
use provost_store::table::governance::approval::ApprovalRow;
use provost_tool::{CallOrigin, GuardServices, PolicyProvider, PolicyProviderError};
use serde_json::{Value, json};

use crate::cluster::{Cluster, last_result};
use crate::harness::command;

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

    fn guard(&self) -> GuardServices {
        GuardServices { policies: Some(Arc::new(self.clone())), ..GuardServices::default() }
    }
}

impl PolicyProvider for Law {
    fn policy<'a>(
        &'a self,
        origin: &'a CallOrigin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, PolicyProviderError>> {
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
        Box::pin(std::future::ready(
            governance.map_err(|error| PolicyProviderError(error.to_string())),
        ))
    }
}

/// A house under a law, whose agent calls `opaque` once and says what it was told.
async fn governed(policy: Policy) -> (Cluster, Law) {
    let law = Law(Arc::new(Mutex::new(policy)));
    let cluster = Cluster::guarded(law.guard(), |request, _| match last_result(request).as_str() {
        "" => scripted::call("opaque", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    (cluster, law)
}

/// Somebody hands in a task.
async fn asks(cluster: &Cluster, by: Option<&str>) -> SubmitReceipt {
    let requested_by = by.map(str::to_owned);
    let timeout_ms = Some(0);
    cluster.accept(TaskRequest { requested_by, timeout_ms, ..command("chat", "go") }).await
}

/// The one open question of a parked run.
async fn asked(cluster: &Cluster, run: RunId) -> ApprovalRow {
    cluster.parked(run).await;
    let mut questions = cluster.questions().await;
    assert_eq!(questions.len(), 1, "{questions:?}");
    questions.remove(0)
}

async fn approve(
    cluster: &Cluster,
    id: ApprovalId,
    by: &str,
) -> Result<ApprovalReceipt, EngineError> {
    cluster.engine.approvals().approve(&cluster.namespace, id, Default::default(), by).await
}

async fn deny(cluster: &Cluster, id: ApprovalId, by: &str) -> Result<ApprovalReceipt, EngineError> {
    let decision = provost_core::ApprovalDecision::Deny { reason: "too dear".to_owned() };
    cluster.engine.approvals().answer(&cluster.namespace, id, decision, by).await
}
