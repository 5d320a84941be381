//! What is known about models before they are asked, as data.
//!
//! The table is read when something is first looked up, never at start-up.

use std::sync::OnceLock;

use provost_core::{ErrorKind, Pricing};
use serde::{Deserialize, Serialize};

use crate::{ModelInfo, NativeOutput};

/// The table that ships with Provost.
const TABLE: &str = include_str!("catalog/catalog.toml");
/// Why a catalog cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// It is not the TOML of a catalog.
    #[error("the catalog cannot be read: {0}")]
    Toml(#[from] toml::de::Error),
    /// It is not the JSON of a catalog.
    #[error("the catalog cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// It is too long.
    #[error("a catalog has at most {ENTRIES_MAX} models: leave some out")]
    TooMany,
}

impl CatalogError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// Entries of one catalog: more than all vendors have, and not without end.
const ENTRIES_MAX: usize = 20_000;

/// Facts about models, by provider and name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    #[serde(default, rename = "model")]
    entries: Vec<CatalogEntry>,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Talking.
    #[default]
    Chat,
    /// Vectors of texts.
    Embedding,
    /// Documents in the order of a query.
    Rerank,
}

/// What is known about one model. What is not certain is not there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogEntry {
    /// Who serves it.
    pub provider: String,
    /// Its id at the provider.
    pub model: String,
    /// What it is for.
    #[serde(default)]
    pub kind: ModelKind,
    /// Tokens of input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Tokens of output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// How many numbers its vectors have, unless it is asked for fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
    /// True if it can call tools.
    #[serde(default = "yes")]
    pub tools: bool,
    /// True if it can see images.
    #[serde(default = "yes")]
    pub images: bool,
    /// True if it can read documents such as PDFs.
    #[serde(default)]
    pub documents: bool,
    /// True if it can hear.
    #[serde(default)]
    pub audio: bool,
    /// True if it can reason and show it.
    #[serde(default)]
    pub reasoning: bool,
    /// How it can be held to a JSON Schema.
    #[serde(default)]
    pub native_output: NativeOutput,
    /// True for models that want a thinking budget in tokens.
    #[serde(default)]
    pub thinking_budget: bool,
    /// False for models that refuse `temperature` and `top_p`.
    #[serde(default = "yes")]
    pub sampling: bool,
}

impl CatalogEntry {
    /// A model of which only the name is known.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            model: model.into(),
            kind: ModelKind::Chat,
            context_window: None,
            max_output: None,
            dimensions: None,
            pricing: None,
            tools: true,
            images: true,
            documents: false,
            audio: false,
            reasoning: false,
            native_output: NativeOutput::None,
            thinking_budget: false,
            sampling: true,
        }
    }

    /// Copies the properties of the model into `info`. Structured output is copied only if the entry has some, because a
    /// vendor's default can be better than nothing.
    pub fn apply_to(&self, info: &mut ModelInfo) {
        info.context_window = self.context_window;
        info.max_output = self.max_output;
        info.pricing = self.pricing;
        info.tools = self.tools;
        info.images = self.images;
        info.reasoning = self.reasoning;
        if self.native_output != NativeOutput::None {
            info.native_output = self.native_output;
        }
    }

    /// What can be given to it, in words.
    pub fn modalities(&self) -> Vec<&'static str> {
        let also = [(self.images, "image"), (self.documents, "document"), (self.audio, "audio")];
        let also = also.into_iter().filter(|(can, _)| *can).map(|(_, name)| name);
        std::iter::once("text").chain(also).collect()
    }
}

fn yes() -> bool {
    true
}

