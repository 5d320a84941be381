//! Speed of each wire: decoding a streamed response and encoding a long history, against the minimum work.

use std::hint::black_box;

use provost_core::{Message, ToolCall, ToolResult, Usage};
use provost_model::{ChatRequest, ModelError, ModelInfo};
use provost_provider::wire::anthropic::AnthropicMessages;
use provost_provider::wire::bedrock::BedrockConverse;
use provost_provider::wire::gemini::GeminiContent;
use provost_provider::wire::ollama::OllamaChat;
use provost_provider::wire::openai_chat::OpenAiChat;
use provost_provider::wire::openai_responses::OpenAiResponses;
use provost_provider::wire::{FrameParser, WireFormat, normalize};
use provost_testkit::{Reply, WireKind};
use serde_json::{Value, json};

use crate::measure::{Pairs, cpu_time, memory};
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Text deltas of a response.
const DELTAS: usize = 20_000;
/// Bytes of one chunk.
const CHUNK_BYTES: usize = 16 * 1024;
/// Bytes of a history.
const HISTORY_BYTES: usize = 1024 * 1024;
const DECODE_RATIO_MIN: f64 = 0.7;
const ENCODE_RATIO_MAX: f64 = 2.0;
/// Limit of the memory for a response of any length.
const STREAM_BYTES_MAX: f64 = 8.0 * 1024.0 * 1024.0;

fn wire_of(kind: WireKind) -> Box<dyn WireFormat> {
    match kind {
        WireKind::OpenAiChat => Box::new(OpenAiChat::default()),
        WireKind::OpenAiResponses => Box::new(OpenAiResponses::default()),
        WireKind::Anthropic => Box::new(AnthropicMessages::default()),
        WireKind::Gemini => Box::new(GeminiContent::default()),
        WireKind::Ollama => Box::new(OllamaChat::default()),
        WireKind::Bedrock => Box::new(BedrockConverse::default()),
    }
}

/// Measures processor time, so that other processes do not count.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let rounds = plan.pick(25, 7);
    for kind in WireKind::ALL {
        let wire = wire_of(kind);
        let bytes = answer(kind);
        let megabytes = bytes.len() as f64 / 1e6;
        let mut speed = Pairs::default();
        for _ in 0..rounds {
            let provost = seconds(|| decode(wire.as_ref(), &bytes))?;
            let baseline = seconds(|| parse(kind, &bytes))?;
            speed.push(megabytes / provost, megabytes / baseline);
        }
        let what = format!("{kind:?}: decoding, MB");
        table.ratio_at_least(&what, Unit::PerSecond, &speed, DECODE_RATIO_MIN);
        encoding(kind, wire.as_ref(), rounds, table)?;
    }
    for kind in WireKind::ALL {
        constant_memory(kind, plan.pick(256, 32), table)?;
    }
    Ok(())
}

fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = cpu_time();
    work()?;
    Ok((cpu_time() - start).as_secs_f64())
}

/// Returns a long response as sent over the wire.
fn answer(kind: WireKind) -> Vec<u8> {
    let pieces = (0..DELTAS).map(|n| format!(" word {n}"));
    Reply::new().deltas(pieces).usage(Usage::new(100, 20_000)).render(kind).concat()
}

fn decode(wire: &dyn WireFormat, bytes: &[u8]) -> Result<()> {
    let mut frames = FrameParser::new(wire.framing());
    let mut decoder = wire.decoder();
    let (mut out, mut count) = (Vec::new(), 0);
    for chunk in bytes.chunks(CHUNK_BYTES) {
        frames.push(chunk, |event| decoder.push(&event, &mut out).map(drop))?;
        count += out.len();
        black_box(&out);
        out.clear();
    }
    if count < DELTAS {
        return Err(format!("{count} events came of {DELTAS} pieces").into());
    }
    Ok(())
}

