//! 500 canaries: a secret that a tool used is in no prompt, journal, log, event or artifact, however the tool gives it back.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use provost_api::{Client, HttpOptions, HttpTransport, NewTask, PageQuery};
use provost_core::id::name::Namespace;
use provost_testkit::{FakeProvider, Recorded, Reply};
use serde_json::{Value, json};

use crate::World;
use crate::tools::governed::{Asked, ToolServer, respond};

/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How every canary begins.
const MARK: &str = "CANARY7Q";
/// How secrets look.
const SHAPES: [&str; 25] = [
    "plain",
    "with-dashes-and_underscores",
    "quote\"inside",
    "back\\slash",
    "slash/and+plus=",
    "per%cent",
    "amp&ersand",
    "curly{brace}",
    "<angle>",
    "dollar$sign",
    "semi;colon",
    "tab\there",
    "comma,comma",
    "space here",
    "umlaut-äöü",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.e30.sig",
    "emoji-🦜",
    "0123456789abcdef0123456789abcdef",
    "UPPER",
    "at@sign.example",
    "question?mark",
    "hash#tag",
    "star*",
    "apostrophe's",
];
/// How a tool gives its secret back.
const WAYS: usize = 20;
/// Bytes of a long output: more than a model is shown.
const LONG: usize = 200 * 1024;
/// Bytes that are shown of a long output, about: a secret that lies across the border must not be cut in half.
const BORDER: usize = 50 * 1024;

fn secret(shape: usize, way: usize) -> String {
    format!("{MARK}-{way}-{shape}-{}", SHAPES[shape])
}

fn scenario(name: &str) -> (usize, usize) {
    let mut parts = name.trim_start_matches('t').split('x').map(|part| part.parse().unwrap());
    (parts.next().unwrap(), parts.next().unwrap())
}

/// Gives the secret back in one of many ways.
fn betray(asked: &Asked, stream: &mut TcpStream) {
    let name = asked.path.trim_start_matches('/').split(['?', '/']).next().unwrap();
    let (way, shape) = scenario(name);
    let secret = secret(shape, way);
    let sent = asked.headers.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("\n");
    let text = |stream: &mut TcpStream, status: &str, body: &str| {
        respond(stream, status, "text/plain; charset=utf-8", body.as_bytes());
    };
    match way {
        0 => text(stream, "200 OK", &format!("it is {secret}")),
        1 => text(stream, "200 OK", &sent),
        2 => respond(
            stream,
            "200 OK",
            "application/json",
            json!({"a": {"b": [secret]}}).to_string().as_bytes(),
        ),
        3 => text(stream, "200 OK", &base64(secret.as_bytes())),
        4 => text(stream, "200 OK", &hex(secret.as_bytes())),
        5 => text(stream, "200 OK", &percent(&secret)),
        6 => text(stream, "500 Internal Server Error", &format!("broken: {secret}")),
        7 => text(stream, "401 Unauthorized", &format!("wrong key {secret}")),
        8 => text(stream, "403 Forbidden", &format!("{secret} may not")),
        9 => text(stream, "400 Bad Request", &format!("{{\"error\": {}}}", json!(secret))),
        _ => betray_oddly((way, &secret), asked, stream),
    }
}

