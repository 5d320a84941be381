//! What servers are given is known to redaction before they get it, and what they say about failures goes through it.
//!
//! Invariant: secrets go before a text is cut, so that no part of one is left.

use provost_core::Secret;
use provost_redact::{RedactStream, Redactor, Unlearnable};

use crate::Error;
use crate::error::brief;
use crate::limits::FAILURE_BYTES_MAX;
use crate::oauth::Identity;
use crate::server::{Http, McpServer, Reach};

/// Keeps the secrets of servers out of texts. Without a redactor it knows none.
#[derive(Clone, Default)]
pub(crate) struct Scrub(Option<Redactor>);

impl Scrub {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self(Some(redactor))
    }

    /// Teaches a value that is handed out now.
    pub(crate) fn learn(&self, value: &Secret<String>) -> Result<(), Unlearnable> {
        self.0.as_ref().map_or(Ok(()), |redactor| redactor.learn(value))
    }

    /// Teaches everything that a definition gives to its server.
    pub(crate) fn learn_all(&self, server: &McpServer) -> Result<(), Error> {
        let learned = match &server.reach {
            Reach::Stdio(stdio) => {
                stdio.env.iter().try_for_each(|(_, value)| self.learn_given(value))
            }
            Reach::Http(http) => self.learn_http(http),
        };
        learned.map_err(|problem| Error::Definition {
            server: server.name.clone(),
            problem: format!("what it is given cannot be kept out of texts: {problem}"),
        })
    }

    fn learn_http(&self, http: &Http) -> Result<(), Unlearnable> {
        for (_, value) in &http.headers {
            self.learn_given(value)?;
            // `Bearer …`: the token is told without that word as well.
            if let Some((_, token)) = value.expose().trim().split_once(' ') {
                self.learn_given(&Secret::from(token.trim()))?;
            }
        }
        match http.oauth.as_ref().map(|oauth| &oauth.identity) {
            Some(Identity::Program { secret, .. }) => self.learn(secret),
            Some(Identity::Registered { secret: Some(secret), .. }) => self.learn(secret),
            Some(Identity::Registered { secret: None, .. } | Identity::Dynamic) | None => Ok(()),
        }
    }

    /// What is too short to be told from other text is no secret: a variable may be `1`.
    fn learn_given(&self, value: &Secret<String>) -> Result<(), Unlearnable> {
        match self.learn(value) {
            Err(Unlearnable::Short { .. }) => Ok(()),
            other => other,
        }
    }

    /// A text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        match &self.0 {
            Some(redactor) => redactor.redact(text).into_owned(),
            None => text.to_owned(),
        }
    }

    /// A text of foreign origin, short enough for an error.
    pub(crate) fn brief(&self, text: impl Into<String>) -> String {
        let text = text.into();
        let Some(redactor) = &self.0 else { return brief(text) };
        if text.len() <= FAILURE_BYTES_MAX {
            return brief(redactor.redact(&text));
        }
        // The end of what is looked at may be the beginning of a secret, and is left out.
        let clean = redactor.stream().push(&text.as_bytes()[..FAILURE_BYTES_MAX]);
        brief(String::from_utf8_lossy(&clean) + "…")
    }

    /// For text that comes in pieces.
    pub(crate) fn stream(&self) -> Option<RedactStream> {
        self.0.as_ref().map(Redactor::stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DETAIL_BYTES_MAX;
    use crate::oauth::OAuth;

    const SECRET: &str = "swordfish-swordfish-swordfish";

    fn knowing(server: &McpServer) -> (Redactor, Scrub) {
        let redactor = Redactor::new();
        let scrub = Scrub::new(redactor.clone());
        scrub.learn_all(server).unwrap();
        (redactor, scrub)
    }

    #[test]
    fn all_that_a_server_is_given_is_known() {
        let program = McpServer::stdio("a", "x").env("KEY", SECRET).env("VERBOSE", "1");
        assert!(knowing(&program).0.finds(SECRET.as_bytes()));
        let plain = McpServer::stdio("a", "x").setting("MODE", "production");
        assert!(!knowing(&plain).0.finds(b"production"), "what is no secret is not taken for one");
        let header = McpServer::http("a", "http://x/").header("authorization", "Bearer fishsword");
        assert!(knowing(&header).0.finds(b"it is fishsword"));
        let oauth = McpServer::http("a", "http://x/").oauth(OAuth::program("id", "sword-fish-9"));
        assert!(knowing(&oauth).0.finds(b"sword-fish-9"));
        let short = McpServer::http("a", "http://x/").oauth(OAuth::program("id", "abc"));
        let error = Scrub::new(Redactor::new()).learn_all(&short).unwrap_err();
        assert!(matches!(&error, Error::Definition { .. }), "{error}");
    }

    #[test]
    fn no_cut_leaves_a_part_of_a_secret() {
        let (_, scrub) = knowing(&McpServer::stdio("a", "x").env("KEY", SECRET));
        let leaks = |text: &str| {
            let text = text.as_bytes();
            SECRET.as_bytes().windows(5).any(|part| text.windows(5).any(|it| it == part))
        };
        for place in [DETAIL_BYTES_MAX, FAILURE_BYTES_MAX] {
            for before in place - 40..place + 2 {
                let text = format!("{}{SECRET}{}", "a".repeat(before), "b".repeat(place));
                assert!(!leaks(&scrub.brief(text)), "{before}");
            }
        }
        assert_eq!(scrub.brief(format!("no {SECRET}!")), "no [REDACTED]!");
    }
}
