//! Tokens of one connection. They are fetched when requested and refreshed when expired, by one caller at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use provost_core::Secret;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest,
    AuthorizationSession, ClientCredentialsConfig, CredentialStore, ScopeUpgradeConfig,
    StoredCredentials, WWWAuthenticateParams,
};
use tokio::sync::Mutex;

use super::http::AuthHttpClient;
use super::{ClientIdentity, OAuth, TokenStore};
use crate::connection::redaction::ServerRedaction;

/// Timeout for the user's authorization.
const AUTHORIZATION_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum number of scope upgrades of a connection.
const UPGRADES_MAX: u32 = 1;

/// Tokens of one server. If several callers need a new token, the first one fetches it, and the others wait for it.
pub(crate) struct OAuthSession {
    url: String,
    oauth: OAuth,
    redaction: ServerRedaction,
    manager: Mutex<Option<AuthorizationManager>>,
}

impl OAuthSession {
    pub(crate) fn new(url: &str, oauth: OAuth, redaction: ServerRedaction) -> Self {
        Self { url: url.to_owned(), oauth, redaction, manager: Mutex::new(None) }
    }

    /// Returns the current token, and registers it for redaction. Refreshes an expired token. `None` if the client is
    /// not authorized yet.
    pub(crate) async fn token(&self) -> Result<Option<Secret<String>>, String> {
        let mut slot = self.manager.lock().await;
        let manager = self.manager(&mut slot).await?;
        match manager.get_access_token().await {
            Ok(token) => {
                let token = Secret::new(token);
                // Registered on every use, because the redactor evicts the oldest secrets.
                self.redaction.register(&token).map_err(|problem| problem.to_string())?;
                Ok(Some(token))
            }
            Err(AuthError::AuthorizationRequired) => Ok(None),
            Err(error) => Err(error_text(&error)),
        }
    }

    /// Fetches a new token after the server rejected `rejected`: refreshes it, or authorizes the client with its secret
    /// or by the user. Does nothing if the current token is already another one.
    pub(crate) async fn authorize(
        &self,
        challenge: &str,
        rejected: Option<&Secret<String>>,
    ) -> Result<(), String> {
        let mut slot = self.manager.lock().await;
        let manager = self.manager(&mut slot).await?;
        let now = manager.get_access_token().await.ok().map(Secret::new);
        if now.is_some() && now.as_ref() != rejected {
            // Another caller has already fetched a new token.
            return Ok(());
        }
        if now.is_some() && manager.refresh_token().await.is_ok() {
            return Ok(());
        }
        let resolution = manager
            .resolve_metadata_from_challenge(Some(challenge))
            .await
            .map_err(|error| error_text(&error))?;
        self.check_issuer(&resolution.metadata)?;
        manager.set_metadata(resolution.metadata);
        if let ClientIdentity::WithSecret { id, secret } = &self.oauth.identity {
            return self.authorize_with_secret(manager, id, secret).await;
        }
        let request = self.authorization_request();
        let Some(manager) = slot.take() else {
            return Err("the authorization is not initialized".to_owned());
        };
        match AuthorizationSession::new(manager, request).await {
            Ok(session) => {
                let done = self.authorize_with_user(&session).await;
                *slot = Some(session.auth_manager);
                done
            }
            Err((manager, error)) => {
                *slot = Some(manager);
                Err(error_text(&error))
            }
        }
    }

    /// Lets the user authorize the scopes that the server requires, and fetches a token with them. Returns an error if
    /// the client has a fixed secret.
    pub(crate) async fn request_scopes(&self, challenge: &str) -> Result<(), String> {
        let mut slot = self.manager.lock().await;
        let manager = self.manager(&mut slot).await?;
        if matches!(self.oauth.identity, ClientIdentity::WithSecret { .. }) {
            return Err("the server requires more scopes than the client has".to_owned());
        }
        let base = provost_net::Url::parse(&self.url).map_err(|error| error.to_string())?;
        let scope = WWWAuthenticateParams::parse(challenge, &base).scope.unwrap_or_default();
        let url =
            manager.request_scope_upgrade(&scope).await.map_err(|error| error_text(&error))?;
        let Some(manager) = slot.take() else {
            return Err("the authorization is not initialized".to_owned());
        };
        let session = AuthorizationSession::for_scope_upgrade(manager, url, &self.oauth.redirect);
        let done = self.authorize_with_user(&session).await;
        *slot = Some(session.auth_manager);
        done
    }

