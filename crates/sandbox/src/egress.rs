//! The way out of a sandbox: one proxy that knows each tool's list.
//!
//! A sandbox that has a network has nothing in it but a way to this proxy. A request names a host; only a host on the tool's
//! list is looked up, and what it leads to is checked when it is dialled. Secrets are put into requests here, so a sandboxed
//! program can use one and never has it. Every attempt is told, also one that is refused.
//!
//! Secrets can be put only into what the proxy can read: plain requests, which a rule may send on over TLS. What goes through
//! `CONNECT` is sealed between the program and the host; of that only the host is checked.

mod serve;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderName;
use provost_core::Secret;
use provost_net::{Dialer, Lookup, NetClient, NetOptions, SystemLookup, Url};
use tokio::net::UnixListener;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use provost_net::NetPolicy;

use crate::error::IsolationError;

/// Where a sandboxed program finds the proxy, on its own machine-local address.
pub const PORT: u16 = 3128;
/// Ports of a rule that names none.
const PORTS_DEFAULT: [u16; 2] = [80, 443];
/// Rules of one tool.
pub const RULES_MAX: usize = 256;

/// One host that a tool may reach.
#[derive(Debug, Clone)]
pub struct EgressRule {
    host: String,
    is_suffix: bool,
    ports: Vec<u16>,
    upgrades: bool,
    headers: Vec<(HeaderName, Secret<String>)>,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It went through.
    Allowed,
    /// It was refused, and nothing was dialled.
    Refused,
    /// It was allowed and did not work.
    Failed,
}

/// One attempt to reach somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressEvent {
    /// Whose program it was.
    pub tool: String,
    /// The method, `CONNECT` for a tunnel.
    pub method: String,
    /// The host, as it was understood.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What became of it.
    pub verdict: Verdict,
    /// Why, in words; nothing for what went through.
    pub why: String,
    /// What else is known of the program, such as the call that it was started for.
    pub labels: BTreeMap<String, String>,
}

/// Takes note of attempts.
pub type EgressLog = Arc<dyn Fn(EgressEvent) + Send + Sync>;

/// What one tool may reach, and the way there.
pub struct Egress {
    tool: String,
    labels: BTreeMap<String, String>,
    rules: Vec<EgressRule>,
    client: NetClient,
    dialer: Dialer,
    log: EgressLog,
}

impl EgressRule {
    /// A host by its name or address; `*.example.com` stands for every name below `example.com`.
    pub fn new(host: &str) -> Result<Self, IsolationError> {
        let (bare, is_suffix) = match host.strip_prefix("*.") {
            Some(bare) => (bare, true),
            None => (host, false),
        };
        let wrong = || {
            IsolationError::Job(format!(
                "`{host}` is no host: write `example.com` or `*.example.com`"
            ))
        };
        let HostPort { host, .. } = understood(&format!("{bare}:80")).ok_or_else(wrong)?;
        if bare.contains(['*', '/', '@', ':']) && !bare.starts_with('[') {
            return Err(wrong());
        }
        Ok(Self {
            host,
            is_suffix,
            ports: PORTS_DEFAULT.to_vec(),
            upgrades: false,
            headers: Vec::new(),
        })
    }

    /// Only these ports, instead of 80 and 443.
    #[must_use]
    pub fn ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports = ports.into_iter().collect();
        self
    }

    /// Sends plain requests on over TLS, so that a secret can be put into them on the way.
    #[must_use]
    pub fn over_tls(mut self) -> Self {
        self.upgrades = true;
        self
    }

    /// Puts a secret into a header of every plain request.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: Secret<String>) -> Self {
        self.headers.push((name, value));
        self
    }

    /// True if it is for this host, as the standard for addresses reads it, and this port.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        let is_named = match self.is_suffix {
            true => host.strip_suffix(&self.host).is_some_and(|rest| rest.ends_with('.')),
            false => host == self.host,
        };
        is_named && self.ports.contains(&port)
    }
}

impl Egress {
    /// What a tool may reach. The policy is the operator's: what it forbids no rule opens.
    pub fn new(
        tool: impl Into<String>,
        rules: Vec<EgressRule>,
        policy: NetPolicy,
        log: EgressLog,
    ) -> Result<Self, IsolationError> {
        Self::with_lookup(tool, rules, policy, Arc::new(SystemLookup), log)
    }

    /// The same, with names as somebody else knows them.
    pub fn with_lookup(
        tool: impl Into<String>,
        rules: Vec<EgressRule>,
        policy: NetPolicy,
        lookup: Arc<dyn Lookup>,
        log: EgressLog,
    ) -> Result<Self, IsolationError> {
        if rules.len() > RULES_MAX {
            return Err(IsolationError::Job(format!(
                "there are more than {RULES_MAX} hosts on the list"
            )));
        }
        let options = NetOptions { lookup: Arc::clone(&lookup), ..NetOptions::new(policy) };
        let (client, dialer) = (NetClient::open(options), Dialer::new(policy, lookup));
        let (tool, labels) = (tool.into(), BTreeMap::new());
        Ok(Self { tool, labels, rules, client, dialer, log })
    }

