//! Authentication and authorization: tokens, scopes and namespaces.
//!
//! Every request needs a token, except for public operations and for callers in the same process, which have full access to the
//! database anyway. Missing, malformed, unknown, expired and revoked tokens all receive the same response. A request to a
//! namespace that the token does not cover receives 404, not 403.

mod token;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use provost_api::{CreatedToken, Page, Problem, Scope};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::LOCAL_PRINCIPAL;
use provost_core::{ErrorKind, Timestamp, TokenId};
use provost_engine::{NewToken, Token};

use crate::app::App;
use crate::error::{self, from_engine};
use crate::router::Access;

/// Maximum length of a token's name, in characters.
const NAME_CHARS_MAX: usize = 100;
/// Maximum number of namespaces of a token.
const NAMESPACES_MAX: usize = 100;

/// Minimum interval between two records of a token's use.
const USE_INTERVAL: Duration = Duration::from_secs(60);

/// An authenticated caller.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    /// Id of the token. `None` for a caller in the same process.
    pub(crate) token: Option<String>,
    /// Name of the token.
    pub(crate) name: String,
    pub(crate) scopes: Vec<Scope>,
    /// Namespaces that the caller can access. `*` means all namespaces.
    pub(crate) namespaces: Vec<String>,
}

impl Principal {
    /// Returns the principal of callers in the same process, which has all permissions.
    pub(crate) fn local() -> Self {
        Self {
            token: None,
            name: LOCAL_PRINCIPAL.to_owned(),
            scopes: vec![Scope::Admin],
            namespaces: vec!["*".to_owned()],
        }
    }

    /// Returns the principal of a token. Scopes that this version does not know are ignored.
    fn of(token: Token) -> Self {
        Self {
            token: Some(token.id.to_string()),
            name: token.name,
            scopes: token.scopes.iter().filter_map(|scope| scope.parse().ok()).collect(),
            namespaces: token.namespaces,
        }
    }

    /// Returns the principal of callers of public operations, which has no permission.
    fn anonymous() -> Self {
        Self {
            token: None,
            name: "anonymous".to_owned(),
            scopes: Vec::new(),
            namespaces: Vec::new(),
        }
    }

    /// Returns true if the caller has the scope. The scope `admin` includes all others.
    pub(crate) fn has_scope(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|granted| *granted == scope || *granted == Scope::Admin)
    }

    /// Returns true if the caller can access the namespace. The argument `*` stands for all namespaces.
    pub(crate) fn can_access(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|name| name == "*" || name == namespace)
    }
}

/// Authenticates the caller of a request by its token, and records the use of the token. Returns an error if the token
/// is missing, unknown, expired or revoked.
pub(crate) async fn authenticate(
    app: &App,
    access: Access,
    headers: &HeaderMap,
) -> Result<Arc<Principal>, Problem> {
    if access == Access::Public {
        return Ok(Arc::new(Principal::anonymous()));
    }
    let presented = bearer_token(headers).ok_or_else(unauthenticated)?;
    let now = app.options().env.now();
    let token = find_token(app, &presented).await?;
    let token = token.filter(|token| token.expires.is_none_or(|expires| now < expires));
    let token = token.ok_or_else(unauthenticated)?;
    record_use(app, &token, now);
    Ok(Arc::new(Principal::of(token)))
}

/// Returns an error if the caller lacks the required scope or cannot access the namespace.
pub(crate) fn authorize(
    principal: &Principal,
    access: Access,
    namespace: Option<&Namespace>,
) -> Result<(), Problem> {
    if let Some(namespace) = namespace
        && !principal.can_access(namespace.as_str())
    {
        let detail = format!("there is no namespace `{namespace}`");
        return Err(Problem::new(ErrorKind::NotFound, "not_found", detail));
    }
    match access {
        Access::Scope(scope) if !principal.has_scope(scope) => {
            let detail = format!("this token lacks the scope `{scope}`");
            Err(Problem::new(ErrorKind::Denied, "scope", detail))
        }
        _ => Ok(()),
    }
}

/// Creates a token. Returns an error if the request is invalid, or the new token would have more scopes or namespaces
/// than its creator.
pub(crate) async fn create(
    app: &App,
    principal: &Principal,
    new: provost_api::NewToken,
) -> Result<CreatedToken, Problem> {
    check(app, &new)?;
    if let Some(scope) = new.scopes.iter().find(|scope| !principal.has_scope(**scope)) {
        let detail = format!("this token lacks the scope `{scope}` and cannot grant it");
        return Err(Problem::new(ErrorKind::Denied, "scope", detail));
    }
    if let Some(name) = new.namespaces.iter().find(|name| !principal.can_access(name)) {
        let detail = format!("there is no namespace `{name}`");
        return Err(Problem::new(ErrorKind::NotFound, "not_found", detail));
    }
    let secret = token::generate_secret().ok_or_else(|| error::internal(&"no random source"))?;
    let stored = NewToken {
        hash: token::to_hex(token::hash(&secret)),
        name: new.name,
        scopes: new.scopes.iter().map(Scope::to_string).collect(),
        namespaces: new.namespaces,
        expires: new.expires.map(|time| time.0),
    };
    let created = app.engine().tokens().create(stored).await.map_err(from_engine)?;
    let secret = token::text(created.id, &secret);
    Ok(CreatedToken { token: to_api(created)?, secret })
}

