//! Sandboxes for declared programs, looked for only where there are any.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_core::Env;
use provost_core::resource::{IsolationMode, ToolType};
use provost_isolation::egress::{EgressLog, NetPolicy};
use provost_isolation::{Backends, EgressEvent, Launcher, Profile, Verdict};
use provost_runtime::{CliOptions, CliRuntime, CommandAllowList};
use provost_tool::{AuditEvent, AuditOutcome, AuditSink, RegistryError, Runtimes};

use crate::Declared;

/// What programs need.
pub(crate) struct Programs<'a> {
    pub(crate) launcher: Option<Launcher>,
    pub(crate) commands: &'a CommandAllowList,
    pub(crate) network: NetPolicy,
    pub(crate) audit: Option<Arc<dyn AuditSink>>,
    pub(crate) env: &'a Env,
}

impl Programs<'_> {
    /// Adds a runtime for each isolation that works here. What does not work is not there, and whoever demands it is refused.
    pub(crate) async fn add(
        self,
        runtimes: &mut Runtimes,
        declared: &Declared,
    ) -> Result<(), RegistryError> {
        if !declared.tools.values().any(|tool| tool.what.kind == ToolType::Cli) {
            return Ok(());
        }
        let backends = Backends::find(self.launcher.clone()).await;
        for mode in [IsolationMode::None, IsolationMode::Process] {
            let profile = Profile::new(mode);
            if let Err(error) = backends.select(&profile) {
                tracing::warn!(%error, "declared programs that demand it do not run");
                continue;
            }
            let options = CliOptions {
                backends: backends.clone(),
                profile,
                commands: self.commands.clone(),
                network: self.network,
                log: log(self.audit.clone(), self.env.clone()),
            };
            runtimes.add(Arc::new(CliRuntime::new(options)))?;
            if mode != IsolationMode::None {
                runtimes.sandbox_by(mode)?;
            }
        }
        Ok(())
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
    let metadata = BTreeMap::from([
        ("host".to_owned(), event.host),
        ("port".to_owned(), event.port.to_string()),
        ("method".to_owned(), event.method),
    ]);
    AuditEvent {
        timestamp: env.now(),
        component: "egress".to_owned(),
        action: "tool.egress".to_owned(),
        outcome,
        namespace: String::new(),
        resource_kind: "tool".to_owned(),
        resource_name: event.tool,
        principal: String::new(),
        message: event.why,
        metadata,
    }
}
