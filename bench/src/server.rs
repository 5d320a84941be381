//! The fake provider in a separate process, so that its work does not count as the client's.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use memchr::memmem;
use provost_core::Usage;
use provost_testkit::{FakeProvider, Recorded, Reply, WireKind};
use serde_json::json;

use crate::Result;

/// Hidden command of the provider.
pub(crate) const COMMAND: &str = "serve";
/// Model that calls a tool in each of [`ROUNDS`] rounds and then answers.
pub(crate) const ROUNDS_MODEL: &str = "fake-rounds";
/// Model of a task of [`TASK_MODEL_STEPS`] model calls and [`TASK_TOOL_STEPS`] tool calls.
pub(crate) const TASK_MODEL: &str = "fake-task";
/// Model that responds with [`STREAM_TOKENS`] tokens at once.
pub(crate) const STREAM_MODEL: &str = "fake-stream";
/// Rounds of tool calls in one run.
pub(crate) const ROUNDS: usize = 5;
/// Model calls of one run.
pub(crate) const STEPS: usize = ROUNDS + 1;
/// Model calls of one task.
pub(crate) const TASK_MODEL_STEPS: usize = 5;
/// Tool calls of one task.
pub(crate) const TASK_TOOL_STEPS: usize = 5;
/// Tokens of one streamed response.
pub(crate) const STREAM_TOKENS: usize = 2000;

/// A running provider. Dropping it stops the process.
pub(crate) struct Server {
    process: Child,
    url: String,
}

impl Server {
    /// Starts this binary again as the provider.
    pub(crate) fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut url)?;
        }
        let url = url.trim().to_owned();
        if url.is_empty() {
            return Err("the fake provider did not start".into());
        }
        Ok(Self { process, url })
    }

    /// Returns the base URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process also ends when its standard input is closed.
        let _ended = self.process.kill().and_then(|()| self.process.wait()).is_ok();
    }
}

/// Serves until standard input ends. The first line of standard output is the base URL.
pub(crate) fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let provider = runtime.block_on(provider());
    writeln!(io::stdout(), "{}", provider.base_url())?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

async fn provider() -> FakeProvider {
    let rounds: Vec<Reply> = (0..=ROUNDS).map(round).collect();
    let stream = Reply::new()
        .deltas((0..STREAM_TOKENS).map(|token| format!(" token{token}")))
        .usage(Usage::new(20, STREAM_TOKENS as u64))
        .prepare(WireKind::OpenAiChat);
    let task = Task::new();
    let answer = move |request: &Recorded| {
        if memmem::find(&request.body, TASK_MODEL.as_bytes()).is_some() {
            return task.answer(request);
        }
        answer(request, &rounds, &stream)
    };
    let provider = FakeProvider::answering(answer).await;
    provider.forget_requests();
    provider
}

/// Returns the reply of a round, ready to send: a tool call in pieces, or the final text.
fn round(number: usize) -> Reply {
    spoken(number).prepare(WireKind::OpenAiChat)
}

fn spoken(number: usize) -> Reply {
    let reply = if number < ROUNDS {
        let arguments = json!({ "a": number, "b": 40 });
        Reply::call(format!("call_{number}"), "add", &arguments)
    } else {
        Reply::text("The sum of all the numbers that you gave me is two hundred and ten.")
    };
    reply.fragment(5).usage(Usage::new(100 + 30 * number as u64, 20))
}

fn answer(request: &Recorded, rounds: &[Reply], stream: &Reply) -> Reply {
    if memmem::find(&request.body, STREAM_MODEL.as_bytes()).is_some() {
        return stream.clone();
    }
    rounds[results(request).min(ROUNDS)].clone()
}

/// Returns the number of tool results in a request.
pub(crate) fn results(request: &Recorded) -> usize {
    memmem::find_iter(&request.body, br#""role":"tool""#).count()
}

/// Replies of a task: two concurrent calls, three single calls, and the final text.
pub(crate) struct Task {
    /// Replies by the number of results so far.
    answers: Vec<Reply>,
}

impl Task {
    pub(crate) fn new() -> Self {
        let answers = (0..=TASK_TOOL_STEPS).map(|results| match results {
            0 => spoken(0).and_call("call_1", "add", &json!({ "a": 1, "b": 40 })),
            _ => spoken(results),
        });
        Self { answers: answers.map(|reply| reply.prepare(WireKind::OpenAiChat)).collect() }
    }

    pub(crate) fn answer(&self, request: &Recorded) -> Reply {
        self.answers[results(request).min(TASK_TOOL_STEPS)].clone()
    }
}
