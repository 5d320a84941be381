//! Where posts may go: never to this machine or to the network it is in.
//!
//! A name is looked up when the connection is made, and only what is outside is dialled. So a name that changes its address
//! between check and use gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use provost_api::Problem;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::problem;

const URL_BYTES_MAX: usize = 2048;

/// Checks an address before it is stored.
pub(crate) fn check_url(text: &str, allow_private: bool) -> Result<Url, Problem> {
    let refused = |problem: &str| problem::invalid("url", problem);
    if text.len() > URL_BYTES_MAX {
        return Err(refused("it is too long: use at most 2048 bytes"));
    }
    let url = Url::parse(text).map_err(|error| refused(&format!("it is no address: {error}")))?;
    match url.scheme() {
        "https" => {}
        "http" if allow_private => {}
        _ => return Err(refused("it must begin with `https://`")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("it must not hold a user or a password: posts are signed"));
    }
    if url.fragment().is_some() {
        return Err(refused("it must not have a fragment"));
    }
    match literal(&url) {
        Some(address) if !allow_private && !is_outside(address) => {
            Err(refused("it is inside this machine's network: use an address outside"))
        }
        _ => Ok(url),
    }
}

/// The address that a URL names by number; such are never looked up.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

/// Looks names up and keeps only what is outside.
pub(super) struct Outside;

impl Resolve for Outside {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let outside: Vec<SocketAddr> =
                found.filter(|address| is_outside(address.ip())).collect();
            if outside.is_empty() {
                return Err("the name leads into this machine's network".into());
            }
            Ok(Box::new(outside.into_iter()) as Addrs)
        })
    }
}

/// True if an address belongs to the public internet.
pub(super) fn is_outside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_outside_v4(address),
        IpAddr::V6(address) => is_outside_v6(address),
    }
}

fn is_outside_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let inside = matches!(a, 0 | 10 | 127 | 224..)
        || (a == 100 && (64..128).contains(&b))
        || (a == 169 && b == 254)
        || (a == 172 && (16..32).contains(&b))
        || (a == 192 && (b == 168 || (b == 0 && (c == 0 || c == 2)) || (b == 88 && c == 99)))
        || (a == 198 && (matches!(b, 18 | 19) || (b == 51 && c == 100)))
        || (a == 203 && b == 0 && c == 113);
    !inside
}

fn is_outside_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_outside_v4(inner);
    }
    let [a, b, c, d, e, f, g, h] = address.segments();
    let inner = |high: u16, low: u16| {
        is_outside_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
    };
    match (a, b) {
        // Addresses of the old world in the new one lead there.
        (0x2002, _) => inner(b, c),
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => inner(g, h),
        // Teredo, documentation, benchmarks, overlays: nothing that takes posts.
        (0x2001, 0..0x200 | 0xdb8) | (0x3fff, 0..0x1000) => false,
        // All that is given out is in 2000::/3.
        _ => (0x2000..0x4000).contains(&a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_outside() {
        let inside = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.8",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "100::1",
            "fec0::1",
        ];
        for address in inside {
            assert!(!is_outside(address.parse().unwrap()), "{address}");
        }
        let outside = [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
        ];
        for address in outside {
            assert!(is_outside(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_address_inside_is_refused_however_it_is_written() {
        let refused = [
            "http://example.com/",
            "ftp://example.com/",
            "https://",
            "nonsense",
            "https://user:secret@example.com/",
            "https://example.com/#here",
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://[::ffff:7f00:1]/",
            "https://169.254.169.254/latest",
        ];
        for url in refused {
            assert!(check_url(url, false).is_err(), "{url}");
        }
        assert!(check_url(&format!("https://example.com/{}", "a".repeat(2048)), false).is_err());
        for url in ["https://example.com/hook?x=1", "https://1.1.1.1:8443/"] {
            assert!(check_url(url, false).is_ok(), "{url}");
        }
        assert!(check_url("http://127.0.0.1:80/", true).is_ok());
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_not_dialled() {
        let found = Outside.resolve("localhost".parse().unwrap()).await;
        assert!(found.is_err());
    }
}
