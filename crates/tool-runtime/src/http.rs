//! Tools behind one HTTP request that is built from templates.
//!
//! Invariants: arguments can change neither the host nor the other path segments, and cannot add headers; a response is
//! parsed as an envelope only if the definition declares it.

pub(crate) mod callback;
mod content;
pub(crate) mod envelope;
pub(crate) mod template;

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, header};
use provost_core::contract::{CONTRACT_VERSION, ToolContractError};
use provost_core::resource::{HttpMethod, HttpSpec, ToolResource, ToolType};
use provost_net::NetRequest;
use provost_tool::{ToolInvocation, ToolOutput, ToolRuntime};
use serde_json::Value;
use url::Url;

use crate::http::envelope::read_envelope;
use crate::limits;
use crate::transport::client::{self, AttemptContext, ToolHttpClient};
use crate::transport::error;
use template::Escape;

/// Headers that the connection or the runtime sets.
const RESERVED_HEADERS: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"];

/// Tool runtime for tools of type `http`: requests to a service, built from templates.
#[derive(Clone)]
pub struct HttpRuntime {
    client: ToolHttpClient,
}

impl HttpRuntime {
    /// Creates a runtime with these HTTP clients.
    pub fn new(client: ToolHttpClient) -> Self {
        Self { client }
    }
}

impl ToolRuntime for HttpRuntime {
    fn kind(&self) -> ToolType {
        ToolType::Http
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        self.client.check_network_policy(tool)?;
        Origin::of(tool)?;
        template::check(Escape::Url, "endpoint", &tool.endpoint)?;
        let Some(spec) = &tool.http else { return Ok(()) };
        for (name, text) in &spec.headers {
            header_name(name)?;
            template::check(Escape::None, &format!("http.headers.{name}"), text)?;
        }
        for (name, text) in &spec.query {
            template::check(Escape::None, &format!("http.query.{name}"), text)?;
        }
        if let Some(name) = &spec.idempotency_header {
            header_name(name)?;
        }
        match &spec.body {
            Some(body) => template::check(body_escape(spec), "http.body", body),
            None => Ok(()),
        }
    }

    fn invoke(
        &self,
        attempt: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let client = self.client.clone();
        let call = AttemptContext::from_invocation(&attempt);
        async move {
            let request = build_request(&call, &attempt.arguments, &attempt.effect_key)?;
            call.with_deadline(execute(&client, &call, request)).await
        }
        .boxed()
    }
}

/// Sends the request and converts the response. Returns an error if the status is not a success.
async fn execute(
    client: &ToolHttpClient,
    call: &AttemptContext,
    request: NetRequest,
) -> Result<ToolOutput, ToolContractError> {
    let url = request.url.clone();
    let is_head = request.method == Method::HEAD;
    let response = client.send(call, request).await?;
    if !client::is_success(response.status) {
        return Err(call.response_error(response).await);
    }
    let headers = response.headers.clone();
    if is_head {
        return Ok(content::headers_output(&headers));
    }
    let body = call.body(response).await?;
    if call.tool.http.as_ref().is_some_and(|spec| spec.envelope) {
        return read_envelope(&body, call);
    }
    Ok(content::to_output(&headers, &url, &body))
}

/// Builds the request of a call from the templates and the arguments. Returns an error if an argument is missing or a
/// header or the URL is invalid.
fn build_request(
    call: &AttemptContext,
    arguments: &Value,
    effect_key: &str,
) -> Result<NetRequest, ToolContractError> {
    let default = HttpSpec::default();
    let spec = call.tool.http.as_ref().unwrap_or(&default);
    let url = build_url(&call.tool, spec, arguments)?;
    let body = build_body(spec, arguments)?;
    let has_body = !body.is_empty();
    let mut request = call.request(method(spec.method), url, body)?;
    // Redirects of other methods would send another request than the permitted one.
    if matches!(spec.method, HttpMethod::Get | HttpMethod::Head) {
        request.redirects_max = limits::REDIRECTS_MAX;
    }
    let headers = &mut request.headers;
    if has_body {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    if spec.envelope {
        headers.insert(client::contract_header(), HeaderValue::from_static(CONTRACT_VERSION));
    }
    for (name, text) in &spec.headers {
        let field = format!("http.headers.{name}");
        let filled = template::render(Escape::None, &field, text, arguments)?;
        let name = header_name(name)?;
        if filled.is_empty() {
            headers.remove(&name);
        } else {
            headers.insert(name, header_value(&field, &filled)?);
        }
    }
    if let Some(name) = &spec.idempotency_header {
        headers.insert(header_name(name)?, header_value("the effect key", effect_key)?);
    }
    // Credentials are added last, so that no template can override them.
    call.authenticate(headers)?;
    Ok(request)
}

/// Parses the name of a header. Returns an error if it is invalid or reserved.
fn header_name(name: &str) -> Result<HeaderName, ToolContractError> {
    let invalid = |problem: &str| {
        let message = format!("header `{}` {problem}", error::truncate_for_error(name));
        error::invalid_definition(message).detail("field", "http.headers")
    };
    let parsed =
        HeaderName::try_from(name).ok().ok_or_else(|| invalid("is not a valid header name"))?;
    if RESERVED_HEADERS.contains(&parsed.as_str()) {
        return Err(invalid("is reserved for the connection: remove it"));
    }
    Ok(parsed)
}

/// Converts a text to a header value. Returns an error if it has a line break.
fn header_value(field: &str, text: &str) -> Result<HeaderValue, ToolContractError> {
    HeaderValue::try_from(text).map_err(|error| {
        error::invalid_input(format!(
            "`{field}` is not a valid header value, which must be a single line: {error}"
        ))
        .detail("field", field.to_owned())
    })
}

fn method(method: HttpMethod) -> Method {
    match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Delete => Method::DELETE,
        HttpMethod::Head => Method::HEAD,
    }
}