/// The minimum work: split and parse.
fn parse(kind: WireKind, bytes: &[u8]) -> Result<()> {
    match kind {
        WireKind::Bedrock => {
            let mut rest = bytes;
            while rest.len() >= 16 {
                let number = |at: usize| -> Result<usize> {
                    Ok(u32::from_be_bytes(rest[at..at + 4].try_into()?) as usize)
                };
                let (total, headers) = (number(0)?, number(4)?);
                let checksum = u32::from_be_bytes(rest[total - 4..total].try_into()?);
                if crc32fast::hash(&rest[..total - 4]) != checksum {
                    return Err("a checksum is wrong".into());
                }
                let payload = &rest[12 + headers..total - 4];
                black_box(serde_json::from_slice::<Value>(payload)?);
                rest = &rest[total..];
            }
        }
        _ => {
            let mut rest = bytes;
            while let Some(end) = memchr::memchr(b'\n', rest) {
                let line = rest[..end].trim_ascii_end();
                rest = &rest[end + 1..];
                let data = match kind {
                    WireKind::Ollama => line,
                    _ => line.strip_prefix(b"data: ").unwrap_or(b""),
                };
                if !data.is_empty() && data != b"[DONE]" {
                    black_box(serde_json::from_slice::<Value>(data)?);
                }
            }
        }
    }
    Ok(())
}

/// Returns a conversation of about a megabyte, with tools.
fn history() -> ChatRequest {
    let text = "The agent reads a page and writes what it found there, \"quoted\" and in order. ";
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for turn in 0.. {
        if bytes >= HISTORY_BYTES {
            break;
        }
        let call = ToolCall::new(format!("call_{turn}"), "search", &json!({"q": text, "n": turn}));
        messages.push(Message::user(text.repeat(8)));
        messages.push(Message::calls([call.clone()]));
        messages.push(Message::results([ToolResult::text(&call, text.repeat(16))]));
        messages.push(Message::assistant(text.repeat(8)));
        bytes += 33 * text.len();
    }
    messages.push(Message::user("And?"));
    ChatRequest::new(messages)
}

fn encoding(kind: WireKind, wire: &dyn WireFormat, rounds: usize, table: &mut Table) -> Result<()> {
    let request = history();
    let info = ModelInfo::unknown("bench", "m");
    let rules = wire.message_rules();
    let write = |request: ChatRequest| -> Result<Vec<u8>, ModelError> {
        let (request, _) = normalize::normalize_request(request, &rules);
        wire.encode(&request, &info)
    };
    let body: Value = serde_json::from_slice(&write(request.clone())?)?;
    let mut time = Pairs::default();
    for _ in 0..rounds {
        let request = request.clone();
        let provost = seconds(|| {
            black_box(write(request)?);
            Ok(())
        })?;
        let baseline = seconds(|| {
            black_box(serde_json::to_vec(&body)?);
            Ok(())
        })?;
        time.push(provost, baseline);
    }
    let what = format!("{kind:?}: encoding 1 MB");
    table.ratio_at_most(&what, Unit::Time, &time, ENCODE_RATIO_MAX);
    Ok(())
}

/// Decodes the same deltas repeatedly. The memory must not depend on their number.
fn constant_memory(kind: WireKind, megabytes: usize, table: &mut Table) -> Result<()> {
    let wire = wire_of(kind);
    let frames_of = Reply::new().deltas(vec![" word"; 1000]).omit_final_frame().render(kind);
    let chunk = frames_of.concat();
    let mut frames = FrameParser::new(wire.framing());
    let mut decoder = wire.decoder();
    let mut out = Vec::new();
    let before = memory()?;
    let mut fed = 0;
    while fed < megabytes * 1024 * 1024 {
        frames.push(&chunk, |event| decoder.push(&event, &mut out).map(drop))?;
        black_box(&out);
        out.clear();
        fed += chunk.len();
    }
    let grown = (memory()? - before).max(0.0);
    let what = format!("{kind:?}: memory of {megabytes} MiB decoded");
    table.at_most(&what, Unit::Bytes, grown, STREAM_BYTES_MAX);
    Ok(())
}
