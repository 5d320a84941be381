//! The table of commands, the layers, and what is refused.

use serde_json::json;

use super::*;

/// Every policy that differs in what commands may do.
fn policies() -> Vec<ExecutionPolicy> {
    let mut policies = Vec::new();
    for &security in CommandPolicy::ALL {
        for &ask in CommandApproval::ALL {
            for deny_unlisted in [false, true] {
                let policy =
                    ExecutionPolicy { security, ask, deny_unlisted, ..ExecutionPolicy::default() };
                policies.push(policy.normalized());
            }
        }
    }
    policies
}

#[test]
fn the_defaults_are_those_of_the_spec() {
    let policy = ExecutionPolicy::default();
    assert_eq!(
        (policy.host, policy.security, policy.ask),
        (ExecutionHost::Sandbox, CommandPolicy::Allowlist, CommandApproval::Off)
    );
    assert_eq!(
        (policy.runtime_type, policy.workspace_access),
        (RuntimeType::Gvisor, WorkspaceAccess::Rw)
    );
    assert!(policy.network_enabled && !policy.interactive);
    assert_eq!(policy.resources, SandboxResources::default());
    assert_eq!(policy.retry.max_attempts, 3);
    let resolved = policy.resources.resolved();
    assert_eq!(resolved.cpu, Some(2000));
    assert_eq!((resolved.memory, resolved.gpu), (Some(2 * 1024 * 1024 * 1024), Some(0)));
    assert_eq!(policy.validate(), Ok(()));
    assert_eq!(policy.clone().normalized(), policy);
}

#[test]
fn the_table_of_security_ask_and_match() {
    use CommandApproval as K;
    use CommandDecision as D;
    use CommandPolicy as S;
    for (security, on_list, row) in [
        (S::Deny, true, [D::Deny, D::Deny, D::Deny]),
        (S::Deny, false, [D::Deny, D::Deny, D::Deny]),
        (S::Allowlist, true, [D::Run, D::Run, D::Ask]),
        (S::Allowlist, false, [D::Deny, D::Ask, D::Ask]),
        (S::Full, true, [D::Run, D::Run, D::Ask]),
        (S::Full, false, [D::Run, D::Run, D::Ask]),
    ] {
        for (ask, decision) in [K::Off, K::OnMiss, K::Always].into_iter().zip(row) {
            assert_eq!(decide(security, ask, on_list), decision, "{security} {ask} {on_list}");
            let policy = ExecutionPolicy { security, ask, ..ExecutionPolicy::default() };
            assert_eq!(policy.decide(on_list), decision);
        }
    }
}

#[test]
fn what_two_layers_decide_together_is_the_stricter_of_both() {
    for one in policies() {
        for two in policies() {
            for on_list in [false, true] {
                let together = one.intersect(&two).decide(on_list);
                let strictest = one.decide(on_list).min(two.decide(on_list));
                assert_eq!(together, strictest, "{one:?} and {two:?} on list: {on_list}");
                assert_eq!(two.intersect(&one).decide(on_list), strictest);
            }
        }
    }
}

#[test]
fn three_layers_decide_the_same_in_any_order() {
    let all = policies();
    for one in &all {
        for two in &all {
            for three in &all {
                let left = one.intersect(two).intersect(three);
                let right = one.intersect(&two.intersect(three));
                assert_eq!(left, right);
            }
        }
    }
}

#[test]
fn the_normal_form_decides_the_same_and_is_unique() {
    let mut seen: Vec<(CommandDecision, CommandDecision, ExecutionPolicy)> = Vec::new();
    for policy in
        policies().into_iter().filter(|policy| policy.security == CommandPolicy::Allowlist)
    {
        assert_eq!(policy.clone().normalized(), policy);
        let row = (policy.decide(true), policy.decide(false));
        match seen.iter().find(|(on, off, _)| (*on, *off) == row) {
            Some((_, _, same)) => assert_eq!(*same, policy),
            None => seen.push((row.0, row.1, policy)),
        }
    }
}

