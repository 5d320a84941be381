//! Which model to use, and why.
//!
//! A pure decision over what was asked for, an environment and a probe: reading variables and touching the network is injected.
//! Order: flags, `PROVOST_MODEL`, `OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, a local Ollama, the built-in demo model.

use provost_core::{ErrorKind, Secret};
use provost_provider::Providers;

use super::demo;
use super::probe::{Address, ollama_address, parse_url, url_path};
use crate::error::HostError;

/// The OpenAI model used when only a key is known.
const OPENAI_DEFAULT: &str = "gpt-5-mini";
/// The Anthropic model used when only a key is known.
const ANTHROPIC_DEFAULT: &str = "claude-sonnet-5-5";

/// What a person asked for on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ModelRequest {
    /// `provider/model`, or several with commas between them.
    pub model: Option<String>,
    /// Where the provider is.
    pub base_url: Option<String>,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
}

impl ModelRequest {
    /// The same wish for another model. A named provider has its own address and key; any other name is a model of the same
    /// server.
    pub fn with_model(&self, name: &str) -> Self {
        let first = name.split(',').next().unwrap_or_default();
        let is_elsewhere = split(first, /*has_base_url*/ false).is_ok();
        let kept = if is_elsewhere { Self::default() } else { self.clone() };
        Self { model: Some(name.to_owned()), ..kept }
    }
}

/// Which family of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI itself.
    OpenAi,
    /// Anthropic itself.
    Anthropic,
    /// A local Ollama.
    Ollama,
    /// Anything that speaks OpenAI's Chat Completions.
    Compatible,
    /// One of those that the model crate knows by name.
    Vendor(&'static str),
    /// The built-in one.
    Demo,
}

impl Provider {
    /// Those that can be named before the slash.
    const NAMED: [Provider; 5] =
        [Self::OpenAi, Self::Anthropic, Self::Ollama, Self::Compatible, Self::Demo];

    /// The name before the slash.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::Compatible => "compatible",
            Self::Vendor(name) => name,
            Self::Demo => demo::NAME,
        }
    }

    /// The variable its key is usually in.
    pub fn key_env(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Vendor(name) => Providers::builtin().key_variable(name),
            Self::Ollama | Self::Compatible | Self::Demo => None,
        }
    }

    /// The variable that moves it elsewhere.
    pub const fn base_url_env(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_BASE_URL"),
            Self::Anthropic => Some("ANTHROPIC_BASE_URL"),
            // The model crate looks for theirs itself.
            Self::Vendor(_) | Self::Ollama | Self::Compatible | Self::Demo => None,
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|provider| provider.as_str() == name)
    }

    /// The same, or one that the model crate knows.
    fn parse_any(name: &str) -> Option<Self> {
        let vendor = || Providers::builtin().resolve(name).map(Self::Vendor);
        Self::parse(name).or_else(vendor)
    }
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Which family.
    pub provider: Provider,
    /// The model's id there.
    pub model: String,
    /// Where it is, if not at the vendor's own address.
    pub base_url: Option<String>,
    /// The key.
    pub key: Option<Secret<String>>,
    /// Why this one, for a person.
    pub why: String,
    /// Who is asked, in this order, where this one fails.
    pub stand_ins: Vec<Choice>,
}

impl Choice {
    /// `provider/model`, or just `demo`; with stand-ins, all of them.
    pub fn name(&self) -> String {
        self.joined(|choice| match choice.provider {
            Provider::Demo => demo::NAME.to_owned(),
            Provider::Compatible => choice.model.clone(),
            provider => format!("{}/{}", provider.as_str(), choice.model),
        })
    }

    /// The same with every provider named, as it is stored.
    pub fn full_name(&self) -> String {
        self.joined(|choice| match choice.provider {
            Provider::Demo => demo::NAME.to_owned(),
            provider => format!("{}/{}", provider.as_str(), choice.model),
        })
    }

    fn joined(&self, name: impl Fn(&Choice) -> String) -> String {
        let all: Vec<String> = std::iter::once(self).chain(&self.stand_ins).map(name).collect();
        all.join(",")
    }
}

/// What the decision may look at.
pub struct Environment<'a> {
    /// Reads a variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The models of the Ollama at an address; `None` if it is not reachable.
    pub ollama: &'a dyn Fn(&Address) -> Option<Vec<String>>,
}

