//! Detects local servers with short timeouts over plain sockets.
//!
//! Invariant: this module never sends a secret.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde::Deserialize;

use crate::error::HostError;

/// Default port of Ollama.
const OLLAMA_PORT: u16 = 11434;
/// Timeout of the response after a server accepted the connection. It is longer than the timeout of the connection,
/// because the machine may be busy.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of a response in bytes.
const RESPONSE_BYTES_MAX: u64 = 1024 * 1024;

/// Address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// True for `https`.
    pub tls: bool,
    /// Host name or IP address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Address {
    /// Returns `host:port`.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns `scheme://host:port`.
    pub fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }
}

/// Parses the address of a URL. The error explains what a valid URL is.
pub fn parse_url(url: &str) -> Result<Address, HostError> {
    let invalid = |reason: &str| {
        HostError::invalid(format!("`{}` is not a base URL: {reason}", redact_url(url)))
            .hint("use a URL such as https://host/v1 or http://127.0.0.1:8080/v1")
    };
    let (tls, rest) = match url.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        Some((_, _)) => return Err(invalid("only http and https are supported")),
        None => return Err(invalid("it must start with http:// or https://")),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(invalid("it must not contain a user or password"));
    }
    let default_port = if tls { 443 } else { 80 };
    let (host, port) =
        split_port(authority, default_port).ok_or_else(|| invalid("its port is invalid"))?;
    let is_legal = |c: char| c.is_alphanumeric() || "-._:".contains(c);
    if host.is_empty() || !host.chars().all(is_legal) {
        return Err(invalid("its host is missing or invalid"));
    }
    Ok(Address { tls, host, port })
}

/// Removes the parts of a URL that can be secret: user, password and query.
///
/// The URL can be malformed, so everything before the last `@` is removed.
fn redact_url(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.chars().all(|c| c.is_ascii_alphabetic()) => {
            (format!("{scheme}://"), rest)
        }
        _ => (String::new(), url),
    };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}{rest}")
}

/// Returns the path of a URL. Empty if the URL has no path.
pub(crate) fn url_path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let path = rest[..end].split_once('/').map_or("", |(_, path)| path);
    path.trim_matches('/')
}

/// Splits an authority into host and port. `None` if the port is malformed.
fn split_port(authority: &str, default_port: u16) -> Option<(String, u16)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        let port = match after.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if after.is_empty() => default_port,
            None => return None,
        };
        return Some((host.to_owned(), port));
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host.to_owned(), port.parse().ok()?)),
        None => Some((authority.to_owned(), default_port)),
    }
}

/// Parses the address of Ollama from the value of `OLLAMA_HOST`. `None` is the default address.
pub fn ollama_address(host: Option<&str>) -> Result<Address, HostError> {
    let host = host.unwrap_or("127.0.0.1");
    let mut address =
        if host.contains("://") { parse_url(host)? } else { parse_url(&format!("http://{host}"))? };
    let names_port = host
        .trim_start_matches("http://")
        .trim_start_matches("https://")
        .split('/')
        .next()
        .is_some_and(|authority| authority.rsplit(']').next().unwrap_or("").contains(':'));
    if !names_port && !address.tls {
        address.port = OLLAMA_PORT;
    }
    // A server can bind to every address, but a client cannot connect to it.
    if address.host == "0.0.0.0" || address.host == "::" {
        address.host = "127.0.0.1".to_owned();
    }
    Ok(address)
}

/// Opens a connection. Returns the reason if that fails.
pub fn connect(address: &Address, timeout: Duration) -> Result<TcpStream, String> {
    let found: Vec<SocketAddr> = (address.host.as_str(), address.port)
        .to_socket_addrs()
        .map_err(|error| format!("cannot resolve the name: {error}"))?
        .collect();
    let mut reason = "the name has no address".to_owned();
    for socket in found {
        match TcpStream::connect_timeout(&socket, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => reason = error.to_string(),
        }
    }
    Err(reason)
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

/// Returns the models of the Ollama at an address. `None` if no Ollama responds in time.
pub fn ollama_models(address: &Address, timeout: Duration) -> Option<Vec<String>> {
    if address.tls {
        return None;
    }
    let mut stream = connect(address, timeout).ok()?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT)).ok()?;
    // An HTTP/1.0 response is not chunked and ends with the connection.
    let request = format!(
        "GET /api/tags HTTP/1.0\r\nHost: {}\r\nAccept: application/json\r\n\r\n",
        address.authority()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut answer).ok()?;
    parse_tags(&answer)
}

