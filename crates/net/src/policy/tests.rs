//! Addresses as people and attackers write them.

use super::*;

fn verdict(policy: NetPolicy, url: &str) -> Result<(), NetError> {
    match Url::parse(url) {
        Ok(url) => policy.check_url(&url),
        // Browsers cannot read it either: nobody dials it.
        Err(error) => Err(NetError::url(error.to_string())),
    }
}

#[test]
fn an_address_inside_is_refused_however_it_is_written() {
    let refused = [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://017700000001/",
        "https://127.0.0.1./",
        "https://127.0x0.0.1/",
        "https://0/",
        "https://0.0.0.0/",
        "https://１２７.０.０.１/",
        "https://①②⑦.⓪.⓪.①/",
        "https://127。0。0。1/",
        "https://%31%32%37.0.0.1/",
        "https://[::1]/",
        "https://[::]/",
        "https://[0:0:0:0:0:0:0:1]/",
        "https://[::ffff:7f00:1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fe80::1%25eth0]/",
        "https://[fd00:ec2::254]/",
        "https://2852039166/latest/meta-data/",
        "https://0xa9fea9fe/",
        "https://169.254.43518/",
        "https://0251.0376.0251.0376/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://[2002:a9fe:a9fe::]/",
        "https://10.1/",
        "https://192.168.257/",
        "https:\\\\127.0.0.1\\",
        "https:127.0.0.1",
        "https://example.com@127.0.0.1/",
        "https://127.0.0.1\\@example.com/",
        "https://256.256.256.256/",
        "https://1.2.3.4.5/",
    ];
    for url in refused {
        assert!(verdict(NetPolicy::default(), url).is_err(), "{url}");
        let Ok(url) = Url::parse(url) else { continue };
        let again = url.host_str().unwrap_or_default();
        assert!(NetPolicy::default().check_host(again, 443).is_err(), "{again}");
    }
}

#[test]
fn a_bare_host_is_read_as_in_an_address() {
    for host in ["127.1", "0x7f.1", "2130706433", "::1", "[::1]", "LOCALHOST", "localhost.", ""] {
        assert!(NetPolicy::default().check_host(host, 443).is_err(), "{host}");
    }
    let name = NetPolicy::default().check_host("Example.COM.", 443).unwrap();
    assert_eq!(name, DialTarget::Name("example.com".to_owned()));
    let address = NetPolicy::default().check_host("2606:4700::1111", 443).unwrap();
    assert_eq!(address, DialTarget::Address("2606:4700::1111".parse().unwrap()));
}

#[test]
fn names_of_this_machine_are_refused_unless_it_is_open() {
    for host in ["localhost", "LocalHost.", "db.localhost", "ip6-loopback", "localhost.localdomain"]
    {
        let url = format!("https://{host}/");
        let refused = verdict(NetPolicy::default(), &url).unwrap_err();
        assert!(
            matches!(refused, NetError::Refused { reason: RefusalReason::LocalName, .. }),
            "{refused:?}"
        );
        assert!(verdict(NetPolicy::open(), &url).is_ok(), "{url}");
    }
    for host in ["metadata.google.internal", "Metadata.Goog.", "instance-data"] {
        let refused = verdict(NetPolicy::open(), &format!("https://{host}/")).unwrap_err();
        assert!(
            matches!(refused, NetError::Refused { reason: RefusalReason::MetadataName, .. }),
            "{refused:?}"
        );
    }
}

#[test]
fn schemes_ports_and_passwords_are_checked() {
    let refused = [
        ("ftp://example.com/", RefusalReason::Scheme),
        ("file:///etc/passwd", RefusalReason::Scheme),
        ("gopher://example.com/", RefusalReason::Scheme),
        ("unix:/run/docker.sock", RefusalReason::Scheme),
        ("data:text/plain,hello", RefusalReason::Scheme),
        ("http://example.com/", RefusalReason::PlainHttp),
        ("https://user@example.com/", RefusalReason::Credentials),
        ("https://user:secret@example.com/", RefusalReason::Credentials),
        ("https://:secret@example.com/", RefusalReason::Credentials),
        ("https://example.com:22/", RefusalReason::Port),
        ("https://example.com:25/", RefusalReason::Port),
        ("https://example.com:0/", RefusalReason::Port),
        ("https://1.1.1.1:6667/", RefusalReason::Port),
        ("https://example.com:10080/", RefusalReason::Port),
    ];
    for (url, reason) in refused {
        match verdict(NetPolicy::default(), url) {
            Err(NetError::Refused { reason: given, sent: false, .. }) => {
                assert_eq!(given, reason, "{url}")
            }
            other => panic!("{url}: {other:?}"),
        }
    }
    for url in ["https://example.com/a?b#c", "https://1.1.1.1:8443/", "https://a_b.example/"] {
        assert!(verdict(NetPolicy::default(), url).is_ok(), "{url}");
    }
}

#[test]
fn what_is_too_long_or_empty_is_no_address() {
    let long = format!("https://example.com/{}", "a".repeat(URL_BYTES_MAX));
    assert!(matches!(verdict(NetPolicy::default(), &long), Err(NetError::Url { .. })));
    let name = format!("https://{}example.com/", "a.".repeat(NAME_BYTES_MAX / 2));
    assert!(verdict(NetPolicy::default(), &name).is_err());
    assert!(verdict(NetPolicy::default(), "https://example..com/").is_err());
    assert!(verdict(NetPolicy::default(), "https://localhost../").is_err());
}

#[test]
fn opening_one_thing_opens_no_other() {
    let private = NetPolicy { allow_private: true, ..NetPolicy::default() };
    let loopback = NetPolicy { allow_loopback: true, ..NetPolicy::default() };
    assert!(verdict(private, "https://10.0.0.1/").is_ok());
    assert!(verdict(private, "https://[fd12::1]/").is_ok());
    assert!(verdict(private, "https://127.0.0.1/").is_err());
    assert!(verdict(private, "http://10.0.0.1/").is_err());
    assert!(verdict(loopback, "https://127.0.0.1/").is_ok());
    assert!(verdict(loopback, "https://[::1]/").is_ok());
    assert!(verdict(loopback, "https://10.0.0.1/").is_err());
    for url in ["http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://100.64.0.1/"] {
        assert!(verdict(NetPolicy::open(), url).is_err(), "{url}");
    }
}

#[test]
fn the_refused_ports_are_in_order() {
    assert!(PORTS_REFUSED.is_sorted());
}

#[test]
fn a_refusal_names_the_host_and_no_more() {
    let url = "https://10.0.0.1/secret?key=hunter2";
    let text = verdict(NetPolicy::default(), url).unwrap_err().to_string();
    assert_eq!(text, "`10.0.0.1` is refused: a private network (permit it with allow_private)");
}
