//! The way out: what is on the list, and nothing else.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use http::HeaderName;
use provost_core::Secret;
use provost_net::StaticResolver;
use provost_sandbox::egress::{EgressEvent, EgressLog, NetPolicy};
use provost_sandbox::{
    EgressDecision, EgressPolicy, EgressRule, Guarantee, IsolationProfile, NetworkAccess,
    SandboxCommand,
};

use crate::stage::{all, profile, run};

const TOKEN: &str = "swordfish-4711";

/// Sends a text to the proxy and prints what comes back.
const CLIENT: &str = r#"
use IO::Socket::INET;
my ($port, $text) = @ARGV;
$text =~ s/\\r\\n/\r\n/g;
my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die "no proxy: $!";
print $s $text; $s->flush;
$s->shutdown(1) if $text !~ /^CONNECT/;
while (my $line = <$s>) { print $line; if ($text =~ /^CONNECT/ && $line eq "\r\n") {
  print $s "GET /tunnel HTTP/1.0\r\n\r\n"; $s->flush; $text = ""; } }
"#;

/// A server that says back what it was asked, and how often it was.
fn server() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&seen);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = vec![0; 4096];
            let size = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..size]).into_owned();
            let body = match head.contains("/echo") {
                true => head.clone(),
                false => "from outside".to_owned(),
            };
            noted.lock().unwrap().push(head);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).unwrap_or_default();
        }
    });
    (address, seen)
}

fn log() -> (EgressLog, Arc<Mutex<Vec<EgressEvent>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&events);
    (Arc::new(move |event| noted.lock().unwrap().push(event)), events)
}

/// A list with nobody on it.
pub(crate) fn nobody() -> Arc<EgressPolicy> {
    Arc::new(EgressPolicy::new("t", Vec::new(), NetPolicy::default(), log().0).unwrap())
}

fn asks(text: &str, profile: &IsolationProfile) -> SandboxCommand {
    let port = provost_sandbox::egress::PORT.to_string();
    SandboxCommand::new("perl", ["-e", CLIENT, &port, text], profile.clone())
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one list, and all that is tried against it")]
async fn only_what_is_on_the_list_is_reached_and_every_attempt_is_told() {
    for (name, backends) in all().await {
        let holds = backends.all().next().unwrap().guarantees();
        if !holds.iter().any(|it| it.guarantee == Guarantee::AllowList && it.is_enforced) {
            continue;
        }
        let ((address, seen), (log, events)) = (server(), log());
        let port = address.port();
        let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 0);
        let resolver = StaticResolver::new()
            .name("allowed.test", [at("127.0.0.1")])
            .name("other.test", [at("127.0.0.1")])
            .name("inward.test", [at("169.254.169.254")]);
        let key = Secret::new(format!("Bearer {TOKEN}"));
        let rules = vec![
            EgressRule::new("allowed.test")
                .unwrap()
                .ports([port])
                .header(HeaderName::from_static("authorization"), key),
            EgressRule::new("inward.test").unwrap(),
        ];
        let policy = NetPolicy::open();
        let egress =
            EgressPolicy::with_resolver("weather", rules, policy, Arc::new(resolver), log).unwrap();
        let profile = profile().network(NetworkAccess::Allow(Arc::new(egress)));

        let plain = |host: &str, path: &str| {
            format!(
                "GET http://{host}:{port}{path} HTTP/1.1\\r\\nHost: {host}\\r\\nAuthorization: mine\\r\\nConnection: close\\r\\n\\r\\n"
            )
        };
        let done = run(&backends, asks(&plain("allowed.test", "/"), &profile)).await;
        assert!(done.out.contains("from outside"), "{name}: {} {}", done.out, done.err);
        let head = seen.lock().unwrap().pop().unwrap();
        assert!(head.to_lowercase().contains(&format!("authorization: bearer {TOKEN}")), "{head}");
        assert!(!head.contains("mine"), "the program's own header went out: {head}");

        // What the server says back of the secret does not come in.
        let done = run(&backends, asks(&plain("allowed.test", "/echo"), &profile)).await;
        assert!(!done.out.contains(TOKEN) && done.out.contains("502"), "{name}: {}", done.out);

        let tunnel = format!("CONNECT allowed.test:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n");
        let done = run(&backends, asks(&tunnel, &profile)).await;
        assert!(
            done.out.contains("200 OK") && done.out.contains("from outside"),
            "{name}: {} {}",
            done.out,
            done.err
        );

        seen.lock().unwrap().clear();
        for text in [
            plain("other.test", "/"),
            plain("127.0.0.1", "/"),
            plain("localhost", "/"),
            plain("0x7f.1", "/"),
            plain("allowed.test.evil.test", "/"),
            format!(
                "GET http://allowed.test@127.0.0.1:{port}/ HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n"
            ),
            "GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n".to_owned(),
            format!("GET ftp://allowed.test:{port}/ HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n"),
            format!("CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n"),
            "CONNECT allowed.test:22 HTTP/1.1\\r\\n\\r\\n".to_owned(),
            "GET http://inward.test/latest/meta-data HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".to_owned(),
            "nonsense\\r\\n\\r\\n".to_owned(),
        ] {
            let done = run(&backends, asks(&text, &profile)).await;
            assert!(!done.out.contains(" 200 "), "{name}: {text}: {}", done.out);
        }
        assert_eq!(*seen.lock().unwrap(), [""; 0], "{name}: nobody was reached");
        // Around the proxy there is nothing at all.
        let mut direct = asks("GET / HTTP/1.0\\r\\n\\r\\n", &profile);
        direct.args[2] = port.to_string().into();
        let done = run(&backends, direct).await;
        assert_ne!(done.ended.code, 0, "{name}: {}", done.out);
        let events = events.lock().unwrap();
        let count = |verdict| events.iter().filter(|event| event.decision == verdict).count();
        assert_eq!(count(EgressDecision::Allowed), 2, "{name}: {events:#?}");
        assert!(count(EgressDecision::Refused) >= 10, "{name}: {events:#?}");
        assert!(events.iter().all(|event| event.tool == "weather"));
        assert!(
            events
                .iter()
                .any(|event| event.host == "inward.test"
                    && event.decision == EgressDecision::Refused)
        );
    }
}