    /// Returns the authorization manager. The first call creates it and loads the stored tokens.
    async fn manager<'a>(
        &self,
        slot: &'a mut Option<AuthorizationManager>,
    ) -> Result<&'a mut AuthorizationManager, String> {
        if slot.is_none() {
            let client = Arc::new(AuthHttpClient::new(&self.url, self.oauth.allow_private)?);
            let mut manager = AuthorizationManager::new_with_oauth_http_client(&*self.url, client)
                .await
                .map_err(|error| error_text(&error))?;
            let tokens = Arc::clone(&self.oauth.tokens);
            manager.set_credential_store(TokenStoreAdapter {
                tokens,
                redaction: self.redaction.clone(),
            });
            let mut upgrades = ScopeUpgradeConfig::default();
            upgrades.max_upgrade_attempts = UPGRADES_MAX;
            manager.set_scope_upgrade_config(upgrades);
            // Stored tokens may belong to another server. Then a new token is fetched on demand.
            if let Err(error) = manager.initialize_from_store().await {
                tracing::debug!(%error, "stored tokens cannot be used");
            }
            *slot = Some(manager);
        }
        slot.as_mut().ok_or_else(|| "the authorization is not initialized".to_owned())
    }

    /// Returns an error if the client secret would be sent to an authorization server that only the MCP server names.
    fn check_issuer(&self, metadata: &AuthorizationMetadata) -> Result<(), String> {
        let has_secret = match &self.oauth.identity {
            ClientIdentity::WithSecret { .. } => true,
            ClientIdentity::Registered { secret, .. } => secret.is_some(),
            ClientIdentity::Dynamic => false,
        };
        if !has_secret || self.oauth.trust_server {
            return Ok(());
        }
        let origin = |text: &str| provost_net::Url::parse(text).ok().map(|url| url.origin());
        let issuer = self.oauth.issuer.as_deref();
        let is_named = issuer.is_none_or(|issuer| metadata.issuer.as_deref() == Some(issuer));
        let token_origin = origin(&metadata.token_endpoint);
        if is_named && token_origin.is_some() && token_origin == origin(issuer.unwrap_or(&self.url))
        {
            return Ok(());
        }
        Err("the server names an authorization server that the client secret is not for: set its address with `.issuer(..)`".to_owned())
    }

    /// Creates the request with the configured scopes and client.
    fn authorization_request(&self) -> AuthorizationRequest {
        let mut request = AuthorizationRequest::new(&self.oauth.redirect)
            .with_initial_scope_selection()
            .with_client_name("Provost");
        if !self.oauth.scopes.is_empty() {
            request = request.with_scopes(self.oauth.scopes.iter().cloned());
        }
        if let Some(document) = &self.oauth.document {
            request = request.with_client_metadata_url(document);
        }
        if let ClientIdentity::Registered { id, secret } = &self.oauth.identity {
            request = request.with_preregistered_client(id);
            if let Some(secret) = secret {
                request = request.with_client_secret(secret.expose());
            }
        }
        request
    }

    /// Lets the user authorize the client, and exchanges the code for a token. Returns an error if no authorizer is
    /// configured.
    async fn authorize_with_user(&self, session: &AuthorizationSession) -> Result<(), String> {
        let Some(authorizer) = &self.oauth.authorizer else {
            return Err(
                "the server requires authorization by a user, but no authorizer is configured"
                    .to_owned(),
            );
        };
        let authorization = authorizer.authorize(session.get_authorization_url());
        let ended = tokio::time::timeout(AUTHORIZATION_TIMEOUT, authorization)
            .await
            .map_err(|_late| "the user did not authorize in time".to_owned())??;
        session.handle_callback_url(&ended).await.map_err(|error| error_text(&error))?;
        Ok(())
    }

    /// Exchanges the client id and secret for a token.
    async fn authorize_with_secret(
        &self,
        manager: &mut AuthorizationManager,
        id: &str,
        secret: &Secret<String>,
    ) -> Result<(), String> {
        let scopes = match self.oauth.scopes.as_slice() {
            [] => manager.select_initial_scopes(&[]).await,
            chosen => chosen.to_vec(),
        };
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: id.to_owned(),
            client_secret: secret.expose().clone(),
            scopes,
            resource: Some(self.url.clone()),
        };
        manager
            .validate_client_credentials_metadata(&config)
            .map_err(|error| error_text(&error))?;
        manager.configure_client_credentials(&config).map_err(|error| error_text(&error))?;
        manager.exchange_client_credentials(&config).await.map_err(|error| error_text(&error))?;
        Ok(())
    }
}

/// Returns the text of an error. It may be long.
fn error_text(error: &AuthError) -> String {
    error.to_string()
}

/// Adapts a [`TokenStore`] to `rmcp`. The credentials are stored as one JSON text.
struct TokenStoreAdapter {
    tokens: Arc<dyn TokenStore>,
    redaction: ServerRedaction,
}

impl TokenStoreAdapter {
    /// Registers the access token and the refresh token in the JSON for redaction. An error is logged.
    fn register(&self, text: &str) {
        let Ok(credentials) = serde_json::from_str::<serde_json::Value>(text) else { return };
        let response = &credentials["token_response"];
        for token in [&response["access_token"], &response["refresh_token"]] {
            // A token that is too short for redaction is rejected when it is used.
            if let Some(token) = token.as_str()
                && let Err(problem) = self.redaction.register(&Secret::from(token))
            {
                tracing::debug!(%problem, "stored token cannot be registered for redaction");
            }
        }
    }
}

#[async_trait]
impl CredentialStore for TokenStoreAdapter {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let Some(text) = self.tokens.load().await.map_err(AuthError::CredentialStoreError)? else {
            return Ok(None);
        };
        self.register(text.expose());
        serde_json::from_str(text.expose()).map(Some).map_err(|_bad| {
            AuthError::CredentialStoreError("the stored tokens cannot be read".to_owned())
        })
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_string(&credentials)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        self.register(&text);
        self.tokens.save(Secret::new(text)).await.map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.tokens.clear().await.map_err(AuthError::CredentialStoreError)
    }
}
