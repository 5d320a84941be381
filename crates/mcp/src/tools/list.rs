//! The tool list of a server, with limits. Tools that cannot be used are skipped.

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
use crate::connection::redaction::ServerRedaction;
use crate::connection::{ConnectionGuard, ServerConnection};
use crate::limits::{
    CALL_GRACE, DESCRIPTION_BYTES_MAX, LIST_BYTES_MAX, LIST_PAGES_MAX, LIST_TTL_MIN,
    SCHEMA_BYTES_MAX, TOOL_NAME_BYTES_MAX, TOOLS_MAX,
};
use crate::tools::call;
use crate::tools::name::public_names;
use crate::tools::tool::{McpTool, ServerTool};

/// Tool list of a server, with its expiration time.
pub(crate) struct ToolListCache {
    server_tools: Vec<Arc<ServerTool>>,
    fresh_until: Option<Instant>,
}

/// Returns the tools of a server. Requests the list if it was not requested, has expired, or the server reported a
/// change.
pub(crate) async fn list_tools(
    connection: &Arc<ServerConnection>,
) -> Result<Vec<Arc<dyn Tool>>, Error> {
    let active = connection.acquire().await?;
    let mut listed = active.listed.lock().await;
    let changed = active.monitor.take_changed();
    if let Some(list) = listed.as_ref()
        && !changed
        && list.fresh_until.is_none_or(|until| until > Instant::now())
    {
        return Ok(to_tools(connection, &list.server_tools));
    }
    *listed = None;
    let limit = connection.server.connect_timeout;
    let outcome = tokio::select! {
        biased;
        outcome = timeout(limit, fetch_pages(connection, &active)) => outcome,
        () = active.monitor.dead.cancelled() => {
            let (server, reason) = (connection.server.name.clone(), connection.redaction.excerpt(active.close_reason().await));
            return Err(Error::Connect { server, reason });
        }
    };
    let Ok(pages) = outcome else {
        let what = "list its tools".to_owned();
        return Err(Error::Timeout { server: connection.server.name.clone(), what, after: limit });
    };
    let (offered, ttl) = pages?;
    let server_tools = keep_valid(connection, offered);
    let tools = to_tools(connection, &server_tools);
    let fresh_until = ttl.map(|ttl| Instant::now() + ttl.max(LIST_TTL_MIN));
    *listed = Some(ToolListCache { server_tools, fresh_until });
    Ok(tools)
}

/// Creates a tool for each listed tool.
fn to_tools(
    connection: &Arc<ServerConnection>,
    server_tools: &[Arc<ServerTool>],
) -> Vec<Arc<dyn Tool>> {
    let tool = |server_tool| Arc::new(McpTool::new(server_tool, connection)) as Arc<dyn Tool>;
    server_tools.iter().map(tool).collect()
}

type Pages = (Vec<Offered>, Option<Duration>);

/// Requests all pages of the list, up to the limits. Also returns the shortest time to live.
async fn fetch_pages(
    connection: &Arc<ServerConnection>,
    active: &ConnectionGuard,
) -> Result<Pages, Error> {
    let server = &connection.server.name;
    let mut budget =
        PageBudget { server, redaction: &connection.redaction, tools: Vec::new(), bytes: 0 };
    let mut ttl: Option<Duration> = None;
    let mut cursor: Option<String> = None;
    for _ in 0..LIST_PAGES_MAX {
        let page = fetch_page(connection, active, cursor.clone()).await?;
        ttl = [ttl, page.ttl].into_iter().flatten().min();
        if !budget.take(page.tools) {
            return Ok((budget.tools, ttl));
        }
        match page.next {
            None => return Ok((budget.tools, ttl)),
            next if next == cursor => {
                tracing::warn!(server, "MCP server `{server}` repeats a page of its tools");
                return Ok((budget.tools, ttl));
            }
            next => cursor = next,
        }
    }
    tracing::warn!(server, "MCP server `{server}` has more than {LIST_PAGES_MAX} pages of tools");
    Ok((budget.tools, ttl))
}

/// Tools collected from the pages, limited in number and total size.
struct PageBudget<'a> {
    server: &'a str,
    redaction: &'a ServerRedaction,
    tools: Vec<Offered>,
    bytes: usize,
}

