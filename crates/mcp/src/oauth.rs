//! Servers that want to know who calls: OAuth with PKCE, discovery, registration and refresh.
//!
//! `rmcp` knows the protocol. Here is what it needs from the outside: a person who says yes, a place for tokens, and a way to
//! the network that cannot be led inside.

mod http;
mod session;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use provost_core::Secret;

pub(crate) use session::OAuthSession;

/// Where a browser is sent after a person said yes, if nothing else is said. Nothing has to listen there: whoever takes the
/// person to the page also reads where it ends.
const REDIRECT_DEFAULT: &str = "http://127.0.0.1:8976/callback";

/// Takes a person to a page and brings back the address that the page ended at.
pub trait Authorize: Send + Sync + 'static {
    /// Shows the page at `url`. Gives the whole address that the authorization server redirected to, or why there is none.
    fn authorize<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, String>>;
}

/// Keeps the tokens of one server between runs of the program.
pub trait TokenStore: Send + Sync + 'static {
    /// What was kept last.
    fn load(&self) -> BoxFuture<'_, Result<Option<Secret<String>>, String>>;
    /// Keeps this instead.
    fn save(&self, tokens: Secret<String>) -> BoxFuture<'_, Result<(), String>>;
    /// Keeps nothing.
    fn clear(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// Keeps tokens as long as the program runs.
#[derive(Default)]
pub struct MemoryTokens(Mutex<Option<Secret<String>>>);

impl MemoryTokens {
    fn set(&self, tokens: Option<Secret<String>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
    }
}

impl TokenStore for MemoryTokens {
    fn load(&self) -> BoxFuture<'_, Result<Option<Secret<String>>, String>> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
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

/// Who the client is.
#[derive(Clone, PartialEq)]
pub(crate) enum Identity {
    /// Registered before, by hand.
    Registered { id: String, secret: Option<Secret<String>> },
    /// A program without a person: its own id and secret are enough.
    Program { id: String, secret: Secret<String> },
    /// Registers itself where the server lets it.
    Dynamic,
}

/// How a client proves itself to a server that wants OAuth.
///
/// ```
/// use provost_mcp::{McpServer, OAuth};
///
/// let server = McpServer::http("billing", "https://example.com/mcp")
///     .oauth(OAuth::program("reports", "its secret").scope("read"));
/// assert!(!format!("{server:?}").contains("its secret"));
/// ```
#[derive(Clone)]
pub struct OAuth {
    pub(crate) identity: Identity,
    pub(crate) document: Option<String>,
    pub(crate) redirect: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) person: Option<Arc<dyn Authorize>>,
    pub(crate) tokens: Arc<dyn TokenStore>,
    pub(crate) allow_private: bool,
    pub(crate) issuer: Option<String>,
    pub(crate) trust_server: bool,
}

impl OAuth {
    fn new(identity: Identity, person: Option<Arc<dyn Authorize>>) -> Self {
        Self {
            identity,
            document: None,
            redirect: REDIRECT_DEFAULT.to_owned(),
            scopes: Vec::new(),
            person,
            tokens: Arc::new(MemoryTokens::default()),
            allow_private: false,
            issuer: None,
            trust_server: false,
        }
    }

    /// A person says yes in a browser; the client registers itself where the server lets it.
    pub fn person(person: impl Authorize) -> Self {
        Self::new(Identity::Dynamic, Some(Arc::new(person)))
    }

    /// A program that proves itself with an id and a secret of its own, without a person.
    pub fn program(id: impl Into<String>, secret: impl Into<Secret<String>>) -> Self {
        Self::new(Identity::Program { id: id.into(), secret: secret.into() }, None)
    }

    /// Uses a client that was registered by hand.
    #[must_use]
    pub fn registered(mut self, id: impl Into<String>, secret: Option<Secret<String>>) -> Self {
        self.identity = Identity::Registered { id: id.into(), secret };
        self
    }

    /// The address of a document that describes the client, for servers that take one instead of a registration.
    #[must_use]
    pub fn document(mut self, url: impl Into<String>) -> Self {
        self.document = Some(url.into());
        self
    }

    /// Where the browser is sent afterwards.
    #[must_use]
    pub fn redirect(mut self, url: impl Into<String>) -> Self {
        self.redirect = url.into();
        self
    }

    /// Asks for this scope instead of what the server suggests.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// Keeps tokens here.
    #[must_use]
    pub fn tokens(mut self, tokens: impl TokenStore) -> Self {
        self.tokens = Arc::new(tokens);
        self
    }

    /// The authorization server that our secret is for. Without one it is sent only to the origin of the MCP server itself.
    #[must_use]
    pub fn issuer(mut self, url: impl Into<String>) -> Self {
        self.issuer = Some(url.into());
        self
    }

    /// Lets the MCP server say which authorization server gets our secret: it can say any.
    #[must_use]
    pub fn trust_server(mut self) -> Self {
        self.trust_server = true;
        self
    }

    /// Lets the authorization server be in the private network.
    #[must_use]
    pub fn allow_private(mut self) -> Self {
        self.allow_private = true;
        self
    }
}

impl PartialEq for OAuth {
    /// Two that differ in where they keep tokens or whom they ask must not share a connection.
    fn eq(&self, other: &Self) -> bool {
        let same_person = match (&self.person, &other.person) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_person
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