impl Environment<'_> {
    /// A variable that is set and not blank.
    fn var(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

/// Decides.
pub fn select(wanted: &ModelRequest, world: &Environment<'_>) -> Result<Choice, HostError> {
    if let Some(url) = &wanted.base_url {
        parse_url(url)?;
    }
    if let Some(names) = &wanted.model {
        return route(names, "--model", wanted, world);
    }
    if let Some(names) = world.var("PROVOST_MODEL") {
        return route(&names, "PROVOST_MODEL", wanted, world);
    }
    if wanted.base_url.is_some() {
        return Err(HostError::invalid("--base-url needs to know the model")
            .hint("add --model NAME with the model's name at that server"));
    }
    if let Some(name) = &wanted.api_key_env {
        return Err(HostError::invalid(format!("--api-key-env {name} needs to know the model"))
            .hint("add --model provider/model, such as --model openai/gpt-5-mini"));
    }
    for (provider, model) in
        [(Provider::OpenAi, OPENAI_DEFAULT), (Provider::Anthropic, ANTHROPIC_DEFAULT)]
    {
        let key_env = provider.key_env().unwrap_or_default();
        if world.var(key_env).is_some() {
            let name = format!("{}/{model}", provider.as_str());
            return named(&name, key_env, wanted, world);
        }
    }
    let address = ollama_address(world.var("OLLAMA_HOST").as_deref())?;
    if let Some(model) = (world.ollama)(&address).and_then(|models| models.into_iter().next()) {
        let why = format!("an Ollama runs at {}", address.authority());
        return Ok(ollama(model, &address, why));
    }
    let why = "no key in the environment and no local Ollama; `provost doctor` helps".to_owned();
    Ok(demo_choice(why))
}

fn demo_choice(why: String) -> Choice {
    Choice {
        provider: Provider::Demo,
        model: demo::NAME.to_owned(),
        base_url: None,
        key: None,
        why,
        stand_ins: Vec::new(),
    }
}

fn ollama(model: String, address: &Address, why: String) -> Choice {
    Choice {
        provider: Provider::Ollama,
        model,
        base_url: Some(format!("{}/v1", address.origin())),
        key: None,
        why,
        stand_ins: Vec::new(),
    }
}

/// One model, or several behind commas: the first is asked, the others stand in for it in their order.
fn route(
    names: &str,
    from: &str,
    wanted: &ModelRequest,
    world: &Environment<'_>,
) -> Result<Choice, HostError> {
    let Some((first, others)) = names.split_once(',') else {
        return named(names, from, wanted, world);
    };
    for (flag, is_set) in
        [("--base-url", wanted.base_url.is_some()), ("--api-key-env", wanted.api_key_env.is_some())]
    {
        if is_set {
            return Err(HostError::invalid(format!(
                "{flag} is for one model, and {from} names several"
            ))
            .hint("name one model, or leave it out: each provider's own variables are read"));
        }
    }
    let mut choice = named(first, from, wanted, world)?;
    for name in others.split(',') {
        let next = named(name, from, wanted, world)?;
        if next.name() == choice.name() || choice.stand_ins.contains(&next) {
            return Err(HostError::invalid(format!("{from} names `{}` twice", next.name()))
                .hint("name each model once: what fails is tried again anyway"));
        }
        choice.stand_ins.push(next);
    }
    Ok(choice)
}

/// A model that somebody named, in `from`.
fn named(
    name: &str,
    from: &str,
    wanted: &ModelRequest,
    world: &Environment<'_>,
) -> Result<Choice, HostError> {
    let (provider, model) = split(name, wanted.base_url.is_some())?;
    let why = match provider.key_env() {
        Some(key_env) if key_env == from => format!("{key_env} is set"),
        _ => format!("{from} says so"),
    };
    match provider {
        Provider::Demo => {
            refuse_flags_of_demo(wanted)?;
            Ok(demo_choice(why))
        }
        Provider::Ollama => named_ollama(model, why, wanted, world),
        Provider::Compatible => {
            let base_url = needed_base_url(wanted)?;
            Ok(Choice {
                provider,
                model,
                why: format!("at {}, {why}", parse_url(&base_url)?.authority()),
                base_url: Some(base_url),
                key: flag_key(wanted, world)?,
                stand_ins: Vec::new(),
            })
        }
        Provider::OpenAi | Provider::Anthropic => {
            let base_url = match (&wanted.base_url, provider.base_url_env()) {
                (Some(url), _) => Some(url.clone()),
                (None, Some(variable)) => world.var(variable),
                (None, None) => None,
            };
            if let Some(url) = &base_url {
                parse_url(url)?;
            }
            let key = match flag_key(wanted, world)? {
                Some(key) => key,
                None => vendor_key(provider, world)?,
            };
            Ok(Choice { provider, model, base_url, key: Some(key), why, stand_ins: Vec::new() })
        }
        Provider::Vendor(_) => {
            let key = flag_key(wanted, world)?;
            Ok(Choice { provider, model, base_url: None, key, why, stand_ins: Vec::new() })
        }
    }
}

/// An Ollama that somebody named. A base URL with a path is taken as it is; without one it says where the Ollama is.
fn named_ollama(
    model: String,
    why: String,
    wanted: &ModelRequest,
    world: &Environment<'_>,
) -> Result<Choice, HostError> {
    let key = flag_key(wanted, world)?;
    let host = wanted.base_url.clone().or_else(|| world.var("OLLAMA_HOST"));
    let choice = ollama(model, &ollama_address(host.as_deref())?, why);
    let base_url = match &wanted.base_url {
        Some(url) if !url_path(url).is_empty() => Some(url.clone()),
        _ => choice.base_url,
    };
    Ok(Choice { base_url, key, ..choice })
}

/// The demo model has neither an address nor a key: whoever gives one means something else.
fn refuse_flags_of_demo(wanted: &ModelRequest) -> Result<(), HostError> {
    let flag = match wanted {
        ModelRequest { base_url: Some(_), .. } => "--base-url",
        ModelRequest { api_key_env: Some(_), .. } => "--api-key-env",
        _ => return Ok(()),
    };
    Err(HostError::invalid(format!("the demo model is built in and takes no {flag}")).hint(format!(
        "leave {flag} out, or name another model with --model; compatible/demo is a server's own `demo`"
    )))
}

/// Provider and model of a name. With a base URL of its own, a name without a known provider is the model of that server.
fn split(name: &str, has_base_url: bool) -> Result<(Provider, String), HostError> {
    let name = name.trim();
    if name == demo::NAME {
        return Ok((Provider::Demo, name.to_owned()));
    }
    // The models of a server of one's own may be called like a provider.
    let parse = if has_base_url { Provider::parse } else { Provider::parse_any };
    let known = name.split_once('/').and_then(|(provider, model)| Some((parse(provider)?, model)));
    match known {
        Some((provider, model)) if !model.is_empty() => Ok((provider, model.to_owned())),
        Some((provider, _)) => {
            Err(HostError::invalid(format!("`{name}` names no model of {}", provider.as_str()))
                .hint(format!("write it as {}/MODEL", provider.as_str())))
        }
        None if has_base_url && !name.is_empty() => Ok((Provider::Compatible, name.to_owned())),
        None => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> HostError {
    let known =
        "providers are openai, anthropic, ollama, demo, and others such as gemini, groq or mistral";
    let problem = match name.split_once('/') {
        Some((provider, _)) => HostError::invalid(format!("there is no provider `{provider}`")),
        None => HostError::invalid(format!("`{name}` does not say which provider it is at")),
    };
    let guess = if name.starts_with("gpt-") || name.starts_with("o3") || name.starts_with("o4") {
        Some("openai")
    } else if name.starts_with("claude") {
        Some("anthropic")
    } else {
        None
    };
    problem.hint(match guess {
        Some(provider) => format!("write --model {provider}/{name}; {known}"),
        None => format!(
            "write --model provider/model ({known}), or add --base-url URL for any other OpenAI-compatible server"
        ),
    })
}

fn needed_base_url(wanted: &ModelRequest) -> Result<String, HostError> {
    wanted.base_url.clone().ok_or_else(|| {
        HostError::invalid("a model of a compatible server needs the server's address")
            .hint("add --base-url URL, such as --base-url http://127.0.0.1:8080/v1")
    })
}

/// The key in the variable that `--api-key-env` names.
fn flag_key(
    wanted: &ModelRequest,
    world: &Environment<'_>,
) -> Result<Option<Secret<String>>, HostError> {
    let Some(name) = &wanted.api_key_env else {
        return Ok(None);
    };
    match world.var(name) {
        Some(key) => Ok(Some(Secret::new(key))),
        None => Err(no_key(format!("the variable {name} is not set"), name)),
    }
}

/// The key in the vendor's own variable.
fn vendor_key(provider: Provider, world: &Environment<'_>) -> Result<Secret<String>, HostError> {
    let name = provider.key_env().unwrap_or_default();
    match world.var(name) {
        Some(key) => Ok(Secret::new(key)),
        None => Err(no_key(format!("there is no key for {}", provider.as_str()), name)),
    }
}

fn no_key(what: String, name: &str) -> HostError {
    HostError::new(ErrorKind::Unauthenticated, what)
        .hint(format!("run `export {name}=...`, or use --model demo, which needs none"))
}

#[cfg(test)]
mod tests;
