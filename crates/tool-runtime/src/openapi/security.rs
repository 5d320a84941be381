//! The security of an operation as the auth of a tool.

use provost_core::resource::{AuthProfile, ToolAuth};
use serde_json::Value;

use super::Reading;

/// How an operation is authenticated: by the first of its alternatives that can be honoured.
pub(crate) fn of(reading: &Reading<'_>, operation: &Value) -> Result<Option<ToolAuth>, String> {
    let security = operation.get("security").or_else(|| reading.document.get("security"));
    let Some(Value::Array(alternatives)) = security else {
        return Ok(None);
    };
    let mut refused = Vec::new();
    for alternative in alternatives {
        let Value::Object(schemes) = alternative else { continue };
        let mut schemes = schemes.iter();
        let Some((name, scopes)) = schemes.next() else {
            return Ok(None);
        };
        if schemes.next().is_some() {
            refused.push("several security schemes at once are not supported".to_owned());
            continue;
        }
        match one(reading, name, scopes) {
            Ok(auth) => return Ok(Some(auth)),
            Err(why) => refused.push(why),
        }
    }
    match refused.into_iter().next() {
        Some(why) => Err(why),
        None => Ok(None),
    }
}

fn one(reading: &Reading<'_>, name: &str, scopes: &Value) -> Result<ToolAuth, String> {
    let shown = crate::transport::fault::shown(name);
    let scheme = reading.document.get("components").and_then(|all| all.get("securitySchemes"));
    let scheme = scheme.and_then(|all| all.get(name));
    let scheme = scheme.ok_or_else(|| format!("security scheme `{shown}` is not described"))?;
    let scheme = reading.resolver.follow(scheme)?;
    let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
    let secret = reading.options.secrets.get(name).cloned().unwrap_or_else(|| name.to_owned());
    let mut auth = ToolAuth { secret_ref: secret, ..ToolAuth::default() };
    match (text("type"), text("scheme").to_ascii_lowercase().as_str(), text("in")) {
        ("http", "bearer", _) | ("openIdConnect", _, _) => {}
        ("http", "basic", _) => auth.profile = AuthProfile::Basic,
        ("apiKey", _, "header") => {
            auth.profile = AuthProfile::ApiKeyHeader;
            auth.header_name = text("name").to_owned();
        }
        ("oauth2", _, _) => oauth(reading, scheme, scopes, &mut auth)?,
        (kind, word, place) => {
            return Err(format!(
                "security scheme `{shown}` ({}) is not supported",
                crate::transport::fault::shown(&format!("{kind} {word} {place}"))
            ));
        }
    }
    Ok(auth)
}

/// A token is fetched where that needs nobody; with any other flow somebody has put one among the secrets.
fn oauth(
    reading: &Reading<'_>,
    scheme: &Value,
    scopes: &Value,
    auth: &mut ToolAuth,
) -> Result<(), String> {
    let Some(flow) = scheme.pointer("/flows/clientCredentials") else {
        return Ok(());
    };
    let url = flow.get("tokenUrl").and_then(Value::as_str).unwrap_or_default();
    let url = reading.base.join(url).map_err(|error| format!("its token URL: {error}"))?;
    auth.profile = AuthProfile::Oauth2ClientCredentials;
    auth.token_url = url.into();
    let scopes = scopes.as_array().into_iter().flatten().filter_map(Value::as_str);
    auth.scopes = scopes.map(str::to_owned).collect();
    Ok(())
}
