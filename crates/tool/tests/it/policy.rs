//! Governance at the guard: every call, every tool, and nothing goes through when it cannot be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::contract::ToolErrorCode;
use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
use provost_core::resource::{
    AgentPolicy, AgentRole, Approvers, OperationMatch, OperationRule, OperationVerdict, RiskLevel,
    ToolPermission,
};
use provost_tool::{
    ApprovalRequirement, AuditOutcome, AuditRecord, CallOrigin, EffectClass, FnTool, Guard,
    GuardDecision, GuardServices, PolicyAttributes, PolicyProvider, PolicyProviderError,
    RequiresApproval, RuleDecision, Tool, ToolError, tool_fn,
};
use serde_json::json;

use crate::fakes::{FakeAttempt, FakeRuntime, RecordList, governed, host};
use crate::support;

/// A function that counts its calls.
fn function(effect: EffectClass) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let tool: FnTool = tool_fn("pay", "Pays", move |_cx, (): ()| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, ToolError>("paid") }
    })
    .unwrap();
    (Arc::new(tool.with_spec(|spec| spec.effect(effect))), calls)
}

fn parts() -> PolicySources {
    PolicySources::new("rev-7", PolicySubject::new("default", "clerk"))
}

fn rule(verdict: OperationVerdict) -> ToolPermission {
    let line = OperationRule { operation_class: OperationMatch::Any, verdict };
    ToolPermission { operation_rules: vec![line], ..ToolPermission::new("default", "r", "pay") }
}

fn guard(parts: PolicySources) -> Guard {
    Guard::default().with_policy(Arc::new(CompiledPolicy::compile(parts).unwrap()))
}

fn verdict(guard: &Guard, tool: &Arc<dyn Tool>, approved: bool) -> String {
    support::verdict(guard.check(tool, &support::call(tool, &json!({})), approved))
}

#[test]
fn a_function_of_the_program_is_governed_like_any_tool() {
    let (reads, _) = function(EffectClass::Pure);
    assert_eq!(verdict(&guard(parts()), &reads, false), "allow {}");
    for effect in EffectClass::ALL.iter().filter(|effect| **effect != EffectClass::Pure) {
        let (writes, _) = function(*effect);
        let no = "deny: no rule lets agent `clerk` use tool `pay` for `write`";
        assert_eq!(verdict(&guard(parts()), &writes, true), no, "{effect}");
    }
    let mut allowed = parts();
    allowed.permissions.push(rule(OperationVerdict::Allow));
    let (writes, _) = function(EffectClass::Opaque);
    assert_eq!(verdict(&guard(allowed.clone()), &writes, false), "allow {}");
    let tool = tool_fn("pay", "Pays", |_cx, (): ()| async { Ok::<_, ToolError>(()) }).unwrap();
    let facts = PolicyAttributes { risk: RiskLevel::Critical, ..PolicyAttributes::default() };
    let critical: Arc<dyn Tool> = Arc::new(tool.with_spec(|spec| spec.policy_attributes(facts)));
    allowed.permissions[0].operation_rules.clear();
    allowed.permissions[0].required_permissions = vec!["p".to_owned()];
    allowed.subject.roles = vec!["r".to_owned()];
    allowed.roles.push(AgentRole::new("default", "r", ["p"]));
    assert_eq!(verdict(&guard(allowed), &critical, false), "ask");
    assert_eq!(verdict(&Guard::default(), &writes, false), "allow {}", "nobody governs");
}

#[test]
fn a_question_says_who_may_answer_and_under_which_policy() {
    let needed = Approvers { required: 2, of: vec![], exclude_requester: true };
    let mut asks = parts();
    asks.permissions.push(ToolPermission {
        approvers: Some(needed.clone()),
        ..rule(OperationVerdict::ApprovalRequired)
    });
    let guard = guard(asks);
    let (tool, _) = function(EffectClass::Opaque);
    let call = support::call(&tool, &json!({}));
    let GuardDecision::Ask(asked) = guard.check(&tool, &call, false) else { panic!("it asks") };
    let why = "rule `r` asks for approval of `write`".to_owned();
    assert_eq!(
        asked,
        ApprovalRequirement {
            reason: Some(why),
            approvers: needed,
            revision: Some("rev-7".to_owned())
        }
    );
    let GuardDecision::Allow(permit) = guard.check(&tool, &call, true) else {
        panic!("it is approved")
    };
    assert_eq!(permit.revision(), Some("rev-7"));
    assert_eq!(permit.origin().unwrap().agent, "clerk");
}

