//! Bytes that no vendor sends, for every decoder: no panic, and never more kept or given than came.
//!
//! Bounded by rounds; `scripts/stress decoders SECONDS` goes on for as long as one likes, from other seeds.

mod corpus;
mod mutate;

use std::time::{Duration, Instant};

use provost_core::StopReason;
use provost_model::{Fold, ModelError, ModelEvent};
use provost_provider::wire::anthropic::AnthropicMessages;
use provost_provider::wire::bedrock::BedrockConverse;
use provost_provider::wire::gemini::GeminiContent;
use provost_provider::wire::ollama::OllamaChat;
use provost_provider::wire::openai_chat::OpenAiChat;
use provost_provider::wire::openai_responses::OpenAiResponses;
use provost_provider::wire::{Frames, Progress, Wire};
use provost_testkit::WireKind;

use crate::harness::WIRES;
use corpus::Corpus;
use mutate::{Chance, mutate, mutate_bytes};

/// Rounds for each wire where nobody asks for more.
const ROUNDS: u64 = 400;
/// The variable that asks for a time in seconds.
const SECONDS: &str = "PROVOST_FUZZ_SECONDS";

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

/// What a decoder made of an answer: the kinds of events in their order, and how it ended.
#[derive(Default)]
struct Mark(String);

impl Mark {
    fn saw(&mut self, event: &ModelEvent) {
        let name = format!("{event:?}");
        let end = name.find(|each: char| !each.is_ascii_alphanumeric()).unwrap_or(name.len());
        // Many of one kind in a row are nothing new.
        if !self.0.ends_with(&name[..end]) {
            self.0.push(' ');
            self.0.push_str(&name[..end]);
        }
    }
}

/// Feeds bytes in pieces of any size; what comes out is bounded by what went in.
fn feed(wire: &dyn Wire, bytes: &[u8], chance: &mut Chance) -> (Mark, bool) {
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
    wire: &dyn Wire,
    bytes: &[u8],
    chance: &mut Chance,
    mark: &mut Mark,
) -> Result<StopReason, ModelError> {
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
            mark.saw(&event);
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

/// One damaged answer.
fn damaged(corpus: &Corpus, kind: WireKind, chance: &mut Chance) -> Vec<u8> {
    let answers = corpus.answers();
    let mut pieces = answers[chance.below(answers.len())].clone();
    mutate(&mut pieces, chance);
    let mut bytes = pieces.concat();
    // A damaged frame fails its checksum, so that nothing behind it would ever be tried: its payload is damaged before.
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

/// Whether an answer is still whole. A panic names the bytes, in the form in which they are kept.
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
    // Where a time is given, each run tries something else.
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
