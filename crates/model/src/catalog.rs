//! Properties of models, read from a table.
//!
//! The table that ships with Provost is parsed at the first lookup and not at start.

use std::sync::OnceLock;

use provost_core::{ErrorKind, Pricing};
use serde::{Deserialize, Serialize};

use crate::{ModelInfo, StructuredOutputSupport};

/// The table that ships with Provost.
const TABLE: &str = include_str!("catalog/catalog.toml");
/// Error of parsing or writing a catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The text is not a valid catalog in TOML.
    #[error("the catalog cannot be read: {0}")]
    Toml(#[from] toml::de::Error),
    /// The text is not a valid catalog in JSON, or the catalog cannot be written as JSON.
    #[error("the catalog cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The catalog has too many entries.
    #[error("a catalog has at most {ENTRIES_MAX} models: remove some")]
    TooMany,
}

impl CatalogError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// Largest number of entries in a catalog. It is above the number of models of all vendors.
const ENTRIES_MAX: usize = 20_000;

/// Properties of models, by provider and name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCatalog {
    #[serde(default, rename = "model")]
    entries: Vec<CatalogEntry>,
}

/// Purpose of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// The model generates text.
    #[default]
    Chat,
    /// The model turns texts into vectors.
    Embedding,
    /// The model orders documents by relevance to a query.
    Rerank,
}

/// Properties of one model. A property that is not certain is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogEntry {
    /// Name of the provider.
    pub provider: String,
    /// Id of the model at the provider.
    pub model: String,
    /// Purpose of the model.
    #[serde(default)]
    pub kind: ModelKind,
    /// Largest number of input and output tokens together. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Largest number of output tokens. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Default number of dimensions of an embedding. `None` if unknown or if the model makes no embeddings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
    /// Prices of the model. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
    /// True if the model can call tools.
    #[serde(default = "default_true")]
    pub tools: bool,
    /// True if the model accepts images.
    #[serde(default = "default_true")]
    pub images: bool,
    /// True if the model accepts documents such as PDFs.
    #[serde(default)]
    pub documents: bool,
    /// True if the model accepts audio.
    #[serde(default)]
    pub audio: bool,
    /// True if the model can return its reasoning.
    #[serde(default)]
    pub reasoning: bool,
    /// Support for responses that follow a JSON Schema.
    #[serde(default)]
    pub native_output: StructuredOutputSupport,
    /// True if the model takes a thinking budget in tokens.
    #[serde(default)]
    pub thinking_budget: bool,
    /// False if the model rejects `temperature` and `top_p`.
    #[serde(default = "default_true")]
    pub sampling: bool,
}

impl CatalogEntry {
    /// Returns an entry with default properties for this model.
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
            native_output: StructuredOutputSupport::None,
            thinking_budget: false,
            sampling: true,
        }
    }

    /// Copies the properties of the model into `info`. The support for structured output is copied only if the entry
    /// has some, because the vendor's default can be better than none.
    pub fn apply_to(&self, info: &mut ModelInfo) {
        info.context_window = self.context_window;
        info.max_output = self.max_output;
        info.pricing = self.pricing;
        info.tools = self.tools;
        info.images = self.images;
        info.reasoning = self.reasoning;
        if self.native_output != StructuredOutputSupport::None {
            info.native_output = self.native_output;
        }
    }

    /// Returns the names of the input modalities, `text` first.
    pub fn modalities(&self) -> Vec<&'static str> {
        let also = [(self.images, "image"), (self.documents, "document"), (self.audio, "audio")];
        let also = also.into_iter().filter(|(can, _)| *can).map(|(_, name)| name);
        std::iter::once("text").chain(also).collect()
    }
}

/// Default of [`CatalogEntry::tools`] and other fields that are true unless stated.
fn default_true() -> bool {
    true
}

