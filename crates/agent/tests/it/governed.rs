//! Agents under a policy: what it denies does not run, what it asks about waits, and what cannot be read opens nothing.

mod bounds;
mod people;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use provost_agent::{Agent, ApprovalMode, Handoff, RunOutcome};
use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
use provost_core::resource::{AgentPolicy, ToolPermission};
use provost_core::{ApprovalDecision, Env};
use provost_model::{ScriptedModel, call, text};
use provost_tool::{CallOrigin, GuardServices, PolicyProvider, PolicyProviderError, Tool, tool_fn};
use serde_json::{Value, json};

/// A policy in one revision; none cannot be read.
struct House {
    revision: &'static str,
    rule: Option<&'static str>,
}

impl PolicyProvider for House {
    fn policy<'a>(
        &'a self,
        origin: &'a CallOrigin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, PolicyProviderError>> {
        Box::pin(async move {
            let Some(verdict) = self.rule else {
                return Err(PolicyProviderError("the disk is gone".to_owned()));
            };
            let subject = PolicySubject {
                namespace: origin.namespace.clone(),
                agent: origin.agent.clone(),
                ..PolicySubject::default()
            };
            let rule: ToolPermission = serde_json::from_value(json!({
                "name": "pay", "namespace": origin.namespace,
                "operation_rules": [{"operation_class": "*", "verdict": verdict}],
            }))
            .map_err(|error| PolicyProviderError(error.to_string()))?;
            let mut parts = PolicySources::new(self.revision, subject);
            parts.permissions = vec![rule];
            CompiledPolicy::compile(parts)
                .map(Arc::new)
                .map_err(|error| PolicyProviderError(error.to_string()))
        })
    }
}

/// What one read of a policy says: a rule about paying, and bounds around agents.
#[derive(Debug, Clone)]
struct Policy {
    revision: String,
    rule: Option<&'static str>,
    approvers: Option<Value>,
    models: Vec<String>,
    tokens: Option<u64>,
}

impl Policy {
    fn rule(rule: &'static str) -> Self {
        let (revision, models) = ("1".to_owned(), Vec::new());
        Self { revision, rule: Some(rule), approvers: None, models, tokens: None }
    }

    fn unreadable() -> Self {
        Self { rule: None, ..Self::rule("") }
    }

    fn revision(self, revision: &str) -> Self {
        Self { revision: revision.to_owned(), ..self }
    }

    fn governance(&self, origin: &CallOrigin) -> Result<Arc<CompiledPolicy>, String> {
        let rule = self.rule.ok_or("the disk is gone")?;
        let tools = ["helper", "transfer_to_cashier"];
        let subject = PolicySubject {
            namespace: origin.namespace.clone(),
            agent: origin.agent.clone(),
            allowed_tools: tools.map(str::to_owned).to_vec(),
            ..PolicySubject::default()
        };
        let rule: ToolPermission = serde_json::from_value(json!({
            "name": "pay", "namespace": origin.namespace, "approvers": self.approvers,
            "operation_rules": [{"operation_class": "*", "verdict": rule}],
        }))
        .map_err(|error| error.to_string())?;
        let mut parts = PolicySources::new(&self.revision, subject);
        parts.permissions = vec![rule];
        parts.policies = vec![AgentPolicy {
            allowed_models: self.models.clone(),
            max_tokens_per_run: self.tokens,
            ..AgentPolicy::global(&origin.namespace, "p")
        }];
        CompiledPolicy::compile(parts).map(Arc::new).map_err(|error| error.to_string())
    }
}

/// A policy that is another one whenever it is read, until the last one stays.
#[derive(Clone)]
struct Shifting(Arc<Mutex<Vec<Policy>>>);

impl Shifting {
    fn new(policies: impl IntoIterator<Item = Policy>) -> Self {
        let mut policies: Vec<_> = policies.into_iter().collect();
        policies.reverse();
        Self(Arc::new(Mutex::new(policies)))
    }

    fn guard_services(&self) -> GuardServices {
        GuardServices { policies: Some(Arc::new(self.clone())), ..GuardServices::default() }
    }

    fn agent(&self, paid: &Arc<AtomicU32>, model: ScriptedModel) -> Agent {
        let agent = Agent::builder("clerk", model).tool(pay(paid));
        agent.guard_services(self.guard_services()).build().unwrap()
    }
}

