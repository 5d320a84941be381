//! Selects a model and reports the reason.
//!
//! The selection is a pure function of the request, the environment and a probe, which are injected.
//! Order: flags, `PROVOST_MODEL`, `OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, a local Ollama, the built-in demo model.

use provost_core::resource::AgentSpec;
use provost_core::{ErrorKind, Secret};
use provost_provider::ProviderRegistry;

use super::demo;
use super::probe::{Address, ollama_address, parse_url, url_path};
use crate::error::HostError;

/// OpenAI model that is used if only the key is set.
const OPENAI_DEFAULT: &str = "gpt-5-mini";
/// Anthropic model that is used if only the key is set.
const ANTHROPIC_DEFAULT: &str = "claude-sonnet-5-5";

/// Model that the command line requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ModelRequest {
    /// Model as `provider/model`, or several models separated by commas.
    pub model: Option<String>,
    /// Base URL of the provider.
    pub base_url: Option<String>,
    /// Environment variable with the API key.
    pub api_key_env: Option<String>,
}

impl ModelRequest {
    /// Returns the model and the server of a definition.
    pub fn of_spec(spec: &AgentSpec) -> Self {
        let endpoint = spec.endpoint.clone().unwrap_or_default();
        Self {
            model: spec.model.clone(),
            base_url: endpoint.base_url,
            api_key_env: endpoint.api_key_env,
        }
    }

    /// Returns the request for another model. A model with a provider uses the address and key of that provider. Any
    /// other name is a model of the same server.
    pub fn with_model(&self, name: &str) -> Self {
        let first = name.split(',').next().unwrap_or_default();
        let has_provider = split(first, /*has_base_url*/ false).is_ok();
        let base = if has_provider { Self::default() } else { self.clone() };
        Self { model: Some(name.to_owned()), ..base }
    }
}

/// Provider of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Ollama.
    Ollama,
    /// Any server with the API of OpenAI Chat Completions.
    OpenAiCompatible,
    /// Vendor of the provider registry.
    Vendor(&'static str),
    /// The built-in demo model.
    Demo,
}

impl Provider {
    /// Providers that can be named before the slash, apart from vendors.
    const NAMED: [Provider; 5] =
        [Self::OpenAi, Self::Anthropic, Self::Ollama, Self::OpenAiCompatible, Self::Demo];

    /// Returns the name before the slash.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::OpenAiCompatible => "compatible",
            Self::Vendor(name) => name,
            Self::Demo => demo::NAME,
        }
    }

    /// Returns the environment variable with the key. `None` if the provider needs no key.
    pub fn key_env(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Vendor(name) => ProviderRegistry::builtin().key_variable(name),
            Self::Ollama | Self::OpenAiCompatible | Self::Demo => None,
        }
    }

    /// Returns the environment variable with the base URL. `None` if the provider has none.
    pub const fn base_url_env(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_BASE_URL"),
            Self::Anthropic => Some("ANTHROPIC_BASE_URL"),
            // The provider registry reads the variables of vendors.
            Self::Vendor(_) | Self::Ollama | Self::OpenAiCompatible | Self::Demo => None,
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|provider| provider.as_str() == name)
    }

    /// Parses a provider or a vendor of the provider registry.
    fn parse_with_registry(name: &str) -> Option<Self> {
        let vendor = || ProviderRegistry::builtin().resolve(name).map(Self::Vendor);
        Self::parse(name).or_else(vendor)
    }
}

/// Selected model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// Provider of the model.
    pub provider: Provider,
    /// Id of the model at the provider.
    pub model: String,
    /// Base URL. `None` for the default address of the provider.
    pub base_url: Option<String>,
    /// API key. `None` if the provider needs no key.
    pub key: Option<Secret<String>>,
    /// Reason of the selection, for the user.
    pub reason: String,
    /// Models that are used in this order if this one fails.
    pub fallbacks: Vec<ModelChoice>,
}

impl ModelChoice {
    /// Returns `provider/model` or `demo`. With fallbacks, the names are joined by commas.
    pub fn name(&self) -> String {
        self.join_names(|choice| match choice.provider {
            Provider::Demo => demo::NAME.to_owned(),
            Provider::OpenAiCompatible => choice.model.clone(),
            provider => format!("{}/{}", provider.as_str(), choice.model),
        })
    }

    /// Returns the name to store, in which every model has its provider.
    pub fn full_name(&self) -> String {
        self.join_names(|choice| match choice.provider {
            Provider::Demo => demo::NAME.to_owned(),
            provider => format!("{}/{}", provider.as_str(), choice.model),
        })
    }

    fn join_names(&self, name: impl Fn(&ModelChoice) -> String) -> String {
        let all: Vec<String> = std::iter::once(self).chain(&self.fallbacks).map(name).collect();
        all.join(",")
    }
}

/// Environment of the selection.
pub struct Environment<'a> {
    /// Reads an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Returns the models of the Ollama at an address. `None` if it is not reachable.
    pub ollama: &'a dyn Fn(&Address) -> Option<Vec<String>>,
}