#[test]
fn approval_overrules_neither_a_policy_nor_a_rule() {
    let (tool, _) = function(EffectClass::Opaque);
    let mut denies = parts();
    denies.permissions.push(rule(OperationVerdict::Deny));
    denies.subject.allowed_tools.push("pay".to_owned());
    assert_eq!(verdict(&guard(denies), &tool, true), "deny: rule `r` denies `write`");
    let mut blocked = parts();
    blocked.permissions.push(rule(OperationVerdict::Allow));
    let policy = AgentPolicy::global("default", "lock");
    blocked.policies.push(AgentPolicy { blocked_tools: vec!["pay".to_owned()], ..policy });
    let call = support::call(&tool, &json!({}));
    let GuardDecision::Deny(fault) = guard(blocked).check(&tool, &call, true) else {
        panic!("denied")
    };
    assert_eq!(
        (fault.code, fault.details["policy_revision"].as_str()),
        (ToolErrorCode::PermissionDenied, "rev-7")
    );
    let mut allows = parts();
    allows.permissions.push(rule(OperationVerdict::Allow));
    let mut ruled = guard(allows.clone());
    ruled.add_rule(|facts| RuleDecision::Deny(format!("not under {}", facts.revision.unwrap())));
    assert_eq!(verdict(&ruled, &tool, true), "deny: not under rev-7");
    let careful = tool_fn("pay", "Pays", |_cx, (): ()| async { Ok::<_, ToolError>(()) }).unwrap();
    let careful: Arc<dyn Tool> =
        Arc::new(careful.with_spec(|spec| spec.approval(RequiresApproval::Always)));
    assert_eq!(verdict(&guard(allows), &careful, false), "ask", "the tool's own wish counts");
}

#[test]
fn a_renamed_tool_stays_under_the_rules_of_its_first_name() {
    let (tool, _) = function(EffectClass::Pure);
    let renamed = tool.spec().renamed("gift").unwrap();
    assert_eq!(renamed.tool_attributes().alias, Some("pay"));
    assert_eq!(renamed.renamed("present").unwrap().tool_attributes().alias, Some("pay"));
    assert_eq!(renamed.renamed("pay").unwrap().tool_attributes().alias, None);
}

/// How reading governance can go wrong.
#[derive(Clone, Copy)]
enum Broken {
    Error,
    Panic,
    PanicAtOnce,
    Silence,
    OtherAgent,
    OtherNamespace,
}

impl PolicyProvider for Broken {
    fn policy<'a>(
        &'a self,
        _origin: &'a CallOrigin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, PolicyProviderError>> {
        let of = |namespace: &str, agent: &str| {
            let mut parts = PolicySources::new("r", PolicySubject::new(namespace, agent));
            parts.permissions.push(ToolPermission {
                namespace: namespace.to_owned(),
                ..rule(OperationVerdict::Allow)
            });
            Ok(Arc::new(CompiledPolicy::compile(parts).unwrap()))
        };
        match self {
            Self::PanicAtOnce => panic!("a broken governor"),
            Self::Error => {
                async { Err(PolicyProviderError("the database is gone".to_owned())) }.boxed()
            }
            Self::Panic => async { panic!("a broken governor") }.boxed(),
            Self::Silence => std::future::pending().boxed(),
            Self::OtherAgent => std::future::ready(of("default", "boss")).boxed(),
            Self::OtherNamespace => std::future::ready(of("elsewhere", "clerk")).boxed(),
        }
    }
}

fn origin() -> CallOrigin {
    CallOrigin {
        namespace: "default".to_owned(),
        agent: "clerk".to_owned(),
        ..CallOrigin::default()
    }
}

