//! A client that loses its connection again and again while the server is killed: it gets what it would have got without.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use provost_testkit::Reply;
use serde_json::json;

use crate::remote::{Server, command, provider_env};
use crate::support::Stage;
use crate::{Ran, World};

/// How often the client loses its connection.
const CONNECTIONS: usize = 100;
/// With these connections the server is killed while it sends.
const KILLED: [usize; 2] = [30, 60];
/// Bytes of a connection at most, less than a few events.
const BYTES_MAX: u64 = 2_000;
/// Tool calls of the run between two deaths of the server, enough for all connections that fall into that time.
const CALLS: usize = 40;
/// How long a client listens to nothing before it comes back.
const SILENCE: Duration = Duration::from_millis(500);

/// A stream of events as bytes, whoever sends it.
struct Stream {
    from: BufReader<TcpStream>,
    /// What came and was not taken.
    buffer: Vec<u8>,
}

impl Stream {
    /// Asks for what follows behind the cursor.
    fn open(address: &str, token: &str, path: &str, cursor: Option<&str>) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        let seen = cursor.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{seen}\r\n"
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut from = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(from.read_line(&mut head).unwrap(), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.to_lowercase().contains("transfer-encoding: chunked"), "{head}");
        Self { from, buffer: Vec::new() }
    }

    /// The next chunk; nothing once the stream has ended, has broken off or is silent.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut size = String::new();
        self.from.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let mut chunk = vec![0; size + 2];
        self.from.read_exact(&mut chunk).ok()?;
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// The next whole event, but no more than so many bytes; nothing if it broke off before.
    fn event(&mut self, left: &mut u64) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let rest = self.buffer.split_off(end + 2);
                let event = String::from_utf8(std::mem::replace(&mut self.buffer, rest)).unwrap();
                // Comments and how long to wait are no events.
                if event.contains("event: ") {
                    return Some(event);
                }
                continue;
            }
            if *left == 0 {
                return None;
            }
            let mut chunk = self.chunk()?;
            chunk.truncate(usize::try_from(*left).unwrap());
            *left -= chunk.len() as u64;
            self.buffer.extend(chunk);
        }
    }
}

/// What a client has of a stream.
#[derive(Default)]
struct Heard {
    text: String,
    cursor: Option<String>,
    is_over: bool,
}

impl Heard {
    /// Takes events until so many bytes came or nothing more comes.
    fn listen(&mut self, stream: &mut Stream, mut left: u64) {
        while let Some(event) = stream.event(&mut left) {
            let id = event.lines().find_map(|line| line.strip_prefix("id: "));
            self.cursor = id.map(str::to_owned).or(self.cursor.take());
            // The end of a stream is told to everybody who comes behind it.
            self.is_over = event.starts_with("event: end\n");
            if !self.is_over {
                self.text.push_str(&event);
            }
        }
    }
}

/// Numbers that look like chance and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn ask(world: &World, server: &Server, token: &str, args: &[&str]) -> Ran {
    let ran = Ran::of(&command(world, &server.url, token, args).output().unwrap());
    assert_eq!(ran.code, 0, "{args:?} {ran:?}");
    ran
}

#[tokio::test(flavor = "multi_thread")]
async fn g44_a_client_that_comes_back_a_hundred_times_misses_nothing_though_the_server_dies_twice()
{
    // The model falls silent, so that the server dies in the middle of a call, whoever is faster.
    let calls = |part: usize| {
        let ids = (part * CALLS..(part + 1) * CALLS).map(|number| format!("c{number}"));
        ids.map(|id| Reply::call(&id, "clock", &json!({}))).collect::<Vec<_>>()
    };
    let silent = || Reply::text("Let me").hang_midway();
    let parts = [calls(0), vec![silent()], calls(1), vec![silent()], calls(2)];
    let stage = Stage::new(parts.into_iter().flatten().chain([Reply::text("All done.")])).await;
    let (world, env) = (&stage.world, provider_env(&stage));
    let mut server = Server::start(world, &["--listen", "127.0.0.1:0"], &env);
    let token = server.token.clone().unwrap();
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    ask(world, &server, &token, &["agent", "update", "default", "--set", "max_turns=1000"]);
    let submitted = ask(world, &server, &token, &["task", "submit", "go", "-o", "json"]);
    let submitted: serde_json::Value = serde_json::from_str(&submitted.out).unwrap();
    let run = submitted["run"].as_str().unwrap();
    let path = format!("/v1/namespaces/default/runs/{run}/stream?deltas=false");
    let (mut heard, mut chance) = (Heard::default(), Chance(4));
    for connection in 0..CONNECTIONS {
        let mut stream = Stream::open(&address, &token, &path, heard.cursor.as_deref());
        let Some(died) = KILLED.iter().position(|killed| *killed == connection) else {
            heard.listen(&mut stream, chance.below(BYTES_MAX));
            continue;
        };
        stage.provider.wait_for_requests((died + 1) * (CALLS + 1)).await;
        server.kill();
        // What was on its way still arrives, cut off wherever it was.
        heard.listen(&mut stream, u64::MAX);
        server = Server::start(world, &["--listen", &address], &env);
    }
    ask(world, &server, &token, &["run", "wait", run]);
    heard.is_over = false;
    while !heard.is_over {
        let mut stream = Stream::open(&address, &token, &path, heard.cursor.as_deref());
        heard.listen(&mut stream, u64::MAX);
    }
    let mut whole = Heard::default();
    whole.listen(&mut Stream::open(&address, &token, &path, None), u64::MAX);
    let same = heard.text.bytes().zip(whole.text.bytes()).take_while(|(a, b)| a == b).count();
    let (heard_bytes, bytes) = (heard.text.len(), whole.text.len());
    assert_eq!((same, heard_bytes, whole.is_over), (bytes, bytes, true), "byte for byte");
    let events = whole.text.matches("\nevent: ").count();
    assert!(events > CONNECTIONS, "{events}");
    assert_eq!(whole.text.matches("event: attempt_started\n").count(), 1 + KILLED.len());
    assert!(whole.text.contains("All done."), "{}", whole.text);
}
