//! Sandboxes for declared programs, looked for only where there are any.

use std::sync::Arc;
use std::time::Duration;

use provost_core::Env;
use provost_core::resource::{IsolationMode, ToolType};
use provost_resource::Declared;
use provost_sandbox::egress::{EgressLog, NetPolicy};
use provost_sandbox::{
    Backends, Container, ContainerOptions, EgressEvent, Launcher, Limits, Profile, Verdict,
};
use provost_tool::{AuditEvent, AuditOutcome, AuditSink, RegistryError, Runtimes};
use provost_tool_runtime::{CliOptions, CliRuntime, CommandAllowList, Sandbox};
use provost_workspace::conversation::Workspaces;

/// What programs need.
pub(crate) struct Programs<'a> {
    pub(crate) sandboxes: &'a Sandboxes,
    pub(crate) commands: &'a CommandAllowList,
    pub(crate) workspaces: Option<Workspaces>,
}

/// The sandboxes of this machine, and what counts in them.
pub(crate) struct Sandboxes {
    backends: Backends,
    /// What the operator allows containers, if there are to be any; whether they work is another question.
    containers: Option<Limits>,
    network: NetPolicy,
    log: EgressLog,
}

/// A program has the time of its tool. No attempt has more than this, on the clock and on a processor.
const TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// What sandboxes are looked for with.
pub(crate) struct Means {
    pub(crate) launcher: Option<Launcher>,
    pub(crate) container: Option<ContainerOptions>,
    pub(crate) network: NetPolicy,
    pub(crate) audit: Option<Arc<dyn AuditSink>>,
    pub(crate) env: Env,
}

impl Sandboxes {
    /// Looks what works here, if anything declared needs it.
    pub(crate) async fn find(declared: &Declared, means: Means) -> Self {
        let Means { launcher, container, network, audit, env } = means;
        let is_needed = declared.all_tools().any(|(_, tool)| tool.what.kind == ToolType::Cli)
            || declared.all_servers().any(|(_, server)| server.what.isolation.is_some());
        let mut backends = match is_needed {
            true => Backends::find(launcher).await,
            false => Backends::default(),
        };
        let containers = container.as_ref().map(|options| options.ceiling.clone());
        if let (true, Some(options)) = (is_needed, container) {
            match Container::open(options).await {
                Ok(container) => backends.add(Arc::new(container)),
                Err(error) => backends.miss(IsolationMode::Container, error.to_string()),
            }
        }
        Self { backends, containers, network, log: log(audit, env) }
    }

    /// The sandbox of a mode, whether it works here or not: what does not is refused when it is used.
    pub(crate) fn sandbox(&self, mode: IsolationMode) -> Sandbox {
        let lasting = |limits: Limits| Limits { time: TIME_MAX, cpu_time: TIME_MAX, ..limits };
        let ceiling = self.containers.clone().filter(|_| mode == IsolationMode::Container);
        let profile = Profile::new(mode);
        let limits = lasting(profile.limits.clone());
        Sandbox {
            backends: self.backends.clone(),
            profile: Profile { limits, ..profile },
            ceiling: lasting(ceiling.unwrap_or_default()),
            network: self.network,
            log: Arc::clone(&self.log),
        }
    }

    /// What `sandboxed` stands for: a container, if the operator wants containers, else a process with fewer rights. If that
    /// does not work here, nothing else takes its place.
    pub(crate) fn usual(&self) -> IsolationMode {
        match self.containers {
            Some(_) => IsolationMode::Container,
            None => IsolationMode::Process,
        }
    }
}

impl Programs<'_> {
    /// Adds a runtime for each isolation that works here. What does not work is not there, and whoever demands it is refused.
    pub(crate) fn add(
        self,
        runtimes: &mut Runtimes,
        declared: &Declared,
    ) -> Result<(), RegistryError> {
        if !declared.all_tools().any(|(_, tool)| tool.what.kind == ToolType::Cli) {
            return Ok(());
        }
        for mode in [IsolationMode::None, IsolationMode::Process, IsolationMode::Container] {
            let sandbox = self.sandboxes.sandbox(mode);
            if let Err(error) = sandbox.backends.select(&sandbox.profile) {
                tracing::warn!(%error, "declared programs that demand it do not run");
                continue;
            }
            let (commands, workspaces) = (self.commands.clone(), self.workspaces.clone());
            let options = CliOptions { sandbox, commands, workspaces };
            runtimes.add(Arc::new(CliRuntime::new(options)))?;
        }
        runtimes.sandbox_by(self.sandboxes.usual())
    }
}

/// Keeps every attempt of a sandboxed program to reach somebody.
pub(crate) fn log(audit: Option<Arc<dyn AuditSink>>, env: Env) -> EgressLog {
    Arc::new(move |event: EgressEvent| {
        tracing::info!(tool.name = %event.tool, host = %event.host, port = event.port, verdict = ?event.verdict, "egress");
        let Some(audit) = audit.clone() else { return };
        let record = record(event, &env);
        // The proxy does not wait for the record; a database that is closed says so itself.
        tokio::spawn(async move {
            if let Err(error) = audit.record(record).await {
                tracing::warn!(%error, "an attempt to reach somebody was not recorded");
            }
        });
    })
}