#[test]
fn a_child_is_never_wider_than_its_parent() {
    let parent = ExecutionPolicy {
        host: ExecutionHost::Node,
        runtime_type: RuntimeType::Gvisor,
        workspace_access: WorkspaceAccess::Ro,
        network_enabled: false,
        resources: SandboxResources { cpu: Some(1000), memory: None, gpu: Some(1) },
        retry: RetryPolicy { max_attempts: 2, ..RetryPolicy::default() },
        ..ExecutionPolicy::default()
    };
    let child = ExecutionPolicy::unrestricted().intersect(&parent);
    assert_eq!(child.host, ExecutionHost::Node);
    assert_eq!(child.runtime_type, RuntimeType::Gvisor);
    assert_eq!(child.workspace_access, WorkspaceAccess::Ro);
    assert!(!child.network_enabled && !child.interactive);
    assert_eq!((child.security, child.ask), (CommandPolicy::Allowlist, CommandApproval::Off));
    assert_eq!(child.resources.cpu, Some(1000));
    assert_eq!(child.resources.memory, Some(POLICY_MEMORY_BYTES_DEFAULT), "unsaid is the default");
    assert_eq!((child.resources.gpu, child.retry.max_attempts), (Some(1), 2));
    let silent = ExecutionPolicy::default().intersect(&parent);
    assert_eq!(silent.resources.cpu, Some(1000), "who says nothing is bound too");
    assert_eq!((silent.resources.memory, silent.resources.gpu), (None, None));
}

#[test]
fn the_widest_ceiling_takes_nothing_away() {
    for policy in policies() {
        let under = policy.intersect(&ExecutionPolicy::unrestricted());
        assert_eq!(under, ExecutionPolicy { interactive: policy.interactive, ..policy });
    }
}

#[test]
fn the_agent_chooses_under_the_ceiling_and_the_call_only_tightens() {
    let ceiling =
        ExecutionPolicy { security: CommandPolicy::Full, ..ExecutionPolicy::unrestricted() };
    let agent = ExecutionPolicyPatch {
        security: Some(CommandPolicy::Full),
        ..ExecutionPolicyPatch::default()
    };
    let none = ExecutionPolicyPatch::default();
    let effective = ExecutionPolicy::effective(&ceiling, &agent, &none, &none);
    assert_eq!(effective.security, CommandPolicy::Full);
    let session = ExecutionPolicyPatch {
        ask: Some(CommandApproval::OnMiss),
        ..ExecutionPolicyPatch::default()
    };
    let call = ExecutionPolicyPatch {
        security: Some(CommandPolicy::Allowlist),
        ..ExecutionPolicyPatch::default()
    };
    let effective = ExecutionPolicy::effective(&ceiling, &agent, &session, &call);
    assert_eq!(
        (effective.security, effective.ask),
        (CommandPolicy::Allowlist, CommandApproval::OnMiss)
    );
    let wider = ExecutionPolicyPatch {
        security: Some(CommandPolicy::Full),
        ..ExecutionPolicyPatch::default()
    };
    let effective = ExecutionPolicy::effective(&ExecutionPolicy::default(), &none, &none, &wider);
    assert_eq!(effective.security, CommandPolicy::Allowlist, "a call cannot widen");
    let low = ExecutionPolicy { security: CommandPolicy::Deny, ..ExecutionPolicy::unrestricted() };
    assert_eq!(
        ExecutionPolicy::effective(&low, &agent, &none, &none).security,
        CommandPolicy::Deny
    );
}