    /// With something that every attempt is told with, such as the call that the program is started for.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    fn rule(&self, host: &str, port: u16) -> Option<&EgressRule> {
        self.rules.iter().find(|rule| rule.covers(host, port))
    }

    /// Opens an entrance at a path. It is closed, with everything that goes through it, when it is dropped.
    pub(crate) fn entrance(self: &Arc<Self>, path: &Path) -> Result<Entrance, IsolationError> {
        let listener = UnixListener::bind(path);
        let listener = listener.map_err(IsolationError::io("no entrance to the proxy"))?;
        let closed = CancellationToken::new();
        tokio::spawn(serve::serve(Arc::clone(self), listener, closed.clone()));
        Ok(Entrance { path: path.to_owned(), _open: closed.drop_guard() })
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.rules.iter().map(|rule| &rule.host).collect();
        f.debug_struct("Egress")
            .field("tool", &self.tool)
            .field("hosts", &hosts)
            .finish_non_exhaustive()
    }
}

/// An entrance to the proxy, for one job.
#[derive(Debug)]
pub(crate) struct Entrance {
    path: PathBuf,
    _open: DropGuard,
}

impl Entrance {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// What a program asks to be connected to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct HostPort {
    host: String,
    port: u16,
}

/// `host:port` as the standard for addresses reads it: `0x7f.1` is `127.0.0.1`, names are in lower case, without a dot at the end.
fn understood(authority: &str) -> Option<HostPort> {
    if authority.contains(['/', '@', '?', '#', '\\']) {
        return None;
    }
    let url = Url::parse(&format!("http://{authority}/")).ok()?;
    let host = url.host_str()?.trim_end_matches('.').to_owned();
    let port = url.port_or_known_default()?;
    (!host.is_empty()).then_some(HostPort { host, port })
}

/// Carries bytes between the network of a sandbox and the entrance, until the program that it stands beside ends.
pub(crate) fn relay(listener: &std::net::TcpListener, entrance: &Path) {
    /// Connections at the same time.
    const CONNECTIONS_MAX: usize = 64;
    let open = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for stream in listener.incoming().filter_map(Result::ok) {
        use std::sync::atomic::Ordering;
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (entrance, open) = (entrance.to_owned(), Arc::clone(&open));
        std::thread::spawn(move || {
            carry(stream, &entrance).unwrap_or_default();
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn carry(mut inside: std::net::TcpStream, entrance: &Path) -> io::Result<()> {
    let mut outside = std::os::unix::net::UnixStream::connect(entrance)?;
    let (mut inside_read, mut outside_write) = (inside.try_clone()?, outside.try_clone()?);
    let sending = std::thread::spawn(move || {
        let copied = io::copy(&mut inside_read, &mut outside_write);
        outside_write.shutdown(std::net::Shutdown::Write)?;
        copied
    });
    io::copy(&mut outside, &mut inside)?;
    inside.shutdown(std::net::Shutdown::Write)?;
    drop(sending.join());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_covers_its_host_and_nothing_that_looks_like_it() {
        let rule = EgressRule::new("api.Example.com").unwrap();
        assert!(rule.covers("api.example.com", 443));
        for (host, port) in [
            ("api.example.com", 8443),
            ("example.com", 443),
            ("xapi.example.com", 443),
            ("api.example.com.evil.org", 443),
            ("127.0.0.1", 443),
        ] {
            assert!(!rule.covers(host, port), "{host}:{port}");
        }
        let rule = EgressRule::new("*.example.com").unwrap().ports([443]);
        assert!(rule.covers("a.example.com", 443) && rule.covers("a.b.example.com", 443));
        assert!(!rule.covers("example.com", 443) && !rule.covers("aexample.com", 443));
        for wrong in ["", "*", "a/b", "user@host", "http://a", "a:80", "*.*.com", " "] {
            assert!(EgressRule::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hosts_are_read_as_addresses_are() {
        for (text, expected) in [
            ("EXAMPLE.com.:443", Some(("example.com", 443))),
            ("0x7f.1:80", Some(("127.0.0.1", 80))),
            ("2130706433:80", Some(("127.0.0.1", 80))),
            ("[::1]:8080", Some(("[::1]", 8080))),
            ("a@b:80", None),
            ("a/b:80", None),
            ("", None),
            (":80", None),
        ] {
            let read = understood(text);
            let read = read.as_ref().map(|read| (read.host.as_str(), read.port));
            assert_eq!(read, expected, "{text}");
        }
    }
}