/// The ways that no well-behaved server would take.
fn betray_oddly((way, secret): (usize, &str), asked: &Asked, stream: &mut TcpStream) {
    let text = |stream: &mut TcpStream, status: &str, body: &str| {
        respond(stream, status, "text/plain; charset=utf-8", body.as_bytes());
    };
    let answer = |fields: Value| {
        let mut envelope: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        let mut whole =
            json!({"tool_contract_version": "v1", "request_id": envelope["request_id"].take()});
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        whole.to_string()
    };
    match way {
        10 => pieces(stream, secret),
        11 => text(stream, "200 OK", &format!("{}{secret}", "x".repeat(LONG))),
        12 => {
            let before = BORDER - secret.len() / 2;
            text(stream, "200 OK", &format!("{}{secret}{}", "x".repeat(before), "y".repeat(LONG)));
        }
        13 => {
            let bytes = [b"\xff\xfe bad ", secret.as_bytes(), b" \xc3"].concat();
            respond(stream, "200 OK", "text/plain", &bytes);
        }
        14 => {
            let head = format!(
                "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/{}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                percent(secret)
            );
            stream.write_all(head.as_bytes()).ok();
        }
        15 => respond(
            stream,
            "200 OK",
            "application/json",
            answer(json!({"status": "ok", "output": {"result": secret}})).as_bytes(),
        ),
        16 => {
            let error = json!({"code": "execution_failed", "message": format!("no: {secret}"), "details": {"key": secret}});
            respond(
                stream,
                "200 OK",
                "application/json",
                answer(json!({"status": "error", "error": error})).as_bytes(),
            );
        }
        17 => respond(
            stream,
            "200 OK",
            "application/json",
            format!("{{\"not\": an envelope {secret}").as_bytes(),
        ),
        18 => {
            let half = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9999\r\n\r\nit is {secret}"
            );
            stream.write_all(half.as_bytes()).ok();
        }
        _ => text(
            stream,
            "503 Service Unavailable",
            &format!("Authorization: Bearer {secret}\nX-Key: {secret}"),
        ),
    }
}

/// The secret over two chunks.
fn pieces(stream: &mut TcpStream, secret: &str) {
    let bytes = secret.as_bytes();
    let (one, two) = bytes.split_at(bytes.len() / 2);
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n").ok();
    for piece in [one, two] {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).ok();
        stream.write_all(piece).ok();
        stream.write_all(b"\r\n").ok();
        stream.flush().ok();
    }
    stream.write_all(b"0\r\n\r\n").ok();
}

fn manifests(address: &std::net::SocketAddr) -> String {
    let mut text = String::new();
    for way in 0..WAYS {
        let mut names = Vec::new();
        for shape in 0..SHAPES.len() {
            let name = format!("t{way}x{shape}");
            let kind = if (15..=17).contains(&way) { "external" } else { "http" };
            let auth = match shape % 3 {
                0 => "profile: bearer".to_owned(),
                1 => "profile: api_key_header, headerName: X-Key".to_owned(),
                _ => "profile: basic".to_owned(),
            };
            text.push_str(&format!(
                "---\nkind: Tool\nmetadata: {{name: {name}}}\nspec: {{type: {kind}, endpoint: 'http://{address}/{name}', \
                 effect: pure, auth: {{{auth}, secretRef: {name}}}}}\n"
            ));
            names.push(name);
        }
        text.push_str(&format!(
            "---\nkind: Agent\nmetadata: {{name: a{way}}}\nspec: {{tools: [{}]}}\n",
            names.join(", ")
        ));
    }
    text
}

/// Calls the tool that the user names, and then says that it is done.
fn model(asked: &Recorded) -> Reply {
    let body = asked.json();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let last = messages.last().cloned().unwrap_or_default();
    let text = last["content"].as_str().map_or_else(|| last["content"].to_string(), str::to_owned);
    match text.split("call ").nth(1) {
        Some(name) if last["role"] == "user" => {
            let name: String = name.chars().take_while(char::is_ascii_alphanumeric).collect();
            Reply::call("c1", name, &json!({}))
        }
        _ => Reply::text("done"),
    }
}

fn start(world: &World, url: &str, log: &Path) -> (Child, String, String) {
    let args = [
        "--log",
        "debug",
        "serve",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--manifests",
        "house.yaml",
        "--tool-network",
        "local",
    ];
    let mut command = world.command(&args[2..]);
    command.args(&args[..2]).env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", url);
    for way in 0..WAYS {
        for shape in 0..SHAPES.len() {
            let value = match shape % 3 {
                2 => format!("user:{}", secret(shape, way)),
                _ => secret(shape, way),
            };
            command.env(format!("PROVOST_SECRET_T{way}X{shape}"), value);
        }
    }
    command.stderr(Stdio::from(std::fs::File::create(log).unwrap()));
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let word = |name: &str| told[name].as_str().unwrap().to_owned();
    (child, word("url"), word("token"))
}

