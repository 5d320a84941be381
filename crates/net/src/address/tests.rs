//! Addresses against a second opinion: the registries of special addresses as prefixes, and the standard library's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::classify;
use crate::{NetPolicy, RefusalReason};

/// The special registry of IPv4, as prefixes, with the address of Azure's agent.
const SPECIAL_V4: [&str; 17] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
];

/// The same of IPv6, without those that wrap an IPv4 address.
const SPECIAL_V6: [&str; 20] = [
    "::/128",
    "::1/128",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/23",
    "2001:2::/48",
    "2001:db8::/32",
    "3fff::/20",
    "4000::/3",
    "5f00::/16",
    "6000::/3",
    "8000::/3",
    "a000::/3",
    "c000::/3",
    "e000::/4",
    "f000::/5",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];

fn prefix(text: &str) -> (IpAddr, u32) {
    let (address, bits) = text.split_once('/').unwrap();
    (address.parse().unwrap(), bits.parse().unwrap())
}

fn in_prefix(address: IpAddr, text: &str) -> bool {
    match (address, prefix(text)) {
        (IpAddr::V4(address), (IpAddr::V4(start), bits)) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(address) & mask == u32::from(start) & mask
        }
        (IpAddr::V6(address), (IpAddr::V6(start), bits)) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(address) & mask == u128::from(start) & mask
        }
        _ => false,
    }
}

/// What the second opinion holds for inside.
fn oracle_v4(address: Ipv4Addr) -> bool {
    let by_std = address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_unspecified();
    by_std || SPECIAL_V4.iter().any(|special| in_prefix(address.into(), special))
}

fn oracle_v6(address: Ipv6Addr) -> bool {
    let by_std = address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unique_local()
        || address.is_unicast_link_local();
    let bits = u128::from(address);
    let low = Ipv4Addr::from(bits as u32);
    let wrapped = [
        // Compatible, mapped, translated, NAT64, 6to4, and both ends of Teredo.
        (bits >> 32 == 0).then_some(low),
        (bits >> 32 == 0xffff).then_some(low),
        (bits >> 32 == 0xffff_0000).then_some(low),
        (bits >> 32 == 0x0064_ff9b << 64).then_some(low),
        (bits >> 112 == 0x2002).then(|| Ipv4Addr::from((bits >> 80) as u32)),
        (bits >> 96 == 0x2001_0000).then(|| Ipv4Addr::from((bits >> 64) as u32)),
        (bits >> 96 == 0x2001_0000).then(|| Ipv4Addr::from(!(bits as u32))),
        ((bits >> 32) as u32 & !0x0200_0000 == 0x5efe).then_some(low),
    ];
    by_std
        || wrapped.into_iter().flatten().any(oracle_v4)
        || SPECIAL_V6.iter().any(|special| in_prefix(address.into(), special))
}

fn any_v4() -> impl Strategy<Value = Ipv4Addr> {
    let special =
        (prop::sample::select(&SPECIAL_V4[..]), any::<u32>()).prop_map(|(text, noise)| {
            let (IpAddr::V4(start), bits) = prefix(text) else { unreachable!() };
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            Ipv4Addr::from((u32::from(start) & mask) | (noise & !mask))
        });
    prop_oneof![special, any::<u32>().prop_map(Ipv4Addr::from)]
}

