//! Redaction of secrets in texts of servers. Secrets are registered before a server receives them.
//!
//! Invariant: a text is redacted before it is truncated, so that no part of a secret remains.

use provost_core::Secret;
use provost_redact::{RedactStream, Redactor, RegisterError};

use crate::Error;
use crate::error::excerpt;
use crate::limits::FAILURE_BYTES_MAX;
use crate::oauth::ClientIdentity;
use crate::server::{HttpConfig, McpServer, TransportConfig};

/// Removes the secrets of servers from texts. Without a redactor, texts are unchanged.
#[derive(Clone, Default)]
pub(crate) struct ServerRedaction(Option<Redactor>);

impl ServerRedaction {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self(Some(redactor))
    }

    /// Registers a value for redaction. Does nothing without a redactor.
    pub(crate) fn register(&self, value: &Secret<String>) -> Result<(), RegisterError> {
        self.0.as_ref().map_or(Ok(()), |redactor| redactor.register(value))
    }

    /// Registers all secrets of a definition. Returns an error if one cannot be registered.
    pub(crate) fn register_secrets(&self, server: &McpServer) -> Result<(), Error> {
        let learned = match &server.transport {
            TransportConfig::Stdio(stdio) => {
                stdio.env.iter().try_for_each(|(_, value)| self.register_value(value))
            }
            TransportConfig::Http(http) => self.register_http_secrets(http),
        };
        learned.map_err(|problem| Error::Definition {
            server: server.name.clone(),
            problem: format!("a secret cannot be registered for redaction: {problem}"),
        })
    }

    /// Registers the header values, the tokens in them, and the OAuth secret.
    fn register_http_secrets(&self, http: &HttpConfig) -> Result<(), RegisterError> {
        for (_, value) in &http.headers {
            self.register_value(value)?;
            // The token of `Bearer …` is also registered without the scheme.
            if let Some((_, token)) = value.expose().trim().split_once(' ') {
                self.register_value(&Secret::from(token.trim()))?;
            }
        }
        match http.oauth.as_ref().map(|oauth| &oauth.identity) {
            Some(ClientIdentity::WithSecret { secret, .. }) => self.register(secret),
            Some(ClientIdentity::Registered { secret: Some(secret), .. }) => self.register(secret),
            Some(ClientIdentity::Registered { secret: None, .. } | ClientIdentity::Dynamic)
            | None => Ok(()),
        }
    }

    /// Registers a value unless it is too short to be distinguished from other text. A variable may be `1`.
    fn register_value(&self, value: &Secret<String>) -> Result<(), RegisterError> {
        match self.register(value) {
            Err(RegisterError::TooShort { .. }) => Ok(()),
            other => other,
        }
    }

    /// Returns the text with all secrets replaced.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        match &self.0 {
            Some(redactor) => redactor.redact(text).into_owned(),
            None => text.to_owned(),
        }
    }

    /// Replaces the secrets in a text from a server, and cuts it to the maximum length in error messages.
    pub(crate) fn excerpt(&self, text: impl Into<String>) -> String {
        let text = text.into();
        let Some(redactor) = &self.0 else { return excerpt(text) };
        if text.len() <= FAILURE_BYTES_MAX {
            return excerpt(redactor.redact(&text));
        }
        // The end of the examined text may be the beginning of a secret, so it is dropped.
        let clean = redactor.stream().push(&text.as_bytes()[..FAILURE_BYTES_MAX]);
        excerpt(String::from_utf8_lossy(&clean) + "…")
    }

    /// Returns a redactor for text that arrives in chunks. `None` without a redactor.
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

    fn knowing(server: &McpServer) -> (Redactor, ServerRedaction) {
        let redactor = Redactor::new();
        let redaction = ServerRedaction::new(redactor.clone());
        redaction.register_secrets(server).unwrap();
        (redactor, redaction)
    }

    #[test]
    fn all_that_a_server_is_given_is_known() {
        let program = McpServer::stdio("a", "x").env("KEY", SECRET).env("VERBOSE", "1");
        assert!(knowing(&program).0.contains_secret(SECRET.as_bytes()));
        let plain = McpServer::stdio("a", "x").public_env("MODE", "production");
        assert!(
            !knowing(&plain).0.contains_secret(b"production"),
            "what is no secret is not taken for one"
        );
        let header = McpServer::http("a", "http://x/").header("authorization", "Bearer fishsword");
        assert!(knowing(&header).0.contains_secret(b"it is fishsword"));
        let oauth = McpServer::http("a", "http://x/")
            .oauth(OAuth::client_credentials("id", "sword-fish-9"));
        assert!(knowing(&oauth).0.contains_secret(b"sword-fish-9"));
        let short = McpServer::http("a", "http://x/").oauth(OAuth::client_credentials("id", "abc"));
        let error = ServerRedaction::new(Redactor::new()).register_secrets(&short).unwrap_err();
        assert!(matches!(&error, Error::Definition { .. }), "{error}");
    }

    #[test]
    fn no_cut_leaves_a_part_of_a_secret() {
        let (_, redaction) = knowing(&McpServer::stdio("a", "x").env("KEY", SECRET));
        let leaks = |text: &str| {
            let text = text.as_bytes();
            SECRET.as_bytes().windows(5).any(|part| text.windows(5).any(|it| it == part))
        };
        for place in [DETAIL_BYTES_MAX, FAILURE_BYTES_MAX] {
            for before in place - 40..place + 2 {
                let text = format!("{}{SECRET}{}", "a".repeat(before), "b".repeat(place));
                assert!(!leaks(&redaction.excerpt(text)), "{before}");
            }
        }
        assert_eq!(redaction.excerpt(format!("no {SECRET}!")), "no [REDACTED]!");
    }
}