impl PageBudget<'_> {
    /// Adds the tools of a page. A tool that is too large is logged and dropped. Returns false if a limit is reached.
    fn take(&mut self, page: Vec<Offered>) -> bool {
        let server = self.server;
        for tool in page {
            if self.tools.len() == TOOLS_MAX {
                tracing::warn!(server, "MCP server `{server}` has more than {TOOLS_MAX} tools");
                return false;
            }
            match trim_tool(tool, self.redaction) {
                Ok((tool, bytes)) => {
                    self.bytes += bytes;
                    if self.bytes > LIST_BYTES_MAX {
                        tracing::warn!(
                            server,
                            "the tool list of MCP server `{server}` is too large"
                        );
                        return false;
                    }
                    self.tools.push(tool);
                }
                Err(problem) => {
                    let problem = self.redaction.excerpt(problem);
                    tracing::warn!(server, "tool of MCP server `{server}` skipped: {problem}");
                }
            }
        }
        true
    }
}

/// Removes the unused fields of a tool, redacts and cuts its description, and returns its size. Returns a message if
/// the name or the schema is too large.
fn trim_tool(mut tool: Offered, redaction: &ServerRedaction) -> Result<(Offered, usize), String> {
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
    description = redaction.redact_text(&description);
    description.truncate(description.floor_char_boundary(DESCRIPTION_BYTES_MAX));
    let bytes = schema.len() + description.len();
    tool.description = Some(Cow::Owned(description));
    (tool.output_schema, tool.icons, tool.meta) = (None, None, None);
    Ok((tool, bytes))
}

/// One page of the tool list.
struct ToolPage {
    tools: Vec<Offered>,
    next: Option<String>,
    ttl: Option<Duration>,
}

/// Requests one page of the list.
async fn fetch_page(
    connection: &Arc<ServerConnection>,
    active: &ConnectionGuard,
    cursor: Option<String>,
) -> Result<ToolPage, Error> {
    let mut request = ListToolsRequest::default();
    if cursor.is_some() {
        request.params = Some(PaginatedRequestParams::default().with_cursor(cursor));
    }
    let request = ClientRequest::ListToolsRequest(request);
    let sent =
        active.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let answer = match sent {
        Ok(handle) => handle.await_response().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(ServerResult::ListToolsResult(list)) => Ok(ToolPage {
            tools: list.tools,
            next: list.next_cursor,
            ttl: list.ttl_ms.map(Duration::from_millis),
        }),
        // One invalid tool turns the whole list into a custom result. The valid tools are kept.
        Ok(ServerResult::CustomResult(result)) => {
            parse_loose_page(&connection.server.name, &connection.redaction, result.0)
        }
        Ok(_) => Err(malformed_error(&connection.server.name, "the response is not a tool list")),
        // A server without tools may not implement the method.
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
            Ok(ToolPage { tools: Vec::new(), next: None, ttl: None })
        }
        Err(error) => Err(match call::call_error(connection, active, "tools/list", error).await {
            // Listing tools has no side effects, so an unknown outcome is a failed connection.
            Error::Unknown { server, reason, .. } => Error::Connect { server, reason },
            other => other,
        }),
    }
}

/// Creates the error of a response that violates the protocol.
fn malformed_error(server: &str, problem: &str) -> Error {
    Error::Malformed { server: server.to_owned(), problem: problem.to_owned() }
}

/// Parses a page with invalid tools, and keeps the valid ones. Invalid tools are logged.
fn parse_loose_page(
    server: &str,
    redaction: &ServerRedaction,
    mut result: Value,
) -> Result<ToolPage, Error> {
    let Some(Value::Array(tools)) = result.get_mut("tools").map(Value::take) else {
        return Err(malformed_error(server, "the response is not a tool list"));
    };
    let parse = |tool: Value| match serde_json::from_value::<Offered>(tool) {
        Ok(tool) => Some(tool),
        Err(error) => {
            let error = redaction.excerpt(error.to_string());
            tracing::warn!(server, "tool of MCP server `{server}` skipped: {error}");
            None
        }
    };
    let next = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let ttl = result.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis);
    Ok(ToolPage {
        tools: tools.into_iter().take(TOOLS_MAX + 1).filter_map(parse).collect(),
        next,
        ttl,
    })
}

