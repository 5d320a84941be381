//! Bytes that no vendor sends, for every decoder: no panic, and never more kept or given than came.
//!
//! Bounded by rounds; `scripts/fuzz-decoders SECONDS` goes on for as long as one likes, from other seeds.

use std::time::{Duration, Instant};

use provost_core::Usage;
use provost_model::wire::anthropic::AnthropicMessages;
use provost_model::wire::bedrock::BedrockConverse;
use provost_model::wire::gemini::GeminiContent;
use provost_model::wire::ollama::OllamaChat;
use provost_model::wire::openai_chat::OpenAiChat;
use provost_model::wire::openai_responses::OpenAiResponses;
use provost_model::wire::{Frames, Progress, Wire};
use provost_model::{Fold, ModelError, ModelEvent};
use provost_testkit::{Failure, Reply, WireKind};
use serde_json::json;

use crate::harness::WIRES;

/// Rounds for each wire where nobody asks for more.
const ROUNDS: u64 = 400;
/// The variable that asks for a time in seconds.
const SECONDS: &str = "PROVOST_FUZZ_SECONDS";
/// Bytes that mean something to some decoder.
const TOKENS: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "0",
    "-1e999",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\n\n",
    "\r\n",
    "data: ",
    "event: ",
    "data: [DONE]\n\n",
    "{}",
    "\"index\":4294967295",
    "\"type\":7",
];

/// Chance that is the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }
}

fn wire_of(kind: WireKind) -> Box<dyn Wire> {
    match kind {
        WireKind::OpenAiChat => {
            Box::new(OpenAiChat { metadata_fields: vec!["x".to_owned()], ..OpenAiChat::default() })
        }
        WireKind::OpenAiResponses => Box::new(OpenAiResponses::default()),
        WireKind::Anthropic => Box::new(AnthropicMessages::default()),
        WireKind::Gemini => Box::new(GeminiContent::default()),
        WireKind::Ollama => Box::new(OllamaChat::default()),
        WireKind::Bedrock => Box::new(BedrockConverse::default()),
    }
}

/// What the mutations begin with: one of each thing that a vendor says.
fn corpus(kind: WireKind) -> Vec<Vec<Vec<u8>>> {
    let full = Reply::new()
        .reasoning("hm \"ü\"", "sig==")
        .redacted("enc==")
        .deltas(["Hel", "lo 🦀"])
        .and_call("c1", "search", &json!({"q": "a \"b\"", "deep": [1, {"x": null}]}))
        .and_call("c2", "now", &json!({}))
        .fragment(3)
        .usage(Usage { input: 9, output: 4, cache_read: 2, cache_write: 1, reasoning: 1 });
    let replies = [
        full.clone(),
        full.end_early(),
        Reply::text("x").stop_word("odd"),
        Reply::text("x").fail_midway(Failure::Overloaded),
    ];
    replies
        .iter()
        .map(|reply| reply.render(kind).iter().map(|frame| frame.to_vec()).collect())
        .collect()
}

/// Damages one answer.
fn mutate(pieces: &mut Vec<Vec<u8>>, chance: &mut Chance) {
    for _ in 0..=chance.below(6) {
        if pieces.is_empty() {
            return;
        }
        let place = chance.below(pieces.len());
        match chance.below(8) {
            0 => drop(pieces.remove(place)),
            1 => pieces.insert(place, pieces[place].clone()),
            2 => pieces.swap(0, place),
            kind => mutate_bytes(&mut pieces[place], kind, chance),
        }
    }
}

