//! Instructions: fixed text, a template rendered with the run's state, or a function.

mod template;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_tool::RunContext;

pub use template::{PromptError, Template};

type Provider = dyn Fn(RunContext) -> BoxFuture<'static, Result<String, PromptError>> + Send + Sync;

/// The source of an agent's instructions.
#[derive(Clone, Default)]
pub enum Instructions {
    /// No instructions.
    #[default]
    None,
    /// A fixed text.
    Text(Arc<str>),
    /// A template, rendered with the run's state.
    Template(Arc<Template>),
    /// A function that is called when the run starts. Its text is not treated as a template.
    Provider(Arc<Provider>),
}

impl Instructions {
    /// Parses a text. A text with template marks (`{{`, `{%` or `{#`) becomes a template. Returns an error for an
    /// invalid template.
    pub fn parse(text: &str) -> Result<Self, PromptError> {
        if text.is_empty() {
            return Ok(Self::None);
        }
        if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
            return Ok(Self::Text(text.into()));
        }
        Ok(Self::Template(Arc::new(Template::new(text)?)))
    }

    /// Renders the instructions for one run. `None` means no instructions. Returns an error if a template or a provider
    /// fails.
    pub async fn resolve(&self, cx: RunContext) -> Result<Option<Arc<str>>, PromptError> {
        match self {
            Self::None => Ok(None),
            Self::Text(text) => Ok(Some(Arc::clone(text))),
            Self::Template(template) => Ok(Some(template.render(&cx.state.nested())?.into())),
            Self::Provider(provider) => {
                let text = provider(cx).await?;
                Ok((!text.is_empty()).then(|| text.into()))
            }
        }
    }
}

impl fmt::Debug for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Text(_) => "Text(..)",
            Self::Template(_) => "Template(..)",
            Self::Provider(_) => "Provider(..)",
        })
    }
}
