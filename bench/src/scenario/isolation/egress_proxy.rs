//! Requests of a sandboxed program through the egress proxy, against the same requests without it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use provost_core::resource::IsolationMode;
use provost_sandbox::egress::NetPolicy;
use provost_sandbox::{
    EgressPolicy, EgressRule, IsolationProfile, NetworkAccess, SandboxCommand, SandboxRegistry,
    egress,
};
use tokio::process::Command;

use super::run;
use crate::measure::Pairs;
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Limit of the cost of the proxy per request.
const EXCESS_SECONDS_MAX: f64 = 200e-6;
/// Makes sequential requests over one connection and prints their mean duration.
const CLIENT: &str = r#"use IO::Socket::INET; use Time::HiRes 'time'; my ($port, $target, $count) = @ARGV;
my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "no connection"; $s->autoflush(1);
sub ask { print $s "GET $target HTTP/1.1\r\nHost: localhost\r\n\r\n"; my $size = 0; my $head = '';
  while (defined(my $l = <$s>)) { $head .= $l; $size = $1 if $l =~ /^content-length:\s*(\d+)/i; $chunked = 1 if $l =~ /^transfer-encoding:\s*chunked/i; last if $l eq "\r\n"; }
  die "refused: $head" unless $head =~ m{^HTTP/1.1 200};
  if ($chunked) { while (defined(my $l = <$s>)) { my $n = hex $l; read $s, my $b, $n + 2; last unless $n; } } else { read $s, my $b, $size; } }
our $chunked; ask() for 1..50; my $t = time; ask() for 1..$count; printf '%.9f', (time - $t) / $count;"#;

/// Measures both sides alternately.
pub(super) async fn measure(
    backends: &SandboxRegistry,
    plan: Plan,
    table: &mut Table,
    what: &str,
) -> Result<()> {
    let port = server()?;
    let count = plan.pick(2_000, 300).to_string();
    let rules = vec![EgressRule::new("127.0.0.1")?.ports([port])];
    let egress = EgressPolicy::new("bench", rules, NetPolicy::open(), Arc::new(|_| {}))?;
    let network = NetworkAccess::Allow(Arc::new(egress));
    let profile = IsolationProfile::new(IsolationMode::Process).network(network);
    let mut pairs = Pairs::default();
    for _ in 0..plan.pick(10, 3) {
        let target = format!("http://127.0.0.1:{port}/");
        let proxy = egress::PORT.to_string();
        let args = ["-e", CLIENT, &proxy, &target, &count];
        let (ended, inside) =
            run(backends, SandboxCommand::new("perl", args, profile.clone())).await?;
        if ended.code != 0 {
            table.unmeasured(what, "the sandboxed client did not get an answer");
            return Ok(());
        }
        let mut command = Command::new("perl");
        let outside = command.args(["-e", CLIENT, &port.to_string(), "/", &count]).output().await?;
        let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
        pairs.push(inside.parse()?, outside.parse()?);
    }
    table.excess_at_most(what, Unit::Time, &pairs, EXCESS_SECONDS_MAX);
    Ok(())
}

/// Starts a server that sends a fixed response.
fn server() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A closed connection ends its thread.
            std::thread::spawn(move || serve(&stream).unwrap_or_default());
        }
    });
    Ok(port)
}

fn serve(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" {
            writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
        }
    }
}
