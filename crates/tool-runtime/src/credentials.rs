//! Credentials for tools: headers made of secrets.

mod oauth;
mod token_cache;

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use http::HeaderName;
use provost_core::contract::ToolContractError;
use provost_core::resource::{AuthProfile, ToolAuth};
use provost_core::{Env, Secret};
use provost_net::NetClient;
use provost_secret::{SecretError, SecretRef, Secrets};
use provost_tool::{Authenticator, Credentials};

pub use token_cache::TOKENS_MAX;

use oauth::{Client, Fetcher};
use token_cache::TokenCache;

/// One failure for all callers that waited for the same token.
type SharedError = Arc<SecretError>;

/// Headers that belong to the connection and not to whoever calls.
const HEADERS_REFUSED: [&str; 9] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "proxy-connection",
    "content-type",
];

/// Finds the credentials that tools need: bearer tokens, keys in headers, names with passwords, and tokens that are fetched with
/// a client's own credentials and kept until they end.
pub struct AuthInjector {
    secrets: Secrets,
    fetcher: Fetcher,
    tokens: TokenCache,
}

impl AuthInjector {
    /// Resolves with `secrets` and fetches tokens through `client`, whose policy says where from.
    pub fn new(secrets: Secrets, client: NetClient, env: Env) -> Self {
        Self {
            fetcher: Fetcher::new(client, secrets.clone()),
            secrets,
            tokens: TokenCache::new(env),
        }
    }

    async fn find(&self, namespace: &str, auth: &ToolAuth) -> Result<Credentials, SecretError> {
        let reference: SecretRef = auth.secret_ref.parse()?;
        let (name, value) = match auth.profile {
            AuthProfile::Bearer => {
                let value = self.secrets.get(namespace, &reference).await?;
                ("authorization".to_owned(), joined("Bearer ", value.expose().trim()))
            }
            AuthProfile::ApiKeyHeader => {
                let name = header_name(&auth.header_name, &reference)?;
                let value = self.secrets.get(namespace, &reference).await?;
                (name, Secret::from(value.expose().trim()))
            }
            AuthProfile::Basic => {
                let value = self.secrets.get(namespace, &reference).await?;
                ("authorization".to_owned(), self.basic(&reference, value.expose().trim())?)
            }
            AuthProfile::Oauth2ClientCredentials => {
                let client = self.client(namespace, &reference, auth).await?;
                let token = self.tokens.get(&client, &self.fetcher).await?;
                // Redaction forgets what was taught longest ago; what is handed out is in use, however long it has been kept.
                self.secrets.teach(&reference, &token)?;
                ("authorization".to_owned(), joined("Bearer ", token.expose()))
            }
        };
        check_value(&value, &reference)?;
        Ok(Credentials { headers: vec![(name, value)] })
    }

    fn basic(&self, reference: &SecretRef, value: &str) -> Result<Secret<String>, SecretError> {
        let Some((_, password)) = value.split_once(':') else {
            let problem = "it must be `name:password`";
            return Err(SecretError::Unusable { reference: reference.to_string(), problem });
        };
        // The password alone may be told as well. One that is too short to be known stands within the whole, which is known.
        if password.trim().len() >= provost_redact::VALUE_BYTES_MIN {
            self.secrets.teach(reference, &Secret::from(password))?;
        }
        Ok(joined("Basic ", &BASE64_STANDARD.encode(value)))
    }

    async fn client(
        &self,
        namespace: &str,
        reference: &SecretRef,
        auth: &ToolAuth,
    ) -> Result<Client, SecretError> {
        let id = self.secrets.get(namespace, &reference.with_key("client_id")).await?;
        let secret = self.secrets.get(namespace, &reference.with_key("client_secret")).await?;
        Client::new(reference.clone(), auth, id, secret)
    }
}

impl Authenticator for AuthInjector {
    fn credentials<'a>(
        &'a self,
        namespace: &'a str,
        auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>> {
        Box::pin(async move { self.find(namespace, auth).await.map_err(|error| error.fault()) })
    }

    fn evict<'a>(&'a self, namespace: &'a str, auth: &'a ToolAuth) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            if auth.profile != AuthProfile::Oauth2ClientCredentials {
                return false;
            }
            let Ok(reference) = auth.secret_ref.parse::<SecretRef>() else { return false };
            match self.client(namespace, &reference, auth).await {
                Ok(client) => self.tokens.evict(&client),
                Err(_) => false,
            }
        })
    }
}

impl std::fmt::Debug for AuthInjector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthInjector").finish_non_exhaustive()
    }
}

fn joined(scheme: &str, value: &str) -> Secret<String> {
    Secret::new(format!("{scheme}{value}"))
}

fn header_name(name: &str, reference: &SecretRef) -> Result<String, SecretError> {
    let unusable = |problem| SecretError::Unusable { reference: reference.to_string(), problem };
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .ok()
        .ok_or_else(|| unusable("`headerName` is no name of a header"))?;
    if HEADERS_REFUSED.contains(&name.as_str()) {
        return Err(unusable("`headerName` belongs to the connection; use another header"));
    }
    Ok(name.as_str().to_owned())
}

/// A line end in a value would end the header and begin another one.
fn check_value(value: &Secret<String>, reference: &SecretRef) -> Result<(), SecretError> {
    if value.expose().bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    let problem = "it has a line end or another character that no header takes";
    Err(SecretError::Unusable { reference: reference.to_string(), problem })
}

#[cfg(test)]
mod tests;
