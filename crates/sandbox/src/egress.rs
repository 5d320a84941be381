//! Network access of a sandbox: a proxy with an allow list per tool.
//!
//! The only endpoint in the network of a sandbox is this proxy. A request names a host. The proxy resolves a host only
//! if a rule of the tool matches, and checks the resolved address when it connects. The proxy inserts secrets into
//! requests, so that a sandboxed program can use a secret without receiving it. It reports every attempt, including
//! refused ones.
//!
//! The proxy can insert secrets only into plain HTTP requests, which a rule may forward over TLS. A `CONNECT` tunnel is
//! encrypted between the program and the host; the proxy checks only the host.

mod proxy;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderName;
use provost_core::Secret;
use provost_net::{Dialer, NetClient, NetOptions, Resolver, SystemResolver, Url};
use tokio::net::UnixListener;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use provost_net::NetPolicy;

use crate::error::IsolationError;

/// Port of the proxy on the loopback address of the sandbox.
pub const PORT: u16 = 3128;
/// Ports of a rule that names none.
const PORTS_DEFAULT: [u16; 2] = [80, 443];
/// Maximum number of rules of a tool.
pub const RULES_MAX: usize = 256;

/// One host that a tool may reach.
#[derive(Debug, Clone)]
pub struct EgressRule {
    host: String,
    is_suffix: bool,
    ports: Vec<u16>,
    uses_tls: bool,
    headers: Vec<(HeaderName, Secret<String>)>,
}

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressDecision {
    /// The proxy connected to the host.
    Allowed,
    /// The proxy refused the request and opened no connection.
    Refused,
    /// The proxy permitted the request, but it failed.
    Failed,
}

/// One attempt to reach a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressEvent {
    /// Name of the tool.
    pub tool: String,
    /// HTTP method; `CONNECT` for a tunnel.
    pub method: String,
    /// Normalised host name.
    pub host: String,
    /// Port of the host.
    pub port: u16,
    /// Result of the attempt.
    pub decision: EgressDecision,
    /// Reason for a refusal or failure. Empty if the attempt was allowed.
    pub reason: String,
    /// Additional data about the program, such as its tool call.
    pub labels: BTreeMap<String, String>,
}

/// Callback that receives every attempt.
pub type EgressLog = Arc<dyn Fn(EgressEvent) + Send + Sync>;

/// Allow list of one tool, and the client that connects to the hosts.
pub struct EgressPolicy {
    tool: String,
    labels: BTreeMap<String, String>,
    rules: Vec<EgressRule>,
    client: NetClient,
    dialer: Dialer,
    log: EgressLog,
}

impl EgressRule {
    /// Creates a rule for a host name or address. `*.example.com` matches every name below `example.com`.
    pub fn new(host: &str) -> Result<Self, IsolationError> {
        let (base, is_suffix) = match host.strip_prefix("*.") {
            Some(base) => (base, true),
            None => (host, false),
        };
        let invalid = || {
            IsolationError::Invalid(format!(
                "`{host}` is not a host: write `example.com` or `*.example.com`"
            ))
        };
        let HostPort { host, .. } = parse_authority(&format!("{base}:80")).ok_or_else(invalid)?;
        if base.contains(['*', '/', '@', ':']) && !base.starts_with('[') {
            return Err(invalid());
        }
        Ok(Self {
            host,
            is_suffix,
            ports: PORTS_DEFAULT.to_vec(),
            uses_tls: false,
            headers: Vec::new(),
        })
    }

    /// Replaces the default ports 80 and 443.
    #[must_use]
    pub fn ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports = ports.into_iter().collect();
        self
    }

    /// Forwards plain requests over TLS, so that the proxy can insert a secret.
    #[must_use]
    pub fn over_tls(mut self) -> Self {
        self.uses_tls = true;
        self
    }

    /// Inserts a secret into a header of every plain request.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: Secret<String>) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Returns true if the rule matches this normalised host and port.
    pub fn matches(&self, host: &str, port: u16) -> bool {
        let is_named = match self.is_suffix {
            true => host.strip_suffix(&self.host).is_some_and(|rest| rest.ends_with('.')),
            false => host == self.host,
        };
        is_named && self.ports.contains(&port)
    }
}

impl EgressPolicy {
    /// Creates an allow list. `policy` is the operator's network policy; a rule cannot permit an address that it
    /// forbids.
    pub fn new(
        tool: impl Into<String>,
        rules: Vec<EgressRule>,
        policy: NetPolicy,
        log: EgressLog,
    ) -> Result<Self, IsolationError> {
        Self::with_resolver(tool, rules, policy, Arc::new(SystemResolver), log)
    }