/// What would be found of a canary: itself, and as base64 at any offset, as hexadecimal digits.
fn marks() -> Vec<Vec<u8>> {
    let mut marks = vec![MARK.as_bytes().to_vec(), hex(MARK.as_bytes()).into_bytes()];
    for before in 0..3 {
        let text = base64(&[&vec![b'_'; before][..], MARK.as_bytes()].concat());
        // What stands at the ends depends on the neighbours.
        let from = before.div_ceil(3) * 4;
        marks.push(text.as_bytes()[from..text.len() - 4].to_vec());
    }
    marks
}

fn find(place: &str, bytes: &[u8], marks: &[Vec<u8>], found: &mut Vec<String>) {
    for mark in marks {
        let mut at = bytes.windows(mark.len()).enumerate().filter(|(_, window)| window == mark);
        if let Some((at, _)) = at.next() {
            let around = &bytes[at.saturating_sub(80)..(at + 80).min(bytes.len())];
            found.push(format!("{place}: …{}…", String::from_utf8_lossy(around)));
        }
    }
}

fn files(dir: &Path, marks: &[Vec<u8>], found: &mut Vec<String>) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            count += files(&entry, marks, found);
        } else {
            count += 1;
            find(&entry.display().to_string(), &std::fs::read(&entry).unwrap(), marks, found);
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_canaries_are_found_nowhere() {
    let world = World::new();
    let tools = ToolServer::start(betray);
    std::fs::write(world.path().join("house.yaml"), manifests(&tools.address)).unwrap();
    let provider = FakeProvider::answering(model).await;
    let log = world.path().join("log.txt");
    let (mut child, url, token) = start(&world, &provider.base_url(), &log);
    let transport = HttpTransport::new(&url, &HttpOptions::default()).unwrap();
    let client = Client::new(transport, Namespace::default()).with_token(&token).unwrap();
    let mut runs = Vec::new();
    for way in 0..WAYS {
        for shape in 0..SHAPES.len() {
            let task = NewTask {
                agent: Some(format!("a{way}")),
                ..NewTask::text(format!("call t{way}x{shape}"))
            };
            runs.push(client.submit(&task).await.unwrap().run);
        }
    }
    let marks = marks();
    let mut found = Vec::new();
    for run in &runs {
        let ended = client.poll_run(*run, PATIENCE).await.unwrap();
        let told = json!([ended, client.run_steps(*run, &PageQuery::default()).await.unwrap()]);
        find(&format!("{run}"), told.to_string().as_bytes(), &marks, &mut found);
    }
    child.kill().unwrap();
    child.wait().unwrap();

    assert_eq!(runs.len(), 500);
    let called: std::collections::HashSet<String> = tools
        .seen()
        .iter()
        .map(|asked| asked.path.trim_start_matches('/').split('?').next().unwrap().to_owned())
        .collect();
    let all =
        (0..WAYS).flat_map(|way| (0..SHAPES.len()).map(move |shape| format!("t{way}x{shape}")));
    let missing: Vec<String> = all.filter(|name| !called.contains(name)).collect();
    assert!(missing.is_empty(), "every tool was called, with its secret: {missing:?}");
    for (at, request) in provider.requests().iter().enumerate() {
        find(&format!("prompt {at}"), &request.body, &marks, &mut found);
    }
    assert!(provider.request_count() >= 1000);
    let kept = files(&world.path().join(".local"), &marks, &mut found);
    assert!(kept > 50, "artifacts of long outputs are there: {kept}");
    find("log", &std::fs::read(&log).unwrap(), &marks, &mut found);
    assert!(
        found.is_empty(),
        "{} leaks:\n{}",
        found.len(),
        found[..found.len().min(12)].join("\n")
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn percent(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => (byte as char).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place <= chunk.len() { letter } else { '=' });
        }
    }
    text
}
