//! Network policies: pure checks of addresses, names, ports and schemes.

use std::net::IpAddr;

use url::{Host, Url};

use crate::address;
use crate::error::{NetError, RefusalReason};
use crate::limits::{NAME_BYTES_MAX, URL_BYTES_MAX};

/// Destinations that a client may reach besides the public internet over TLS. The default permits none.
///
/// Metadata services and link-local, shared, multicast and reserved addresses are never permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NetPolicy {
    /// Permits private networks: RFC 1918 and fc00::/7.
    pub allow_private: bool,
    /// Permits the loopback interface.
    pub allow_loopback: bool,
    /// Permits `http://`, which is not encrypted.
    pub plain_http: bool,
}

/// Ports of protocols that can be abused through an HTTP request. Browsers block them too. Sorted.
const PORTS_REFUSED: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];

/// Names of the local machine, independent of DNS.
const LOCAL_NAMES: [&str; 6] = [
    "localhost",
    "localhost.localdomain",
    "localhost6",
    "localhost6.localdomain6",
    "ip6-localhost",
    "ip6-loopback",
];

/// Names of metadata services, which are refused before they are resolved.
const METADATA_NAMES: [&str; 4] =
    ["metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"];

/// A host that may be dialled or resolved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DialTarget {
    Address(IpAddr),
    /// In lower case, without a trailing dot.
    Name(String),
}

impl NetPolicy {
    /// Returns the policy with all permissions, for addresses that the operator configured.
    pub const fn open() -> Self {
        Self { allow_private: true, allow_loopback: true, plain_http: true }
    }

    /// Checks the length, scheme, credentials, host and port of a URL without resolving its name. All checks are
    /// repeated with the resolved addresses when a connection is opened.
    pub fn check_url(&self, url: &Url) -> Result<(), NetError> {
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(NetError::too_long());
        }
        let host = url.host_str().unwrap_or_default();
        self.check_scheme(url.scheme(), host)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NetError::refused(host, None, RefusalReason::Credentials));
        }
        let port = url.port_or_known_default().unwrap_or(0);
        match url.host() {
            None => Err(NetError::url("it has no host")),
            Some(Host::Ipv4(address)) => self.check_literal(address.into(), port),
            Some(Host::Ipv6(address)) => self.check_literal(address.into(), port),
            Some(Host::Domain(name)) => {
                check_port(name, port)?;
                self.check_name(name).map(drop)
            }
        }
    }

    /// Returns the reason as an error if an address is not public and its kind is not permitted.
    pub fn check_address(&self, address: IpAddr) -> Result<(), RefusalReason> {
        match address::classify(address) {
            Some(RefusalReason::Private) if self.allow_private => Ok(()),
            Some(RefusalReason::Loopback) if self.allow_loopback => Ok(()),
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    /// Accepts `https`, and `http` if it is permitted. `host` is only for the error.
    pub(crate) fn check_scheme(&self, scheme: &str, host: &str) -> Result<(), NetError> {
        match scheme {
            "https" => Ok(()),
            "http" if self.plain_http => Ok(()),
            "http" => Err(NetError::refused(host, None, RefusalReason::PlainHttp)),
            _ => Err(NetError::refused(host, None, RefusalReason::Scheme)),
        }
    }

    /// Parses a host by the URL standard, so that `0x7f.1` is recognised as an address, and checks it.
    pub(crate) fn check_host(&self, host: &str, port: u16) -> Result<DialTarget, NetError> {
        let trimmed =
            host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let parsed = match trimmed.parse::<IpAddr>() {
            Ok(address) => Ok(address),
            Err(_) => match Host::parse(host) {
                Ok(Host::Ipv4(address)) => Ok(address.into()),
                Ok(Host::Ipv6(address)) => Ok(address.into()),
                Ok(Host::Domain(name)) => Err(name),
                Err(error) => return Err(NetError::url(format!("its host is invalid: {error}"))),
            },
        };
        match parsed {
            Ok(address) => {
                self.check_literal(address, port)?;
                Ok(DialTarget::Address(address))
            }
            Err(name) => {
                check_port(&name, port)?;
                self.check_name(&name).map(|name| DialTarget::Name(name.to_owned()))
            }
        }
    }

    /// Checks an address that the URL contains as its host, and the port.
    fn check_literal(&self, address: IpAddr, port: u16) -> Result<(), NetError> {
        let refused = |reason| NetError::refused(address.to_string(), Some(address), reason);
        self.check_address(address).map_err(refused)?;
        check_port(&address.to_string(), port)
    }

    /// Checks a name that was parsed from a URL, and returns it without a trailing dot. Names of metadata services are
    /// refused, and local names unless loopback is permitted.
    fn check_name<'a>(&self, name: &'a str) -> Result<&'a str, NetError> {
        let trimmed = name.strip_suffix('.').unwrap_or(name);
        if trimmed.is_empty()
            || trimmed.len() > NAME_BYTES_MAX
            || trimmed.split('.').any(str::is_empty)
        {
            return Err(NetError::url("its host is not a valid name"));
        }
        let is_one_of =
            |known: &[&str]| known.iter().any(|known| trimmed.eq_ignore_ascii_case(known));
        if is_one_of(&METADATA_NAMES) {
            return Err(NetError::refused(trimmed, None, RefusalReason::MetadataName));
        }
        // All names below `localhost` are local too (RFC 6761).
        let top = trimmed.rsplit('.').next().unwrap_or(trimmed);
        let local = top.eq_ignore_ascii_case("localhost") || is_one_of(&LOCAL_NAMES);
        if local && !self.allow_loopback {
            return Err(NetError::refused(trimmed, None, RefusalReason::LocalName));
        }
        Ok(trimmed)
    }
}

/// Refuses the port if it belongs to [`PORTS_REFUSED`].
fn check_port(host: &str, port: u16) -> Result<(), NetError> {
    match PORTS_REFUSED.binary_search(&port).is_ok() {
        true => Err(NetError::refused(host, None, RefusalReason::Port)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