    /// Creates an allow list with another DNS resolver.
    pub fn with_resolver(
        tool: impl Into<String>,
        rules: Vec<EgressRule>,
        policy: NetPolicy,
        resolver: Arc<dyn Resolver>,
        log: EgressLog,
    ) -> Result<Self, IsolationError> {
        if rules.len() > RULES_MAX {
            return Err(IsolationError::Invalid(format!(
                "the list has more than {RULES_MAX} hosts"
            )));
        }
        let options = NetOptions { resolver: Arc::clone(&resolver), ..NetOptions::new(policy) };
        let (client, dialer) = (NetClient::open(options), Dialer::new(policy, resolver));
        let (tool, labels) = (tool.into(), BTreeMap::new());
        Ok(Self { tool, labels, rules, client, dialer, log })
    }

    /// Adds a label to every reported attempt, such as the id of the tool call.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Returns the first rule that matches a host and port. `None` if none does.
    fn rule(&self, host: &str, port: u16) -> Option<&EgressRule> {
        self.rules.iter().find(|rule| rule.matches(host, port))
    }

    /// Creates the proxy socket at a path and starts serving it. Dropping the listener closes the socket and all its
    /// connections.
    pub(crate) fn open_proxy(
        self: &Arc<Self>,
        path: &Path,
    ) -> Result<ProxyListener, IsolationError> {
        let listener = UnixListener::bind(path);
        let listener = listener.map_err(IsolationError::io("cannot open the proxy socket"))?;
        let closed = CancellationToken::new();
        tokio::spawn(proxy::serve(Arc::clone(self), listener, closed.clone()));
        Ok(ProxyListener { path: path.to_owned(), _open: closed.drop_guard() })
    }
}

impl fmt::Debug for EgressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.rules.iter().map(|rule| &rule.host).collect();
        f.debug_struct("EgressPolicy")
            .field("tool", &self.tool)
            .field("hosts", &hosts)
            .finish_non_exhaustive()
    }
}

/// Proxy socket of one job.
#[derive(Debug)]
pub(crate) struct ProxyListener {
    path: PathBuf,
    _open: DropGuard,
}

impl ProxyListener {
    /// Returns the path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Destination of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct HostPort {
    host: String,
    port: u16,
}

/// Parses and normalises `host:port` by the URL standard: `0x7f.1` is `127.0.0.1`, and names are in lower case without
/// a trailing dot.
fn parse_authority(authority: &str) -> Option<HostPort> {
    if authority.contains(['/', '@', '?', '#', '\\']) {
        return None;
    }
    let url = Url::parse(&format!("http://{authority}/")).ok()?;
    let host = url.host_str()?.trim_end_matches('.').to_owned();
    let port = url.port_or_known_default()?;
    (!host.is_empty()).then_some(HostPort { host, port })
}

/// Accepts connections from the network of the sandbox and forwards each on a thread of its own to the proxy socket.
/// Closes those above 64 concurrent ones. Never returns.
pub(crate) fn relay(listener: &std::net::TcpListener, proxy_socket: &Path) {
    /// Maximum number of concurrent connections.
    const CONNECTIONS_MAX: usize = 64;
    let open = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for stream in listener.incoming().filter_map(Result::ok) {
        use std::sync::atomic::Ordering;
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (proxy_socket, open) = (proxy_socket.to_owned(), Arc::clone(&open));
        std::thread::spawn(move || {
            forward(stream, &proxy_socket).unwrap_or_default();
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Copies bytes in both directions until both sides are closed.
fn forward(mut inside: std::net::TcpStream, proxy_socket: &Path) -> io::Result<()> {
    let mut outside = std::os::unix::net::UnixStream::connect(proxy_socket)?;
    let (mut inside_read, mut outside_write) = (inside.try_clone()?, outside.try_clone()?);
    let sender = std::thread::spawn(move || {
        let copied = io::copy(&mut inside_read, &mut outside_write);
        outside_write.shutdown(std::net::Shutdown::Write)?;
        copied
    });
    io::copy(&mut outside, &mut inside)?;
    inside.shutdown(std::net::Shutdown::Write)?;
    drop(sender.join());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_covers_its_host_and_nothing_that_looks_like_it() {
        let rule = EgressRule::new("api.Example.com").unwrap();
        assert!(rule.matches("api.example.com", 443));
        for (host, port) in [
            ("api.example.com", 8443),
            ("example.com", 443),
            ("xapi.example.com", 443),
            ("api.example.com.evil.org", 443),
            ("127.0.0.1", 443),
        ] {
            assert!(!rule.matches(host, port), "{host}:{port}");
        }
        let rule = EgressRule::new("*.example.com").unwrap().ports([443]);
        assert!(rule.matches("a.example.com", 443) && rule.matches("a.b.example.com", 443));
        assert!(!rule.matches("example.com", 443) && !rule.matches("aexample.com", 443));
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
            let read = parse_authority(text);
            let read = read.as_ref().map(|read| (read.host.as_str(), read.port));
            assert_eq!(read, expected, "{text}");
        }
    }
}
