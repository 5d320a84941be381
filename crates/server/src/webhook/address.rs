//! Permitted URLs of webhooks: public addresses only, never this machine or its network.
//!
//! This module checks a URL without a DNS lookup before it is stored. The HTTP client checks the resolved address when it
//! connects, so a name that later resolves to a private address is rejected, too.

use provost_api::Problem;
use provost_net::{NetError, NetPolicy, RefusalReason, Url};

use crate::error;

/// Maximum length of a URL.
const URL_BYTES_MAX: usize = 2048;

/// Returns the network policy of deliveries.
pub(super) fn policy(allow_private: bool) -> NetPolicy {
    if allow_private { NetPolicy::open() } else { NetPolicy::default() }
}

/// Parses the URL of a webhook. Returns an error if it is too long, has a fragment or is not allowed by the network
/// policy.
pub(crate) fn check_url(text: &str, allow_private: bool) -> Result<Url, Problem> {
    let invalid = |problem: &str| error::invalid("url", problem);
    if text.len() > URL_BYTES_MAX {
        return Err(invalid("it exceeds the limit of 2048 bytes"));
    }
    let url =
        Url::parse(text).map_err(|error| invalid(&format!("it is not a valid URL: {error}")))?;
    if url.fragment().is_some() {
        return Err(invalid("it must not have a fragment"));
    }
    match policy(allow_private).check_url(&url) {
        Ok(()) => Ok(url),
        Err(NetError::Refused { reason, .. }) => Err(invalid(match reason {
            RefusalReason::Scheme | RefusalReason::PlainHttp => "it must begin with `https://`",
            RefusalReason::Credentials => "it must not contain credentials: deliveries are signed",
            RefusalReason::Port => "its port is reserved for another protocol: use another port",
            _ => "it is in a private network: use a public address",
        })),
        Err(error) => Err(invalid(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_inside_is_refused_however_it_is_written() {
        let rejected = [
            "http://example.com/",
            "ftp://example.com/",
            "https://",
            "nonsense",
            "https://user:secret@example.com/",
            "https://example.com/#here",
            "https://example.com:22/",
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://[::ffff:7f00:1]/",
            "https://169.254.169.254/latest",
            "https://localhost/",
        ];
        for url in rejected {
            assert!(check_url(url, false).is_err(), "{url}");
        }
        assert!(check_url(&format!("https://example.com/{}", "a".repeat(2048)), false).is_err());
        for url in ["https://example.com/hook?x=1", "https://1.1.1.1:8443/"] {
            assert!(check_url(url, false).is_ok(), "{url}");
        }
        assert!(check_url("http://127.0.0.1:80/", true).is_ok());
        assert!(
            check_url("http://169.254.169.254/", true).is_err(),
            "link-local addresses are never permitted"
        );
    }
}
