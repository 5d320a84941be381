//! An HTTP tool against its HTTP client: the same server and the same settings, in alternating calls.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::Env;
use provost_core::recovery::EffectClass;
use provost_core::resource::{ToolResource, ToolType};
use provost_net::{NetClient, NetOptions, NetPolicy, NetRequest, Url};
use provost_tool::{DeclaredTool, Guard, NoCredentials, RuntimeRegistry, RuntimeServices, Tool};
use provost_tool_runtime::{HttpRuntime, ToolHttpClient};

use super::call;
use crate::measure::Pairs;
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Calls of each kind before the measurement.
const WARM_UP: usize = 100;
/// Timeout of one call.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a request that the server reads at once. The measured requests are smaller.
const REQUEST_BYTES_MAX: usize = 8192;
/// Maximum bytes of a response.
const ANSWER_BYTES_MAX: usize = 4096;
/// Limit of the cost of guard, templates and contract.
const EXCESS_SECONDS_MAX: f64 = 50e-6;

pub(super) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let pairs = runtime.block_on(both(plan.pick(5000, 500)))?;
    table.excess_at_most("an HTTP tool", Unit::Time, &pairs, EXCESS_SECONDS_MAX);
    Ok(())
}

async fn both(calls: usize) -> Result<Pairs> {
    let url = serve()?;
    let options = NetOptions::new(NetPolicy::open());
    let client = NetClient::open(options.clone());
    let tool =
        declared(&url, ToolType::Http, Arc::new(HttpRuntime::new(ToolHttpClient::open(options))))?;
    let guard = Guard::default();
    let mut pairs = Pairs::default();
    for at in 0..calls + WARM_UP {
        let started = Instant::now();
        let request = NetRequest::post(url.clone(), BODY, Instant::now() + TIMEOUT);
        client.send(request).await?.bytes(ANSWER_BYTES_MAX).await?;
        let raw = started.elapsed();
        let started = Instant::now();
        call(&guard, &tool).await?;
        let provost = started.elapsed();
        if at >= WARM_UP {
            pairs.push(provost.as_secs_f64(), raw.as_secs_f64());
        }
    }
    Ok(pairs)
}

/// Body of the tool's request.
const BODY: &str = r#"{"times":3,"words":"so it goes, as it always did"}"#;

/// Returns a tool as a manifest declares it.
pub(super) fn declared(
    endpoint: impl ToString,
    kind: ToolType,
    runtime: Arc<dyn provost_tool::ToolRuntime>,
) -> Result<Arc<dyn Tool>> {
    let mut resource = ToolResource::new("echo", kind, endpoint.to_string());
    resource.effect = EffectClass::Idempotent;
    if kind == ToolType::Grpc {
        let plaintext = true;
        resource.grpc = Some(provost_core::resource::GrpcSpec { plaintext, ..Default::default() });
    }
    let mut runtimes = RuntimeRegistry::default();
    runtimes.add(runtime)?;
    let host = RuntimeServices {
        runtimes: Arc::new(runtimes),
        credentials: Arc::new(NoCredentials),
        env: Env::system(),
    };
    Ok(Arc::new(DeclaredTool::new(resource, "default", host)?))
}

/// Starts a server on its own threads that sends a fixed response.
fn serve() -> Result<Url> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = Url::parse(&format!("http://{}/", listener.local_addr()?))?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A closed connection ends its thread.
            std::thread::spawn(move || drop(answer_all(stream)));
        }
    });
    Ok(url)
}

fn answer_all(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    let mut filled = 0;
    loop {
        let size = stream.read(&mut buffer[filled..])?;
        if size == 0 {
            return Ok(());
        }
        filled += size;
        if is_whole(&buffer[..filled]) {
            filled = 0;
            stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\ndone",
            )?;
        }
    }
}

/// Returns true if a request with its whole body has arrived.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    bytes.len() >= end + 4 + length
}
