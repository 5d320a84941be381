//! Authentication and authorization: tokens, scopes and namespaces.
//!
//! Every request needs a token, except for public operations and for callers in the same process, which have full access to the
//! database anyway. Missing, malformed, unknown, expired and revoked tokens all receive the same response. A request to a
//! namespace that the token does not cover receives 404, not 403.

mod cache;
mod token;

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use provost_api::{CreatedToken, Page, Problem, Scope};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::LOCAL_PRINCIPAL;
use provost_core::{ErrorKind, TokenId};
use provost_engine::{NewToken, Token};

use crate::app::App;
use crate::error::{self, from_engine};
use crate::middleware::RateLimitKey;
use crate::router::Access;

pub(crate) use self::cache::TokenCache;
use self::cache::{CacheLookup, CachedToken};

/// Maximum length of a token's name, in characters.
const NAME_CHARS_MAX: usize = 100;
/// Maximum number of namespaces of a token.
const NAMESPACES_MAX: usize = 100;

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

/// Authenticates the caller of a request.
pub(crate) async fn authenticate(
    app: &App,
    access: Access,
    headers: &HeaderMap,
    peer: IpAddr,
) -> Result<Arc<Principal>, Problem> {
    if access == Access::Public {
        return Ok(Arc::new(Principal::anonymous()));
    }
    let presented = bearer_token(headers).ok_or_else(unauthenticated)?;
    let CacheLookup { token, is_use_recorded } = lookup(app, presented.id, peer).await?;
    let token = token.filter(|token| token::constant_time_eq(&token.hash, &presented.hash));
    let now = || app.options().env.now();
    let token = token.filter(|token| token.expires.is_none_or(|expires| now() < expires));
    let token = token.ok_or_else(unauthenticated)?;
    if !is_use_recorded {
        record_use(app, presented.id);
    }
    Ok(Arc::clone(&token.principal))
}

/// Checks that the caller has the required access in the namespace.
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

/// Creates a token. The new token cannot have more scopes or namespaces than its creator.
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
    let secret = token::secret().ok_or_else(|| error::internal(&"no random source"))?;
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

/// Revokes a token. It takes effect at once in this process and within seconds in others, see [`cache`].
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
    app.tokens().forget(id);
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

fn can_view(principal: &Principal, token: &Token) -> bool {
    token.namespaces.iter().all(|name| principal.can_access(name))
}

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

async fn lookup(app: &App, id: TokenId, peer: IpAddr) -> Result<CacheLookup, Problem> {
    if let Some(known) = app.tokens().get(id) {
        return Ok(known);
    }
    // A database lookup counts against the rate limit of the address, so that guessing tokens is slow.
    let status = app.rate_limiter().take(RateLimitKey::Address(peer));
    if let Some(rejection) = status.and_then(|status| status.rejection()) {
        return Err(rejection);
    }
    let token = match app.engine().tokens().get(id).await {
        Ok(token) => token.revoked.is_none().then(|| to_cached(token)).flatten().map(Arc::new),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(from_engine(error)),
    };
    app.tokens().put(id, token.clone());
    Ok(CacheLookup { token, is_use_recorded: false })
}

/// Converts a stored token. Scopes that this version does not know are ignored.
fn to_cached(token: Token) -> Option<CachedToken> {
    let scopes = token.scopes.iter().filter_map(|scope| scope.parse().ok()).collect();
    Some(CachedToken {
        hash: token::from_hex(&token.hash)?,
        principal: Arc::new(Principal {
            token: Some(token.id.to_string()),
            name: token.name,
            scopes,
            namespaces: token.namespaces,
        }),
        expires: token.expires,
        last_used: token.last_used,
    })
}

/// Records in the background that a token was used, at most once per minute.
fn record_use(app: &App, id: TokenId) {
    let now = app.options().env.now();
    if app.tokens().should_record_use(id, now) {
        let app = app.clone();
        tokio::spawn(async move {
            if let Err(error) = app.engine().tokens().touch(id, now).await {
                tracing::warn!(%error, token.id = %id, "cannot record the use of token {id}");
            }
        });
    }
}

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