impl Catalog {
    /// The catalog that ships with Provost, parsed at the first call.
    pub fn builtin() -> &'static Catalog {
        static BUILTIN: OnceLock<Catalog> = OnceLock::new();
        // A test parses the table, so it is valid; with an empty catalog every model would be unknown, which still works.
        BUILTIN.get_or_init(|| Catalog::parse(TABLE).unwrap_or_default())
    }

    /// Reads a table of one's own: TOML, or JSON if it begins with `{`.
    pub fn parse(text: &str) -> Result<Catalog, CatalogError> {
        let catalog: Catalog = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text)?,
            false => toml::from_str(text)?,
        };
        match catalog.entries.len() <= ENTRIES_MAX {
            true => Ok(catalog),
            false => Err(CatalogError::TooMany),
        }
    }

    /// The catalog as JSON that [`parse`](Self::parse) reads.
    pub fn to_json(&self) -> Result<String, CatalogError> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// All entries, in the order of the table.
    pub fn entries(&self) -> &[CatalogEntry] {
        &self.entries
    }

    /// The entries of another catalog are added, and win over those of the same name.
    pub fn overlay(&mut self, other: Catalog) {
        for entry in other.entries {
            match self.place(&entry) {
                Some(place) => self.entries[place] = entry,
                None => self.entries.push(entry),
            }
        }
    }

    /// Takes in what a provider tells about its models. What it does not tell stays as it was.
    pub fn refresh(&mut self, told: Vec<CatalogEntry>) {
        for entry in told {
            let Some(place) = self.place(&entry) else {
                self.entries.push(entry);
                continue;
            };
            let known = &mut self.entries[place];
            known.context_window = entry.context_window.or(known.context_window);
            known.max_output = entry.max_output.or(known.max_output);
            known.dimensions = entry.dimensions.or(known.dimensions);
            known.pricing = entry.pricing.or(known.pricing);
        }
    }

    /// The entries in whose names all the words occur.
    pub fn search<'a>(&'a self, words: &'a [String]) -> impl Iterator<Item = &'a CatalogEntry> {
        let fits = |entry: &&CatalogEntry| {
            let name = format!("{}/{}", entry.provider, entry.model).to_lowercase();
            words.iter().all(|word| name.contains(&word.to_lowercase()))
        };
        self.entries.iter().filter(fits)
    }

    /// The entry of `provider/model`, or of a model whose name alone is enough to tell which one is meant.
    pub fn find(&self, name: &str) -> Option<&CatalogEntry> {
        let qualified =
            name.split_once('/').and_then(|(provider, model)| self.entry(provider, model));
        if qualified.is_some() {
            return qualified;
        }
        let mut of_name = self.entries.iter().filter(|entry| entry.model == name);
        let found = of_name.next()?;
        of_name.next().is_none().then_some(found)
    }

    fn place(&self, wanted: &CatalogEntry) -> Option<usize> {
        let same =
            |entry: &CatalogEntry| entry.provider == wanted.provider && entry.model == wanted.model;
        self.entries.iter().position(same)
    }

    /// What is known about a model; a model that is not listed is [`ModelInfo::unknown`].
    ///
    /// A dated name such as `gpt-4o-2024-08-06` finds the entry without the date.
    pub fn info(&self, provider: &str, model: &str) -> ModelInfo {
        let mut info = ModelInfo::unknown(provider, model);
        if let Some(entry) = self.entry(provider, model) {
            entry.apply_to(&mut info);
        }
        info
    }

    /// The names of a provider's listed models.
    pub fn models<'a>(&'a self, provider: &'a str) -> impl Iterator<Item = &'a str> {
        let entries = self.entries.iter().filter(move |entry| entry.provider == provider);
        entries.map(|entry| entry.model.as_str())
    }

    /// The entry of a provider's model. A dated name finds the entry without the date.
    pub fn entry(&self, provider: &str, model: &str) -> Option<&CatalogEntry> {
        let of_provider = || self.entries.iter().filter(|entry| entry.provider == provider);
        of_provider()
            .find(|entry| entry.model == model)
            .or_else(|| of_provider().find(|entry| is_dated(model, &entry.model)))
    }
}

/// True if one name is the other with a date behind it, or with `latest`. A version number is no date.
pub fn is_dated(model: &str, name: &str) -> bool {
    let Some(date) = model.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')) else {
        return false;
    };
    let date = date.as_bytes();
    let is_shaped = |shape: &[u8]| {
        let fits = |(byte, shape): (&u8, &u8)| match shape {
            b'-' => *byte == b'-',
            _ => byte.is_ascii_digit(),
        };
        date.len() == shape.len() && date.iter().zip(shape).all(fits)
    };
    date == b"latest" || is_shaped(b"yyyymmdd") || is_shaped(b"yyyy-mm-dd")
}

#[cfg(test)]
mod tests;
