//! `fetch`: the readable text of a page.
//!
//! Invariant: every address, also that of a redirect, is checked by the client when it is dialled; a page is bounded in time, in
//! bytes and in the text that is made of it.

mod body;
mod entity;
mod html;
mod pick;
mod render;

use std::sync::Arc;
use std::time::Instant;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use provost_net::{NetClient, NetError, NetRequest, Url};
use provost_tool::{EffectClass, FnTool, SpecError, Spill, ToolCx, ToolError, ToolOutput, tool_fn};
use provost_workspace::shortened;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::body::Body;
use crate::blocking;
use crate::files::read::Page;
use crate::limits::{FETCH_BYTES_MAX, FETCH_REDIRECTS_MAX, FETCH_TIMEOUT, OUTPUT_LINES_MAX};

/// Bytes that are handed to an artifact at once.
const CHUNK_BYTES: usize = 256 * 1024;

const DESCRIPTION: &str = "Fetches a page of the web and gives its readable text, without menus and scripts. Shows up \
     to 2000 lines or 50 KiB; the last line of a shortened answer says with which offset to go on.";

const ACCEPTED: HeaderValue = HeaderValue::from_static(
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1",
);

/// What becomes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// The main part as Markdown.
    #[default]
    Markdown,
    /// The main part as plain text.
    Text,
    /// As it came.
    Html,
    /// As it came; it must be JSON.
    Json,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Address of the page, with https:// or http://.
    url: String,
    /// One of markdown, text, html (as it came) and json.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["markdown", "text", "html", "json"]))]
    format: Format,
    /// Line to begin with; the first is 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    offset: u64,
}

fn one() -> u64 {
    1
}

/// The tool `fetch`, through a client whose policy says what may be reached.
pub fn fetch(client: NetClient) -> Result<FnTool, SpecError> {
    build(client, None)
}

/// The same; of a page that is too long to show, the whole text is kept, without the secrets that the run knows.
pub fn fetch_keeping(client: NetClient, spill: Arc<dyn Spill>) -> Result<FnTool, SpecError> {
    build(client, Some(spill))
}

fn build(client: NetClient, spill: Option<Arc<dyn Spill>>) -> Result<FnTool, SpecError> {
    let tool = tool_fn("fetch", DESCRIPTION, move |cx: ToolCx, arguments: Arguments| {
        let (client, spill) = (client.clone(), spill.clone());
        async move {
            let Loaded { text, facts } = load(&client, &arguments).await?;
            let (first, redactor) = (arguments.offset.max(1), cx.redactor().cloned());
            let (mut shown, is_cut, text) = blocking::run(move |_stop| {
                // Secrets go before the text is cut or kept: of half a secret nobody would know, and what is kept is a file.
                let text = match redactor {
                    Some(redactor) => redactor.redact(&text).into_owned(),
                    None => text,
                };
                let mut shown = Page::new(first, OUTPUT_LINES_MAX);
                shown.push(text.as_bytes());
                let is_cut = shown.filled_at().is_some();
                let shown = shown.finish("the page", text.len() as u64)?;
                Ok((shown, is_cut, text))
            })
            .await?;
            if let Some(spill) = spill.filter(|_| is_cut) {
                shown.push('\n');
                shown.push_str(&keep(spill.as_ref(), &cx, &text).await);
            }
            Ok::<_, ToolError>(ToolOutput::text(shown).with_metadata(facts))
        }
    })?;
    let timeout = FETCH_TIMEOUT + FETCH_TIMEOUT;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure).timeout(timeout)))
}

struct Loaded {
    text: String,
    facts: serde_json::Value,
}

async fn load(client: &NetClient, arguments: &Arguments) -> Result<Loaded, ToolError> {
    let url = Url::parse(&arguments.url).map_err(|error| {
        ToolError::Retry(format!("`{}` is no address: {error}", shortened(&arguments.url)))
    })?;
    let mut request = NetRequest::get(url, Instant::now() + FETCH_TIMEOUT);
    request.headers.insert(ACCEPT, ACCEPTED);
    request.redirects_max = FETCH_REDIRECTS_MAX;
    let response = client.send(request).await.map_err(|error| failed(&error))?;
    let (status, url) = (response.status, response.url.clone());
    if !status.is_success() {
        return Err(ToolError::Failed(format!("the server answered {status}")));
    }
    let content_type = response.headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = shortened(content_type);
    let facts =
        json!({ "url": url.as_str(), "status": status.as_u16(), "content_type": content_type });
    let bytes = response.bytes(FETCH_BYTES_MAX).await.map_err(|error| failed(&error))?;
    let format = arguments.format;
    let work = move |_stop: &CancellationToken| {
        Body { bytes: &bytes, content_type: &content_type, url: &url }.read(format)
    };
    Ok(Loaded { text: blocking::run(work).await?, facts })
}

fn failed(error: &NetError) -> ToolError {
    match error {
        NetError::Url { .. } => ToolError::Retry(error.to_string()),
        NetError::TooLarge { .. } => {
            ToolError::Failed(format!("the page has more than {FETCH_BYTES_MAX} bytes"))
        }
        _ => ToolError::Failed(error.to_string()),
    }
}

/// Keeps a whole text, and says where. That it could not be kept is no reason to fail.
async fn keep(spill: &dyn Spill, cx: &ToolCx, text: &str) -> String {
    let kept = async {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let key = cx.effect_key().as_str().replace(|c| !legal(c), "_");
        let name = format!("fetch-{key}");
        let mut writer = spill.open(&name).await?;
        for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
            writer.write(chunk.to_vec()).await?;
        }
        writer.finish().await
    };
    match kept.await {
        Ok(artifact) => artifact.note(),
        Err(error) => format!("[the whole page could not be kept: {error}]"),
    }
}

#[cfg(test)]
mod tests;
