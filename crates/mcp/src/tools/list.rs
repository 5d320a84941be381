//! The tools of a server, page by page, within bounds; what cannot be used is left out and the rest stays.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use provost_tool::{EffectClass, Tool, ToolSpec};
use rmcp::model::{
    ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, ServerResult,
    Tool as Offered, ToolAnnotations,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::connection::redaction::Scrub;
use crate::connection::{Held, Link};
use crate::limits::{
    CALL_GRACE, DESCRIPTION_BYTES_MAX, LIST_BYTES_MAX, LIST_PAGES_MAX, LIST_TTL_MIN,
    SCHEMA_BYTES_MAX, TOOL_NAME_BYTES_MAX, TOOLS_MAX,
};
use crate::tools::call;
use crate::tools::name::public_names;
use crate::tools::tool::{McpTool, Offer};

/// What a server offered, and until when that counts.
pub(crate) struct Listed {
    offers: Vec<Arc<Offer>>,
    fresh_until: Option<Instant>,
}

/// The tools there are now: those that were listed, or a new list if the server said that it changed.
pub(crate) async fn tools(link: &Arc<Link>) -> Result<Vec<Arc<dyn Tool>>, Error> {
    let live = link.live().await?;
    let mut listed = live.listed.lock().await;
    let changed = live.wire.take_changed();
    if let Some(list) = listed.as_ref()
        && !changed
        && list.fresh_until.is_none_or(|until| until > Instant::now())
    {
        return Ok(made(link, &list.offers));
    }
    *listed = None;
    let limit = link.server.connect_timeout;
    let outcome = tokio::select! {
        biased;
        outcome = timeout(limit, pages(link, &live)) => outcome,
        () = live.wire.dead.cancelled() => {
            let (server, reason) = (link.server.name.clone(), link.scrub.brief(live.why().await));
            return Err(Error::Connect { server, reason });
        }
    };
    let Ok(pages) = outcome else {
        let what = "list its tools".to_owned();
        return Err(Error::Timeout { server: link.server.name.clone(), what, after: limit });
    };
    let (offered, ttl) = pages?;
    let offers = usable(link, offered);
    let tools = made(link, &offers);
    let fresh_until = ttl.map(|ttl| Instant::now() + ttl.max(LIST_TTL_MIN));
    *listed = Some(Listed { offers, fresh_until });
    Ok(tools)
}

fn made(link: &Arc<Link>, offers: &[Arc<Offer>]) -> Vec<Arc<dyn Tool>> {
    let tool = |offer| Arc::new(McpTool::new(offer, link)) as Arc<dyn Tool>;
    offers.iter().map(tool).collect()
}

type Pages = (Vec<Offered>, Option<Duration>);

async fn pages(link: &Arc<Link>, live: &Held) -> Result<Pages, Error> {
    let server = &link.server.name;
    let mut kept = Kept { server, scrub: &link.scrub, tools: Vec::new(), bytes: 0 };
    let mut ttl: Option<Duration> = None;
    let mut cursor: Option<String> = None;
    for _ in 0..LIST_PAGES_MAX {
        let page = page(link, live, cursor.clone()).await?;
        ttl = [ttl, page.ttl].into_iter().flatten().min();
        if !kept.take(page.tools) {
            return Ok((kept.tools, ttl));
        }
        match page.next {
            None => return Ok((kept.tools, ttl)),
            next if next == cursor => {
                tracing::warn!(server, "MCP server `{server}` sends a page of its tools again");
                return Ok((kept.tools, ttl));
            }
            next => cursor = next,
        }
    }
    tracing::warn!(server, "MCP server `{server}` has more than {LIST_PAGES_MAX} pages of tools");
    Ok((kept.tools, ttl))
}

/// What is kept of the pages, so that all of them together stay within bounds.
struct Kept<'a> {
    server: &'a str,
    scrub: &'a Scrub,
    tools: Vec<Offered>,
    bytes: usize,
}

