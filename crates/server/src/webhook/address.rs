//! Where posts may go: never to this machine or to the network it is in.
//!
//! What is stored is checked here as far as that is possible without a lookup. What a name leads to is checked by the client
//! when it dials, so a name that changes its address between check and use gains nothing.

use provost_api::Problem;
use provost_net::{NetError, NetPolicy, Url, Why};

use crate::error;

const URL_BYTES_MAX: usize = 2048;

/// What posts may reach.
pub(super) fn policy(allow_private: bool) -> NetPolicy {
    if allow_private { NetPolicy::open() } else { NetPolicy::default() }
}

/// Checks an address before it is stored.
pub(crate) fn check_url(text: &str, allow_private: bool) -> Result<Url, Problem> {
    let refused = |problem: &str| error::invalid("url", problem);
    if text.len() > URL_BYTES_MAX {
        return Err(refused("it is too long: use at most 2048 bytes"));
    }
    let url = Url::parse(text).map_err(|error| refused(&format!("it is no address: {error}")))?;
    if url.fragment().is_some() {
        return Err(refused("it must not have a fragment"));
    }
    match policy(allow_private).check_url(&url) {
        Ok(()) => Ok(url),
        Err(NetError::Refused { why, .. }) => Err(refused(match why {
            Why::Scheme | Why::PlainHttp => "it must begin with `https://`",
            Why::Credentials => "it must not hold a user or a password: posts are signed",
            Why::Port => "its port is one of another protocol: use another one",
            _ => "it is inside this machine's network: use an address outside",
        })),
        Err(error) => Err(refused(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_inside_is_refused_however_it_is_written() {
        let refused = [
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
        for url in refused {
            assert!(check_url(url, false).is_err(), "{url}");
        }
        assert!(check_url(&format!("https://example.com/{}", "a".repeat(2048)), false).is_err());
        for url in ["https://example.com/hook?x=1", "https://1.1.1.1:8443/"] {
            assert!(check_url(url, false).is_ok(), "{url}");
        }
        assert!(check_url("http://127.0.0.1:80/", true).is_ok());
        assert!(check_url("http://169.254.169.254/", true).is_err(), "that is never opened");
    }
}
