//! Fuzz tests of the decoders: no panic, and no more output or memory than input.
//!
//! The number of rounds is limited. `scripts/stress decoders SECONDS` runs for any time with other seeds.

mod corpus;
mod mutate;

use std::time::{Duration, Instant};

use provost_core::StopReason;
use provost_model::{ModelError, ModelEvent, ResponseAccumulator};
use provost_provider::wire::anthropic::AnthropicMessages;
use provost_provider::wire::bedrock::BedrockConverse;
use provost_provider::wire::gemini::GeminiContent;
use provost_provider::wire::ollama::OllamaChat;
use provost_provider::wire::openai_chat::OpenAiChat;
use provost_provider::wire::openai_responses::OpenAiResponses;
use provost_provider::wire::{DecodeStatus, FrameParser, WireFormat};
use provost_testkit::WireKind;

use crate::harness::WIRES;
use corpus::Corpus;
use mutate::{Chance, mutate, mutate_bytes};

/// Default number of rounds for each wire.
const ROUNDS: u64 = 400;
/// Variable with a time limit in seconds.
const SECONDS: &str = "PROVOST_FUZZ_SECONDS";

fn wire_of(kind: WireKind) -> Box<dyn WireFormat> {
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

/// Result of a decoder: the kinds of its events in order, and the end.
#[derive(Default)]
struct Mark(String);

impl Mark {
    fn saw(&mut self, event: &ModelEvent) {
        let name = format!("{event:?}");
        let end = name.find(|each: char| !each.is_ascii_alphanumeric()).unwrap_or(name.len());
        // Repeated events of the same kind add no information.
        if !self.0.ends_with(&name[..end]) {
            self.0.push(' ');
            self.0.push_str(&name[..end]);
        }
    }
}

/// Feeds bytes in parts of random size. The output is bounded by the input.
fn feed(wire: &dyn WireFormat, bytes: &[u8], chance: &mut Chance) -> (Mark, bool) {
    let mut mark = Mark::default();
    let ended = fed(wire, bytes, chance, &mut mark);
    let end = match &ended {
        Ok(stop) => format!(" | {stop:?}"),
        Err(error) => format!(" | {:?} {:?}", error.class, error.status),
    };
    mark.0.push_str(&end);
    (mark, ended.is_ok())
}

fn fed(
    wire: &dyn WireFormat,
    bytes: &[u8],
    chance: &mut Chance,
    mark: &mut Mark,
) -> Result<StopReason, ModelError> {
    let mut frames = FrameParser::new(wire.framing());
    let mut decoder = wire.decoder();
    let (mut fold, mut out, mut given) = (ResponseAccumulator::default(), Vec::new(), 0);
    let mut rest = bytes;
    let mut done = false;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at((1 + chance.below(64)).min(rest.len()));
        rest = tail;
        frames.push(piece, |event| {
            if !done {
                done = decoder.push(&event, &mut out)? == DecodeStatus::Done;
            }
            Ok::<(), ModelError>(())
        })?;
        given += out.iter().map(size).sum::<usize>();
        for event in out.drain(..) {
            mark.saw(&event);
            fold.push(&event)?;
        }
    }
    frames.finish(|event| {
        if !done {
            done = decoder.push(&event, &mut out)? == DecodeStatus::Done;
        }
        Ok::<(), ModelError>(())
    })?;
    if !done {
        decoder.finish(&mut out)?;
    }
    assert!(given <= 4 * bytes.len() + 4096, "{given} bytes out of {}", bytes.len());
    for event in &out {
        mark.saw(event);
        fold.push(event)?;
    }
    fold.finish().map(|answer| answer.stop)
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

/// Returns a damaged response.
fn damaged(corpus: &Corpus, kind: WireKind, chance: &mut Chance) -> Vec<u8> {
    let answers = corpus.answers();
    let mut pieces = answers[chance.below(answers.len())].clone();
    mutate(&mut pieces, chance);
    let mut bytes = pieces.concat();
    // A damaged frame fails its checksum, so no later byte would be decoded. Therefore the payload is damaged before
    // framing.
    if kind == WireKind::Bedrock && chance.below(2) == 0 {
        let names = ["messageStart", "contentBlockStart", "contentBlockDelta", "metadata", "x"];
        let mut payload = br#"{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"a","name":"b"}},"delta":{"text":"x","toolUse":{"input":"{"},"reasoningContent":{"signature":"s"}},"usage":{"inputTokens":1}}"#.to_vec();
        for _ in 0..chance.below(4) {
            let how = 3 + chance.below(5);
            mutate_bytes(&mut payload, how, chance);
        }
        let name = names[chance.below(names.len())];
        bytes.extend_from_slice(&kind.event(name, &payload));
    }
    bytes
}

/// Decodes the bytes and checks the result. A panic prints the bytes in the format of the corpus.
fn round(corpus: &mut Corpus, kind: WireKind, bytes: &[u8], seed: u64) -> bool {
    let fed = || feed(wire_of(kind).as_ref(), bytes, &mut Chance(seed | 1));
    match std::panic::catch_unwind(fed) {
        Ok((mark, is_whole)) => {
            corpus.note(mark.0, bytes);
            is_whole
        }
        Err(_) => panic!("{kind:?} failed with the seed {seed} and {}", corpus::line_of(bytes)),
    }
}

#[test]
fn no_bytes_harm_a_decoder() {
    let asked = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    let end = asked.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    // With a time limit, each run uses other seeds.
    let first = match end {
        Some(_) => u64::from(std::process::id()) << 32,
        None => 0x9E37_79B9_7F4A_7C15,
    };
    let mut corpora = WIRES.map(|kind| (kind, Corpus::of(kind)));
    for (kind, corpus) in &mut corpora {
        for bytes in corpus.kept().to_vec() {
            round(corpus, *kind, &bytes, first);
        }
    }
    let (mut tried, mut whole) = (0_u64, 0_u64);
    loop {
        for (kind, corpus) in &mut corpora {
            let seed = first.wrapping_add(tried.wrapping_mul(0x2545_F491_4F6C_DD1D));
            let bytes = damaged(corpus, *kind, &mut Chance(seed | 1));
            whole += u64::from(round(corpus, *kind, &bytes, seed));
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
    let all = tried * WIRES.len() as u64;
    assert!(whole > 0, "some answers are still whole, or nothing was tried");
    assert!(whole < all, "some are not, or nothing was damaged");
    if end.is_some() {
        corpora.iter().for_each(|(_, corpus)| corpus.save());
        println!("{all} answers, {whole} of them whole, none of them harmful");
    }
}
