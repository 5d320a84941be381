//! Every way inside that we know of, refused.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use provost_core::ErrorKind;
use provost_net::{
    Dialer, NetClient, NetError, NetPolicy, NetRequest, RefusalReason, StaticResolver, Url,
};

use crate::peer::{LOCAL, Server, TEST_TIMEOUT, get, ok, soon, with_names};

fn at(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 0)
}

/// What is queries for, by whom, and what came of it.
struct Verdicts(Vec<String>);

impl Verdicts {
    async fn refused(
        &mut self,
        attack: &str,
        queries: &str,
        client: &NetClient,
        request: NetRequest,
    ) {
        match client.send(request).await {
            Err(error @ NetError::Refused { .. }) if error.kind() == ErrorKind::Denied => {
                self.0.push(format!("{attack:<34} {queries:<32} {error}"));
            }
            other => panic!("{attack} {queries}: {other:?}"),
        }
    }
}

impl Drop for Verdicts {
    fn drop(&mut self) {
        println!("{} attacks refused\n{}", self.0.len(), self.0.join("\n"));
    }
}

#[tokio::test]
async fn the_table_of_attacks() {
    let canary = Server::answering(ok("inside")).await;
    let port = canary.address.port();
    let mut verdicts = Verdicts(Vec::new());
    let strict = NetPolicy { plain_http: true, ..NetPolicy::default() };
    literals(&mut verdicts, strict, port).await;
    names(&mut verdicts, strict, port).await;
    assert_eq!(canary.accepted(), 0, "somebody got through");
    redirects(&mut verdicts).await;
}

async fn literals(verdicts: &mut Verdicts, policy: NetPolicy, port: u16) {
    let client = NetClient::new(policy);
    let spelt = [
        ("loopback", "127.0.0.1"),
        ("loopback, short", "127.1"),
        ("loopback, one number", "2130706433"),
        ("loopback, octal", "0177.0.0.01"),
        ("loopback, hexadecimal", "0x7f000001"),
        ("loopback, full-width digits", "１２７.０.０.１"),
        ("loopback, dot at the end", "127.0.0.1."),
        ("loopback, elsewhere in 127/8", "127.8.8.8"),
        ("loopback, IPv6", "[::1]"),
        ("loopback, mapped", "[::ffff:127.0.0.1]"),
        ("loopback, compatible", "[::127.0.0.1]"),
        ("loopback, 6to4", "[2002:7f00:1::]"),
        ("loopback, NAT64", "[64:ff9b::7f00:1]"),
        ("loopback, ISATAP", "[2600::5efe:7f00:1]"),
        ("unspecified", "0.0.0.0"),
        ("unspecified, short", "0"),
        ("unspecified, IPv6", "[::]"),
        ("metadata", "169.254.169.254"),
        ("metadata, one number", "2852039166"),
        ("metadata, mapped", "[::ffff:a9fe:a9fe]"),
        ("metadata, 6to4", "[2002:a9fe:a9fe::1]"),
        ("metadata, Amazon's IPv6", "[fd00:ec2::254]"),
        ("metadata, Alibaba", "100.100.100.200"),
        ("metadata, Azure's agent", "168.63.129.16"),
        ("link-local", "169.254.1.1"),
        ("link-local, IPv6", "[fe80::1]"),
        ("private", "10.0.0.1"),
        ("private", "172.16.0.1"),
        ("private, short", "192.168.257"),
        ("private, IPv6", "[fd12:3456::1]"),
        ("shared", "100.64.0.1"),
        ("multicast", "224.0.0.251"),
        ("multicast, link-local IPv6", "[ff02::fb]"),
        ("broadcast", "255.255.255.255"),
        ("documentation", "192.0.2.1"),
        ("benchmark", "198.18.0.1"),
        ("Teredo", "[2001:0:7f00:1::1]"),
        ("localhost", "localhost"),
        ("localhost, dot and case", "LOCALHOST."),
        ("under localhost", "a.localhost"),
        ("metadata by name", "metadata.google.internal"),
    ];
    for (attack, host) in spelt {
        let url = Url::parse(&format!("http://{host}:{port}/")).unwrap();
        verdicts.refused(attack, host, &client, get(url)).await;
    }
    for (attack, url) in [
        ("another scheme", "file:///etc/passwd"),
        ("another scheme", "gopher://example.com/"),
        ("password in the address", "https://user:pw@example.com/"),
        ("host behind a user", "https://example.com@127.0.0.1/"),
        ("port of SSH", "https://example.com:22/"),
        ("port of mail", "https://example.com:25/"),
    ] {
        verdicts.refused(attack, url, &client, get(Url::parse(url).unwrap())).await;
    }
    let plain = NetClient::new(NetPolicy::default());
    let url = "http://example.com/";
    verdicts.refused("no TLS", url, &plain, get(Url::parse(url).unwrap())).await;
}