fn any_v6() -> impl Strategy<Value = Ipv6Addr> {
    let special =
        (prop::sample::select(&SPECIAL_V6[..]), any::<u128>()).prop_map(|(text, noise)| {
            let (IpAddr::V6(start), bits) = prefix(text) else { unreachable!() };
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            Ipv6Addr::from((u128::from(start) & mask) | (noise & !mask))
        });
    let wrapped = (any_v4(), any::<u128>(), 0..8_u8).prop_map(|(inner, noise, form)| {
        let inner = u128::from(u32::from(inner));
        Ipv6Addr::from(match form {
            0 => inner,
            1 => 0xffff_u128 << 32 | inner,
            2 => 0xffff_0000_u128 << 32 | inner,
            3 => 0x0064_ff9b_u128 << 96 | inner,
            4 => 0x2002_u128 << 112 | inner << 80 | noise >> 48,
            5 => 0x2001_0000_u128 << 96 | inner << 64 | noise >> 64,
            6 => 0x2001_0000_u128 << 96 | (noise & 0xffff_ffff) << 64 | (!inner & 0xffff_ffff),
            _ => 0x2600_u128 << 112 | 0x5efe_u128 << 32 | inner,
        })
    });
    prop_oneof![special, wrapped, any::<u128>().prop_map(Ipv6Addr::from)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_inside_passes_v4(address in any_v4()) {
        prop_assert_eq!(classify(address.into()).is_some(), oracle_v4(address), "{}", address);
    }

    #[test]
    fn nothing_inside_passes_v6(address in any_v6()) {
        let passes = NetPolicy::default().check_address(address.into()).is_ok();
        prop_assert!(!(passes && oracle_v6(address)), "{}", address);
        // And of what was given out nothing else is refused, but for what wraps a public address where nobody routes it.
        let given_out = address.segments()[0] >> 13 == 1;
        if given_out && !oracle_v6(address) {
            prop_assert!(passes, "{}", address);
        }
    }

    #[test]
    fn opening_opens_no_more_than_it_says(address in any_v6()) {
        let address = IpAddr::from(address);
        let open = NetPolicy::open().check_address(address).is_ok();
        let expected = matches!(classify(address), None | Some(RefusalReason::Private | RefusalReason::Loopback));
        prop_assert_eq!(open, expected);
    }
}

#[test]
fn each_kind_is_known_by_its_name() {
    let known = [
        ("0.0.0.0", RefusalReason::Unspecified),
        ("0.1.2.3", RefusalReason::Unspecified),
        ("10.1.2.3", RefusalReason::Private),
        ("100.64.0.1", RefusalReason::Shared),
        ("100.100.100.200", RefusalReason::Metadata),
        ("127.9.9.9", RefusalReason::Loopback),
        ("168.63.129.16", RefusalReason::Metadata),
        ("169.254.0.1", RefusalReason::LinkLocal),
        ("169.254.169.254", RefusalReason::Metadata),
        ("169.254.170.2", RefusalReason::Metadata),
        ("172.31.255.255", RefusalReason::Private),
        ("192.0.0.8", RefusalReason::Reserved),
        ("192.168.1.1", RefusalReason::Private),
        ("198.19.0.1", RefusalReason::Benchmark),
        ("203.0.113.9", RefusalReason::Documentation),
        ("224.0.0.1", RefusalReason::Multicast),
        ("255.255.255.255", RefusalReason::Reserved),
        ("::", RefusalReason::Unspecified),
        ("::1", RefusalReason::Loopback),
        ("::ffff:127.0.0.1", RefusalReason::Loopback),
        ("::ffff:10.0.0.1", RefusalReason::Private),
        ("::ffff:169.254.169.254", RefusalReason::Metadata),
        ("::ffff:0:10.0.0.1", RefusalReason::Wrapped),
        ("::127.0.0.1", RefusalReason::Wrapped),
        ("64:ff9b::a9fe:a9fe", RefusalReason::Wrapped),
        ("64:ff9b:1::808:808", RefusalReason::Wrapped),
        ("2002:7f00:1::", RefusalReason::Wrapped),
        ("2002:a9fe:a9fe::1", RefusalReason::Wrapped),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", RefusalReason::Wrapped),
        ("2600::5efe:10.0.0.1", RefusalReason::Wrapped),
        ("2600::200:5efe:10.0.0.1", RefusalReason::Wrapped),
        ("2001:2::1", RefusalReason::Benchmark),
        ("2001:db8::1", RefusalReason::Documentation),
        ("3fff::1", RefusalReason::Documentation),
        ("100::1", RefusalReason::Reserved),
        ("fe80::1", RefusalReason::LinkLocal),
        ("fec0::1", RefusalReason::Reserved),
        ("fc00::1", RefusalReason::Private),
        ("fd00:ec2::254", RefusalReason::Metadata),
        ("fd20:ce::254", RefusalReason::Metadata),
        ("ff02::1", RefusalReason::Multicast),
    ];
    for (address, reason) in known {
        assert_eq!(classify(address.parse().unwrap()), Some(reason), "{address}");
    }
}

#[test]
fn the_public_internet_is_outside() {
    let outside = [
        "1.1.1.1",
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "169.253.0.1",
        "192.0.1.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:4860:4860::8888",
        "2001:200::1",
        "64:ff9b::808:808",
        "2002:808:808::1",
        "::ffff:8.8.8.8",
        "2600::5efe:8.8.8.8",
    ];
    for address in outside {
        assert_eq!(classify(address.parse().unwrap()), None, "{address}");
    }
}
