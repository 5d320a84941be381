//! The tokens of one connection: fetched when they are asked for, refreshed when they are old, by one caller at a time.

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

use super::http::Wire;
use super::{Identity, OAuth, TokenStore};
use crate::connection::redaction::Scrub;

/// How long a person may take.
const PERSON_TIMEOUT: Duration = Duration::from_secs(300);
/// How often a connection may ask for more scopes.
const UPGRADES_MAX: u32 = 1;

/// Who we are to one server. Callers share it; whoever comes while another is at it waits and takes what came of it.
pub(crate) struct OAuthSession {
    url: String,
    oauth: OAuth,
    scrub: Scrub,
    manager: Mutex<Option<AuthorizationManager>>,
}

impl OAuthSession {
    pub(crate) fn new(url: &str, oauth: OAuth, scrub: Scrub) -> Self {
        Self { url: url.to_owned(), oauth, scrub, manager: Mutex::new(None) }
    }

    /// The token to send, if there is one.
    pub(crate) async fn token(&self) -> Result<Option<Secret<String>>, String> {
        let mut held = self.manager.lock().await;
        let manager = self.ready(&mut held).await?;
        match manager.get_access_token().await {
            Ok(token) => {
                let token = Secret::new(token);
                // Known whenever it is handed out, and not only when it is fetched.
                self.scrub.learn(&token).map_err(|problem| problem.to_string())?;
                Ok(Some(token))
            }
            Err(AuthError::AuthorizationRequired) => Ok(None),
            Err(error) => Err(told(&error)),
        }
    }

    /// Gets a token after a server refused the one that was sent.
    pub(crate) async fn authorize(
        &self,
        challenge: &str,
        refused: Option<&Secret<String>>,
    ) -> Result<(), String> {
        let mut held = self.manager.lock().await;
        let manager = self.ready(&mut held).await?;
        let now = manager.get_access_token().await.ok().map(Secret::new);
        if now.is_some() && now.as_ref() != refused {
            // Somebody else was faster.
            return Ok(());
        }
        if now.is_some() && manager.refresh_token().await.is_ok() {
            return Ok(());
        }
        let resolution = manager
            .resolve_metadata_from_challenge(Some(challenge))
            .await
            .map_err(|error| told(&error))?;
        self.check_issuer(&resolution.metadata)?;
        manager.set_metadata(resolution.metadata);
        if let Identity::Program { id, secret } = &self.oauth.identity {
            return self.as_program(manager, id, secret).await;
        }
        let request = self.request();
        let Some(manager) = held.take() else {
            return Err("the authorization is not ready".to_owned());
        };
        match AuthorizationSession::new(manager, request).await {
            Ok(session) => {
                let done = self.with_person(&session).await;
                *held = Some(session.auth_manager);
                done
            }
            Err((manager, error)) => {
                *held = Some(manager);
                Err(told(&error))
            }
        }
    }

    /// Gets a token with more scopes after a server said that ours has too few.
    pub(crate) async fn upgrade(&self, challenge: &str) -> Result<(), String> {
        let mut held = self.manager.lock().await;
        let manager = self.ready(&mut held).await?;
        if matches!(self.oauth.identity, Identity::Program { .. }) {
            return Err("the server wants more scopes than the program has".to_owned());
        }
        let base = provost_net::Url::parse(&self.url).map_err(|error| error.to_string())?;
        let wanted = WWWAuthenticateParams::parse(challenge, &base).scope.unwrap_or_default();
        let url = manager.request_scope_upgrade(&wanted).await.map_err(|error| told(&error))?;
        let Some(manager) = held.take() else {
            return Err("the authorization is not ready".to_owned());
        };
        let session = AuthorizationSession::for_scope_upgrade(manager, url, &self.oauth.redirect);
        let done = self.with_person(&session).await;
        *held = Some(session.auth_manager);
        done
    }