fn record(event: EgressEvent, env: &Env) -> AuditEvent {
    let outcome = match event.verdict {
        Verdict::Allowed => AuditOutcome::Succeeded,
        Verdict::Refused => AuditOutcome::Denied,
        Verdict::Failed => AuditOutcome::Failed,
    };
    let mut metadata = event.labels;
    let namespace = metadata.remove("namespace").unwrap_or_default();
    metadata.extend([
        ("host".to_owned(), event.host),
        ("port".to_owned(), event.port.to_string()),
        ("method".to_owned(), event.method),
    ]);
    AuditEvent {
        timestamp: env.now(),
        component: "egress".to_owned(),
        action: "tool.egress".to_owned(),
        outcome,
        namespace,
        resource_kind: "Tool".to_owned(),
        resource_name: event.tool,
        principal: metadata.get("agent").cloned().unwrap_or_default(),
        message: event.why,
        metadata,
    }
}

#[cfg(test)]
mod tests {
    use provost_store::table::governance::audit::{self, AuditFilter};
    use provost_store::{Store, StoreOptions};

    use provost_core::contract::ToolErrorCode;
    use provost_core::resource::ProcessLimits;
    use provost_sandbox::Source;
    use provost_tool_runtime::Wanted;

    use super::*;
    use crate::Records;

    const COUNT: &str = "kind: Tool\nmetadata: {name: count}\nspec: {type: cli, effect: pure, cli: {command: wc}}\n";

    async fn sandboxes(declared: &Declared, container: Option<ContainerOptions>) -> Sandboxes {
        let (network, env) = (NetPolicy::default(), Env::system());
        let means = Means { launcher: None, container, network, audit: None, env };
        Sandboxes::find(declared, means).await
    }

    /// An operator who wants containers does not get something weaker where they do not work.
    #[tokio::test]
    async fn nothing_takes_the_place_of_containers_that_do_not_work() {
        let declared = Declared::parse(COUNT).unwrap();
        let options = ContainerOptions::new("/no/such/engine", Source::Machine);
        let sandboxes = sandboxes(&declared, Some(options)).await;
        let mut runtimes = Runtimes::default();
        let commands = CommandAllowList::of(["wc"]);
        let programs = Programs { sandboxes: &sandboxes, commands: &commands, workspaces: None };
        programs.add(&mut runtimes, &declared).unwrap();
        for (_, tool) in declared.all_tools() {
            let fault = runtimes.select(&tool.what).err().unwrap();
            assert_eq!(fault.code, ToolErrorCode::IsolationUnavailable, "{}", fault.message);
        }
        assert_eq!(sandboxes.usual(), IsolationMode::Container, "for MCP servers too");
    }

    /// What a tool asks for it gets up to what the operator allows; one that asks for nothing gets what is usual.
    #[tokio::test]
    async fn a_tool_gets_what_it_asks_for_up_to_the_ceiling() {
        let declared = Declared::parse(COUNT).unwrap();
        let mut options = ContainerOptions::new("/no/such/engine", Source::Machine);
        options.ceiling.memory_bytes = 2 << 30;
        let sandboxes = sandboxes(&declared, Some(options)).await;
        let given = |mode, asked: Option<u64>| {
            let bounds = ProcessLimits { memory_bytes: asked, ..ProcessLimits::default() };
            let wanted = Wanted { bounds, ..Wanted::default() };
            let profile = sandboxes.sandbox(mode).profile("count", wanted).unwrap();
            assert_eq!(profile.limits.time, TIME_MAX, "the tool's timeout is what counts");
            profile.limits.memory_bytes >> 20
        };
        let (container, process) = (IsolationMode::Container, IsolationMode::Process);
        assert_eq!(given(container, None), 512);
        assert_eq!(given(container, Some(1 << 30)), 1024);
        assert_eq!(given(container, Some(4 << 30)), 2048);
        assert_eq!(given(process, Some(4 << 30)), 512);
    }

    /// Whoever looks for what a namespace has done finds every attempt, also one that was refused.
    #[tokio::test]
    async fn every_attempt_to_reach_somebody_is_in_the_records_of_its_namespace() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions::for_test(dir.path())).unwrap();
        let records = Arc::new(Records::new(store.clone(), Env::system()));
        let log = log(Some(records), Env::system());
        let verdicts = [Verdict::Allowed, Verdict::Refused, Verdict::Failed];
        for verdict in verdicts {
            log(EgressEvent {
                tool: "weather".to_owned(),
                method: "CONNECT".to_owned(),
                host: "api.example.com".to_owned(),
                port: 443,
                verdict,
                why: String::new(),
                labels: [("namespace", "team"), ("agent", "clerk"), ("call", "req-1")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            });
        }
        let mut rows = Vec::new();
        while rows.len() < verdicts.len() {
            tokio::task::yield_now().await;
            let filter = AuditFilter::default();
            rows = store.read(move |tx| audit::list(tx, "team", &filter, 10)).await.unwrap();
        }
        let mut outcomes: Vec<&str> = rows.iter().map(|row| row.outcome.as_str()).collect();
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["denied", "failed", "succeeded"]);
        for row in &rows {
            assert_eq!((row.action.as_str(), row.resource.as_str()), ("tool.egress", "weather"));
            for said in ["api.example.com", "\"port\":\"443\"", "req-1", "clerk"] {
                assert!(row.body.contains(said), "{}", row.body);
            }
        }
        store.close().await;
    }
}
