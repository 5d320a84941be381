//! Who calls: tokens, scopes and namespaces.
//!
//! A call needs a token, except for the few paths that are open, and except inside the process: whoever has the database open
//! needs no permission. A token that is missing, broken, unknown, expired or taken back meets one and the same answer.
//! Where a token may not enter there is nothing: 404, never 403.

mod cache;
mod token;

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use provost_api::{Page, Problem, Scope, TokenCreated};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::LOCAL_PRINCIPAL;
use provost_core::{ErrorKind, TokenId};
use provost_engine::{NewToken, Token};

use crate::app::App;
use crate::error::{self, of_engine};
use crate::middleware::Caller;
use crate::router::Access;

pub(crate) use self::cache::KnownTokens;
use self::cache::{Known, Seen};

/// Characters of a token's name at most.
const NAME_CHARS_MAX: usize = 100;
/// Namespaces of one token at most.
const NAMESPACES_MAX: usize = 100;

/// Who calls, and what they may do.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    /// The token's id; nothing for whoever is in the same process.
    pub(crate) token: Option<String>,
    /// A name for people.
    pub(crate) name: String,
    pub(crate) scopes: Vec<Scope>,
    /// `*` is everywhere.
    pub(crate) namespaces: Vec<String>,
}

impl Principal {
    /// Whoever is in the same process may do everything: they have the database.
    pub(crate) fn local() -> Self {
        Self {
            token: None,
            name: LOCAL_PRINCIPAL.to_owned(),
            scopes: vec![Scope::Admin],
            namespaces: vec!["*".to_owned()],
        }
    }

    fn nobody() -> Self {
        Self { token: None, name: "nobody".to_owned(), scopes: Vec::new(), namespaces: Vec::new() }
    }

    /// True if it may do this.
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|held| *held == scope || *held == Scope::Admin)
    }

    /// True if it may enter a namespace; `*` asks for all of them.
    pub(crate) fn enters(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|name| name == "*" || name == namespace)
    }
}

/// Finds out who calls.
pub(crate) async fn identify(
    app: &App,
    access: Access,
    headers: &HeaderMap,
    peer: IpAddr,
) -> Result<Arc<Principal>, Problem> {
    if access == Access::Public {
        return Ok(Arc::new(Principal::nobody()));
    }
    let shown = shown(headers).ok_or_else(unauthenticated)?;
    let Seen { token, noted } = known(app, shown.id, peer).await?;
    let token = token.filter(|token| token::same(&token.hash, &shown.hash));
    let now = || app.options().env.now();
    let token = token.filter(|token| token.expires.is_none_or(|expires| now() < expires));
    let token = token.ok_or_else(unauthenticated)?;
    if !noted {
        note_use(app, shown.id);
    }
    Ok(Arc::clone(&token.who))
}

/// Whether they may do it there.
pub(crate) fn permit(
    who: &Principal,
    access: Access,
    namespace: Option<&Namespace>,
) -> Result<(), Problem> {
    if let Some(namespace) = namespace
        && !who.enters(namespace.as_str())
    {
        let detail = format!("there is no namespace `{namespace}`");
        return Err(Problem::new(ErrorKind::NotFound, "not_found", detail));
    }
    match access {
        Access::Scope(scope) if !who.may(scope) => {
            let detail = format!("this token lacks the scope `{scope}`");
            Err(Problem::new(ErrorKind::Denied, "scope", detail))
        }
        _ => Ok(()),
    }
}

/// Makes a token. Nobody can give away more than they have.
pub(crate) async fn create(
    app: &App,
    who: &Principal,
    new: provost_api::NewToken,
) -> Result<TokenCreated, Problem> {
    check(app, &new)?;
    if let Some(scope) = new.scopes.iter().find(|scope| !who.may(**scope)) {
        let detail = format!("this token lacks the scope `{scope}` and cannot give it away");
        return Err(Problem::new(ErrorKind::Denied, "scope", detail));
    }
    if let Some(name) = new.namespaces.iter().find(|name| !who.enters(name)) {
        let detail = format!("there is no namespace `{name}`");
        return Err(Problem::new(ErrorKind::NotFound, "not_found", detail));
    }
    let secret = token::secret().ok_or_else(|| error::bug(&"no random source"))?;
    let stored = NewToken {
        hash: token::to_hex(token::hash(&secret)),
        name: new.name,
        scopes: new.scopes.iter().map(Scope::to_string).collect(),
        namespaces: new.namespaces,
        expires: new.expires.map(|time| time.0),
    };
    let made = app.engine().tokens().create(stored).await.map_err(of_engine)?;
    let secret = token::text(made.id, &secret);
    Ok(TokenCreated { token: wire(made)?, secret })
}

/// The tokens that the caller may see, oldest first.
pub(crate) async fn list(
    app: &App,
    who: &Principal,
    after: Option<TokenId>,
    limit: u64,
) -> Result<Page<provost_api::Token>, Problem> {
    let page = app.engine().tokens().list(after, limit).await.map_err(of_engine)?;
    let seen = page.items.into_iter().filter(|token| sees(who, token));
    let items = seen.map(wire).collect::<Result<_, _>>()?;
    Ok(Page { items, next: page.next.map(|id| id.to_string()) })
}

