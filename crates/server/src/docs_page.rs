//! The documentation page: all operations with their schemas, and a form to send requests. It loads no external resources.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("docs_page/style.css");
const SCRIPT: &str = include_str!("docs_page/page.js");

/// The HTML of the page.
pub(crate) static PAGE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Provost API</title>\n<style>{STYLE}</style>\n<body>\n\
         <noscript>This page needs JavaScript. The OpenAPI document is at <a href=\"/openapi.json\">/openapi.json</a>.</noscript>\n\
         <main id=\"main\"></main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
});

/// Content security policy of the page: its own style, its own script and requests to this server.
pub(crate) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_its_own_script_and_names_no_other_place() {
        assert!(PAGE.contains(SCRIPT) && PAGE.contains(STYLE));
        assert!(!PAGE.contains("http://") && !PAGE.contains("https://"));
        assert!(!SCRIPT.contains("innerHTML"), "what the server says is text, never markup");
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
    }
}