impl Kept<'_> {
    /// Takes a page. False if there is no room for another.
    fn take(&mut self, page: Vec<Offered>) -> bool {
        let server = self.server;
        for tool in page {
            if self.tools.len() == TOOLS_MAX {
                tracing::warn!(server, "MCP server `{server}` has more than {TOOLS_MAX} tools");
                return false;
            }
            match trimmed(tool, self.scrub) {
                Ok((tool, bytes)) => {
                    self.bytes += bytes;
                    if self.bytes > LIST_BYTES_MAX {
                        tracing::warn!(server, "the tools of MCP server `{server}` are too large");
                        return false;
                    }
                    self.tools.push(tool);
                }
                Err(problem) => {
                    let problem = self.scrub.brief(problem);
                    tracing::warn!(
                        server,
                        "a tool of MCP server `{server}` is left out: {problem}"
                    );
                }
            }
        }
        true
    }
}

/// A tool without what is not used, and its size.
fn trimmed(mut tool: Offered, scrub: &Scrub) -> Result<(Offered, usize), String> {
    if tool.name.len() > TOOL_NAME_BYTES_MAX {
        return Err(format!("its name has {} bytes", tool.name.len()));
    }
    let schema = serde_json::to_string(&tool.input_schema).map_err(|error| error.to_string())?;
    if schema.len() > SCHEMA_BYTES_MAX {
        return Err(format!("the schema of `{}` has {} bytes", tool.name, schema.len()));
    }
    let title = tool.annotations.as_ref().and_then(|annotations| annotations.title.clone());
    let description = tool.description.take().map(Cow::into_owned);
    let mut description = description.or(tool.title.take()).or(title).unwrap_or_default();
    description = scrub.text(&description);
    description.truncate(description.floor_char_boundary(DESCRIPTION_BYTES_MAX));
    let bytes = schema.len() + description.len();
    tool.description = Some(Cow::Owned(description));
    (tool.output_schema, tool.icons, tool.meta) = (None, None, None);
    Ok((tool, bytes))
}

struct Page {
    tools: Vec<Offered>,
    next: Option<String>,
    ttl: Option<Duration>,
}

async fn page(link: &Arc<Link>, live: &Held, cursor: Option<String>) -> Result<Page, Error> {
    let mut request = ListToolsRequest::default();
    if cursor.is_some() {
        request.params = Some(PaginatedRequestParams::default().with_cursor(cursor));
    }
    let request = ClientRequest::ListToolsRequest(request);
    let sent = live.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let answer = match sent {
        Ok(handle) => handle.await_response().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(ServerResult::ListToolsResult(list)) => Ok(Page {
            tools: list.tools,
            next: list.next_cursor,
            ttl: list.ttl_ms.map(Duration::from_millis),
        }),
        // One tool that is wrong makes the whole list something else; the others are still good.
        Ok(ServerResult::CustomResult(result)) => {
            loose_page(&link.server.name, &link.scrub, result.0)
        }
        Ok(_) => Err(malformed(&link.server.name, "its list of tools is none")),
        // A server without tools need not know the question.
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
            Ok(Page { tools: Vec::new(), next: None, ttl: None })
        }
        Err(error) => Err(match call::failure(link, live, "tools/list", error).await {
            // Asking changes nothing, so there is nothing to doubt.
            Error::Unknown { server, reason, .. } => Error::Connect { server, reason },
            other => other,
        }),
    }
}

fn malformed(server: &str, problem: &str) -> Error {
    Error::Malformed { server: server.to_owned(), problem: problem.to_owned() }
}

/// A page of which something is wrong: what is right of it.
fn loose_page(server: &str, scrub: &Scrub, mut result: Value) -> Result<Page, Error> {
    let Some(Value::Array(tools)) = result.get_mut("tools").map(Value::take) else {
        return Err(malformed(server, "its list of tools is none"));
    };
    let parse = |tool: Value| match serde_json::from_value::<Offered>(tool) {
        Ok(tool) => Some(tool),
        Err(error) => {
            let error = scrub.brief(error.to_string());
            tracing::warn!(server, "a tool of MCP server `{server}` is left out: {error}");
            None
        }
    };
    let next = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let ttl = result.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis);
    Ok(Page { tools: tools.into_iter().take(TOOLS_MAX + 1).filter_map(parse).collect(), next, ttl })
}

