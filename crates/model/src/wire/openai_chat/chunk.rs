//! One chunk of a streamed Chat Completion, as it comes over the wire.
//!
//! It is read in place: what a parser returns by value is copied at every level of the nesting, and for a chunk, of which
//! there is one for every token, that would cost as much as the parsing.

use std::fmt;

use provost_core::Usage;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::calls::CallDelta;
use crate::wire::piece::Text;

/// A chunk. What is missing in it stays as it was.
#[derive(Default)]
pub(super) struct Chunk<'a> {
    pub(super) id: Option<Text<'a>>,
    pub(super) model: Option<Text<'a>>,
    pub(super) choices: Choices<'a>,
    pub(super) usage: Option<ChunkUsage>,
    pub(super) error: Option<&'a RawValue>,
}

/// The choices of a chunk. Nearly always there is one, and that one needs no list.
#[derive(Default)]
pub(super) struct Choices<'a> {
    first: Choice<'a>,
    has_first: bool,
    rest: Vec<Choice<'a>>,
}

#[derive(Default)]
pub(super) struct Choice<'a> {
    pub(super) index: u32,
    pub(super) delta: Delta<'a>,
    pub(super) finish_reason: Option<Text<'a>>,
    /// The stop sequence that was met; some servers say it.
    pub(super) stop_reason: Option<&'a RawValue>,
    pub(super) logprobs: Option<&'a RawValue>,
}

#[derive(Default)]
pub(super) struct Delta<'a> {
    pub(super) content: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) reasoning_content: Option<String>,
    pub(super) reasoning: Option<&'a RawValue>,
    pub(super) reasoning_details: Option<&'a RawValue>,
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct ChunkUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl ChunkUsage {
    pub(super) fn read(&self) -> Usage {
        let prompt = self.prompt_tokens_details.as_ref();
        let cached = prompt.and_then(|details| details.cached_tokens);
        let completion = self.completion_tokens_details.as_ref();
        Usage {
            input: self.prompt_tokens.unwrap_or(0),
            output: self.completion_tokens.unwrap_or(0),
            cache_read: cached.or(self.prompt_cache_hit_tokens).unwrap_or(0),
            cache_write: prompt.and_then(|details| details.cache_write_tokens).unwrap_or(0),
            reasoning: completion.and_then(|details| details.reasoning_tokens).unwrap_or(0),
        }
    }
}

impl<'a> Chunk<'a> {
    /// Reads a chunk from the bytes of one event.
    pub(super) fn read(&mut self, data: &'a [u8]) -> serde_json::Result<()> {
        // Looking once whether all of it is text is faster than looking at each string in it.
        match std::str::from_utf8(data) {
            Ok(text) => self.parse(serde_json::Deserializer::from_str(text)),
            Err(_) => self.read_bytes(data),
        }
    }

    /// What is not text may still be in a field that nobody reads, and if not, this says where it is.
    #[cold]
    fn read_bytes(&mut self, data: &'a [u8]) -> serde_json::Result<()> {
        self.parse(serde_json::Deserializer::from_slice(data))
    }

    fn parse<R: serde_json::de::Read<'a>>(
        &mut self,
        mut json: serde_json::Deserializer<R>,
    ) -> serde_json::Result<()> {
        json.deserialize_map(Place(self))?;
        json.end()
    }
}

impl<'a> Choices<'a> {
    /// All of them, in order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Choice<'a>> {
        self.has_first.then_some(&mut self.first).into_iter().chain(&mut self.rest)
    }
}

/// An object that is filled field by field.
trait Fill<'de> {
    /// Takes the value of a field in, or skips it.
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;
}

impl<'de> Fill<'de> for Chunk<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "id" => self.id = read(map)?,
            "model" => self.model = read(map)?,
            "choices" => map.next_value_seed(OrNull(List(&mut self.choices)))?,
            "usage" => self.usage = read(map)?,
            "error" => self.error = read(map)?,
            _ => drop(read::<IgnoredAny, A>(map)?),
        }
        Ok(())
    }
}

impl<'de> Fill<'de> for Choice<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "index" => self.index = read(map)?,
            "delta" => map.next_value_seed(OrNull(Place(&mut self.delta)))?,
            "finish_reason" => self.finish_reason = read(map)?,
            "stop_reason" => self.stop_reason = read(map)?,
            "logprobs" => self.logprobs = read(map)?,
            _ => drop(read::<IgnoredAny, A>(map)?),
        }
        Ok(())
    }
}

impl<'de> Fill<'de> for Delta<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "content" => self.content = read(map)?,
            "refusal" => self.refusal = read(map)?,
            "reasoning_content" => self.reasoning_content = read(map)?,
            "reasoning" => self.reasoning = read(map)?,
            "reasoning_details" => self.reasoning_details = read(map)?,
            "tool_calls" => self.tool_calls = read(map)?,
            _ => drop(read::<IgnoredAny, A>(map)?),
        }
        Ok(())
    }
}

/// Reads a value. Not inlined, because many fields share a type, and a chunk is read faster if its code is small.
#[inline(never)]
fn read<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: &mut A) -> Result<T, A::Error> {
    map.next_value()
}

/// Reads the name of the next field.
#[inline(never)]
fn read_name<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Text<'de>>, A::Error> {
    map.next_key()
}

/// Where something is read into.
struct Place<'s, T>(&'s mut T);

impl<'de, T: Fill<'de>> DeserializeSeed<'de> for Place<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Fill<'de>> Visitor<'de> for Place<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = read_name(&mut map)? {
            self.0.field(&name.0, &mut map)?;
        }
        Ok(())
    }
}

/// The same, where null means that there is nothing to read.
struct OrNull<T>(T);

impl<'de, T: DeserializeSeed<'de, Value = ()>> DeserializeSeed<'de> for OrNull<T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T: DeserializeSeed<'de, Value = ()>> Visitor<'de> for OrNull<T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.deserialize(deserializer)
    }
}

/// Where the list of choices is read into.
struct List<'s, 'a>(&'s mut Choices<'a>);

impl<'de> DeserializeSeed<'de> for List<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let choices = self.0;
        choices.has_first = seq.next_element_seed(Place(&mut choices.first))?.is_some();
        if !choices.has_first {
            return Ok(());
        }
        loop {
            let mut choice = Choice::default();
            if seq.next_element_seed(Place(&mut choice))?.is_none() {
                return Ok(());
            }
            choices.rest.push(choice);
        }
    }
}
