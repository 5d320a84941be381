//! Classification of addresses: public, or a kind of non-public address. Pure functions.
//!
//! An address that embeds another one is classified by the embedded one, so that no notation bypasses a rule.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::RefusalReason;

/// Returns why an address is not public, before a policy permits some kinds. `None`: a public address.
pub(crate) fn classify(address: IpAddr) -> Option<RefusalReason> {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// Returns why an IPv4 address is not public. `None` if it is public.
fn classify_v4(address: Ipv4Addr) -> Option<RefusalReason> {
    Some(match address.octets() {
        // Metadata services: the common address, Alibaba, Oracle, and the agent of Azure, whose address looks public.
        [169, 254, 169, 254] | [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16] => {
            RefusalReason::Metadata
        }
        // Container credentials at Amazon.
        [169, 254, 170, 2 | 23] => RefusalReason::Metadata,
        [0, ..] => RefusalReason::Unspecified,
        [127, ..] => RefusalReason::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => RefusalReason::Private,
        [100, 64..=127, ..] => RefusalReason::Shared,
        [169, 254, ..] => RefusalReason::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => RefusalReason::Documentation,
        [198, 18 | 19, ..] => RefusalReason::Benchmark,
        // Protocol assignments, and the relays of 6to4.
        [192, 0, 0, _] | [192, 88, 99, _] => RefusalReason::Reserved,
        [224..=239, ..] => RefusalReason::Multicast,
        [240..=255, ..] => RefusalReason::Reserved,
        _ => return None,
    })
}

/// Returns why an IPv6 address is not public. `None` if it is public. An address that embeds an IPv4 address is
/// classified by that one.
fn classify_v6(address: Ipv6Addr) -> Option<RefusalReason> {
    if let Some(inner) = address.to_ipv4_mapped() {
        // Connecting to it connects to the embedded address, so the same rules and permissions apply.
        return classify_v4(inner);
    }
    let segments @ [_, b, c, _, e, f, g, h] = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => return Some(RefusalReason::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => return Some(RefusalReason::Loopback),
        // Metadata services of Amazon, Google and Scaleway.
        [0xfd00, 0xec2, ..]
        | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
        | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42] => {
            return Some(RefusalReason::Metadata);
        }
        [0xfe80..=0xfebf, ..] => return Some(RefusalReason::LinkLocal),
        [0xfc00..=0xfdff, ..] => return Some(RefusalReason::Private),
        [0xff00..=0xffff, ..] => return Some(RefusalReason::Multicast),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => return Some(RefusalReason::Documentation),
        [0x2001, 2, 0, ..] => return Some(RefusalReason::Benchmark),
        // 6to4, and NAT64 with its well-known prefix. A non-public embedded address is never permitted, because a
        // remote gateway unwraps it in a network that no local policy covers.
        [0x2002, ..] => return classify_wrapped(b, c),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => return classify_wrapped(g, h),
        // Teredo embeds two addresses and is obsolete.
        [0x2001, 0, ..] => return Some(RefusalReason::Wrapped),
        // IPv4-compatible, IPv4-translated, and NAT64 with a local prefix.
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 1, ..] => {
            return Some(RefusalReason::Wrapped);
        }
        // Protocol assignments. Addresses outside of 2000::/3 were never assigned.
        [0x2001, 0..=0x1ff, ..] => return Some(RefusalReason::Reserved),
        [0x2000..=0x3fff, ..] => {}
        _ => return Some(RefusalReason::Reserved),
    }
    // ISATAP: an IPv4 address after any prefix.
    if e & !0x200 == 0 && f == 0x5efe { classify_wrapped(g, h) } else { None }
}

/// Returns [`RefusalReason::Wrapped`] if the IPv4 address with these two halves is not public. `None` if it is public.
fn classify_wrapped(high: u16, low: u16) -> Option<RefusalReason> {
    let inner = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    classify_v4(inner).map(|_| RefusalReason::Wrapped)
}

#[cfg(test)]
mod tests;