/// Parses the names of the models in the response of an Ollama server. `None` if the response is malformed or an error.
fn parse_tags(answer: &[u8]) -> Option<Vec<String>> {
    let answer = std::str::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?;
    if !head.starts_with("HTTP/") || status != "200" {
        return None;
    }
    let tags: Tags = serde_json::from_str(body).ok()?;
    Some(tags.models.into_iter().map(|tag| tag.name).collect())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn urls_are_taken_apart_or_refused() {
        for (url, origin) in [
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080"),
            ("https://api.example.com/v1", "https://api.example.com:443"),
            ("http://[::1]:99/", "http://[::1]:99"),
        ] {
            assert_eq!(parse_url(url).unwrap().origin(), origin);
        }
        for url in [
            "",
            "localhost:8080",
            "ftp://x",
            "http://",
            "http://a b/",
            "http://h:99999",
            "http://u:p@h/",
        ] {
            let problem = parse_url(url).unwrap_err();
            assert!(problem.message.contains("is not a base URL"), "{url}");
        }
    }

    #[test]
    fn a_refused_url_is_shown_without_its_secrets() {
        for (url, shown) in [
            ("http://user:hunter2@h/v1", "`http://h/v1`"),
            ("user:hunter2@h/v1", "`h/v1`"),
            ("ftp://hunter2@h", "`ftp://h`"),
            ("http://h:x/v1?key=hunter2", "`http://h:x/v1`"),
            ("http://h:x/v1#hunter2", "`http://h:x/v1`"),
            ("http://user:hunt?er2@h:x/v1", "`http://h:x/v1`"),
            ("http://user:hunt/er2@h:x/v1", "`http://h:x/v1`"),
            ("user:hunter2://x@h", "`h`"),
        ] {
            let problem = parse_url(url).unwrap_err();
            assert!(problem.message.contains(shown), "{problem}");
            assert!(!problem.message.contains("hunt"), "{problem}");
        }
        let problem = ollama_address(Some("user:hunter2@box")).unwrap_err();
        assert!(!problem.message.contains("hunter2"), "{problem}");
    }

    #[test]
    fn ollama_host_has_many_forms() {
        for (host, origin) in [
            (None, "http://127.0.0.1:11434"),
            (Some("0.0.0.0"), "http://127.0.0.1:11434"),
            (Some("box"), "http://box:11434"),
            (Some("box:80"), "http://box:80"),
            (Some("http://box:1234/"), "http://box:1234"),
            (Some("https://box"), "https://box:443"),
        ] {
            assert_eq!(ollama_address(host).unwrap().origin(), origin);
        }
    }

    #[test]
    fn the_probe_reads_names_and_survives_everything_else() {
        let ok = b"HTTP/1.0 200 OK\r\n\r\n{\"models\":[{\"name\":\"llama3.2:latest\",\"size\":1}]}";
        assert_eq!(parse_tags(ok).unwrap(), ["llama3.2:latest"]);
        for answer in [
            &b""[..],
            b"garbage",
            b"HTTP/1.0 404 Not Found\r\n\r\n{\"models\":[]}",
            b"HTTP/1.0 200 OK\r\n\r\n<html>",
            b"\xff\xfe",
        ] {
            assert_eq!(parse_tags(answer), None);
        }
    }

    #[test]
    fn a_server_that_answers_is_found_and_a_closed_port_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = parse_url(&format!("http://127.0.0.1:{port}")).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let length = stream.read(&mut request).unwrap();
            let body = "{\"models\":[{\"name\":\"tiny\"}]}";
            let answer = format!("HTTP/1.0 200 OK\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let models = ollama_models(&address, Duration::from_secs(5)).unwrap();
        assert_eq!(models, ["tiny"]);
        assert!(server.join().unwrap().starts_with("GET /api/tags "));
        assert_eq!(ollama_models(&address, Duration::from_secs(5)), None);
    }
}
