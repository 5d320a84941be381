//! Sandbox for declared programs: the operator's default isolation profile, adjusted by the declaration within the
//! operator's limits.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::HeaderName;
use parking_lot::Mutex;
use provost_core::Secret;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{McpIsolation, ProcessLimits};
use provost_mcp::launcher::{
    ExitKind, LaunchError, LaunchRequest, LaunchedServer, ProcessLauncher, ServerProcessHandle,
};
use provost_sandbox::egress::{EgressLog, NetPolicy};
use provost_sandbox::{
    EgressPolicy, EgressRule, IsolationError, IsolationProfile, NetworkAccess, ResourceLimits,
    RootfsSource, SandboxCommand, SandboxRegistry, SandboxedProcess, Stdin, WorkspaceMount,
};
use tokio_util::sync::CancellationToken;

use crate::transport::error;

/// CPU time limit of a server program, which has no time limit otherwise.
const SERVER_CPU_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Operator's settings for the sandboxes of declared programs.
#[derive(Clone)]
pub struct SandboxConfig {
    /// Sandbox backends of this machine.
    pub backends: SandboxRegistry,
    /// Default isolation profile. Its mode is the isolation of the programs.
    pub profile: IsolationProfile,
    /// Upper limits that a declaration cannot exceed.
    pub ceiling: ResourceLimits,
    /// Network policy for declared hosts.
    pub network: NetPolicy,
    /// Log of connection attempts.
    pub log: EgressLog,
}

/// Settings that a declaration requests for its program.
#[derive(Debug, Clone, Copy, Default)]
pub struct SandboxRequest<'a> {
    /// Hosts that the program may reach. Empty for no network access.
    pub hosts: &'a [String],
    /// Headers with secret values. The proxy adds them to requests to the only host.
    pub secrets: &'a [(String, Secret<String>)],
    /// Container image. `None` for the root filesystem of the default profile.
    pub image: Option<&'a str>,
    /// Requested resource limits. An absent limit has the default of the operator.
    pub limits: ProcessLimits,
    /// Labels of logged connection attempts: `namespace`, and identifiers of the call.
    pub labels: &'a [(&'a str, &'a str)],
}

impl SandboxRequest<'_> {
    /// Returns the egress rule of a host. If there are secrets, the rule requires TLS and adds them to requests.
    fn egress_rule(&self, host: &str) -> Result<EgressRule, IsolationError> {
        let rule = EgressRule::new(host)?;
        if self.secrets.is_empty() {
            return Ok(rule);
        }
        self.secrets.iter().try_fold(rule.over_tls(), |rule, (name, value)| {
            let name = HeaderName::try_from(name.as_str());
            let wrong =
                |_| IsolationError::Invalid("a credential has an invalid header".to_owned());
            Ok(rule.header(name.map_err(wrong)?, value.clone()))
        })
    }
}

impl SandboxConfig {
    /// Returns the isolation profile of a tool or server: the defaults with the requested settings, each limit at most
    /// the operator's ceiling. Returns an error for an invalid host.
    pub fn profile(
        &self,
        name: &str,
        request: SandboxRequest<'_>,
    ) -> Result<IsolationProfile, ToolContractError> {
        let mut profile = self.profile.clone();
        let ProcessLimits { memory_bytes, cpu_percent, pids } = request.limits;
        let defaults = profile.limits;
        let limits = ResourceLimits {
            memory_bytes: memory_bytes.unwrap_or(defaults.memory_bytes),
            cpu_percent: cpu_percent.unwrap_or(defaults.cpu_percent),
            pids: pids.unwrap_or(defaults.pids),
            ..defaults
        };
        profile.limits = limits.stricter(&self.ceiling);
        profile.source = request.image.map(|image| RootfsSource::Image(image.to_owned()));
        if request.hosts.is_empty() {
            return Ok(profile);
        }
        let to_tool_error = |error: IsolationError| {
            error::invalid_definition(error.to_string()).detail("field", "hosts")
        };
        let rules = request.hosts.iter().map(|host| request.egress_rule(host));
        let rules = rules.collect::<Result<Vec<_>, _>>().map_err(to_tool_error)?;
        let egress = EgressPolicy::new(name, rules, self.network, Arc::clone(&self.log))
            .map_err(to_tool_error)?;
        let labels = request.labels.iter().filter(|(_, value)| !value.is_empty());
        let egress = labels.fold(egress, |egress, (name, value)| egress.label(*name, *value));
        profile.network = NetworkAccess::Allow(Arc::new(egress));
        Ok(profile)
    }