impl PolicyProvider for Shifting {
    fn policy<'a>(
        &'a self,
        origin: &'a CallOrigin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, PolicyProviderError>> {
        let mut policies = self.0.lock().unwrap();
        let policy = match policies.len() {
            1 => policies[0].clone(),
            _ => policies.pop().unwrap(),
        };
        drop(policies);
        Box::pin(std::future::ready(policy.governance(origin).map_err(PolicyProviderError)))
    }
}

fn paid_so_often(paid: &Arc<AtomicU32>) -> u32 {
    paid.load(Ordering::SeqCst)
}

fn pay(paid: &Arc<AtomicU32>) -> impl Tool {
    let paid = Arc::clone(paid);
    tool_fn("pay", "Pays", move |_cx, (): ()| {
        let paid = Arc::clone(&paid);
        async move { Ok(format!("paid {}", paid.fetch_add(1, Ordering::SeqCst) + 1)) }
    })
    .unwrap()
}

fn agent(house: House, paid: &Arc<AtomicU32>, model: ScriptedModel) -> Agent {
    let guard_services = GuardServices {
        policies: Some(Arc::new(house)),
        redact: None,
        artifacts: None,
        audit: None,
        usage: None,
        env: Env::system(),
    };
    Agent::builder("clerk", model).tool(pay(paid)).guard_services(guard_services).build().unwrap()
}

fn one_call() -> ScriptedModel {
    ScriptedModel::new().turn(call("pay", json!({}))).turn(text("done"))
}

#[tokio::test]
async fn what_a_policy_says_happens_to_a_call() {
    for (rule, times) in [(Some("allow"), 1), (Some("deny"), 0), (None, 0)] {
        let paid = Arc::new(AtomicU32::new(0));
        let model = one_call();
        let run = agent(House { revision: "1", rule }, &paid, model.clone()).run("pay").await;
        match rule {
            Some(_) => assert_eq!(run.unwrap().text, "done"),
            // Nobody knows whether the model may be asked either.
            None => assert_eq!(run.unwrap_err().code(), "model_denied"),
        }
        assert_eq!(paid.load(Ordering::SeqCst), times, "{rule:?}");
    }
}

#[tokio::test]
async fn an_approval_is_good_for_the_policy_that_asked() {
    for (revision, times) in [("1", 1), ("2", 0)] {
        let paid = Arc::new(AtomicU32::new(0));
        let asks = House { revision: "1", rule: Some("approval_required") };
        let first = agent(asks, &paid, ScriptedModel::new().turn(call("pay", json!({}))));
        let outcome = first.run("pay").approvals(ApprovalMode::Suspend).outcome().await.unwrap();
        let RunOutcome::Suspended(suspended) = outcome else { panic!("it did not ask") };
        let question = suspended.approvals()[0].id;
        let suspended = suspended.decide(question, ApprovalDecision::Approve).unwrap();
        let asks = House { revision, rule: Some("approval_required") };
        let later = agent(asks, &paid, ScriptedModel::new().turn(text("done")));
        let resumed = later.resume(suspended).approvals(ApprovalMode::Suspend).outcome().await;
        assert_eq!(paid.load(Ordering::SeqCst), times, "revision {revision}");
        let asked_again = matches!(resumed.unwrap(), RunOutcome::Suspended(_));
        assert_eq!(asked_again, revision == "2");
    }
}

#[tokio::test]
async fn handing_over_does_not_get_rid_of_a_policy() {
    for (rule, times) in [("deny", 0), ("allow", 1)] {
        let paid = Arc::new(AtomicU32::new(0));
        let clerk_model = ScriptedModel::new().turn(call("pay", json!({}))).turn(text("done"));
        // Nobody governs this one by itself.
        let clerk = Agent::builder("cashier", clerk_model).tool(pay(&paid)).build().unwrap();
        let hands_over = ScriptedModel::new().turn(call("transfer_to_cashier", json!({})));
        let guard_services = GuardServices {
            policies: Some(Arc::new(House { revision: "1", rule: Some(rule) })),
            ..GuardServices::default()
        };
        let lead = Agent::builder("lead", hands_over)
            .handoff(Handoff::to(&clerk, "pays"))
            .guard_services(guard_services)
            .build()
            .unwrap();
        let _ended = lead.run("pay").await;
        assert_eq!(paid.load(Ordering::SeqCst), times, "{rule}");
    }
}
