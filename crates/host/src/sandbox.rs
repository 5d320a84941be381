//! Sandboxes of declared programs. The backends are probed only if a manifest needs them.

use std::sync::Arc;
use std::time::Duration;

use provost_core::Env;
use provost_core::resource::{IsolationMode, ToolType};
use provost_resource::ResourceSet;
use provost_sandbox::egress::{EgressLog, NetPolicy};
use provost_sandbox::{
    Container, ContainerOptions, EgressDecision, EgressEvent, IsolationProfile, Launcher,
    ResourceLimits, SandboxRegistry,
};
use provost_tool::{AuditOutcome, AuditRecord, AuditSink, RegistryError, RuntimeRegistry};
use provost_tool_runtime::{CommandAllowList, ProcessOptions, ProcessRuntime, SandboxConfig};
use provost_workspace::conversation::ConversationWorkspaces;

/// Dependencies of the runtimes of declared programs.
pub(crate) struct ProgramRuntimes<'a> {
    pub(crate) sandboxes: &'a Sandboxes,
    pub(crate) commands: &'a CommandAllowList,
    pub(crate) workspaces: Option<ConversationWorkspaces>,
}

/// Sandbox backends of this machine, with their limits and network policy.
pub(crate) struct Sandboxes {
    backends: SandboxRegistry,
    /// Limits of containers. `None` if the operator configured no containers. The backend can still be unavailable.
    containers: Option<ResourceLimits>,
    network: NetPolicy,
    log: EgressLog,
}

/// Upper limit of the wall-clock and CPU time of a program. The timeout of the tool applies first.
const TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// Settings of the sandbox backends.
pub(crate) struct SandboxOptions {
    pub(crate) launcher: Option<Launcher>,
    pub(crate) container: Option<ContainerOptions>,
    pub(crate) network: NetPolicy,
    pub(crate) audit: Option<Arc<dyn AuditSink>>,
    pub(crate) env: Env,
}

impl Sandboxes {
    /// Probes the backends of this machine if a declared tool or server needs a sandbox.
    pub(crate) async fn probe(declared: &ResourceSet, options: SandboxOptions) -> Self {
        let SandboxOptions { launcher, container, network, audit, env } = options;
        let is_needed = declared.all_tools().any(|(_, tool)| tool.resource.kind == ToolType::Cli)
            || declared.all_servers().any(|(_, server)| server.resource.isolation.is_some());
        let mut backends = match is_needed {
            true => SandboxRegistry::detect(launcher).await,
            false => SandboxRegistry::default(),
        };
        let containers = container.as_ref().map(|options| options.ceiling.clone());
        if let (true, Some(options)) = (is_needed, container) {
            match Container::open(options).await {
                Ok(container) => backends.add(Arc::new(container)),
                Err(error) => {
                    backends.mark_unavailable(IsolationMode::Container, error.to_string())
                }
            }
        }
        Self { backends, containers, network, log: audit_log(audit, env) }
    }

    /// Returns the sandbox settings of a mode. If its backend is not available, starting a program in it fails.
    pub(crate) fn sandbox(&self, mode: IsolationMode) -> SandboxConfig {
        let with_max_time = |limits: ResourceLimits| ResourceLimits {
            time: TIME_MAX,
            cpu_time: TIME_MAX,
            ..limits
        };
        let ceiling = self.containers.clone().filter(|_| mode == IsolationMode::Container);
        let profile = IsolationProfile::new(mode);
        let limits = with_max_time(profile.limits.clone());
        SandboxConfig {
            backends: self.backends.clone(),
            profile: IsolationProfile { limits, ..profile },
            ceiling: with_max_time(ceiling.unwrap_or_default()),
            network: self.network,
            log: Arc::clone(&self.log),
        }
    }

    /// Returns the mode of `sandboxed`: a container if the operator configured containers, else a process. A backend
    /// that is not available is never replaced by a weaker one.
    pub(crate) fn default_mode(&self) -> IsolationMode {
        match self.containers {
            Some(_) => IsolationMode::Container,
            None => IsolationMode::Process,
        }
    }
}

impl ProgramRuntimes<'_> {
    /// Adds a runtime for each available isolation mode. A mode that is not available is logged; calls that require it
    /// fail.
    pub(crate) fn add(
        self,
        runtimes: &mut RuntimeRegistry,
        declared: &ResourceSet,
    ) -> Result<(), RegistryError> {
        if !declared.all_tools().any(|(_, tool)| tool.resource.kind == ToolType::Cli) {
            return Ok(());
        }
        for mode in [IsolationMode::None, IsolationMode::Process, IsolationMode::Container] {
            let sandbox = self.sandboxes.sandbox(mode);
            if let Err(error) = sandbox.backends.select(&sandbox.profile) {
                tracing::warn!(%error, "declared programs that require this isolation fail");
                continue;
            }
            let (commands, workspaces) = (self.commands.clone(), self.workspaces.clone());
            let options = ProcessOptions { sandbox, commands, workspaces };
            runtimes.add(Arc::new(ProcessRuntime::new(options)))?;
        }
        runtimes.set_default_sandbox(self.sandboxes.default_mode())
    }
}

/// Creates an egress log that writes an audit record of every connection attempt.
pub(crate) fn audit_log(audit: Option<Arc<dyn AuditSink>>, env: Env) -> EgressLog {
    Arc::new(move |event: EgressEvent| {
        tracing::info!(tool.name = %event.tool, host = %event.host, port = event.port, verdict = ?event.decision, "egress");
        let Some(audit) = audit.clone() else { return };
        let record = to_audit_record(event, &env);
        // The proxy does not wait for the audit record.
        tokio::spawn(async move {
            if let Err(error) = audit.record(record).await {
                tracing::warn!(%error, "cannot write the audit record of an egress attempt");
            }
        });
    })
}