/// Takes a token back. This process hears of it at once, others within seconds, see [`cache`].
pub(crate) async fn revoke(
    app: &App,
    who: &Principal,
    id: TokenId,
) -> Result<provost_api::Token, Problem> {
    let token = app.engine().tokens().get(id).await.map_err(of_engine)?;
    if !sees(who, &token) {
        let detail = format!("there is no token `{id}`");
        return Err(Problem::new(ErrorKind::NotFound, "not_found", detail));
    }
    let token = app.engine().tokens().revoke(id).await.map_err(of_engine)?;
    app.tokens().forget(id);
    wire(token)
}

/// Makes a token that may do everything, unless there is one; its text is shown this once.
pub(crate) async fn first(app: &App) -> Result<Option<String>, Problem> {
    let now = app.options().env.now();
    let mut after = None;
    loop {
        let page =
            app.engine().tokens().list(after, provost_api::LIMIT_MAX).await.map_err(of_engine)?;
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

fn sees(who: &Principal, token: &Token) -> bool {
    token.namespaces.iter().all(|name| who.enters(name))
}

fn check(app: &App, new: &provost_api::NewToken) -> Result<(), Problem> {
    let chars = new.name.chars().count();
    if !(1..=NAME_CHARS_MAX).contains(&chars) || new.name.chars().any(char::is_control) {
        let detail = format!("use 1 to {NAME_CHARS_MAX} characters on one line");
        return Err(error::invalid("name", &detail));
    }
    if new.scopes.is_empty() {
        return Err(error::invalid("scopes", "name at least one"));
    }
    if !(1..=NAMESPACES_MAX).contains(&new.namespaces.len()) {
        return Err(error::invalid("namespaces", &format!("name 1 to {NAMESPACES_MAX}")));
    }
    for name in new.namespaces.iter().filter(|name| *name != "*") {
        name.parse::<Namespace>()
            .map_err(|error| error::invalid("namespaces", &error.to_string()))?;
    }
    if new.expires.is_some_and(|expires| expires.0 <= app.options().env.now()) {
        return Err(error::invalid("expires", "this moment has passed"));
    }
    Ok(())
}

fn shown(headers: &HeaderMap) -> Option<token::Shown> {
    // More than one header is a trick: two readers could take different ones.
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, text) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token::parse(text.trim_start()))?
}

async fn known(app: &App, id: TokenId, peer: IpAddr) -> Result<Seen, Problem> {
    if let Some(known) = app.tokens().get(id) {
        return Ok(known);
    }
    // A look into the database costs something, so that whoever guesses cannot make us look all the time.
    let standing = app.rates().take(Caller::Peer(peer));
    if let Some(refused) = standing.and_then(|standing| standing.refused()) {
        return Err(refused);
    }
    let token = match app.engine().tokens().get(id).await {
        Ok(token) => token.revoked.is_none().then(|| usable(token)).flatten().map(Arc::new),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(of_engine(error)),
    };
    app.tokens().put(id, token.clone());
    Ok(Seen { token, noted: false })
}

/// A stored token as it is used. One whose scopes a newer version wrote has those that this one knows.
fn usable(token: Token) -> Option<Known> {
    let scopes = token.scopes.iter().filter_map(|scope| scope.parse().ok()).collect();
    Some(Known {
        hash: token::from_hex(&token.hash)?,
        who: Arc::new(Principal {
            token: Some(token.id.to_string()),
            name: token.name,
            scopes,
            namespaces: token.namespaces,
        }),
        expires: token.expires,
        last_used: token.last_used,
    })
}

/// Notes that a token was used, beside the request and now and then only.
fn note_use(app: &App, id: TokenId) {
    let now = app.options().env.now();
    if app.tokens().is_due(id, now) {
        let app = app.clone();
        tokio::spawn(async move {
            if let Err(error) = app.engine().tokens().touch(id, now).await {
                tracing::warn!(%error, token.id = %id, "the use of token {id} was not noted");
            }
        });
    }
}

fn wire(token: Token) -> Result<provost_api::Token, Problem> {
    let scopes = token.scopes.iter().map(|scope| scope.parse()).collect::<Result<_, String>>();
    Ok(provost_api::Token {
        id: token.id.to_string(),
        name: token.name,
        scopes: scopes.map_err(|error| error::bug(&error))?,
        namespaces: token.namespaces,
        created: token.created.into(),
        expires: token.expires.map(Into::into),
        revoked: token.revoked.map(Into::into),
        last_used: token.last_used.map(Into::into),
    })
}

/// One text for all: whoever guesses learns nothing.
fn unauthenticated() -> Problem {
    let detail = "send a valid token: `Authorization: Bearer prv_…`";
    Problem::new(ErrorKind::Unauthenticated, "unauthenticated", detail)
}
