//! OAuth for servers that require authorization: PKCE, discovery, registration and refresh.
//!
//! `rmcp` implements the protocol. This module provides the user's authorization, token storage, and an HTTP client
//! that does not follow server-provided names into the private network.

mod http;
mod session;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use provost_core::Secret;

pub(crate) use session::OAuthSession;

/// Default redirect URI. No process needs to listen there, because the [`Authorizer`] returns the final address.
const REDIRECT_DEFAULT: &str = "http://127.0.0.1:8976/callback";

/// Opens an authorization page for a user and returns the final address.
pub trait Authorizer: Send + Sync + 'static {
    /// Lets the user authorize the client on the page at `url`. Returns the complete address to which the authorization
    /// server redirected, or a message if the user did not authorize the client.
    fn authorize<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, String>>;
}

/// Stores the tokens of one server across restarts.
pub trait TokenStore: Send + Sync + 'static {
    /// Returns the stored tokens. `None` if there are none.
    fn load(&self) -> BoxFuture<'_, Result<Option<Secret<String>>, String>>;
    /// Replaces the stored tokens.
    fn save(&self, tokens: Secret<String>) -> BoxFuture<'_, Result<(), String>>;
    /// Removes the stored tokens.
    fn clear(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// Stores tokens in memory. They are lost when the process ends.
#[derive(Default)]
pub struct InMemoryTokenStore(Mutex<Option<Secret<String>>>);

impl InMemoryTokenStore {
    fn set(&self, tokens: Option<Secret<String>>) {
        *self.0.lock() = tokens;
    }
}

impl TokenStore for InMemoryTokenStore {
    fn load(&self) -> BoxFuture<'_, Result<Option<Secret<String>>, String>> {
        let tokens = self.0.lock().clone();
        Box::pin(std::future::ready(Ok(tokens)))
    }

    fn save(&self, tokens: Secret<String>) -> BoxFuture<'_, Result<(), String>> {
        self.set(Some(tokens));
        Box::pin(std::future::ready(Ok(())))
    }

    fn clear(&self) -> BoxFuture<'_, Result<(), String>> {
        self.set(None);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// How the client identifies itself to the authorization server.
#[derive(Clone, PartialEq)]
pub(crate) enum ClientIdentity {
    /// Registered manually in advance.
    Registered { id: String, secret: Option<Secret<String>> },
    /// Authorized with its id and secret, without a user.
    WithSecret { id: String, secret: Secret<String> },
    /// Registered dynamically, if the server allows it.
    Dynamic,
}

/// How the client of a server is authorized with OAuth.
///
/// ```
/// use provost_mcp::{McpServer, OAuth};
///
/// let server = McpServer::http("billing", "https://example.com/mcp")
///     .oauth(OAuth::client_credentials("reports", "its secret").scope("read"));
/// assert!(!format!("{server:?}").contains("its secret"));
/// ```
#[derive(Clone)]
pub struct OAuth {
    pub(crate) identity: ClientIdentity,
    pub(crate) document: Option<String>,
    pub(crate) redirect: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) authorizer: Option<Arc<dyn Authorizer>>,
    pub(crate) tokens: Arc<dyn TokenStore>,
    pub(crate) allow_private: bool,
    pub(crate) issuer: Option<String>,
    pub(crate) trust_server: bool,
}

impl OAuth {
    fn new(identity: ClientIdentity, authorizer: Option<Arc<dyn Authorizer>>) -> Self {
        Self {
            identity,
            document: None,
            redirect: REDIRECT_DEFAULT.to_owned(),
            scopes: Vec::new(),
            authorizer,
            tokens: Arc::new(InMemoryTokenStore::default()),
            allow_private: false,
            issuer: None,
            trust_server: false,
        }
    }

    /// Uses the authorization code flow: a user authorizes the client in a browser. The client registers dynamically if
    /// the server allows it.
    pub fn authorization_code(authorizer: impl Authorizer) -> Self {
        Self::new(ClientIdentity::Dynamic, Some(Arc::new(authorizer)))
    }

    /// Uses the client credentials flow: the program authorizes itself with its id and secret.
    pub fn client_credentials(id: impl Into<String>, secret: impl Into<Secret<String>>) -> Self {
        Self::new(ClientIdentity::WithSecret { id: id.into(), secret: secret.into() }, None)
    }

    /// Uses a client that was registered manually.
    #[must_use]
    pub fn client(mut self, id: impl Into<String>, secret: Option<Secret<String>>) -> Self {
        self.identity = ClientIdentity::Registered { id: id.into(), secret };
        self
    }

    /// Uses a client that a metadata document at this URL describes, for servers that accept one instead of a
    /// registration.
    #[must_use]
    pub fn client_metadata_url(mut self, url: impl Into<String>) -> Self {
        self.document = Some(url.into());
        self
    }

    /// Sets the redirect URI.
    #[must_use]
    pub fn redirect_uri(mut self, url: impl Into<String>) -> Self {
        self.redirect = url.into();
        self
    }

    /// Adds a scope to request, instead of the scopes that the server suggests.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// Sets the store for tokens.
    #[must_use]
    pub fn tokens(mut self, tokens: impl TokenStore) -> Self {
        self.tokens = Arc::new(tokens);
        self
    }

    /// Sets the authorization server that may receive the secret. By default only the origin of the MCP server may
    /// receive it.
    #[must_use]
    pub fn issuer(mut self, url: impl Into<String>) -> Self {
        self.issuer = Some(url.into());
        self
    }

    /// Lets the MCP server choose the authorization server that receives the secret. A malicious server can choose any.
    #[must_use]
    pub fn trust_server(mut self) -> Self {
        self.trust_server = true;
        self
    }

    /// Allows an authorization server in the private network.
    #[must_use]
    pub fn allow_private(mut self) -> Self {
        self.allow_private = true;
        self
    }
}

impl PartialEq for OAuth {
    /// Configurations with different token stores or authorizers must not share a connection.
    fn eq(&self, other: &Self) -> bool {
        let same_authorizer = match (&self.authorizer, &other.authorizer) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_authorizer
            && Arc::ptr_eq(&self.tokens, &other.tokens)
            && self.identity == other.identity
            && self.document == other.document
            && self.redirect == other.redirect
            && self.scopes == other.scopes
            && self.allow_private == other.allow_private
            && self.issuer == other.issuer
            && self.trust_server == other.trust_server
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}