/// Those that models can be offered.
fn usable(link: &Arc<Link>, offered: Vec<Offered>) -> Vec<Arc<Offer>> {
    let server = &link.server.name;
    let only = &link.server.only;
    let wanted = |tool: &Offered| only.is_empty() || only.iter().any(|name| *name == tool.name);
    let offered: Vec<Offered> = offered.into_iter().filter(wanted).collect();
    let raw: Vec<&str> = offered.iter().map(|tool| tool.name.as_ref()).collect();
    let names = public_names(server, &raw);
    let mut offers = Vec::with_capacity(offered.len());
    for (tool, name) in offered.into_iter().zip(names) {
        let made = name
            .ok_or_else(|| "another one has its name".to_owned())
            .and_then(|name| spec(link, name, &tool));
        let name = tool.name.into_owned();
        match made {
            Ok(spec) => offers.push(Arc::new(Offer { spec, name })),
            Err(problem) => {
                let (name, problem) = (link.scrub.text(&name), link.scrub.brief(problem));
                tracing::warn!(
                    server,
                    "tool `{name}` of MCP server `{server}` is left out: {problem}"
                );
            }
        }
    }
    offers
}

fn spec(link: &Arc<Link>, name: String, tool: &Offered) -> Result<ToolSpec, String> {
    let schema = Value::Object(tool.input_schema.as_ref().clone());
    let description = tool.description.as_deref().unwrap_or_default();
    let spec = ToolSpec::new(name, description, schema).map_err(|error| error.to_string())?;
    let server = &link.server;
    let effect = match server.trust_annotations {
        true => effect(tool.annotations.as_ref()),
        false => EffectClass::Opaque,
    };
    // Connecting again may come before the call.
    Ok(spec.effect(effect).timeout(server.connect_timeout + server.call_timeout + CALL_GRACE))
}

/// What a server says about repeating a call.
fn effect(annotations: Option<&ToolAnnotations>) -> EffectClass {
    let Some(hints) = annotations else {
        return EffectClass::Opaque;
    };
    match (hints.read_only_hint, hints.idempotent_hint) {
        (Some(true), _) => EffectClass::Pure,
        (_, Some(true)) => EffectClass::Idempotent,
        _ => EffectClass::Opaque,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hints_become_effects() {
        let hints = |read, idempotent| {
            let mut hints = ToolAnnotations::default();
            (hints.read_only_hint, hints.idempotent_hint) = (read, idempotent);
            effect(Some(&hints))
        };
        assert_eq!(hints(Some(true), None), EffectClass::Pure);
        assert_eq!(hints(Some(false), Some(true)), EffectClass::Idempotent);
        assert_eq!(hints(None, None), EffectClass::Opaque);
        assert_eq!(effect(None), EffectClass::Opaque);
    }

    #[test]
    fn a_list_is_kept_within_its_bytes() {
        let tool = |at: usize, size: usize| {
            let schema = json!({ "type": "object", "title": "x".repeat(size) });
            serde_json::from_value(json!({ "name": format!("t{at}"), "inputSchema": schema }))
        };
        let scrub = Scrub::default();
        let mut kept = Kept { server: "s", scrub: &scrub, tools: Vec::new(), bytes: 0 };
        let page = |size: usize| (0..50).map(|at| tool(at, size).unwrap()).collect();
        assert!(kept.take(page(SCHEMA_BYTES_MAX)));
        assert_eq!(kept.tools.len(), 0, "each is too large");
        assert!(kept.take(page(100_000)));
        assert!(!kept.take(page(100_000)));
        assert_eq!(kept.tools.len(), LIST_BYTES_MAX / 100_036);
    }

    #[test]
    fn what_is_right_of_a_page_stays() {
        let page = json!({ "tools": [
            { "name": "good", "inputSchema": { "type": "object" } },
            { "name": "bad", "inputSchema": "nonsense" },
            7,
        ], "nextCursor": "2" });
        let page = loose_page("s", &Scrub::default(), page).unwrap();
        assert_eq!(page.tools.len(), 1);
        assert_eq!(page.next.as_deref(), Some("2"));
        assert!(loose_page("s", &Scrub::default(), json!({ "tools": 1 })).is_err());
    }
}