    /// The manager, made when it is first needed, with what was kept.
    async fn ready<'a>(
        &self,
        held: &'a mut Option<AuthorizationManager>,
    ) -> Result<&'a mut AuthorizationManager, String> {
        if held.is_none() {
            let wire = Arc::new(Wire::new(&self.url, self.oauth.allow_private)?);
            let mut manager = AuthorizationManager::new_with_oauth_http_client(&*self.url, wire)
                .await
                .map_err(|error| told(&error))?;
            let tokens = Arc::clone(&self.oauth.tokens);
            manager.set_credential_store(Kept { tokens, scrub: self.scrub.clone() });
            let mut upgrades = ScopeUpgradeConfig::default();
            upgrades.max_upgrade_attempts = UPGRADES_MAX;
            manager.set_scope_upgrade_config(upgrades);
            // What was kept may be of a server that is gone: then a new token is fetched when it is asked for.
            if let Err(error) = manager.initialize_from_store().await {
                tracing::debug!(%error, "the tokens that were kept are of no use");
            }
            *held = Some(manager);
        }
        held.as_mut().ok_or_else(|| "the authorization is not ready".to_owned())
    }

    /// Our secret goes to whom it is for, and not to whomever a server names.
    fn check_issuer(&self, metadata: &AuthorizationMetadata) -> Result<(), String> {
        let has_secret = match &self.oauth.identity {
            Identity::Program { .. } => true,
            Identity::Registered { secret, .. } => secret.is_some(),
            Identity::Dynamic => false,
        };
        if !has_secret || self.oauth.trust_server {
            return Ok(());
        }
        let origin = |text: &str| provost_net::Url::parse(text).ok().map(|url| url.origin());
        let wanted = self.oauth.issuer.as_deref();
        let named = wanted.is_none_or(|wanted| metadata.issuer.as_deref() == Some(wanted));
        let token_origin = origin(&metadata.token_endpoint);
        if named && token_origin.is_some() && token_origin == origin(wanted.unwrap_or(&self.url)) {
            return Ok(());
        }
        Err("the server names an authorization server that our secret is not for: give its address with `.issuer(..)`".to_owned())
    }

    fn request(&self) -> AuthorizationRequest {
        let mut request = AuthorizationRequest::new(&self.oauth.redirect)
            .with_initial_scope_selection()
            .with_client_name("Provost");
        if !self.oauth.scopes.is_empty() {
            request = request.with_scopes(self.oauth.scopes.iter().cloned());
        }
        if let Some(document) = &self.oauth.document {
            request = request.with_client_metadata_url(document);
        }
        if let Identity::Registered { id, secret } = &self.oauth.identity {
            request = request.with_preregistered_client(id);
            if let Some(secret) = secret {
                request = request.with_client_secret(secret.expose());
            }
        }
        request
    }

    async fn with_person(&self, session: &AuthorizationSession) -> Result<(), String> {
        let Some(person) = &self.oauth.person else {
            return Err("the server wants a person to say yes, and nobody can be asked".to_owned());
        };
        let asked = person.authorize(session.get_authorization_url());
        let ended = tokio::time::timeout(PERSON_TIMEOUT, asked)
            .await
            .map_err(|_late| "nobody said yes in time".to_owned())??;
        session.handle_callback_url(&ended).await.map_err(|error| told(&error))?;
        Ok(())
    }

    async fn as_program(
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
        manager.validate_client_credentials_metadata(&config).map_err(|error| told(&error))?;
        manager.configure_client_credentials(&config).map_err(|error| told(&error))?;
        manager.exchange_client_credentials(&config).await.map_err(|error| told(&error))?;
        Ok(())
    }
}

/// What a failure says; long texts of servers are cut by whoever shows it.
fn told(error: &AuthError) -> String {
    error.to_string()
}

/// Our store, as `rmcp` wants it: the tokens are one text.
struct Kept {
    tokens: Arc<dyn TokenStore>,
    scrub: Scrub,
}

impl Kept {
    /// Teaches the tokens in the text: the one for new ones is sent as well.
    fn learn(&self, text: &str) {
        let Ok(kept) = serde_json::from_str::<serde_json::Value>(text) else { return };
        let answer = &kept["token_response"];
        for token in [&answer["access_token"], &answer["refresh_token"]] {
            // One that is too short to be known is refused when it is handed out.
            if let Some(token) = token.as_str()
                && let Err(problem) = self.scrub.learn(&Secret::from(token))
            {
                tracing::debug!(%problem, "a token that was kept cannot be kept out of texts");
            }
        }
    }
}

#[async_trait]
impl CredentialStore for Kept {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let Some(text) = self.tokens.load().await.map_err(AuthError::CredentialStoreError)? else {
            return Ok(None);
        };
        self.learn(text.expose());
        serde_json::from_str(text.expose()).map(Some).map_err(|_bad| {
            AuthError::CredentialStoreError("the tokens that were kept cannot be read".to_owned())
        })
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_string(&credentials)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        self.learn(&text);
        self.tokens.save(Secret::new(text)).await.map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.tokens.clear().await.map_err(AuthError::CredentialStoreError)
    }
}
