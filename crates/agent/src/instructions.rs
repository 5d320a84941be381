//! Instructions: fixed text, a template over the run's notes, or a function.

mod template;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_tool::RunContext;

pub use template::{PromptError, Template};

type Provider = dyn Fn(RunContext) -> BoxFuture<'static, Result<String, PromptError>> + Send + Sync;

/// Where an agent's instructions come from.
#[derive(Clone, Default)]
pub enum Instructions {
    /// There are none.
    #[default]
    None,
    /// Always the same text.
    Text(Arc<str>),
    /// A template, filled with the run's notes.
    Template(Arc<Template>),
    /// A function, asked when the run starts. Its text is taken as it is.
    Provider(Arc<Provider>),
}

impl Instructions {
    /// Text that is a template if it has template marks in it.
    pub fn parse(text: &str) -> Result<Self, PromptError> {
        if text.is_empty() {
            return Ok(Self::None);
        }
        if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
            return Ok(Self::Text(text.into()));
        }
        Ok(Self::Template(Arc::new(Template::new(text)?)))
    }

    /// The instructions for one run.
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
