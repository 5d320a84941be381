//! Where programs run that others declare: one profile of the operator's, made narrower by what is declared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::HeaderName;
use provost_core::Secret;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{McpIsolation, ProcessLimits};
use provost_mcp::launcher::{Ending, Life, Start, StartError, Started, Starter};
use provost_sandbox::egress::{EgressLog, NetPolicy};
use provost_sandbox::{
    Backends, Egress, EgressRule, Input, IsolationError, Job, Limits, Network, Profile, Running,
    Source, Workspace,
};
use tokio_util::sync::CancellationToken;

use crate::transport::fault;

/// Time on a processor for a program that stays: its share is bounded, its life is not.
const SERVER_CPU_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Where programs run that others declare.
#[derive(Clone)]
pub struct Sandbox {
    /// The sandboxes of this machine.
    pub backends: Backends,
    /// What a program may have there that asks for nothing. Its mode is the isolation that it gets.
    pub profile: Profile,
    /// What no program has more of, whatever it asks for.
    pub ceiling: Limits,
    /// What may be reached of the hosts that are declared.
    pub network: NetPolicy,
    /// Who is told of every attempt to reach one.
    pub log: EgressLog,
}

/// What a declaration wants of a sandbox.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Hosts to reach.
    pub hosts: &'a [String],
    /// Headers with secrets, which the proxy puts into requests to the one host there is then.
    pub secrets: &'a [(String, Secret<String>)],
    /// The image of a container.
    pub image: Option<&'a str>,
    /// How much may be used.
    pub bounds: ProcessLimits,
    /// What attempts to reach a host are recorded with: `namespace`, and what is known of the call.
    pub labels: &'a [(&'a str, &'a str)],
}

impl Wanted<'_> {
    /// The rule of a host. A secret goes out over TLS, however the program asks.
    fn rule(&self, host: &str) -> Result<EgressRule, IsolationError> {
        let rule = EgressRule::new(host)?;
        if self.secrets.is_empty() {
            return Ok(rule);
        }
        self.secrets.iter().try_fold(rule.over_tls(), |rule, (name, value)| {
            let name = HeaderName::try_from(name.as_str());
            let wrong =
                |_| IsolationError::Job("a credential has no header to stand in".to_owned());
            Ok(rule.header(name.map_err(wrong)?, value.clone()))
        })
    }
}

impl Sandbox {
    /// The profile of a program by the name of its tool or server: what is wanted, and never more than the operator gives.
    pub fn profile(&self, name: &str, wanted: Wanted<'_>) -> Result<Profile, ToolContractError> {
        let mut profile = self.profile.clone();
        let ProcessLimits { memory_bytes, cpu_percent, pids } = wanted.bounds;
        let usual = profile.limits;
        let asked = Limits {
            memory_bytes: memory_bytes.unwrap_or(usual.memory_bytes),
            cpu_percent: cpu_percent.unwrap_or(usual.cpu_percent),
            pids: pids.unwrap_or(usual.pids),
            ..usual
        };
        profile.limits = asked.stricter(&self.ceiling);
        profile.source = wanted.image.map(|image| Source::Image(image.to_owned()));
        if wanted.hosts.is_empty() {
            return Ok(profile);
        }
        let told =
            |error: IsolationError| fault::definition(error.to_string()).detail("field", "hosts");
        let rules = wanted.hosts.iter().map(|host| wanted.rule(host));
        let rules = rules.collect::<Result<Vec<_>, _>>().map_err(told)?;
        let egress = Egress::new(name, rules, self.network, Arc::clone(&self.log)).map_err(told)?;
        let labels = wanted.labels.iter().filter(|(_, value)| !value.is_empty());
        let egress = labels.fold(egress, |egress, (name, value)| egress.label(*name, *value));
        profile.network = Network::Allow(Arc::new(egress));
        Ok(profile)
    }

    /// Starts the program of an MCP server in its sandbox. What cannot be isolated as it demands is refused when it is started,
    /// and nothing runs.
    pub fn starter(
        &self,
        namespace: &str,
        name: &str,
        demanded: &McpIsolation,
    ) -> Result<Arc<dyn Starter>, ToolContractError> {
        let wanted = Wanted {
            hosts: &demanded.hosts,
            secrets: &[],
            image: demanded.image.as_deref(),
            bounds: demanded.resources,
            labels: &[("namespace", namespace)],
        };
        let mut profile = self.profile(name, wanted)?;
        profile.limits.cpu_time = SERVER_CPU_TIME;
        if let Some(dir) = &demanded.workspace {
            profile.workspace = match demanded.writable {
                true => Workspace::ReadWrite(dir.into()),
                false => Workspace::ReadOnly(dir.into()),
            };
        }
        Ok(Arc::new(Inside { backends: self.backends.clone(), profile }))
    }
}

/// Starts programs in a sandbox that is the same for all of them.
struct Inside {
    backends: Backends,
    profile: Profile,
}

impl Starter for Inside {
    fn start(&self, program: Start) -> BoxFuture<'_, Result<Started, StartError>> {
        async move {
            let Start { command, args, env } = program;
            let mut job = Job::new(command, args, self.profile.clone()).input(Input::Piped);
            job.env = env.into_iter().collect();
            let mut running = self.backends.start(job).await.map_err(|error| {
                let fault = error.fault();
                match fault.code {
                    ToolErrorCode::IsolationUnavailable => StartError::Isolation(fault.message),
                    _ => StartError::Failed(fault.message),
                }
            })?;
            let pipes = (running.take_stdin(), running.take_outputs());
            let (Some(input), Some((output, errors))) = pipes else {
                return Err(StartError::Failed("the program has no pipes".to_owned()));
            };
            let life = Box::new(Kept(Mutex::new(Some(running))));
            Ok(Started { input, output, errors, life })
        }
        .boxed()
    }
}

/// A program that runs in a sandbox; nothing once it was ended.
struct Kept(Mutex<Option<Running>>);

impl Kept {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Life for Kept {
    fn ended(&self) -> Option<Ending> {
        match &*self.running() {
            Some(running) if !running.has_ended() => None,
            _ => Some(Ending::Unknown),
        }
    }

    fn ask(&self) {
        if let Some(running) = &*self.running() {
            running.ask_to_end();
        }
    }

    fn kill(&self) {
        let running = self.running().take();
        drop(running);
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        async {
            let Some(running) = self.running().take() else { return };
            let stopped = CancellationToken::new();
            stopped.cancel();
            if let Err(error) = running.drive(Input::Empty, &stopped, |_, _| {}).await {
                tracing::debug!(%error, "a sandboxed MCP server did not end well");
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
        let told = |secrets| {
            let wanted = Wanted { secrets, ..Wanted::default() };
            format!("{:?}", wanted.rule("api.example.com").unwrap())
        };
        assert!(told(&[]).contains("upgrades: false"));
        let with = told(&secrets);
        assert!(with.contains("upgrades: true") && with.contains("authorization"), "{with}");
        assert!(!with.contains("hunter2"), "{with}");
    }
}
