//! What an address is: the outside, or one of the kinds of inside. Pure.
//!
//! An address that wraps another one is what the inner one is, so that no spelling leads around a rule.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Why;

/// What is wrong with an address, before any policy opens some of it. `None` is the public internet.
pub(crate) fn inside(address: IpAddr) -> Option<Why> {
    match address {
        IpAddr::V4(address) => inside_v4(address),
        IpAddr::V6(address) => inside_v6(address),
    }
}

fn inside_v4(address: Ipv4Addr) -> Option<Why> {
    Some(match address.octets() {
        // The usual one, Alibaba's, Oracle's and the one of Azure's own agent, which looks public.
        [169, 254, 169, 254] | [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16] => {
            Why::Metadata
        }
        // Credentials of containers at Amazon.
        [169, 254, 170, 2 | 23] => Why::Metadata,
        [0, ..] => Why::Unspecified,
        [127, ..] => Why::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Why::Private,
        [100, 64..=127, ..] => Why::Shared,
        [169, 254, ..] => Why::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Why::Documentation,
        [198, 18 | 19, ..] => Why::Benchmark,
        // Protocol assignments, and the relays of 6to4.
        [192, 0, 0, _] | [192, 88, 99, _] => Why::Reserved,
        [224..=239, ..] => Why::Multicast,
        [240..=255, ..] => Why::Reserved,
        _ => return None,
    })
}

fn inside_v6(address: Ipv6Addr) -> Option<Why> {
    if let Some(inner) = address.to_ipv4_mapped() {
        // Dialling it dials the inner one: the same rules, the same openings.
        return inside_v4(inner);
    }
    let segments @ [_, b, c, _, e, f, g, h] = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => return Some(Why::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => return Some(Why::Loopback),
        // Amazon, Google, Scaleway.
        [0xfd00, 0xec2, ..]
        | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
        | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42] => {
            return Some(Why::Metadata);
        }
        [0xfe80..=0xfebf, ..] => return Some(Why::LinkLocal),
        [0xfc00..=0xfdff, ..] => return Some(Why::Private),
        [0xff00..=0xffff, ..] => return Some(Why::Multicast),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => return Some(Why::Documentation),
        [0x2001, 2, 0, ..] => return Some(Why::Benchmark),
        // 6to4, and NAT64 by its well-known prefix: what is inside when unwrapped is never opened, since who unwraps it
        // is elsewhere, in a network that no policy of ours knows.
        [0x2002, ..] => return wrapped(b, c),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => return wrapped(g, h),
        // Teredo wraps two addresses and is long dead.
        [0x2001, 0, ..] => return Some(Why::Wrapped),
        // IPv4-compatible, IPv4-translated, NAT64 of somebody's own.
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 1, ..] => {
            return Some(Why::Wrapped);
        }
        // Protocol assignments; and everything beyond 2000::/3 was never given out.
        [0x2001, 0..=0x1ff, ..] => return Some(Why::Reserved),
        [0x2000..=0x3fff, ..] => {}
        _ => return Some(Why::Reserved),
    }
    // ISATAP: an IPv4 address behind any prefix.
    if e & !0x200 == 0 && f == 0x5efe { wrapped(g, h) } else { None }
}

fn wrapped(high: u16, low: u16) -> Option<Why> {
    let inner = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    inside_v4(inner).map(|_| Why::Wrapped)
}

#[cfg(test)]
mod tests;