/// Converts a connection attempt to an audit record.
fn to_audit_record(event: EgressEvent, env: &Env) -> AuditRecord {
    let outcome = match event.decision {
        EgressDecision::Allowed => AuditOutcome::Succeeded,
        EgressDecision::Refused => AuditOutcome::Denied,
        EgressDecision::Failed => AuditOutcome::Failed,
    };
    let mut metadata = event.labels;
    let namespace = metadata.remove("namespace").unwrap_or_default();
    metadata.extend([
        ("host".to_owned(), event.host),
        ("port".to_owned(), event.port.to_string()),
        ("method".to_owned(), event.method),
    ]);
    AuditRecord {
        timestamp: env.now(),
        component: "egress".to_owned(),
        action: "tool.egress".to_owned(),
        outcome,
        namespace,
        resource_kind: "Tool".to_owned(),
        resource_name: event.tool,
        principal: metadata.get("agent").cloned().unwrap_or_default(),
        message: event.reason,
        metadata,
    }
}

#[cfg(test)]
mod tests {
    use provost_store::table::governance::audit::{self, AuditFilter};
    use provost_store::{Store, StoreOptions};

    use provost_core::contract::ToolErrorCode;
    use provost_core::resource::ProcessLimits;
    use provost_engine::Records;
    use provost_sandbox::RootfsSource;
    use provost_tool_runtime::SandboxRequest;

    use super::*;

    const COUNT: &str = "kind: Tool\nmetadata: {name: count}\nspec: {type: cli, effect: pure, cli: {command: wc}}\n";

    async fn sandboxes(declared: &ResourceSet, container: Option<ContainerOptions>) -> Sandboxes {
        let (network, env) = (NetPolicy::default(), Env::system());
        let means = SandboxOptions { launcher: None, container, network, audit: None, env };
        Sandboxes::probe(declared, means).await
    }

    /// Containers that do not work are not replaced by weaker isolation.
    #[tokio::test]
    async fn nothing_takes_the_place_of_containers_that_do_not_work() {
        let declared = ResourceSet::parse(COUNT).unwrap();
        let options = ContainerOptions::new("/no/such/engine", RootfsSource::Host);
        let sandboxes = sandboxes(&declared, Some(options)).await;
        let mut runtimes = RuntimeRegistry::default();
        let commands = CommandAllowList::of(["wc"]);
        let programs =
            ProgramRuntimes { sandboxes: &sandboxes, commands: &commands, workspaces: None };
        programs.add(&mut runtimes, &declared).unwrap();
        for (_, tool) in declared.all_tools() {
            let fault = runtimes.select(&tool.resource).err().unwrap();
            assert_eq!(fault.code, ToolErrorCode::IsolationUnavailable, "{}", fault.message);
        }
        assert_eq!(sandboxes.default_mode(), IsolationMode::Container, "for MCP servers too");
    }

    /// A tool gets the limits that it declares, up to the ceiling of the operator.
    #[tokio::test]
    async fn a_tool_gets_what_it_asks_for_up_to_the_ceiling() {
        let declared = ResourceSet::parse(COUNT).unwrap();
        let mut options = ContainerOptions::new("/no/such/engine", RootfsSource::Host);
        options.ceiling.memory_bytes = 2 << 30;
        let sandboxes = sandboxes(&declared, Some(options)).await;
        let given = |mode, asked: Option<u64>| {
            let bounds = ProcessLimits { memory_bytes: asked, ..ProcessLimits::default() };
            let request = SandboxRequest { limits: bounds, ..SandboxRequest::default() };
            let profile = sandboxes.sandbox(mode).profile("count", request).unwrap();
            assert_eq!(profile.limits.time, TIME_MAX, "the tool's timeout is what counts");
            profile.limits.memory_bytes >> 20
        };
        let (container, process) = (IsolationMode::Container, IsolationMode::Process);
        assert_eq!(given(container, None), 512);
        assert_eq!(given(container, Some(1 << 30)), 1024);
        assert_eq!(given(container, Some(4 << 30)), 2048);
        assert_eq!(given(process, Some(4 << 30)), 512);
    }

    /// The audit records of a namespace contain every attempt, also refused ones.
    #[tokio::test]
    async fn every_attempt_to_reach_somebody_is_in_the_records_of_its_namespace() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions::for_test(dir.path())).unwrap();
        let records = Arc::new(Records::new(store.clone()));
        let log = audit_log(Some(records), Env::system());
        let decisions = [EgressDecision::Allowed, EgressDecision::Refused, EgressDecision::Failed];
        for decision in decisions {
            log(EgressEvent {
                tool: "weather".to_owned(),
                method: "CONNECT".to_owned(),
                host: "api.example.com".to_owned(),
                port: 443,
                decision,
                reason: String::new(),
                labels: [("namespace", "team"), ("agent", "clerk"), ("call", "req-1")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            });
        }
        let mut rows = Vec::new();
        while rows.len() < decisions.len() {
            tokio::task::yield_now().await;
            let filter = AuditFilter::default();
            rows = store.read(move |tx| audit::list(tx, "team", &filter, 10)).await.unwrap();
        }
        let mut outcomes: Vec<&str> = rows.iter().map(|row| row.outcome.as_str()).collect();
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["denied", "failed", "succeeded"]);
        for row in &rows {
            assert_eq!((row.action.as_str(), row.resource.as_str()), ("tool.egress", "weather"));
            for text in ["api.example.com", "\"port\":\"443\"", "req-1", "clerk"] {
                assert!(row.body.contains(text), "{}", row.body);
            }
        }
        store.close().await;
    }
}