    /// Returns a launcher for the program of an MCP server. If the required isolation is not available, launching
    /// fails.
    pub fn launcher(
        &self,
        namespace: &str,
        name: &str,
        isolation: &McpIsolation,
    ) -> Result<Arc<dyn ProcessLauncher>, ToolContractError> {
        let request = SandboxRequest {
            hosts: &isolation.hosts,
            secrets: &[],
            image: isolation.image.as_deref(),
            limits: isolation.resources,
            labels: &[("namespace", namespace)],
        };
        let mut profile = self.profile(name, request)?;
        profile.limits.cpu_time = SERVER_CPU_TIME;
        if let Some(dir) = &isolation.workspace {
            profile.workspace = match isolation.writable {
                true => WorkspaceMount::ReadWrite(dir.into()),
                false => WorkspaceMount::ReadOnly(dir.into()),
            };
        }
        Ok(Arc::new(SandboxLauncher { backends: self.backends.clone(), profile }))
    }
}

/// Launcher that starts programs in a sandbox.
struct SandboxLauncher {
    backends: SandboxRegistry,
    profile: IsolationProfile,
}

impl ProcessLauncher for SandboxLauncher {
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedServer, LaunchError>> {
        async move {
            let LaunchRequest { command, args, env } = request;
            let mut job =
                SandboxCommand::new(command, args, self.profile.clone()).input(Stdin::Piped);
            job.env = env.into_iter().collect();
            let mut running = self.backends.start(job).await.map_err(|error| {
                let fault = error.to_contract_error();
                match fault.code {
                    ToolErrorCode::IsolationUnavailable => LaunchError::Isolation(fault.message),
                    _ => LaunchError::Failed(fault.message),
                }
            })?;
            let pipes = (running.take_stdin(), running.take_outputs());
            let (Some(stdin), Some((stdout, stderr))) = pipes else {
                return Err(LaunchError::Failed("the program has no pipes".to_owned()));
            };
            let handle = Box::new(SandboxedServer(Mutex::new(Some(running))));
            Ok(LaunchedServer { stdin, stdout, stderr, handle })
        }
        .boxed()
    }
}

/// The program of an MCP server in a sandbox. `None` after it was killed.
struct SandboxedServer(Mutex<Option<SandboxedProcess>>);

impl ServerProcessHandle for SandboxedServer {
    fn exit(&self) -> Option<ExitKind> {
        match &*self.0.lock() {
            Some(running) if !running.has_ended() => None,
            _ => Some(ExitKind::Unknown),
        }
    }

    fn terminate(&self) {
        if let Some(running) = &*self.0.lock() {
            running.terminate();
        }
    }

    fn kill(&self) {
        let running = self.0.lock().take();
        drop(running);
    }

    fn kill_and_wait(&self) -> BoxFuture<'_, ()> {
        async {
            let Some(running) = self.0.lock().take() else { return };
            let stopped = CancellationToken::new();
            stopped.cancel();
            if let Err(error) = running.wait_with_output(Stdin::Empty, &stopped, |_, _| {}).await {
                tracing::debug!(%error, "sandboxed MCP server could not be stopped");
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_out_over_tls_and_is_in_no_text() {
        let secrets = [("authorization".to_owned(), Secret::new("Bearer hunter2".to_owned()))];
        let rule_text = |secrets| {
            let request = SandboxRequest { secrets, ..SandboxRequest::default() };
            format!("{:?}", request.egress_rule("api.example.com").unwrap())
        };
        assert!(rule_text(&[]).contains("uses_tls: false"));
        let with = rule_text(&secrets);
        assert!(with.contains("uses_tls: true") && with.contains("authorization"), "{with}");
        assert!(!with.contains("hunter2"), "{with}");
    }
}
