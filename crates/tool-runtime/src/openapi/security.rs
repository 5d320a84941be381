//! Conversion of the security requirements of an operation into tool authentication.

use provost_core::resource::{AuthProfile, ToolAuth};
use serde_json::Value;

use super::ImportContext;

/// Returns the first supported authentication of an operation. `None` if it requires none. Returns a reason if no
/// alternative is supported.
pub(crate) fn operation_auth(
    context: &ImportContext<'_>,
    operation: &Value,
) -> Result<Option<ToolAuth>, String> {
    let security = operation.get("security").or_else(|| context.document.get("security"));
    let Some(Value::Array(alternatives)) = security else {
        return Ok(None);
    };
    let mut problems = Vec::new();
    for alternative in alternatives {
        let Value::Object(schemes) = alternative else { continue };
        let mut schemes = schemes.iter();
        let Some((name, scopes)) = schemes.next() else {
            return Ok(None);
        };
        if schemes.next().is_some() {
            problems.push("combined security schemes are not supported".to_owned());
            continue;
        }
        match scheme_auth(context, name, scopes) {
            Ok(auth) => return Ok(Some(auth)),
            Err(reason) => problems.push(reason),
        }
    }
    match problems.into_iter().next() {
        Some(reason) => Err(reason),
        None => Ok(None),
    }
}

/// Converts a security scheme. Returns a reason if it is not supported.
fn scheme_auth(
    context: &ImportContext<'_>,
    name: &str,
    scopes: &Value,
) -> Result<ToolAuth, String> {
    let name_excerpt = crate::transport::error::truncate_for_error(name);
    let scheme = context.document.get("components").and_then(|all| all.get("securitySchemes"));
    let scheme = scheme.and_then(|all| all.get(name));
    let scheme =
        scheme.ok_or_else(|| format!("security scheme `{name_excerpt}` is not defined"))?;
    let scheme = context.resolver.follow(scheme)?;
    let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
    let secret = context.options.secrets.get(name).cloned().unwrap_or_else(|| name.to_owned());
    let mut auth = ToolAuth { secret_ref: secret, ..ToolAuth::default() };
    match (text("type"), text("scheme").to_ascii_lowercase().as_str(), text("in")) {
        ("http", "bearer", _) | ("openIdConnect", _, _) => {}
        ("http", "basic", _) => auth.profile = AuthProfile::Basic,
        ("apiKey", _, "header") => {
            auth.profile = AuthProfile::ApiKeyHeader;
            auth.header_name = text("name").to_owned();
        }
        ("oauth2", _, _) => apply_oauth(context, scheme, scopes, &mut auth)?,
        (kind, word, place) => {
            return Err(format!(
                "security scheme `{name_excerpt}` ({}) is not supported",
                crate::transport::error::truncate_for_error(&format!("{kind} {word} {place}"))
            ));
        }
    }
    Ok(auth)
}

/// Sets the client credentials flow of a scheme. For other flows, the secret contains a token.
fn apply_oauth(
    context: &ImportContext<'_>,
    scheme: &Value,
    scopes: &Value,
    auth: &mut ToolAuth,
) -> Result<(), String> {
    let Some(flow) = scheme.pointer("/flows/clientCredentials") else {
        return Ok(());
    };
    let url = flow.get("tokenUrl").and_then(Value::as_str).unwrap_or_default();
    let url = context.base.join(url).map_err(|error| format!("its token URL: {error}"))?;
    auth.profile = AuthProfile::Oauth2ClientCredentials;
    auth.token_url = url.into();
    let scopes = scopes.as_array().into_iter().flatten().filter_map(Value::as_str);
    auth.scopes = scopes.map(str::to_owned).collect();
    Ok(())
}
