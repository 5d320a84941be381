//! Why a client of a vendor cannot be built.

use std::fmt;
use std::path::PathBuf;

use provost_core::{ErrorKind, Secret};

/// Why a model cannot be built.
#[derive(thiserror::Error)]
pub enum BuildError {
    /// No key was given and none was found.
    #[error("{provider} needs an API key: set {variable} or give one to the builder")]
    MissingKey {
        /// Who wants it.
        provider: String,
        /// The variable that usually holds it.
        variable: String,
    },
    /// The key cannot be sent.
    #[error(
        "the API key holds characters that no header may hold: check it for line breaks and spaces"
    )]
    Key,
    /// The name of the model is empty.
    #[error("the model has no name: give one such as `gpt-5.1`")]
    Model,
    /// The base URL is not one.
    #[error("`{url}` is not a base URL ({reason}): use one such as https://api.example.com/v1")]
    BaseUrl {
        /// What was given, without user name, password and query.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no provider of this name.
    #[error("there is no provider `{name}`: use one of {known}, or add it to a file of providers")]
    Provider {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A header of the caller's own is not one.
    #[error("`{0}` is not a header that can be sent")]
    Header(String),
    /// The file of root certificates cannot be read.
    #[error("the certificates in {path} cannot be read ({source}): correct or unset SSL_CERT_FILE")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The TLS library refused its settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[source] rustls::Error),
    /// The HTTP client refused its settings.
    #[error("the HTTP client cannot be built: {0}")]
    Client(#[source] reqwest::Error),
}

/// The same sentence as of `Display`: a `main` that returns the error prints this one, and whoever reads it needs to know what
/// to do.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl BuildError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::MissingKey { .. } | Self::Key => ErrorKind::Unauthenticated,
            Self::Tls(_) | Self::Client(_) => ErrorKind::Unavailable,
            _ => ErrorKind::Invalid,
        }
    }
}

/// Checks the key: a blank one counts as none, and building without one fails where `variable` names where it usually is.
pub(super) fn required_key(
    key: Option<Secret<String>>,
    provider: &str,
    variable: Option<&str>,
) -> Result<Option<Secret<String>>, BuildError> {
    let key = key.filter(|key| !key.expose().trim().is_empty());
    match (&key, variable) {
        (None, Some(variable)) => Err(BuildError::MissingKey {
            provider: provider.to_owned(),
            variable: variable.to_owned(),
        }),
        _ => Ok(key),
    }
}