/// Returns true if requests of this method have a body.
fn has_body(method: HttpMethod) -> bool {
    matches!(method, HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch)
}

/// Returns the escaping of values in the body, which depends on the content type.
fn body_escape(spec: &HttpSpec) -> Escape {
    let kind = spec.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = kind.map_or("application/json", |(_, kind)| kind.as_str());
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/x-www-form-urlencoded" => Escape::Url,
        kind if kind == "application/json" || kind.ends_with("+json") => Escape::Json,
        _ => Escape::None,
    }
}

/// Builds the body from the template, or from the arguments if there is none. Returns an error if the result should be
/// JSON and is not valid.
fn build_body(spec: &HttpSpec, arguments: &Value) -> Result<Bytes, ToolContractError> {
    let Some(text) = &spec.body else {
        return Ok(match has_body(spec.method) {
            true => arguments.to_string().into(),
            false => Bytes::new(),
        });
    };
    let place = body_escape(spec);
    let filled = template::render(place, "http.body", text, arguments)?;
    if place == Escape::Json && !filled.trim().is_empty() {
        serde_json::from_str::<serde::de::IgnoredAny>(&filled).map_err(|error| {
            let fix = "values bring their own quotes: write `{\"name\": {{ name }}}`";
            error::invalid_definition(format!(
                "the template `http.body` does not result in valid JSON ({error}): {fix}"
            ))
            .detail("field", "http.body")
        })?;
    }
    Ok(if filled.trim().is_empty() { Bytes::new() } else { filled.into() })
}

/// Scheme, host and port of an endpoint, which must not contain templates, and the rest.
struct Origin<'a> {
    url: Url,
    text: &'a str,
    rest: &'a str,
}

impl<'a> Origin<'a> {
    /// Splits the endpoint of a tool. Returns an error if the origin has a template.
    fn of(tool: &'a ToolResource) -> Result<Self, ToolContractError> {
        let text = tool.endpoint.as_str();
        let start = text.find("://").map_or(0, |at| at + 3);
        let end = text[start..].find(['/', '?', '#', '\\']).map_or(text.len(), |at| start + at);
        let (origin, rest) = text.split_at(end);
        if template::is_template(origin) {
            let message = format!(
                "the endpoint of tool `{}` has a template in its scheme, host or port: use fixed values",
                tool.name
            );
            return Err(error::invalid_definition(message).detail("field", "endpoint"));
        }
        let url = client::parse_endpoint(&tool.name, origin)?;
        Ok(Self { url, text: origin, rest })
    }
}

/// Builds the URL from the template and the query parameters. Returns an error if an argument would change the path or
/// the origin.
fn build_url(
    tool: &ToolResource,
    spec: &HttpSpec,
    arguments: &Value,
) -> Result<Url, ToolContractError> {
    let origin = Origin::of(tool)?;
    let rest = template::render(Escape::Url, "endpoint", origin.rest, arguments)?;
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    // URL parsers decode percent-encoded dots, so encoding them does not help.
    if let Some(segment) = path.split(['/', '\\']).find(|segment| is_dots(segment)) {
        let message =
            format!("an argument results in the path segment `{segment}`, which changes the path");
        return Err(error::invalid_input(message).detail("field", "endpoint"));
    }
    let text = format!("{}{}", origin.text, rest.trim_end_matches(['?', '&']));
    let mut url = Url::parse(&text).map_err(|error| {
        error::invalid_input(format!("the endpoint is not a valid URL: {error}"))
    })?;
    if !is_same_origin(&url, &origin.url) || !url.username().is_empty() || url.password().is_some()
    {
        return Err(error::invalid_input("an argument changes the host of the endpoint"));
    }
    add_query(&mut url, &spec.query, arguments)?;
    if url.as_str().len() > limits::REQUEST_BYTES_MAX {
        return Err(error::invalid_input("the URL is too long"));
    }
    Ok(url)
}

fn is_same_origin(one: &Url, other: &Url) -> bool {
    let is_same_place =
        one.host() == other.host() && one.port_or_known_default() == other.port_or_known_default();
    is_same_place && one.scheme() == other.scheme()
}

/// Returns true if the segment means the current or the parent directory, also in encoded form.
fn is_dots(segment: &str) -> bool {
    const SPELLINGS: [&str; 6] = [".", "..", "%2e", ".%2e", "%2e.", "%2e%2e"];
    SPELLINGS.iter().any(|dots| segment.eq_ignore_ascii_case(dots))
}

/// Appends the query parameters. A parameter that renders to an empty text is omitted.
fn add_query(
    url: &mut Url,
    query: &BTreeMap<String, String>,
    arguments: &Value,
) -> Result<(), ToolContractError> {
    for (name, text) in query {
        let field = format!("http.query.{name}");
        let value = template::render(Escape::None, &field, text, arguments)?;
        if !value.is_empty() {
            url.query_pairs_mut().append_pair(name, &value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
