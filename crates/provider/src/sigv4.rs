//! AWS Signature Version 4: a request proves that its sender knows a secret without sending it.

use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use provost_core::Timestamp;
use provost_model::{ModelError, ModelErrorClass};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};
use ring::hmac;

use crate::wire::Unsigned;

/// The characters of a path segment that are escaped.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The characters of a path that are escaped.
const PATH: &AsciiSet = &SEGMENT.remove(b'/');

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Who signs.
#[derive(Clone, Copy)]
pub(crate) struct Credentials<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a str,
    pub(crate) session_token: Option<&'a str>,
}

/// What for.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
}

/// Adds the headers that sign a `POST` request.
pub(crate) fn sign(
    credentials: Credentials<'_>,
    scope: Scope<'_>,
    request: &mut Unsigned<'_>,
) -> Result<(), ModelError> {
    let moment = basic_format(request.now);
    request.headers.insert(DATE, value(&moment)?);
    if let Some(token) = credentials.session_token {
        let mut token = value(token)?;
        token.set_sensitive(true);
        request.headers.insert(TOKEN, token);
    }
    let host = match (request.url.host_str(), request.url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    };
    let signed = signed_headers(&host, request.headers);
    let canonical = canonical_request(request, &signed);
    let signing = Signing { credentials, scope, moment: &moment, signed: &signed };
    let authorization = signing.authorization(&canonical);
    let mut authorization = value(&authorization)?;
    authorization.set_sensitive(true);
    request.headers.insert(AUTHORIZATION, authorization);
    Ok(())
}

/// Headers that are signed, by name. What a proxy may change on the way is not among them.
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

fn canonical_request(request: &Unsigned<'_>, signed: &[(String, String)]) -> String {
    let mut text = String::from("POST\n");
    // The path of the URL is escaped already; for all services but one it is escaped again.
    text.push_str(&escape_path(request.url.path()));
    text.push('\n');
    text.push_str(&canonical_query(request.url.query().unwrap_or_default()));
    text.push('\n');
    for (name, value) in signed {
        // A text takes everything that is written to it.
        let _written = writeln!(text, "{name}:{value}").is_ok();
    }
    text.push('\n');
    text.push_str(&names(signed));
    text.push('\n');
    text.push_str(&HEXLOWER.encode(digest(&SHA256, request.body).as_ref()));
    text
}

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

/// What a signature is made of, besides the request itself.
struct Signing<'a> {
    credentials: Credentials<'a>,
    scope: Scope<'a>,
    moment: &'a str,
    /// The headers that are signed.
    signed: &'a [(String, String)],
}

impl Signing<'_> {
    /// The `Authorization` header of a canonical request.
    fn authorization(&self, canonical: &str) -> String {
        let Self { credentials, moment, signed, .. } = self;
        let day = &moment[..8];
        let Scope { region, service } = self.scope;
        let place = format!("{day}/{region}/{service}/aws4_request");
        let hash = HEXLOWER.encode(digest(&SHA256, canonical.as_bytes()).as_ref());
        let to_sign = format!("{ALGORITHM}\n{moment}\n{place}\n{hash}");
        let secret = format!("AWS4{}", credentials.secret_key);
        let mut key = mac(secret.as_bytes(), day);
        for part in [region, service, "aws4_request"] {
            key = mac(key.as_ref(), part);
        }
        let signature = HEXLOWER.encode(mac(key.as_ref(), &to_sign).as_ref());
        format!(
            "{ALGORITHM} Credential={}/{place}, SignedHeaders={}, Signature={signature}",
            credentials.access_key,
            names(signed)
        )
    }
}

fn names(signed: &[(String, String)]) -> String {
    let names: Vec<&str> = signed.iter().map(|(name, _)| name.as_str()).collect();
    names.join(";")
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// `20150830T123600Z`.
fn basic_format(now: Timestamp) -> String {
    let text = now.to_rfc3339();
    let seconds = text.get(..19).unwrap_or(&text);
    let digits: String = seconds.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    format!("{digits}Z")
}

fn value(text: &str) -> Result<HeaderValue, ModelError> {
    HeaderValue::try_from(text).map_err(|cause| {
        let problem = "the AWS credentials hold characters that no header may hold: check them for line breaks and spaces";
        ModelError::new(ModelErrorClass::Auth, problem).caused_by(cause)
    })
}

/// Escapes a text that is one segment of a path.
pub(crate) fn escape_segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Escapes a text that is a path: slashes stay.
pub(crate) fn escape_path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

#[cfg(test)]
mod tests;
