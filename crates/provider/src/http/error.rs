//! Errors of building a client.

use std::fmt;
use std::path::PathBuf;

use provost_core::{ErrorKind, Secret};

/// Error in the configuration of a client.
#[derive(thiserror::Error)]
pub enum ModelBuildError {
    /// The API key is missing.
    #[error("{provider} needs an API key: set {variable} or pass one to the builder")]
    MissingKey {
        /// Name of the provider.
        provider: String,
        /// Variable that usually holds the key.
        variable: String,
    },
    /// The key contains characters that a header cannot hold.
    #[error(
        "the API key contains characters that a header cannot hold: check it for line breaks and spaces"
    )]
    Key,
    /// The name of the model is empty.
    #[error("the name of the model is empty: use one such as `gpt-5.1`")]
    Model,
    /// The base URL is invalid.
    #[error("`{url}` is not a base URL ({reason}): use one such as https://api.example.com/v1")]
    BaseUrl {
        /// The given URL without user name, password and query.
        url: String,
        /// Reason why it is invalid.
        reason: String,
    },
    /// The provider is unknown.
    #[error(
        "there is no provider `{name}`: use one of {available}, or add it to a file of providers"
    )]
    Provider {
        /// The given name.
        name: String,
        /// The names of all providers.
        available: String,
    },
    /// A custom header is invalid.
    #[error("`{0}` is not a valid header")]
    Header(String),
    /// The file of root certificates cannot be read.
    #[error("the certificates in {path} cannot be read ({source}): correct or unset SSL_CERT_FILE")]
    Certificates {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The TLS library rejected the configuration.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[source] rustls::Error),
    /// The HTTP client rejected the configuration.
    #[error("the HTTP client cannot be built: {0}")]
    Client(#[source] reqwest::Error),
}

/// Writes the same message as `Display`, because a `main` function that returns the error prints its debug form.
impl fmt::Debug for ModelBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ModelBuildError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::MissingKey { .. } | Self::Key => ErrorKind::Unauthenticated,
            Self::Tls(_) | Self::Client(_) => ErrorKind::Unavailable,
            _ => ErrorKind::Invalid,
        }
    }
}

/// Returns the key, or `None` if there is none. A blank key counts as missing. Returns an error without a key if
/// `variable` names the variable that usually holds it.
pub(super) fn check_key(
    key: Option<Secret<String>>,
    provider: &str,
    variable: Option<&str>,
) -> Result<Option<Secret<String>>, ModelBuildError> {
    let key = key.filter(|key| !key.expose().trim().is_empty());
    match (&key, variable) {
        (None, Some(variable)) => Err(ModelBuildError::MissingKey {
            provider: provider.to_owned(),
            variable: variable.to_owned(),
        }),
        _ => Ok(key),
    }
}
