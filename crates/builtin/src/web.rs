//! The `fetch` tool: the readable text of a page.
//!
//! Invariant: the client checks every address when it connects, including the addresses of redirects. A page is limited
//! in time, in size and in the size of its text.

mod body;
mod entity;
mod html;
mod readability;
mod render;

use std::sync::Arc;
use std::time::Instant;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use provost_net::{NetClient, NetError, NetRequest, Url};
use provost_tool::{
    ArtifactStore, EffectClass, FnTool, ToolContext, ToolError, ToolOutput, ToolSpecError, tool_fn,
};
use provost_workspace::excerpt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::body::PageBody;
use crate::blocking;
use crate::files::read::LinePage;
use crate::limits::{FETCH_BYTES_MAX, FETCH_REDIRECTS_MAX, FETCH_TIMEOUT, OUTPUT_LINES_MAX};

/// Size of the chunks that are written to an artifact, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

const DESCRIPTION: &str = "Fetches a web page and returns its readable text, without menus and scripts. Returns up \
     to 2000 lines or 50 KiB; the last line of a truncated result states the offset to continue with.";

const ACCEPT_VALUE: HeaderValue = HeaderValue::from_static(
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1",
);

/// Format in which a page is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PageFormat {
    /// Main content as Markdown.
    #[default]
    Markdown,
    /// Main content as plain text.
    Text,
    /// Unchanged.
    Html,
    /// Unchanged. The page must be valid JSON.
    Json,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchArguments {
    /// URL of the page, with https:// or http://.
    url: String,
    /// One of markdown, text, html (unchanged) and json.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["markdown", "text", "html", "json"]))]
    format: PageFormat,
    /// Number of the first line to show; the first line is 1.
    #[serde(default = "default_offset")]
    #[schemars(range(min = 1))]
    offset: u64,
}

/// Default of the first line.
fn default_offset() -> u64 {
    1
}

/// Creates the `fetch` tool. The policy of the client decides which addresses are reachable.
pub fn fetch(client: NetClient) -> Result<FnTool, ToolSpecError> {
    create_fetch_tool(client, None)
}

/// Creates the `fetch` tool with an artifact store. It stores the complete text of a truncated page, without the
/// secrets of the run.
pub fn fetch_with_artifacts(
    client: NetClient,
    spill: Arc<dyn ArtifactStore>,
) -> Result<FnTool, ToolSpecError> {
    create_fetch_tool(client, Some(spill))
}

/// Creates the `fetch` tool. It returns a page of lines of the text.
fn create_fetch_tool(
    client: NetClient,
    spill: Option<Arc<dyn ArtifactStore>>,
) -> Result<FnTool, ToolSpecError> {
    let tool = tool_fn("fetch", DESCRIPTION, move |cx: ToolContext, arguments: FetchArguments| {
        let (client, spill) = (client.clone(), spill.clone());
        async move {
            let FetchedPage { text, metadata } = fetch_page(&client, &arguments).await?;
            let (first, redactor) = (arguments.offset.max(1), cx.redactor().cloned());
            let (mut shown, is_cut, text) = blocking::run(move |_stop| {
                // Secrets are removed before the text is cut or stored: a partial secret is not recognised, and the
                // artifact is a file.
                let text = match redactor {
                    Some(redactor) => redactor.redact(&text).into_owned(),
                    None => text,
                };
                let mut shown = LinePage::new(first, OUTPUT_LINES_MAX);
                shown.push(text.as_bytes());
                let is_cut = shown.filled_at().is_some();
                let shown = shown.finish("the page", text.len() as u64)?;
                Ok((shown, is_cut, text))
            })
            .await?;
            if let Some(spill) = spill.filter(|_| is_cut) {
                shown.push('\n');
                shown.push_str(&store_artifact(spill.as_ref(), &cx, &text).await);
            }
            Ok::<_, ToolError>(ToolOutput::text(shown).with_metadata(metadata))
        }
    })?;
    let timeout = FETCH_TIMEOUT + FETCH_TIMEOUT;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure).timeout(timeout)))
}

/// Text of a page, with its metadata.
struct FetchedPage {
    text: String,
    metadata: serde_json::Value,
}

/// Fetches a page and converts it to text. Returns an error if the address is not allowed, the status is not a success,
/// or the page is not text.
async fn fetch_page(
    client: &NetClient,
    arguments: &FetchArguments,
) -> Result<FetchedPage, ToolError> {
    let url = Url::parse(&arguments.url).map_err(|error| {
        ToolError::Retry(format!("`{}` is not a URL: {error}", excerpt(&arguments.url)))
    })?;
    let mut request = NetRequest::get(url, Instant::now() + FETCH_TIMEOUT);
    request.headers.insert(ACCEPT, ACCEPT_VALUE);
    request.redirects_max = FETCH_REDIRECTS_MAX;
    let response = client.send(request).await.map_err(|error| to_tool_error(&error))?;
    let (status, url) = (response.status, response.url.clone());
    if !status.is_success() {
        return Err(ToolError::Failed(format!("the server responded with {status}")));
    }
    let content_type = response.headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = excerpt(content_type);
    let metadata =
        json!({ "url": url.as_str(), "status": status.as_u16(), "content_type": content_type });
    let bytes = response.bytes(FETCH_BYTES_MAX).await.map_err(|error| to_tool_error(&error))?;
    let format = arguments.format;
    let work = move |_stop: &CancellationToken| {
        PageBody { bytes: &bytes, content_type: &content_type, url: &url }.to_text(format)
    };
    Ok(FetchedPage { text: blocking::run(work).await?, metadata })
}

/// Converts a network error. Only an invalid URL lets the model retry.
fn to_tool_error(error: &NetError) -> ToolError {
    match error {
        NetError::Url { .. } => ToolError::Retry(error.to_string()),
        NetError::TooLarge { .. } => {
            ToolError::Failed(format!("the page has more than {FETCH_BYTES_MAX} bytes"))
        }
        _ => ToolError::Failed(error.to_string()),
    }
}

/// Stores the complete text and returns a note with its path. If it cannot be stored, the note has the error.
async fn store_artifact(spill: &dyn ArtifactStore, cx: &ToolContext, text: &str) -> String {
    let stored = async {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let key = cx.effect_key().as_str().replace(|c| !is_allowed(c), "_");
        let name = format!("fetch-{key}");
        let mut writer = spill.open(&name).await?;
        for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
            writer.write(chunk.to_vec()).await?;
        }
        writer.finish().await
    };
    match stored.await {
        Ok(artifact) => artifact.note(),
        Err(error) => format!("[cannot store the complete page: {error}]"),
    }
}

#[cfg(test)]
mod tests;