fn mutate_bytes(bytes: &mut Vec<u8>, kind: usize, chance: &mut Chance) {
    let at = chance.below(bytes.len() + 1);
    match kind {
        3 => bytes.truncate(at),
        4 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
        5 => {
            let token = TOKENS[chance.below(TOKENS.len())].as_bytes();
            bytes.splice(at..at, token.iter().copied());
        }
        6 => {
            let end = (at + chance.below(12)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let from = chance.below(bytes.len() + 1).min(at);
            let again = bytes[from..at].to_vec();
            bytes.splice(at..at, again);
        }
    }
}

/// Feeds bytes in pieces of any size; what comes out is bounded by what went in.
fn feed(wire: &dyn Wire, bytes: &[u8], chance: &mut Chance) -> Result<(), ModelError> {
    let mut frames = Frames::new(wire.framing());
    let mut decoder = wire.decoder();
    let (mut fold, mut out, mut given) = (Fold::default(), Vec::new(), 0);
    let mut rest = bytes;
    let mut done = false;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at((1 + chance.below(64)).min(rest.len()));
        rest = tail;
        frames.push(piece, |event| {
            if !done {
                done = decoder.push(&event, &mut out)? == Progress::Done;
            }
            Ok::<(), ModelError>(())
        })?;
        given += out.iter().map(size).sum::<usize>();
        for event in out.drain(..) {
            fold.push(&event)?;
        }
    }
    frames.finish(|event| {
        if !done {
            done = decoder.push(&event, &mut out)? == Progress::Done;
        }
        Ok::<(), ModelError>(())
    })?;
    if !done {
        decoder.finish(&mut out)?;
    }
    assert!(given <= 4 * bytes.len() + 4096, "{given} bytes out of {}", bytes.len());
    for event in &out {
        fold.push(event)?;
    }
    fold.finish().map(drop)
}

fn size(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Text(text) | ModelEvent::Reasoning(text) => text.len(),
        ModelEvent::ToolCallStart { id, name, .. } => id.len() + name.len(),
        ModelEvent::ToolCallArguments { json, .. } => json.len(),
        ModelEvent::ReasoningOpaque(opaque) | ModelEvent::ToolCallOpaque { opaque, .. } => {
            opaque.data.len()
        }
        _ => 0,
    }
}

fn round(kind: WireKind, seed: u64) -> bool {
    let mut chance = Chance(seed | 1);
    let corpus = corpus(kind);
    let mut pieces = corpus[chance.below(corpus.len())].clone();
    mutate(&mut pieces, &mut chance);
    let mut bytes = pieces.concat();
    // A damaged frame fails its checksum, so that nothing behind it would ever be tried: its payload is damaged before.
    if kind == WireKind::Bedrock && chance.below(2) == 0 {
        let names = ["messageStart", "contentBlockStart", "contentBlockDelta", "metadata", "x"];
        let mut payload = br#"{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"a","name":"b"}},"delta":{"text":"x","toolUse":{"input":"{"},"reasoningContent":{"signature":"s"}},"usage":{"inputTokens":1}}"#.to_vec();
        for _ in 0..chance.below(4) {
            let how = 3 + chance.below(5);
            mutate_bytes(&mut payload, how, &mut chance);
        }
        let name = names[chance.below(names.len())];
        bytes.extend_from_slice(&kind.event(name, &payload));
    }
    feed(wire_of(kind).as_ref(), &bytes, &mut chance).is_ok()
}

#[test]
fn no_bytes_harm_a_decoder() {
    let asked = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    let end = asked.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    // Where a time is given, each run tries something else.
    let first = match end {
        Some(_) => u64::from(std::process::id()) << 32,
        None => 0x9E37_79B9_7F4A_7C15,
    };
    let (mut tried, mut whole) = (0_u64, 0_u64);
    loop {
        for kind in WIRES {
            let seed = first.wrapping_add(tried.wrapping_mul(0x2545_F491_4F6C_DD1D));
            let result = std::panic::catch_unwind(|| round(kind, seed));
            match result {
                Ok(is_whole) => whole += u64::from(is_whole),
                Err(_) => panic!("{kind:?} failed with the seed {seed}"),
            }
        }
        tried += 1;
        let is_over = match end {
            Some(end) => Instant::now() >= end,
            None => tried >= ROUNDS,
        };
        if is_over {
            break;
        }
    }
    assert!(whole > 0, "some answers are still whole, or nothing was tried");
    assert!(whole < tried * WIRES.len() as u64, "some are not, or nothing was damaged");
}