async fn names(verdicts: &mut Verdicts, policy: NetPolicy, port: u16) {
    let table = StaticResolver::new()
        .name("loopback.test", [at("127.0.0.1")])
        .name("mapped.test", [at("::ffff:127.0.0.1")])
        .name("metadata.test", [at("169.254.169.254")])
        .name("private.test", [at("10.0.0.1")])
        .name("mixed.test", [at("1.1.1.1"), at("2606:4700::1111"), at("127.0.0.1")])
        .name("last.test", (0..63).map(|n| at(&format!("1.1.1.{n}"))).chain([at("127.0.0.1")]))
        .name("xn--bcher-kva.test", [at("127.0.0.1")]);
    let (client, table) = with_names(policy, table);
    for (attack, name) in [
        ("name of this machine", "loopback.test"),
        ("name of this machine, mapped", "mapped.test"),
        ("name of metadata", "metadata.test"),
        ("name of a private network", "private.test"),
        ("name with one answer inside", "mixed.test"),
        ("name with the 64th answer inside", "last.test"),
        ("name with a dot at its end", "loopback.test."),
        ("name with other letters", "bücher.test"),
    ] {
        let url = Url::parse(&format!("http://{name}:{port}/")).unwrap();
        verdicts.refused(attack, name, &client, get(url)).await;
    }
    assert_eq!(table.queries("mixed.test"), 1);

    // A name that changes its mind: the first answer was fine, and was used up by its own connection.
    let server = Server::start(async |mut peer| {
        peer.head().await;
        peer.write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
    })
    .await;
    for (attack, then) in [
        ("rebinding to metadata", "169.254.169.254"),
        ("rebinding to a private network", "10.0.0.1"),
        ("rebinding to IPv6", "fd00:ec2::254"),
    ] {
        let sequence = [vec![server.address], vec![at(then)]];
        let (client, table) =
            with_names(LOCAL, StaticResolver::new().sequence("rebind.test", sequence));
        let url = Url::parse("http://rebind.test/").unwrap();
        client.send(get(url.clone())).await.unwrap().bytes(10).await.unwrap();
        assert_eq!(table.queries("rebind.test"), 1, "what was checked is what was dialled");
        verdicts.refused(attack, then, &client, get(url)).await;
        assert_eq!(table.queries("rebind.test"), 2);
    }
}

async fn redirects(verdicts: &mut Verdicts) {
    for (attack, to) in [
        ("redirect to metadata", "http://169.254.169.254/latest/"),
        ("redirect to metadata, mapped", "http://[::ffff:a9fe:a9fe]/"),
        ("redirect to metadata, number", "http://2852039166/"),
        ("redirect, without scheme", "//10.0.0.1/"),
        ("redirect to a private network", "https://192.168.0.1/"),
        ("redirect to a name inside", "http://inside.test/"),
        ("redirect to a password", "http://user:pw@1.1.1.1/"),
        ("redirect to a port", "http://1.1.1.1:6667/"),
        ("redirect to a file", "file:///etc/passwd"),
        ("redirect to another scheme", "gopher://1.1.1.1/"),
        ("redirect, back slashes", "\\\\10.0.0.1\\"),
    ] {
        let answer = format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
        let server = Server::answering(answer).await;
        let names = StaticResolver::new().name("inside.test", [at("10.0.0.9")]);
        let (client, _) = with_names(LOCAL, names);
        let request = NetRequest { redirects_max: 5, ..get(server.url("/")) };
        let answer = client.send(request.clone()).await.unwrap_err();
        assert!(answer.may_have_arrived(), "the first request arrived");
        verdicts.refused(attack, to, &client, request).await;
    }
}

#[tokio::test]
async fn redirects_are_followed_only_when_asked_for_and_only_so_far() {
    let server = Server::start(async |mut peer| {
        while let Some(head) = peer.head().await {
            let n: u32 = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            let answer = match n {
                0 => ok("here"),
                n => format!(
                    "HTTP/1.1 302 Found\r\nlocation: /{}\r\ncontent-length: 0\r\n\r\n",
                    n - 1
                ),
            };
            peer.write(answer).await;
        }
    })
    .await;
    let client = crate::peer::local();
    let ask = async |n: u32, redirects_max: u8| {
        client.send(NetRequest { redirects_max, ..get(server.url(&format!("/{n}"))) }).await
    };
    assert_eq!(ask(1, 0).await.unwrap().status, 302);
    let answer = ask(3, 3).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.url.path()), (200, "/0"));
    assert!(matches!(ask(4, 3).await, Err(NetError::Redirects { .. })));
    assert!(matches!(ask(11, 255).await, Err(NetError::Redirects { .. })), "a loop ends");
    assert_eq!(ask(10, 255).await.unwrap().status, 200);
}

