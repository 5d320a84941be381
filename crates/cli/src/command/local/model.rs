//! `provost model`: lists models with their capabilities and prices.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use provost_api::Page;
use provost_core::{ErrorKind, Secret, Timestamp, Usage};
use provost_host::model::ollama_address;
use provost_model::{CatalogEntry, ModelCatalog, ModelKind};
use provost_provider::{Anthropic, ModelListing, OpenAi};
use serde_json::json;

use super::block_on;
use crate::error::CliError;
use crate::model_catalog::{CATALOG_VARIABLE, read_catalog, user_catalog};
use crate::render::output::Output;
use crate::render::printer::{Format, Printer, TableRow};
use crate::render::table::{Cell, Column, fixed, flexible};

const GEMINI_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

const EXAMPLES: &str = "\
Examples:
  provost model list --provider anthropic
  provost model search claude opus
  provost model get openai/gpt-5-mini --json
  provost model price gpt-5-mini --input 12000 --output 800 --cached 10000
  provost model refresh ollama --file models.json        models that Ollama has on this machine
  PROVOST_CATALOG=models.json provost model list         with entries of your own catalog

A model without a known price cannot be used under a budget.";

/// Arguments of `provost model`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: ModelCommand,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Catalog whose entries override the built-in catalog, in TOML or JSON [env: PROVOST_CATALOG]
    #[arg(long, global = true, value_name = "FILE")]
    catalog: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// List models
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost model list\n  provost model list --provider openai --json | jq '.items[].model'"
    )]
    List {
        /// Only models of this provider
        #[arg(long, value_name = "NAME")]
        provider: Option<String>,
    },
    /// Search models by words in their names
    #[command(after_help = "Examples:\n  provost model search gemini flash")]
    Search {
        /// Words that the name must contain
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Show a model
    #[command(
        alias = "show",
        after_help = "Examples:\n  provost model get anthropic/claude-opus-5"
    )]
    Get {
        /// Model as provider/model, or only the model if its name is unambiguous
        model: String,
    },
    /// Calculate the price of a number of tokens
    #[command(
        after_help = "Examples:\n  provost model price openai/gpt-5 --input 1000000 --output 20000 --reasoning 15000"
    )]
    Price(PriceArgs),
    /// Request the models of a provider and write them to a catalog file
    #[command(after_help = "Examples:\n  provost model refresh ollama --file models.json\n  \
                      provost model refresh openrouter --base-url https://openrouter.ai/api/v1 --file models.json")]
    Refresh(RefreshArgs),
}

#[derive(Debug, clap::Args)]
struct PriceArgs {
    /// Model as provider/model, or only the model if its name is unambiguous
    model: String,
    /// Input tokens, including cached tokens
    #[arg(long, value_name = "N", default_value_t)]
    input: u64,
    /// Output tokens, including reasoning tokens
    #[arg(long, value_name = "N", default_value_t)]
    output: u64,
    /// Input tokens that the provider reads from its cache
    #[arg(long, value_name = "N", default_value_t)]
    cached: u64,
    /// Output tokens of the reasoning
    #[arg(long, value_name = "N", default_value_t)]
    reasoning: u64,
}

#[derive(Debug, clap::Args)]
struct RefreshArgs {
    /// Provider: ollama, openai, anthropic, gemini, or any other with --base-url
    provider: String,
    /// Base URL of the provider
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Environment variable with the API key
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
    /// Catalog file to write: the current catalog with the models of the provider
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
}

/// Returns the built-in catalog with the entries of a file, or of the user's catalog without a file.
fn catalog(file: Option<&Path>) -> Result<ModelCatalog, CliError> {
    let mut catalog = ModelCatalog::builtin().clone();
    catalog.overlay(file.map_or_else(user_catalog, read_catalog)?);
    Ok(catalog)
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: &Output) -> Result<u8, CliError> {
    let format = if args.json { Format::Json } else { Format::Table };
    let printer = Printer { output: *output, format };
    let catalog = catalog(args.catalog.as_deref())?;
    match &args.action {
        ModelCommand::List { provider } => {
            let has_provider = |entry: &&CatalogEntry| {
                provider.as_ref().is_none_or(|provider| entry.provider == *provider)
            };
            list(&printer, catalog.entries().iter().filter(has_provider))?;
        }
        ModelCommand::Search { words } => list(&printer, catalog.search(words))?,
        ModelCommand::Get { model } => printer.print_details(find(&catalog, model)?, model)?,
        ModelCommand::Price(price) => print_price(&printer, &catalog, price)?,
        ModelCommand::Refresh(refresh) => block_on(refresh_catalog(&printer, catalog, refresh))??,
    }
    Ok(0)
}