/// Lists the tokens that the caller can access, oldest first.
pub(crate) async fn list(
    app: &App,
    principal: &Principal,
    after: Option<TokenId>,
    limit: u64,
) -> Result<Page<provost_api::Token>, Problem> {
    let page = app.engine().tokens().list(after, limit).await.map_err(from_engine)?;
    let visible = page.items.into_iter().filter(|token| can_view(principal, token));
    let items = visible.map(to_api).collect::<Result<_, _>>()?;
    Ok(Page { items, next: page.next.map(|id| id.to_string()) })
}

/// Revokes a token. It takes effect at once in every process. Returns an
/// error if the caller cannot access the token.
pub(crate) async fn revoke(
    app: &App,
    principal: &Principal,
    id: TokenId,
) -> Result<provost_api::Token, Problem> {
    let token = app.engine().tokens().get(id).await.map_err(from_engine)?;
    if !can_view(principal, &token) {
        let detail = format!("there is no token `{id}`");
        return Err(Problem::new(ErrorKind::NotFound, "not_found", detail));
    }
    let token = app.engine().tokens().revoke(id).await.map_err(from_engine)?;
    to_api(token)
}

/// Creates an admin token for all namespaces and returns its text. `None` if a valid one exists.
pub(crate) async fn bootstrap_admin_token(app: &App) -> Result<Option<String>, Problem> {
    let now = app.options().env.now();
    let mut after = None;
    loop {
        let page =
            app.engine().tokens().list(after, provost_api::LIMIT_MAX).await.map_err(from_engine)?;
        let usable = page.items.iter().any(|token| {
            token.revoked.is_none()
                && token.expires.is_none_or(|expires| now < expires)
                && token.scopes.iter().any(|scope| scope == Scope::Admin.as_str())
                && token.namespaces.iter().any(|name| name == "*")
        });
        if usable {
            return Ok(None);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let new = provost_api::NewToken {
        name: "admin".to_owned(),
        scopes: vec![Scope::Admin],
        namespaces: vec!["*".to_owned()],
        expires: None,
    };
    Ok(Some(create(app, &Principal::local(), new).await?.secret))
}

/// Returns true if the caller can access all namespaces of the token.
fn can_view(principal: &Principal, token: &Token) -> bool {
    token.namespaces.iter().all(|name| principal.can_access(name))
}

/// Returns an error if the name, the scopes, the namespaces or the lifetime of a new token are invalid.
fn check(app: &App, new: &provost_api::NewToken) -> Result<(), Problem> {
    let chars = new.name.chars().count();
    if !(1..=NAME_CHARS_MAX).contains(&chars) || new.name.chars().any(char::is_control) {
        let detail = format!("use 1 to {NAME_CHARS_MAX} characters on one line");
        return Err(error::invalid("name", &detail));
    }
    if new.scopes.is_empty() {
        return Err(error::invalid("scopes", "send at least one scope"));
    }
    if !(1..=NAMESPACES_MAX).contains(&new.namespaces.len()) {
        return Err(error::invalid(
            "namespaces",
            &format!("send 1 to {NAMESPACES_MAX} namespaces"),
        ));
    }
    for name in new.namespaces.iter().filter(|name| *name != "*") {
        name.parse::<Namespace>()
            .map_err(|error| error::invalid("namespaces", &error.to_string()))?;
    }
    if new.expires.is_some_and(|expires| expires.0 <= app.options().env.now()) {
        return Err(error::invalid("expires", "it is in the past"));
    }
    Ok(())
}

/// Parses the token of the header `Authorization`. `None` if the header is missing, repeated or malformed.
fn bearer_token(headers: &HeaderMap) -> Option<token::PresentedToken> {
    // Repeated headers are rejected, because a proxy and this server could read different ones.
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, text) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token::parse(text.trim_start()))?
}

/// Reads the token that a caller presents. `None` if it does not exist, is revoked or has another secret. Each request
/// reads the database, so that a token that any process revokes is rejected at once.
async fn find_token(
    app: &App,
    presented: &token::PresentedToken,
) -> Result<Option<Token>, Problem> {
    let stored = match app.engine().tokens().get(presented.id).await {
        Ok(stored) => stored,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(from_engine(error)),
    };
    let hash = token::from_hex(&stored.hash);
    let has_secret = hash.is_some_and(|hash| token::constant_time_eq(&hash, &presented.hash));
    Ok(Some(stored).filter(|token| has_secret && token.revoked.is_none()))
}

/// Records in the background that a token was used, at most once per minute.
fn record_use(app: &App, token: &Token, now: Timestamp) {
    if token.last_used.is_some_and(|at| now.since(at) < USE_INTERVAL) {
        return;
    }
    let (app, id) = (app.clone(), token.id);
    tokio::spawn(async move {
        if let Err(error) = app.engine().tokens().touch(id, now).await {
            tracing::warn!(%error, token.id = %id, "cannot record the use of token {id}");
        }
    });
}

/// Converts a stored token for the API. Returns an error if a stored scope is unknown.
fn to_api(token: Token) -> Result<provost_api::Token, Problem> {
    let scopes = token.scopes.iter().map(|scope| scope.parse()).collect::<Result<_, String>>();
    Ok(provost_api::Token {
        id: token.id.to_string(),
        name: token.name,
        scopes: scopes.map_err(|error| error::internal(&error))?,
        namespaces: token.namespaces,
        created: token.created.into(),
        expires: token.expires.map(Into::into),
        revoked: token.revoked.map(Into::into),
        last_used: token.last_used.map(Into::into),
    })
}

/// Returns the same problem for all invalid tokens, so that a caller learns nothing by guessing.
fn unauthenticated() -> Problem {
    let detail = "send a valid token: `Authorization: Bearer prv_…`";
    Problem::new(ErrorKind::Unauthenticated, "unauthenticated", detail)
}
