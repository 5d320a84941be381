//! `provost models`: what models can do, what they cost, and what a provider has.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use provost_api::Page;
use provost_core::{ErrorKind, Secret, Timestamp, Usage};
use provost_host::model::ollama_address;
use provost_model::{Catalog, CatalogEntry, ModelKind};
use provost_provider::{Anthropic, ModelList, OpenAi};
use serde_json::json;

use super::block_on;
use crate::model_catalog::{CATALOG_VARIABLE, read_catalog, user_catalog};
use crate::problem::Problem;
use crate::render::output::Output;
use crate::render::show::{Format, Show, Shown};
use crate::render::table::{Cell, Column, rigid, text};

const GEMINI_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

const EXAMPLES: &str = "\
Examples:
  provost models list --provider anthropic
  provost models search claude opus
  provost models show openai/gpt-5-mini --json
  provost models price gpt-5-mini --input 12000 --output 800 --cached 10000
  provost models refresh ollama --file models.json       what is pulled here
  PROVOST_CATALOG=models.json provost models list        with a catalog of one's own laid over

A price that is not certain is not there, and a model without one is refused under a budget.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// A catalog to lay over the one that ships: TOML or JSON [env: PROVOST_CATALOG]
    #[arg(long, global = true, value_name = "FILE")]
    catalog: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List models
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost models list\n  provost models list --provider openai --json | jq '.items[].model'"
    )]
    List {
        /// Only those of this provider
        #[arg(long, value_name = "NAME")]
        provider: Option<String>,
    },
    /// Find models by words in their names
    #[command(after_help = "Examples:\n  provost models search gemini flash")]
    Search {
        /// Words that all must occur
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Show everything that is known about a model
    #[command(after_help = "Examples:\n  provost models show anthropic/claude-opus-5")]
    Show {
        /// As provider/model, or the model alone where that is clear
        model: String,
    },
    /// Say what some tokens cost
    #[command(
        after_help = "Examples:\n  provost models price openai/gpt-5 --input 1000000 --output 20000 --reasoning 15000"
    )]
    Price(PriceArgs),
    /// Ask a provider for its models, and keep them in a file
    #[command(after_help = "Examples:\n  provost models refresh ollama --file models.json\n  \
                      provost models refresh openrouter --base-url https://openrouter.ai/api/v1 --file models.json")]
    Refresh(RefreshArgs),
}

#[derive(Debug, clap::Args)]
struct PriceArgs {
    /// As provider/model, or the model alone where that is clear
    model: String,
    /// Tokens of input, those from the cache included
    #[arg(long, value_name = "N", default_value_t)]
    input: u64,
    /// Tokens of output, reasoning included
    #[arg(long, value_name = "N", default_value_t)]
    output: u64,
    /// The part of the input that the provider's cache answers
    #[arg(long, value_name = "N", default_value_t)]
    cached: u64,
    /// The part of the output that is reasoning
    #[arg(long, value_name = "N", default_value_t)]
    reasoning: u64,
}

#[derive(Debug, clap::Args)]
struct RefreshArgs {
    /// Which: ollama, openai, anthropic, gemini, or any other with --base-url
    provider: String,
    /// Where it is
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The environment variable that holds the key
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
    /// The catalog to write: what is known, with what the provider tells
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
}

/// The catalog that ships with Provost, with the entries of a file, or of the user's catalog if there is no file.
fn catalog(file: Option<&Path>) -> Result<Catalog, Problem> {
    let mut catalog = Catalog::builtin().clone();
    catalog.overlay(file.map_or_else(user_catalog, read_catalog)?);
    Ok(catalog)
}

/// Does it.
pub(crate) fn run(args: &Args, output: &Output) -> Result<u8, Problem> {
    let format = if args.json { Format::Json } else { Format::Table };
    let show = Show { output: *output, format };
    let catalog = catalog(args.catalog.as_deref())?;
    match &args.action {
        Action::List { provider } => {
            let of = |entry: &&CatalogEntry| {
                provider.as_ref().is_none_or(|provider| entry.provider == *provider)
            };
            list(&show, catalog.entries().iter().filter(of))?;
        }
        Action::Search { words } => list(&show, catalog.search(words))?,
        Action::Show { model } => show.one(find(&catalog, model)?, model)?,
        Action::Price(price) => tell_price(&show, &catalog, price)?,
        Action::Refresh(refresh) => block_on(refreshed(&show, catalog, refresh))??,
    }
    Ok(0)
}

fn list<'a>(show: &Show, entries: impl Iterator<Item = &'a CatalogEntry>) -> Result<(), Problem> {
    let items: Vec<Row> = entries.cloned().map(Row).collect();
    if items.is_empty() && show.format == Format::Table {
        show.output.dim("no model is known by that; `provost models list` shows all");
        return Ok(());
    }
    show.list(&Page { items, next: None })
}