#[test]
fn a_bad_policy_is_refused_with_its_place_and_a_remedy() {
    for (value, path, fix) in [
        (json!([]), "policy", "give an object"),
        (json!({"security": "ful"}), "policy.security", "use one of deny, allowlist, full"),
        (json!({"ask": "on_miss"}), "policy.ask", "use one of off, on-miss, always"),
        (json!({"host": "gateway"}), "policy.host", "use one of sandbox, node, local"),
        (json!({"runtime_type": 1}), "policy.runtime_type", "give one of its words in quotes"),
        (json!({"workspace_access": "w"}), "policy.workspace_access", "use one of none, ro, rw"),
        (json!({"network_enabled": "no"}), "policy.network_enabled", "use true or false"),
        (json!({"interactive": 1}), "policy.interactive", "use true or false"),
        (json!({"resources": {"cpu": 0}}), "policy.resources.cpu", "use 1 to 32000"),
        (json!({"resources": {"cpu": 32_001}}), "policy.resources.cpu", "use 1 to 32000"),
        (json!({"resources": {"cpu": -1}}), "policy.resources.cpu", "use a number from 0 upwards"),
        (json!({"resources": {"gpu": 9}}), "policy.resources.gpu", "use 0 to 8"),
        (
            json!({"resources": {"memory": 1_u64 << 38}}),
            "policy.resources.memory",
            "use 1 to 137438953472",
        ),
        (json!({"resources": {"disk": 1}}), "policy.resources.disk", "use cpu, memory, gpu"),
        (
            json!({"retry": {"max_attempts": 0}}),
            "policy.retry.max_attempts",
            "use 1 to 20; 1 never tries again",
        ),
        (json!({"retry": {"retry_on": ["deadline"]}}), "policy.retry.retry_on", "leave it out"),
        (
            json!({"retry": {"retry_on": "all"}}),
            "policy.retry.retry_on",
            "give a list of outcome codes",
        ),
        (json!({"retry": {"backoff": 1}}), "policy.retry.backoff", "use max_attempts, delay_ms"),
        (json!({"sudo": true}), "policy.sudo", "use host, security"),
    ] {
        let error = ExecutionPolicyPatch::parse(&value).unwrap_err();
        assert_eq!((error.path.as_str(), error.code()), (path, "policy_invalid"), "{error}");
        assert!(error.fix.starts_with(fix), "{error}");
        let read = serde_json::from_value::<ExecutionPolicyPatch>(value).unwrap_err().to_string();
        assert!(read.contains(path), "the same when it is read inside a command: {read}");
    }
}

#[test]
fn a_good_policy_is_read_and_comes_back() {
    let value = json!({
        "host": "sandbox", "security": "full", "ask": "on-miss", "runtime_type": "runc",
        "workspace_access": "ro", "network_enabled": false, "interactive": true,
        "resources": {"cpu": 500, "memory": 1024, "gpu": 1},
        "retry": {"max_attempts": 2, "delay_ms": 0, "factor": 3, "cap_ms": 9, "jitter": "none",
            "pause_at_end": true, "retry_on": ["sandbox_start"]},
    });
    let patch = ExecutionPolicyPatch::parse(&value).unwrap();
    assert_eq!(patch.ask, Some(CommandApproval::OnMiss));
    let written = serde_json::to_value(&patch).unwrap();
    assert_eq!(ExecutionPolicyPatch::parse(&written).unwrap(), patch);
    let policy = patch.apply_to(&ExecutionPolicy::default());
    let text = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<ExecutionPolicy>(&text).unwrap(), policy);
    assert_eq!(
        ExecutionPolicyPatch::parse(&json!({"ask": null})).unwrap(),
        ExecutionPolicyPatch::default()
    );
}

#[test]
fn what_nothing_can_honour_is_refused_with_a_reason() {
    let policy = ExecutionPolicy::default;
    let deny = || ExecutionPolicy { security: CommandPolicy::Deny, ..policy() };
    let some = SandboxCapabilities {
        hosts: vec![ExecutionHost::Sandbox],
        runtimes: vec![RuntimeType::Runc],
        ..SandboxCapabilities::default()
    };
    let resources = SandboxResources { cpu: Some(1), ..SandboxResources::default() };
    let runc = || ExecutionPolicy { runtime_type: RuntimeType::Runc, ..policy() };
    for (policy, supported, path) in [
        (policy(), &SandboxCapabilities::default(), "policy.host"),
        (policy(), &some, "policy.runtime_type"),
        (ExecutionPolicy { host: ExecutionHost::Local, ..policy() }, &some, "policy.host"),
        (ExecutionPolicy { network_enabled: false, ..deny() }, &some, "policy.network_enabled"),
        (
            ExecutionPolicy { workspace_access: WorkspaceAccess::None, ..deny() },
            &some,
            "policy.workspace_access",
        ),
        (ExecutionPolicy { resources, ..runc() }, &some, "policy.resources.cpu"),
        (
            ExecutionPolicy {
                resources: SandboxResources { gpu: Some(1), ..SandboxResources::default() },
                ..runc()
            },
            &some,
            "policy.resources.gpu",
        ),
    ] {
        let error = policy.check_supported(supported).unwrap_err();
        assert_eq!((error.path.as_str(), error.code()), (path, "policy_unsupported"));
        assert!(error.to_string().contains("no sandbox here can honour"), "{error}");
    }
    assert_eq!(runc().check_supported(&some), Ok(()));
    assert_eq!(
        deny().check_supported(&SandboxCapabilities::default()),
        Ok(()),
        "no command, no sandbox"
    );
}