impl ModelCatalog {
    /// Returns the catalog that ships with Provost. The first call parses it.
    pub fn builtin() -> &'static ModelCatalog {
        static BUILTIN: OnceLock<ModelCatalog> = OnceLock::new();
        // A test parses the table, so it is valid. With an empty catalog every model would be unknown, which still
        // works.
        BUILTIN.get_or_init(|| ModelCatalog::parse(TABLE).unwrap_or_default())
    }

    /// Parses a catalog in TOML, or in JSON if the text begins with `{`. Returns an error if the text is invalid or has
    /// too many entries.
    pub fn parse(text: &str) -> Result<ModelCatalog, CatalogError> {
        let catalog: ModelCatalog = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text)?,
            false => toml::from_str(text)?,
        };
        match catalog.entries.len() <= ENTRIES_MAX {
            true => Ok(catalog),
            false => Err(CatalogError::TooMany),
        }
    }

    /// Returns the catalog as JSON that [`parse`](Self::parse) accepts.
    pub fn to_json(&self) -> Result<String, CatalogError> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// Returns all entries in the order of the table.
    pub fn entries(&self) -> &[CatalogEntry] {
        &self.entries
    }

    /// Adds the entries of another catalog. They replace entries with the same provider and model.
    pub fn overlay(&mut self, other: ModelCatalog) {
        for entry in other.entries {
            match self.position(&entry) {
                Some(index) => self.entries[index] = entry,
                None => self.entries.push(entry),
            }
        }
    }

    /// Merges models that a provider lists. A property that the listing does not have keeps its value.
    pub fn refresh(&mut self, listed: Vec<CatalogEntry>) {
        for entry in listed {
            let Some(index) = self.position(&entry) else {
                self.entries.push(entry);
                continue;
            };
            let existing = &mut self.entries[index];
            existing.context_window = entry.context_window.or(existing.context_window);
            existing.max_output = entry.max_output.or(existing.max_output);
            existing.dimensions = entry.dimensions.or(existing.dimensions);
            existing.pricing = entry.pricing.or(existing.pricing);
        }
    }

    /// Returns the entries whose `provider/model` contains all the terms, ignoring case.
    pub fn search<'a>(&'a self, terms: &'a [String]) -> impl Iterator<Item = &'a CatalogEntry> {
        let fits = |entry: &&CatalogEntry| {
            let name = format!("{}/{}", entry.provider, entry.model).to_lowercase();
            terms.iter().all(|term| name.contains(&term.to_lowercase()))
        };
        self.entries.iter().filter(fits)
    }

    /// Returns the entry of `provider/model`, or of a model name that only one provider has. `None` if no entry or
    /// several entries match.
    pub fn find(&self, name: &str) -> Option<&CatalogEntry> {
        let qualified =
            name.split_once('/').and_then(|(provider, model)| self.entry(provider, model));
        if qualified.is_some() {
            return qualified;
        }
        let mut matches = self.entries.iter().filter(|entry| entry.model == name);
        let found = matches.next()?;
        matches.next().is_none().then_some(found)
    }

    /// Returns the index of the entry with the same provider and model. `None` if there is no such entry.
    fn position(&self, sought: &CatalogEntry) -> Option<usize> {
        let same =
            |entry: &CatalogEntry| entry.provider == sought.provider && entry.model == sought.model;
        self.entries.iter().position(same)
    }

    /// Returns the properties of a model, or [`ModelInfo::unknown`] if the catalog does not have it.
    ///
    /// A dated name such as `gpt-4o-2024-08-06` matches the entry without the date.
    pub fn info(&self, provider: &str, model: &str) -> ModelInfo {
        let mut info = ModelInfo::unknown(provider, model);
        if let Some(entry) = self.entry(provider, model) {
            entry.apply_to(&mut info);
        }
        info
    }

    /// Returns the names of a provider's models, in the order of the table.
    pub fn models<'a>(&'a self, provider: &'a str) -> impl Iterator<Item = &'a str> {
        let entries = self.entries.iter().filter(move |entry| entry.provider == provider);
        entries.map(|entry| entry.model.as_str())
    }

    /// Returns the entry of a provider's model. A dated name matches the entry without the date. `None` if no entry
    /// matches.
    pub fn entry(&self, provider: &str, model: &str) -> Option<&CatalogEntry> {
        let of_provider = || self.entries.iter().filter(|entry| entry.provider == provider);
        of_provider()
            .find(|entry| entry.model == model)
            .or_else(|| of_provider().find(|entry| has_date_suffix(model, &entry.model)))
    }
}

/// Returns true if `model` is `name` with a date or `latest` after it. A version number is not a date.
pub fn has_date_suffix(model: &str, name: &str) -> bool {
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
