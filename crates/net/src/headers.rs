//! Response headers that several clients read.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// Header with a delay in milliseconds, which some servers send.
const RETRY_AFTER_MS: &str = "retry-after-ms";

/// Returns the delay that the server requests: `retry-after-ms`, or else `Retry-After` in seconds or as a date. `None`
/// if there is neither header or its value is invalid.
///
/// A date in the past means no wait. The result has no upper limit; the caller sets one.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text(RETRY_AFTER_MS).and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let text = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        // 1994-11-06 08:49:37 UTC is ten seconds later.
        let now = UNIX_EPOCH + Duration::from_secs(784_111_767);
        for (pairs, expected) in [
            (vec![("retry-after", "7")], Some(7_000)),
            (vec![("retry-after", "0.5")], Some(500)),
            (vec![("retry-after-ms", "250"), ("retry-after", "7")], Some(250)),
            (vec![("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(10_000)),
            (vec![("retry-after", "Sun, 06 Nov 1994 08:49:17 GMT")], Some(0)),
            (vec![("retry-after", "soon")], None),
            (vec![("retry-after", "-1")], None),
            (vec![], None),
        ] {
            let found = retry_after(&headers(&pairs), now);
            assert_eq!(found, expected.map(Duration::from_millis), "{pairs:?}");
        }
    }
}
