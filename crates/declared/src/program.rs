//! Sandboxes for declared programs, looked for only where there are any.

use std::sync::Arc;

use provost_core::Env;
use provost_core::resource::{IsolationMode, ToolType};
use provost_isolation::egress::{EgressLog, NetPolicy};
use provost_isolation::{
    Backends, Container, ContainerOptions, EgressEvent, Launcher, Profile, Verdict, Workspaces,
};
use provost_runtime::{CliOptions, CliRuntime, CommandAllowList, Sandbox};
use provost_tool::{AuditEvent, AuditOutcome, AuditSink, RegistryError, Runtimes};

use crate::Declared;

/// What programs need.
pub(crate) struct Programs<'a> {
    pub(crate) sandboxes: &'a Sandboxes,
    pub(crate) commands: &'a CommandAllowList,
    pub(crate) workspaces: Option<Workspaces>,
}

/// The sandboxes of this machine, and what counts in them.
pub(crate) struct Sandboxes {
    backends: Backends,
    network: NetPolicy,
    log: EgressLog,
}

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
        let is_needed = declared.tools.values().any(|tool| tool.what.kind == ToolType::Cli)
            || declared.servers.values().any(|server| server.what.isolation.is_some());
        let mut backends = match is_needed {
            true => Backends::find(launcher).await,
            false => Backends::default(),
        };
        if let (true, Some(options)) = (is_needed, container) {
            match Container::open(options).await {
                Ok(container) => backends.add(Arc::new(container)),
                Err(error) => backends.miss(IsolationMode::Container, error.to_string()),
            }
        }
        Self { backends, network, log: log(audit, env) }
    }

    /// The sandbox of a mode, whether it works here or not: what does not is refused when it is used.
    pub(crate) fn sandbox(&self, mode: IsolationMode) -> Sandbox {
        Sandbox {
            backends: self.backends.clone(),
            profile: Profile::new(mode),
            network: self.network,
            log: Arc::clone(&self.log),
        }
    }

    /// What `sandboxed` stands for: a container, if the operator has set one up, else a process with fewer rights.
    pub(crate) fn usual(&self) -> Option<IsolationMode> {
        let works = |mode: &IsolationMode| self.backends.select(&Profile::new(*mode)).is_ok();
        [IsolationMode::Container, IsolationMode::Process].into_iter().find(works)
    }
}

impl Programs<'_> {
    /// Adds a runtime for each isolation that works here. What does not work is not there, and whoever demands it is refused.
    pub(crate) fn add(
        self,
        runtimes: &mut Runtimes,
        declared: &Declared,
    ) -> Result<(), RegistryError> {
        if !declared.tools.values().any(|tool| tool.what.kind == ToolType::Cli) {
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
        match self.sandboxes.usual() {
            Some(mode) => runtimes.sandbox_by(mode),
            None => Ok(()),
        }
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
    use provost_store::row::audit::{self, AuditFilter};
    use provost_store::{Store, StoreOptions};

    use super::*;
    use crate::Records;

    /// Whoever looks for what a namespace has done finds every attempt, also one that was refused.
    #[tokio::test]
    async fn every_attempt_to_reach_somebody_is_in_the_records_of_its_namespace() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions::in_dir(dir.path())).unwrap();
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