fn find<'a>(catalog: &'a Catalog, model: &str) -> Result<&'a CatalogEntry, Problem> {
    catalog.find(model).ok_or_else(|| {
        Problem::new(ErrorKind::NotFound, format!("`{model}` is not in the catalog")).help(
            "write it as provider/model; `provost models search WORD` finds names, `provost models refresh` asks a provider",
        )
    })
}

fn tell_price(show: &Show, catalog: &Catalog, asked: &PriceArgs) -> Result<(), Problem> {
    let entry = find(catalog, &asked.model)?;
    let name = format!("{}/{}", entry.provider, entry.model);
    let Some(pricing) = entry.pricing else {
        return Err(Problem::invalid(format!("the price of {name} is not known"))
            .help("give it in a catalog of your own: --catalog FILE"));
    };
    let usage = Usage {
        input: asked.input,
        output: asked.output,
        cache_read: asked.cached.min(asked.input),
        cache_write: 0,
        reasoning: asked.reasoning.min(asked.output),
    };
    let cost = pricing.cost(&usage);
    let what = json!({ "model": name, "usage": usage, "cost": cost, "pricing": pricing });
    show.done(&what, &name, &format!("{cost}"))
}

async fn refreshed(show: &Show, mut catalog: Catalog, asked: &RefreshArgs) -> Result<(), Problem> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let base = asked.base_url.clone();
    let (list, key) = match (asked.provider.as_str(), base) {
        ("ollama", Some(base)) => (ModelList::ollama(base), None),
        ("ollama", None) => {
            let address = ollama_address(env("OLLAMA_HOST").as_deref())?;
            (ModelList::ollama(address.origin()), None)
        }
        ("anthropic", base) => {
            let base = base.unwrap_or_else(|| Anthropic::BASE_URL.to_owned());
            (ModelList::anthropic(base), Some(Anthropic::KEY_VARIABLE))
        }
        ("gemini", base) => {
            let base = base.unwrap_or_else(|| GEMINI_URL.to_owned());
            (ModelList::gemini(base), Some("GEMINI_API_KEY"))
        }
        ("openai", base) => {
            let base = base.unwrap_or_else(|| OpenAi::BASE_URL.to_owned());
            (ModelList::openai("openai", base), Some(OpenAi::KEY_VARIABLE))
        }
        (other, Some(base)) => (ModelList::openai(other, base), None),
        (other, None) => {
            return Err(Problem::invalid(format!("where `{other}` is is not known"))
                .help("say it with --base-url URL"));
        }
    };
    let key = asked.api_key_env.as_deref().or(key).and_then(env);
    let list = match key {
        Some(key) => list.api_key(Secret::new(key.trim().to_owned())),
        None => list,
    };
    let told = list.fetch().await.map_err(|error| Problem::new(error.kind(), error.to_string()))?;
    let count = told.len();
    catalog.refresh(told);
    let text = catalog.to_json().map_err(|error| Problem::invalid(error.to_string()))?;
    let file = asked.file.display();
    std::fs::write(&asked.file, text).map_err(|error| Problem::io(format!("{file}"), &error))?;
    let sentence = format!(
        "{count} models of {} are in {file}; {CATALOG_VARIABLE}={file} uses it",
        asked.provider
    );
    show.done(&json!({ "models": count, "file": asked.file }), &asked.provider, &sentence)
}

/// A model as a row.
#[derive(serde::Serialize)]
#[serde(transparent)]
struct Row(CatalogEntry);

impl Shown for Row {
    const COLUMNS: &'static [Column] = &[
        rigid("MODEL"),
        rigid("KIND"),
        rigid("CONTEXT"),
        rigid("OUTPUT"),
        text("TAKES"),
        rigid("IN $/M"),
        rigid("OUT $/M"),
        rigid("CACHED"),
    ];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let entry = &self.0;
        let kind = match entry.kind {
            ModelKind::Chat if entry.reasoning => "chat, reasons",
            ModelKind::Chat => "chat",
            ModelKind::Embedding => "embedding",
            ModelKind::Rerank => "rerank",
        };
        let count = |count: Option<u64>| Cell::maybe(count.map(|count| count.to_string()));
        let price = |price: Option<String>| Cell::maybe(price);
        let pricing = entry.pricing;
        vec![
            Cell::from(self.name()),
            Cell::from(kind),
            count(entry.context_window),
            count(entry.max_output),
            Cell::from(entry.modalities().join(", ")),
            price(pricing.map(|pricing| pricing.input.normalize().to_string())),
            price(pricing.map(|pricing| pricing.output.normalize().to_string())),
            price(pricing.and_then(|pricing| Some(pricing.cache_read?.normalize().to_string()))),
        ]
    }

    fn name(&self) -> String {
        format!("{}/{}", self.0.provider, self.0.model)
    }
}
