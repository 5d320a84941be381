//! AWS Signature Version 4. It proves that the sender knows a secret without sending the secret.

use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use provost_core::Timestamp;
use provost_model::{ModelError, ModelErrorClass};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};
use ring::hmac;

use crate::wire::UnsignedRequest;

/// Characters that are escaped in a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Characters that are escaped in a path.
const PATH: &AsciiSet = &SEGMENT.remove(b'/');

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// AWS credentials that sign a request.
#[derive(Clone, Copy)]
pub(crate) struct Credentials<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a str,
    pub(crate) session_token: Option<&'a str>,
}

/// Region and service of a signature.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
}

/// Signs a `POST` request: adds the headers with the time, the session token and the signature.
pub(crate) fn sign(
    credentials: Credentials<'_>,
    scope: Scope<'_>,
    request: &mut UnsignedRequest<'_>,
) -> Result<(), ModelError> {
    let timestamp = basic_format(request.now);
    request.headers.insert(DATE, header_value(&timestamp)?);
    if let Some(token) = credentials.session_token {
        let mut token = header_value(token)?;
        token.set_sensitive(true);
        request.headers.insert(TOKEN, token);
    }
    let host = match (request.url.host_str(), request.url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    };
    let signed = signed_headers(&host, request.headers);
    let canonical = canonical_request(request, &signed);
    let signer = Signer { credentials, scope, timestamp: &timestamp, signed: &signed };
    let authorization = signer.authorization(&canonical);
    let mut authorization = header_value(&authorization)?;
    authorization.set_sensitive(true);
    request.headers.insert(AUTHORIZATION, authorization);
    Ok(())
}

/// Returns the signed headers, sorted by name. Headers that a proxy may change are not signed.
fn signed_headers(host: &str, headers: &HeaderMap) -> Vec<(String, String)> {
    let mut signed = vec![("host".to_owned(), host.to_owned())];
    for (name, value) in headers {
        let name = name.as_str();
        if name == "content-type" || name.starts_with("x-amz-") {
            let value = value.to_str().unwrap_or_default();
            let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            signed.push((name.to_owned(), value));
        }
    }
    signed.sort();
    signed
}

/// Returns the text of a request that AWS hashes and signs.
fn canonical_request(request: &UnsignedRequest<'_>, signed: &[(String, String)]) -> String {
    let mut text = String::from("POST\n");
    // The path of the URL is already escaped. Every service except S3 expects it to be escaped twice.
    text.push_str(&escape_path(request.url.path()));
    text.push('\n');
    text.push_str(&canonical_query(request.url.query().unwrap_or_default()));
    text.push('\n');
    for (name, value) in signed {
        // Writing to a string cannot fail.
        let _written = writeln!(text, "{name}:{value}").is_ok();
    }
    text.push('\n');
    text.push_str(&signed_header_names(signed));
    text.push('\n');
    text.push_str(&HEXLOWER.encode(digest(&SHA256, request.body).as_ref()));
    text
}

/// Returns the query with its parameters sorted.
fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(&str, &str)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// Input of a signature in addition to the canonical request.
struct Signer<'a> {
    credentials: Credentials<'a>,
    scope: Scope<'a>,
    timestamp: &'a str,
    /// Names and values of the signed headers.
    signed: &'a [(String, String)],
}

impl Signer<'_> {
    /// Computes the value of the `Authorization` header for a canonical request.
    fn authorization(&self, canonical: &str) -> String {
        let Self { credentials, timestamp, signed, .. } = self;
        let day = &timestamp[..8];
        let Scope { region, service } = self.scope;
        let scope_text = format!("{day}/{region}/{service}/aws4_request");
        let hash = HEXLOWER.encode(digest(&SHA256, canonical.as_bytes()).as_ref());
        let to_sign = format!("{ALGORITHM}\n{timestamp}\n{scope_text}\n{hash}");
        let secret = format!("AWS4{}", credentials.secret_key);
        let mut key = mac(secret.as_bytes(), day);
        for part in [region, service, "aws4_request"] {
            key = mac(key.as_ref(), part);
        }
        let signature = HEXLOWER.encode(mac(key.as_ref(), &to_sign).as_ref());
        format!(
            "{ALGORITHM} Credential={}/{scope_text}, SignedHeaders={}, Signature={signature}",
            credentials.access_key,
            signed_header_names(signed)
        )
    }
}

/// Returns the names of the signed headers, separated by `;`.
fn signed_header_names(signed: &[(String, String)]) -> String {
    let names: Vec<&str> = signed.iter().map(|(name, _)| name.as_str()).collect();
    names.join(";")
}

/// Returns the HMAC-SHA256 of a text.
fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// Formats a time as `20150830T123600Z`.
fn basic_format(now: Timestamp) -> String {
    let text = now.to_rfc3339();
    let seconds = text.get(..19).unwrap_or(&text);
    let digits: String = seconds.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    format!("{digits}Z")
}

/// Converts a text to a header value. Returns an error if it contains characters that a header cannot hold.
fn header_value(text: &str) -> Result<HeaderValue, ModelError> {
    HeaderValue::try_from(text).map_err(|cause| {
        let problem = "the AWS credentials contain characters that a header cannot hold: check them for line breaks and spaces";
        ModelError::new(ModelErrorClass::Auth, problem).caused_by(cause)
    })
}

/// Escapes one segment of a path.
pub(crate) fn escape_segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Escapes a path. Slashes are kept.
pub(crate) fn escape_path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

#[cfg(test)]
mod tests;