/// Returns the allowed tools with unique names and valid schemas. Other tools are logged and dropped.
fn keep_valid(connection: &Arc<ServerConnection>, offered: Vec<Offered>) -> Vec<Arc<ServerTool>> {
    let server = &connection.server.name;
    let allowed = &connection.server.allowed_tools;
    let wanted =
        |tool: &Offered| allowed.is_empty() || allowed.iter().any(|name| *name == tool.name);
    let offered: Vec<Offered> = offered.into_iter().filter(wanted).collect();
    let raw: Vec<&str> = offered.iter().map(|tool| tool.name.as_ref()).collect();
    let names = public_names(server, &raw);
    let mut server_tools = Vec::with_capacity(offered.len());
    for (tool, name) in offered.into_iter().zip(names) {
        let spec = name
            .ok_or_else(|| "another tool has the same name".to_owned())
            .and_then(|name| tool_spec(connection, name, &tool));
        let name = tool.name.into_owned();
        match spec {
            Ok(spec) => server_tools.push(Arc::new(ServerTool { spec, name })),
            Err(problem) => {
                let (name, problem) = (
                    connection.redaction.redact_text(&name),
                    connection.redaction.excerpt(problem),
                );
                tracing::warn!(server, "tool `{name}` of MCP server `{server}` skipped: {problem}");
            }
        }
    }
    server_tools
}

/// Creates the specification of a tool. Its effect class is opaque, unless the annotations of the server are trusted.
fn tool_spec(
    connection: &Arc<ServerConnection>,
    name: String,
    tool: &Offered,
) -> Result<ToolSpec, String> {
    let schema = Value::Object(tool.input_schema.as_ref().clone());
    let description = tool.description.as_deref().unwrap_or_default();
    let spec = ToolSpec::new(name, description, schema).map_err(|error| error.to_string())?;
    let server = &connection.server;
    let effect = match server.trust_annotations {
        true => effect_from_annotations(tool.annotations.as_ref()),
        false => EffectClass::Opaque,
    };
    // The call may have to reconnect first.
    Ok(spec.effect(effect).timeout(server.connect_timeout + server.call_timeout + CALL_GRACE))
}

/// Returns the effect class from the server's annotations. Opaque without annotations.
fn effect_from_annotations(annotations: Option<&ToolAnnotations>) -> EffectClass {
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
            effect_from_annotations(Some(&hints))
        };
        assert_eq!(hints(Some(true), None), EffectClass::Pure);
        assert_eq!(hints(Some(false), Some(true)), EffectClass::Idempotent);
        assert_eq!(hints(None, None), EffectClass::Opaque);
        assert_eq!(effect_from_annotations(None), EffectClass::Opaque);
    }

    #[test]
    fn a_list_is_kept_within_its_bytes() {
        let tool = |at: usize, size: usize| {
            let schema = json!({ "type": "object", "title": "x".repeat(size) });
            serde_json::from_value(json!({ "name": format!("t{at}"), "inputSchema": schema }))
        };
        let redaction = ServerRedaction::default();
        let mut budget =
            PageBudget { server: "s", redaction: &redaction, tools: Vec::new(), bytes: 0 };
        let page = |size: usize| (0..50).map(|at| tool(at, size).unwrap()).collect();
        assert!(budget.take(page(SCHEMA_BYTES_MAX)));
        assert_eq!(budget.tools.len(), 0, "each is too large");
        assert!(budget.take(page(100_000)));
        assert!(!budget.take(page(100_000)));
        assert_eq!(budget.tools.len(), LIST_BYTES_MAX / 100_036);
    }

    #[test]
    fn what_is_right_of_a_page_stays() {
        let page = json!({ "tools": [
            { "name": "good", "inputSchema": { "type": "object" } },
            { "name": "bad", "inputSchema": "nonsense" },
            7,
        ], "nextCursor": "2" });
        let page = parse_loose_page("s", &ServerRedaction::default(), page).unwrap();
        assert_eq!(page.tools.len(), 1);
        assert_eq!(page.next.as_deref(), Some("2"));
        assert!(parse_loose_page("s", &ServerRedaction::default(), json!({ "tools": 1 })).is_err());
    }
}