/// Prints the entries of the catalog.
fn list<'a>(
    printer: &Printer,
    entries: impl Iterator<Item = &'a CatalogEntry>,
) -> Result<(), CliError> {
    let items: Vec<ModelRow> = entries.cloned().map(ModelRow).collect();
    if items.is_empty() && printer.format == Format::Table {
        printer.output.note("no model found; `provost model list` shows all models");
        return Ok(());
    }
    printer.print_list(&Page { items, next: None })
}

/// Returns the entry of a model. Returns an error if the catalog does not have it.
fn find<'a>(catalog: &'a ModelCatalog, model: &str) -> Result<&'a CatalogEntry, CliError> {
    catalog.find(model).ok_or_else(|| {
        CliError::new(ErrorKind::NotFound, format!("`{model}` is not in the catalog")).hint(
            "use provider/model; `provost model search WORD` finds names, and `provost model refresh` requests them from a provider",
        )
    })
}

/// Prints the prices of a model, or the cost of the given number of tokens.
fn print_price(
    printer: &Printer,
    catalog: &ModelCatalog,
    args: &PriceArgs,
) -> Result<(), CliError> {
    let entry = find(catalog, &args.model)?;
    let name = format!("{}/{}", entry.provider, entry.model);
    let Some(pricing) = entry.pricing else {
        return Err(CliError::invalid(format!("the price of {name} is unknown"))
            .hint("add the price to your own catalog: --catalog FILE"));
    };
    let usage = Usage {
        input: args.input,
        output: args.output,
        cache_read: args.cached.min(args.input),
        cache_write: 0,
        reasoning: args.reasoning.min(args.output),
    };
    let cost = pricing.cost(&usage);
    let price = json!({ "model": name, "usage": usage, "cost": cost, "pricing": pricing });
    printer.print_result(&price, &name, &format!("{cost}"))
}

/// Merges the models that a provider lists into the catalog of the user.
async fn refresh_catalog(
    printer: &Printer,
    mut catalog: ModelCatalog,
    args: &RefreshArgs,
) -> Result<(), CliError> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let base = args.base_url.clone();
    let (list, key) = match (args.provider.as_str(), base) {
        ("ollama", Some(base)) => (ModelListing::ollama(base), None),
        ("ollama", None) => {
            let address = ollama_address(env("OLLAMA_HOST").as_deref())?;
            (ModelListing::ollama(address.origin()), None)
        }
        ("anthropic", base) => {
            let base = base.unwrap_or_else(|| Anthropic::BASE_URL.to_owned());
            (ModelListing::anthropic(base), Some(Anthropic::KEY_VARIABLE))
        }
        ("gemini", base) => {
            let base = base.unwrap_or_else(|| GEMINI_URL.to_owned());
            (ModelListing::gemini(base), Some("GEMINI_API_KEY"))
        }
        ("openai", base) => {
            let base = base.unwrap_or_else(|| OpenAi::BASE_URL.to_owned());
            (ModelListing::openai("openai", base), Some(OpenAi::KEY_VARIABLE))
        }
        (other, Some(base)) => (ModelListing::openai(other, base), None),
        (other, None) => {
            return Err(CliError::invalid(format!("the address of `{other}` is unknown"))
                .hint("set it with --base-url URL"));
        }
    };
    let key = args.api_key_env.as_deref().or(key).and_then(env);
    let list = match key {
        Some(key) => list.api_key(Secret::new(key.trim().to_owned())),
        None => list,
    };
    let models =
        list.fetch().await.map_err(|error| CliError::new(error.kind(), error.to_string()))?;
    let count = models.len();
    catalog.refresh(models);
    let catalog = catalog.to_json().map_err(|error| CliError::invalid(error.to_string()))?;
    let file = args.file.display();
    std::fs::write(&args.file, catalog).map_err(|error| CliError::io(format!("{file}"), &error))?;
    let text = format!(
        "wrote {count} models of {} to {file}; {CATALOG_VARIABLE}={file} uses the catalog",
        args.provider
    );
    printer.print_result(&json!({ "models": count, "file": args.file }), &args.provider, &text)
}

/// Row of the list of models.
#[derive(serde::Serialize)]
#[serde(transparent)]
struct ModelRow(CatalogEntry);

impl TableRow for ModelRow {
    const COLUMNS: &'static [Column] = &[
        fixed("MODEL"),
        fixed("KIND"),
        fixed("CONTEXT"),
        fixed("OUTPUT"),
        flexible("MODALITIES"),
        fixed("IN $/M"),
        fixed("OUT $/M"),
        fixed("CACHED"),
    ];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let entry = &self.0;
        let kind = match entry.kind {
            ModelKind::Chat if entry.reasoning => "chat, reasoning",
            ModelKind::Chat => "chat",
            ModelKind::Embedding => "embedding",
            ModelKind::Rerank => "rerank",
        };
        let count = |count: Option<u64>| Cell::optional(count.map(|count| count.to_string()));
        let price = |price: Option<String>| Cell::optional(price);
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