#[tokio::test]
async fn keys_do_not_follow_a_redirect_to_another_host() {
    let (told, mut heads) = tokio::sync::mpsc::unbounded_channel();
    let second = Server::start(move |mut peer| {
        let told = told.clone();
        async move {
            told.send(peer.head().await.unwrap()).unwrap();
            peer.write(ok("")).await;
        }
    })
    .await;
    let to = second.url("/");
    let first = Server::answering(format!(
        "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
    ))
    .await;
    let request = NetRequest { redirects_max: 1, ..get(first.url("/")) }
        .header(AUTHORIZATION, HeaderValue::from_static("Bearer hunter2"))
        .header(HeaderName::from_static("x-api-key"), HeaderValue::from_static("hunter2"));
    crate::peer::local().send(request).await.unwrap();
    let head = heads.recv().await.unwrap();
    assert!(!head.contains("hunter2") && !head.contains("authorization"), "{head}");
}

#[tokio::test]
async fn the_headers_of_the_connection_are_the_clients_own() {
    let (told, mut heads) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(move |mut peer| {
        let told = told.clone();
        async move {
            told.send(peer.head().await.unwrap()).unwrap();
            peer.write(ok("")).await;
        }
    })
    .await;
    let mut request = NetRequest::post(server.url("/a#fragment"), "12345", soon(TEST_TIMEOUT));
    for (name, value) in [
        ("host", "metadata.internal"),
        ("transfer-encoding", "chunked"),
        ("content-length", "1"),
        ("connection", "upgrade"),
        ("upgrade", "h2c"),
        ("accept-encoding", "br"),
        ("x-mine", "yes"),
    ] {
        request = request.header(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    crate::peer::local().send(request).await.unwrap();
    let head = heads.recv().await.unwrap();
    let lines: Vec<_> = head.lines().collect();
    let host = format!("host: {}", server.address);
    for line in ["post /a http/1.1", &host, "content-length: 5", "accept-encoding: gzip, deflate"] {
        assert!(lines.contains(&line), "{line} in {head}");
    }
    assert!(lines.contains(&"x-mine: yes") && lines.ends_with(&["", "12345"]), "{head}");
    for gone in ["metadata.internal", "chunked", "upgrade"] {
        assert!(!head.contains(gone), "{head}");
    }
}

#[tokio::test]
async fn a_dialer_keeps_the_same_rules() {
    let server = Server::answering(ok("")).await;
    let port = server.address.port();
    let names = StaticResolver::new()
        .name("ok.test", [at("127.0.0.1")])
        .name("mixed.test", [at("127.0.0.1"), at("10.0.0.1")]);
    let dialer = Dialer::new(LOCAL, Arc::new(names));
    let dial = async |host: &str, port| dialer.connect(host, port, soon(TEST_TIMEOUT)).await;
    assert_eq!(dial("ok.test", port).await.unwrap().peer_addr().unwrap(), server.address);
    assert!(dial("127.0.0.1", port).await.is_ok());
    let refused = dial("mixed.test", port).await.unwrap_err();
    assert!(
        matches!(refused, NetError::Refused { reason: RefusalReason::Private, .. }),
        "{refused:?}"
    );
    assert_eq!(
        refused.to_string(),
        "`mixed.test` is refused: it resolves to 10.0.0.1, a private network (permit it with allow_private)"
    );
    assert!(matches!(dial("10.1", port).await, Err(NetError::Refused { .. })));
    assert!(matches!(dial("none.test", port).await, Err(NetError::Lookup { .. })));
    let strict = Dialer::new(NetPolicy::default(), Arc::new(StaticResolver::new()));
    assert!(strict.connect("::1", port, soon(TEST_TIMEOUT)).await.is_err());
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn proxies_of_the_environment_are_not_asked() {
    let proxy = Server::answering(ok("from a proxy")).await;
    let server = Server::answering(ok("from the server")).await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "attack::behind_a_proxy", "--ignored"]);
    for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        child.env(variable, proxy.url("/").as_str());
    }
    child.env("PROVOST_NET_TEST_URL", server.url("/").as_str());
    let done = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert_eq!((proxy.accepted(), server.accepted()), (0, 1));
}

#[tokio::test]
#[ignore = "the other half of proxies_of_the_environment_are_not_asked, in a process of its own"]
async fn behind_a_proxy() {
    let Ok(url) = std::env::var("PROVOST_NET_TEST_URL") else { return };
    let answer = crate::peer::local().send(get(Url::parse(&url).unwrap())).await.unwrap();
    assert_eq!(answer.bytes(100).await.unwrap(), "from the server");
}