impl Environment<'_> {
    /// Returns a variable. `None` if it is not set or blank.
    fn var(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

/// Selects a model.
pub fn select(
    request: &ModelRequest,
    environment: &Environment<'_>,
) -> Result<ModelChoice, HostError> {
    if let Some(url) = &request.base_url {
        parse_url(url)?;
    }
    if let Some(names) = &request.model {
        return route(names, "--model", request, environment);
    }
    if let Some(names) = environment.var("PROVOST_MODEL") {
        return route(&names, "PROVOST_MODEL", request, environment);
    }
    if request.base_url.is_some() {
        return Err(HostError::invalid("--base-url requires --model")
            .hint("add --model NAME with the name of a model of that server"));
    }
    if let Some(name) = &request.api_key_env {
        return Err(HostError::invalid(format!("--api-key-env {name} requires --model"))
            .hint("add --model provider/model, such as --model openai/gpt-5-mini"));
    }
    for (provider, model) in
        [(Provider::OpenAi, OPENAI_DEFAULT), (Provider::Anthropic, ANTHROPIC_DEFAULT)]
    {
        let key_env = provider.key_env().unwrap_or_default();
        if environment.var(key_env).is_some() {
            let name = format!("{}/{model}", provider.as_str());
            return named(&name, key_env, request, environment);
        }
    }
    let address = ollama_address(environment.var("OLLAMA_HOST").as_deref())?;
    if let Some(model) = (environment.ollama)(&address).and_then(|models| models.into_iter().next())
    {
        let reason = format!("Ollama runs at {}", address.authority());
        return Ok(ollama(model, &address, reason));
    }
    let reason = "no key in the environment and no local Ollama; see `provost doctor`".to_owned();
    Ok(demo_choice(reason))
}

/// Creates the choice of the demo model.
fn demo_choice(reason: String) -> ModelChoice {
    ModelChoice {
        provider: Provider::Demo,
        model: demo::NAME.to_owned(),
        base_url: None,
        key: None,
        reason,
        fallbacks: Vec::new(),
    }
}

fn ollama(model: String, address: &Address, reason: String) -> ModelChoice {
    ModelChoice {
        provider: Provider::Ollama,
        model,
        base_url: Some(format!("{}/v1", address.origin())),
        key: None,
        reason,
        fallbacks: Vec::new(),
    }
}

/// Selects one model, or several models separated by commas. The models after the first are fallbacks.
fn route(
    names: &str,
    from: &str,
    request: &ModelRequest,
    environment: &Environment<'_>,
) -> Result<ModelChoice, HostError> {
    let Some((first, others)) = names.split_once(',') else {
        return named(names, from, request, environment);
    };
    for (flag, is_set) in [
        ("--base-url", request.base_url.is_some()),
        ("--api-key-env", request.api_key_env.is_some()),
    ] {
        if is_set {
            return Err(HostError::invalid(format!(
                "{flag} applies to one model, and {from} contains several"
            ))
            .hint("use one model, or set the variables of each provider instead"));
        }
    }
    let mut choice = named(first, from, request, environment)?;
    for name in others.split(',') {
        let next = named(name, from, request, environment)?;
        if next.name() == choice.name() || choice.fallbacks.contains(&next) {
            return Err(HostError::invalid(format!("{from} contains `{}` twice", next.name()))
                .hint("list each model once; failed calls are retried anyway"));
        }
        choice.fallbacks.push(next);
    }
    Ok(choice)
}

/// Selects the model with a name. `from` is the flag or variable that contains it.
fn named(
    name: &str,
    from: &str,
    request: &ModelRequest,
    environment: &Environment<'_>,
) -> Result<ModelChoice, HostError> {
    let (provider, model) = split(name, request.base_url.is_some())?;
    let reason = match provider.key_env() {
        Some(key_env) if key_env == from => format!("{key_env} is set"),
        _ => format!("set by {from}"),
    };
    match provider {
        Provider::Demo => {
            reject_demo_flags(request)?;
            Ok(demo_choice(reason))
        }
        Provider::Ollama => named_ollama(model, reason, request, environment),
        Provider::OpenAiCompatible => {
            let base_url = require_base_url(request)?;
            Ok(ModelChoice {
                provider,
                model,
                reason: format!("at {}, {reason}", parse_url(&base_url)?.authority()),
                base_url: Some(base_url),
                key: flag_key(request, environment)?,
                fallbacks: Vec::new(),
            })
        }
        Provider::OpenAi | Provider::Anthropic => {
            let base_url = match (&request.base_url, provider.base_url_env()) {
                (Some(url), _) => Some(url.clone()),
                (None, Some(variable)) => environment.var(variable),
                (None, None) => None,
            };
            if let Some(url) = &base_url {
                parse_url(url)?;
            }
            let key = match flag_key(request, environment)? {
                Some(key) => key,
                None => vendor_key(provider, environment)?,
            };
            Ok(ModelChoice {
                provider,
                model,
                base_url,
                key: Some(key),
                reason,
                fallbacks: Vec::new(),
            })
        }
        Provider::Vendor(_) => {
            let key = flag_key(request, environment)?;
            Ok(ModelChoice { provider, model, base_url: None, key, reason, fallbacks: Vec::new() })
        }
    }
}

/// Selects a model of Ollama. A base URL with a path is used unchanged. A base URL without a path is the address of
/// Ollama.
fn named_ollama(
    model: String,
    reason: String,
    request: &ModelRequest,
    environment: &Environment<'_>,
) -> Result<ModelChoice, HostError> {
    let key = flag_key(request, environment)?;
    let host = request.base_url.clone().or_else(|| environment.var("OLLAMA_HOST"));
    let choice = ollama(model, &ollama_address(host.as_deref())?, reason);
    let base_url = match &request.base_url {
        Some(url) if !url_path(url).is_empty() => Some(url.clone()),
        _ => choice.base_url,
    };
    Ok(ModelChoice { base_url, key, ..choice })
}

/// Returns an error if the request sets an address or a key, which the demo model does not have.
fn reject_demo_flags(request: &ModelRequest) -> Result<(), HostError> {
    let flag = match request {
        ModelRequest { base_url: Some(_), .. } => "--base-url",
        ModelRequest { api_key_env: Some(_), .. } => "--api-key-env",
        _ => return Ok(()),
    };
    Err(HostError::invalid(format!("the demo model does not use {flag}")).hint(format!(
        "remove {flag}, or use another model with --model; compatible/demo is a model `demo` of a server"
    )))
}

/// Splits a name into provider and model. With a base URL, a name without a known provider is a model of that server.
fn split(name: &str, has_base_url: bool) -> Result<(Provider, String), HostError> {
    let name = name.trim();
    if name == demo::NAME {
        return Ok((Provider::Demo, name.to_owned()));
    }
    // The models of a custom server can have the name of a vendor.
    let parse = if has_base_url { Provider::parse } else { Provider::parse_with_registry };
    let known = name.split_once('/').and_then(|(provider, model)| Some((parse(provider)?, model)));
    match known {
        Some((provider, model)) if !model.is_empty() => Ok((provider, model.to_owned())),
        Some((provider, _)) => {
            Err(HostError::invalid(format!("`{name}` contains no model of {}", provider.as_str()))
                .hint(format!("use {}/MODEL", provider.as_str())))
        }
        None if has_base_url && !name.is_empty() => {
            Ok((Provider::OpenAiCompatible, name.to_owned()))
        }
        None => Err(unknown(name)),
    }
}

/// Creates the error for an unknown provider or model.
fn unknown(name: &str) -> HostError {
    let known =
        "providers are openai, anthropic, ollama, demo, and others such as gemini, groq or mistral";
    let problem = match name.split_once('/') {
        Some((provider, _)) => HostError::invalid(format!("unknown provider `{provider}`")),
        None => HostError::invalid(format!("`{name}` has no provider")),
    };
    let guess = if name.starts_with("gpt-") || name.starts_with("o3") || name.starts_with("o4") {
        Some("openai")
    } else if name.starts_with("claude") {
        Some("anthropic")
    } else {
        None
    };
    problem.hint(match guess {
        Some(provider) => format!("use --model {provider}/{name}; {known}"),
        None => format!(
            "use --model provider/model ({known}), or add --base-url URL for any other OpenAI-compatible server"
        ),
    })
}

/// Returns the base URL of the request. Returns an error if it has none.
fn require_base_url(request: &ModelRequest) -> Result<String, HostError> {
    request.base_url.clone().ok_or_else(|| {
        HostError::invalid("a model of a compatible server requires a base URL")
            .hint("add --base-url URL, such as --base-url http://127.0.0.1:8080/v1")
    })
}

/// Returns the key in the variable of `--api-key-env`. `None` without the flag.
fn flag_key(
    request: &ModelRequest,
    environment: &Environment<'_>,
) -> Result<Option<Secret<String>>, HostError> {
    let Some(name) = &request.api_key_env else {
        return Ok(None);
    };
    match environment.var(name) {
        Some(key) => Ok(Some(Secret::new(key))),
        None => Err(missing_key(format!("the variable {name} is not set"), name)),
    }
}

/// Returns the key in the variable of the provider.
fn vendor_key(
    provider: Provider,
    environment: &Environment<'_>,
) -> Result<Secret<String>, HostError> {
    let name = provider.key_env().unwrap_or_default();
    match environment.var(name) {
        Some(key) => Ok(Secret::new(key)),
        None => Err(missing_key(format!("no key for {}", provider.as_str()), name)),
    }
}

fn missing_key(message: String, name: &str) -> HostError {
    HostError::new(ErrorKind::Unauthenticated, message)
        .hint(format!("run `export {name}=...`, or use --model demo, which needs no key"))
}

#[cfg(test)]
mod tests;
