//! Speed of redaction and leak scans with 1,000 secrets, and their memory for outputs of any size.

use std::hint::black_box;

use provost_core::Secret;
use provost_redact::Redactor;
use serde_json::json;

use crate::measure::{cpu_time, median, memory};
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Number of secrets.
const SECRETS: usize = 1000;
/// Bytes of each text.
const TEXT_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one chunk of a stream.
const CHUNK_BYTES: usize = 16 * 1024;
/// Minimum bytes per second of one core.
const BYTES_PER_SECOND_MIN: f64 = 300e6;
/// Limit of the memory for an output of any size.
const STREAM_BYTES_MAX: f64 = 8.0 * 1024.0 * 1024.0;

/// Measures processor time, so that other processes do not count.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let redactor = loaded_redactor()?;
    let rounds = plan.pick(9, 3);
    for (name, text) in texts() {
        let seconds = |work: &dyn Fn()| {
            let took = (0..rounds).map(|_| {
                let start = cpu_time();
                work();
                (cpu_time() - start).as_secs_f64()
            });
            median(took.collect())
        };
        let bytes = text.len() as f64;
        let whole = bytes / seconds(&|| drop(black_box(redactor.redact(&text))));
        let scanned = bytes
            / seconds(&|| {
                black_box(redactor.contains_secret(text.as_bytes()));
            });
        let streamed = bytes / seconds(&|| stream(&redactor, &text));
        let slowest = whole.min(scanned).min(streamed);
        let what = format!("redaction of {name}, MB, 1000 secrets");
        table.at_least(&what, Unit::PerSecond, slowest / 1e6, BYTES_PER_SECOND_MIN / 1e6);
    }
    constant_memory(&redactor, plan.pick(512, 64), table)
}

fn stream(redactor: &Redactor, text: &str) {
    let mut stream = redactor.stream();
    for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
        black_box(stream.push(chunk));
    }
    black_box(stream.finish());
}

/// Measures the memory of a stream with an endless value.
fn constant_memory(redactor: &Redactor, megabytes: usize, table: &mut Table) -> Result<()> {
    let chunk = vec![b'q'; 1024 * 1024];
    let mut stream = redactor.stream();
    black_box(stream.push(b"password="));
    let before = memory()?;
    for _ in 0..megabytes {
        black_box(stream.push(&chunk));
    }
    let grown = memory()? - before;
    black_box(stream.finish());
    let what = format!("memory of a stream of {megabytes} MiB");
    table.at_most(&what, Unit::Bytes, grown.max(0.0), STREAM_BYTES_MAX);
    Ok(())
}

fn loaded_redactor() -> Result<Redactor> {
    let redactor = Redactor::new();
    let mut random = Random(7);
    for _ in 0..SECRETS {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/+!";
        let value: String = (0..32).map(|_| char::from(random.of(alphabet))).collect();
        redactor.register(&Secret::new(value))?;
    }
    Ok(redactor)
}

/// Typical tool outputs: prose, records, and encoded data.
fn texts() -> Vec<(&'static str, String)> {
    let mut random = Random(11);
    let words = [
        "the", "agent", "reads", "a", "page", "and", "writes", "what", "it", "found", "there",
        "token", "of", "time", "passed",
    ];
    let prose = repeat(|_| format!("{} ", words[random.below(words.len())]));
    let records = repeat(|n| {
        let record = json!({ "id": n, "name": format!("user {n}"), "tokens": n * 7, "url": "https://example.com/a?x=1" });
        format!("{record}\n")
    });
    let mut random = Random(13);
    let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let picture =
        repeat(|_| (0..76).map(|_| char::from(random.of(base64))).chain(['\n']).collect());
    vec![("prose", prose), ("JSON", records), ("base64", picture)]
}

fn repeat(mut part: impl FnMut(usize) -> String) -> String {
    let mut text = String::with_capacity(TEXT_BYTES + 256);
    for number in 0.. {
        if text.len() >= TEXT_BYTES {
            break;
        }
        text.push_str(&part(number));
    }
    text
}

/// Deterministic random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn of(&mut self, alphabet: &[u8]) -> u8 {
        alphabet[self.below(alphabet.len())]
    }
}
