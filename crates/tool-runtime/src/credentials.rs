//! Credentials of tools: headers with secret values.

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
use provost_secret::{SecretError, SecretRef, SecretService};
use provost_tool::{CredentialProvider, Credentials};

pub use token_cache::TOKENS_MAX;

use oauth::{Client, Fetcher};
use token_cache::TokenCache;

/// Error that all callers waiting for one token share.
type SharedError = Arc<SecretError>;

/// Headers that belong to the connection.
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

/// Resolves the credentials of tools: bearer tokens, API keys in headers, basic authentication, and cached OAuth tokens
/// from client credentials.
pub struct AuthInjector {
    secrets: SecretService,
    fetcher: Fetcher,
    tokens: TokenCache,
}

impl AuthInjector {
    /// Creates a provider with a source of secrets and an HTTP client for token requests.
    pub fn new(secrets: SecretService, client: NetClient, env: Env) -> Self {
        Self {
            fetcher: Fetcher::new(client, secrets.clone()),
            secrets,
            tokens: TokenCache::new(env),
        }
    }

    /// Returns the header with the credentials of a tool. Fetches a token if needed. Returns an error if a secret is
    /// missing or cannot be used.
    async fn resolve(&self, namespace: &str, auth: &ToolAuth) -> Result<Credentials, SecretError> {
        let reference: SecretRef = auth.secret_ref.parse()?;
        let (name, value) = match auth.profile {
            AuthProfile::Bearer => {
                let value = self.secrets.get(namespace, &reference).await?;
                ("authorization".to_owned(), with_scheme("Bearer ", value.expose().trim()))
            }
            AuthProfile::ApiKeyHeader => {
                let name = header_name(&auth.header_name, &reference)?;
                let value = self.secrets.get(namespace, &reference).await?;
                (name, Secret::from(value.expose().trim()))
            }
            AuthProfile::Basic => {
                let value = self.secrets.get(namespace, &reference).await?;
                ("authorization".to_owned(), self.basic_header(&reference, value.expose().trim())?)
            }
            AuthProfile::Oauth2ClientCredentials => {
                let client = self.oauth_client(namespace, &reference, auth).await?;
                let token = self.tokens.get(&client, &self.fetcher).await?;
                // The redactor evicts the oldest secrets, so a value in use is registered again.
                self.secrets.register(&reference, &token)?;
                ("authorization".to_owned(), with_scheme("Bearer ", token.expose()))
            }
        };
        check_value(&value, &reference)?;
        Ok(Credentials { headers: vec![(name, value)] })
    }

    /// Returns the value of a basic authentication header, and registers the password for redaction. Returns an error
    /// if the secret is not `name:password`.
    fn basic_header(
        &self,
        reference: &SecretRef,
        value: &str,
    ) -> Result<Secret<String>, SecretError> {
        let Some((_, password)) = value.split_once(':') else {
            let problem = "the value must be `name:password`";
            return Err(SecretError::Unusable { reference: reference.to_string(), problem });
        };
        // The password alone is registered as well. If it is too short for redaction, only the complete value is
        // registered.
        if password.trim().len() >= provost_redact::VALUE_BYTES_MIN {
            self.secrets.register(reference, &Secret::from(password))?;
        }
        Ok(with_scheme("Basic ", &BASE64_STANDARD.encode(value)))
    }

    /// Creates the OAuth client from the secrets of its id and secret.
    async fn oauth_client(
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

impl CredentialProvider for AuthInjector {
    fn credentials<'a>(
        &'a self,
        namespace: &'a str,
        auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>> {
        Box::pin(async move {
            self.resolve(namespace, auth).await.map_err(|error| error.to_contract_error())
        })
    }

    /// Removes the cached token after the service rejected it. Returns false if there is no other token to try.
    fn invalidate<'a>(&'a self, namespace: &'a str, auth: &'a ToolAuth) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            if auth.profile != AuthProfile::Oauth2ClientCredentials {
                return false;
            }
            let Ok(reference) = auth.secret_ref.parse::<SecretRef>() else { return false };
            match self.oauth_client(namespace, &reference, auth).await {
                Ok(client) => self.tokens.invalidate(&client),
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

/// Returns a header value of a scheme and a secret.
fn with_scheme(scheme: &str, value: &str) -> Secret<String> {
    Secret::new(format!("{scheme}{value}"))
}

/// Parses the name of a header. Returns an error if it is invalid or reserved.
fn header_name(name: &str, reference: &SecretRef) -> Result<String, SecretError> {
    let invalid = |problem| SecretError::Unusable { reference: reference.to_string(), problem };
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .ok()
        .ok_or_else(|| invalid("`headerName` is not a valid header name"))?;
    if HEADERS_REFUSED.contains(&name.as_str()) {
        return Err(invalid("`headerName` is reserved for the connection; use another header"));
    }
    Ok(name.as_str().to_owned())
}

/// Returns an error for a value with a line break or another character that is not allowed in headers. A line break
/// would inject another header.
fn check_value(value: &Secret<String>, reference: &SecretRef) -> Result<(), SecretError> {
    if value.expose().bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    let problem =
        "the value contains a line break or another character that is not allowed in headers";
    Err(SecretError::Unusable { reference: reference.to_string(), problem })
}

#[cfg(test)]
mod tests;