#[tokio::test(start_paused = true)]
async fn with_each_read_of_governance_made_to_fail_no_call_goes_through() {
    let runtime = FakeRuntime::new([]);
    let declared = governed(json!({"operation_classes": ["read"]}), host(Arc::clone(&runtime)));
    let (reads, read_calls) = function(EffectClass::Pure);
    let (writes, write_calls) = function(EffectClass::Opaque);
    for broken in [
        Broken::Error,
        Broken::Panic,
        Broken::PanicAtOnce,
        Broken::Silence,
        Broken::OtherAgent,
        Broken::OtherNamespace,
    ] {
        let services =
            GuardServices { policies: Some(Arc::new(broken)), ..GuardServices::default() };
        let unasked = Guard::default().with_services(services);
        let asked = unasked.for_run(origin()).await;
        for guard in [unasked, asked] {
            for tool in [&declared, &reads, &writes] {
                for approved in [false, true] {
                    let call = support::call(tool, &json!({}));
                    let GuardDecision::Deny(fault) = guard.check(tool, &call, approved) else {
                        panic!("a call went through");
                    };
                    assert_eq!(fault.code, ToolErrorCode::PermissionDenied);
                    assert!(fault.message.contains("the policy could not be loaded"), "{fault}");
                }
            }
        }
    }
    assert_eq!(runtime.calls(), 0);
    assert_eq!(read_calls.load(Ordering::Relaxed) + write_calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_ready_snapshot_is_neither_lost_nor_lent_to_another_run() {
    let (writes, _) = function(EffectClass::Opaque);
    let mut allowed = parts();
    allowed.permissions.push(rule(OperationVerdict::Allow));
    let ready = guard(allowed);
    assert_eq!(verdict(&ready.for_run(origin()).await, &writes, false), "allow {}");
    let strict = guard(parts()).for_run(origin()).await;
    assert!(verdict(&strict, &writes, true).starts_with("deny: no rule"));
    let boss = CallOrigin { agent: "boss".to_owned(), ..origin() };
    let other = ready.for_run(boss).await;
    assert!(verdict(&other, &writes, true).starts_with("deny: the policy could not be loaded"));
    let again = other.for_run(origin()).await;
    assert!(verdict(&again, &writes, true).starts_with("deny: the policy could not be loaded"));
}

/// Gives each agent a snapshot of its own.
struct Reads;

impl PolicyProvider for Reads {
    fn policy<'a>(
        &'a self,
        origin: &'a CallOrigin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, PolicyProviderError>> {
        async move {
            // A read that takes its time is waited for.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut parts =
                PolicySources::new("r9", PolicySubject::new(&origin.namespace, &origin.agent));
            parts.permissions.push(rule(OperationVerdict::Allow));
            CompiledPolicy::compile(parts)
                .map(Arc::new)
                .map_err(|e| PolicyProviderError(e.to_string()))
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_governed_by_what_was_read_for_it() {
    let audit: Arc<RecordList<AuditRecord>> = RecordList::new(false);
    let services = GuardServices {
        policies: Some(Arc::new(Reads)),
        audit: Some(Arc::clone(&audit) as _),
        ..GuardServices::default()
    };
    let house = Guard::default().with_services(services);
    let run = house.for_run(origin()).await;
    let (tool, calls) = function(EffectClass::Opaque);
    assert_eq!(verdict(&run, &tool, false), "allow {}");
    let elsewhere = house.for_run(CallOrigin { namespace: "b".to_owned(), ..origin() }).await;
    let call = support::call(&tool, &json!({}));
    let GuardDecision::Deny(_) = elsewhere.check_and_record(&tool, &call, false).await else {
        panic!("not there")
    };
    let GuardDecision::Allow(permit) = run.check_and_record(&tool, &call, false).await else {
        panic!("here")
    };
    run.run(permit, support::cx()).await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let kept = audit.records.lock().unwrap();
    let outcomes: Vec<_> = kept.iter().map(|event| event.outcome).collect();
    let expected = [AuditOutcome::Denied, AuditOutcome::Allowed, AuditOutcome::Succeeded];
    assert_eq!(outcomes, expected);
    assert_eq!(kept[0].namespace, "b");
    assert!(kept[0].message.starts_with("no rule lets agent `clerk`"));
    assert_eq!(kept[1].metadata["policy_revision"], "r9");
}

#[tokio::test]
async fn a_governed_call_that_is_allowed_reaches_its_runtime() {
    let runtime = FakeRuntime::new([FakeAttempt::Respond(Ok("paid"))]);
    let tool = governed(json!({"operation_classes": ["write"]}), host(Arc::clone(&runtime)));
    let mut allowed = parts();
    allowed.permissions.push(rule(OperationVerdict::Allow));
    let guard = guard(allowed);
    let GuardDecision::Allow(permit) = guard.check(&tool, &support::call(&tool, &json!({})), false)
    else {
        panic!("allowed");
    };
    assert_eq!(guard.run(permit, support::cx()).await.unwrap().to_text(), "paid");
    assert_eq!(runtime.calls(), 1);
}
