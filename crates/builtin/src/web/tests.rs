//! Pages as text, and the tool against a server on this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use provost_net::{NetClient, NetPolicy};
use provost_tool::{FileArtifactStore, Guard, GuardServices, Tool};
use serde_json::{Value, json};

use super::*;
use crate::limits::OUTPUT_BYTES_MAX;
use crate::testing::{call, call_under, key};

fn page(html: &str, format: PageFormat) -> String {
    let url = Url::parse("https://example.com/docs/page").unwrap();
    let body =
        PageBody { bytes: html.as_bytes(), content_type: "text/html; charset=utf-8", url: &url };
    body.to_text(format).unwrap()
}

const ARTICLE: &str = r##"<!doctype html><html><head><title>Bread &amp; Butter</title>
<style>p { color: red }</style><script>if (1 < 2) alert("</p>")</script></head>
<body><nav><a href="/home">Home</a><a href="/about">About</a></nav>
<div class="sidebar"><p>Buy our things, they are the best things that were ever sold.</p></div>
<div class="content"><h2>How to bake</h2>
<p>Take <b>flour</b> and <em>water</em>, see <a href="../flour">the  flour
page</a> or <a href="javascript:alert(1)">this</a>.<p>A second paragraph that is quite long, so that this part has most of
the text of the page and is taken for its main part.
<ul><li>one<li>two <ul><li>inner</ul></ul>
<ol><li>first</li><li>second</li></ol>
<pre><code>let x = 1;
  let y = 2;</code></pre>
<blockquote><p>Said somebody wise.</p></blockquote>
<table><tr><th>a<th>b</tr><tr><td>1<td>2</table>
<img src="pic.png" alt="A loaf"><img src="spacer.gif">
<p hidden>invisible</p><!-- a comment --></div>
<footer>All rights reserved.</footer></body></html>"##;

#[test]
fn the_main_part_becomes_markdown() {
    assert_eq!(
        page(ARTICLE, PageFormat::Markdown),
        "# Bread & Butter\n\n## How to bake\n\nTake **flour** and *water*, see [the flour page](https://example.com/flour) \
         or this.\n\nA second paragraph that is quite long, so that this part has most of the text of the page and is \
         taken for its main part.\n\n- one\n- two\n  - inner\n\n1. first\n2. second\n\n```\nlet x = 1;\n  let y = \
         2;\n```\n\n> Said somebody wise.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n![A \
         loaf](https://example.com/docs/pic.png)\n"
    );
}

#[test]
fn text_has_no_marks_and_html_is_as_it_came() {
    let text = page(ARTICLE, PageFormat::Text);
    assert!(
        text.starts_with(
            "Bread & Butter\n\nHow to bake\n\nTake flour and water, see the flour page or this."
        ),
        "{text}"
    );
    assert!(!text.contains("**") && !text.contains("](") && !text.contains("```"), "{text}");
    assert_eq!(page(ARTICLE, PageFormat::Html), ARTICLE);
}

#[test]
fn a_page_without_a_main_part_is_read_whole() {
    assert_eq!(page("<p>short", PageFormat::Markdown), "short\n");
    assert_eq!(page("", PageFormat::Markdown), "\n");
    assert_eq!(page("a &lt; b &#65;&#x42; &nosuch; &", PageFormat::Text), "a < b AB &nosuch; &\n");
    assert_eq!(page("1 < 2 <", PageFormat::Text), "1 < 2 <\n");
}

#[test]
fn hostile_pages_end_soon() {
    let times = 50_000;
    for piece in [
        "<div>",
        "<b>",
        "</p>",
        "<a href=x>y</a>",
        "<li>",
        "<!--",
        "<a b='",
        "<script>",
        "&amp",
        "<table><tr><td>",
        "<",
        "<x y=\"z\" ",
        "<ul><li>",
        "<blockquote>",
    ] {
        let html = piece.repeat(times);
        for format in [PageFormat::Markdown, PageFormat::Text] {
            let text = page(&html, format);
            assert!(
                text.len() <= crate::limits::FETCH_TEXT_BYTES_MAX + 100_000,
                "{piece}: {}",
                text.len()
            );
        }
    }
}

proptest::proptest! {
    #[test]
    fn no_page_panics(html in "[<>/a-p\"'= !&#;x-zé\\-]{0,200}") {
        page(&html, PageFormat::Markdown);
        page(&html, PageFormat::Text);
    }
}

#[test]
fn encodings_are_those_of_the_header_or_the_page() {
    let url = Url::parse("https://example.com/").unwrap();
    for (bytes, content_type) in [
        (&b"caf\xe9"[..], "text/plain; charset=ISO-8859-1"),
        (b"caf\xc3\xa9", "text/plain"),
        (b"\xff\xfec\0a\0f\0\xe9\0", "text/plain; charset=utf-16"),
        (b"<meta charset=\"windows-1252\">caf\xe9", "text/html"),
    ] {
        let text = PageBody { bytes, content_type, url: &url }.to_text(PageFormat::Text).unwrap();
        assert_eq!(text.trim_end(), "café", "{content_type}");
    }
    for (bytes, content_type) in
        [(&b"\x89PNG\0"[..], "image/png"), (b"a\0b", "text/plain"), (b"%PDF", "application/pdf")]
    {
        let error =
            PageBody { bytes, content_type, url: &url }.to_text(PageFormat::Text).unwrap_err();
        assert!(error.to_string().contains("only text"), "{error}");
    }
    let json = |text: &str| {
        PageBody { bytes: text.as_bytes(), content_type: "application/json", url: &url }
            .to_text(PageFormat::Json)
    };
    assert_eq!(json("{\"a\": [1, 2]}").unwrap(), "{\"a\": [1, 2]}");
    assert!(json("<html>").unwrap_err().to_string().contains("not JSON"));
}

/// Answers each connection in turn with these bytes.
fn server(answers: Vec<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    address
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

fn get(tool: FnTool, arguments: Value) -> Result<ToolOutput, ToolError> {
    let tool: Arc<dyn Tool> = Arc::new(tool);
    call(&tool, arguments, &key(1))
}

fn open() -> NetClient {
    NetClient::new(NetPolicy::open())
}

#[test]
fn a_page_is_fetched_through_a_redirect() {
    let html = answer("200 OK", "Content-Type: text/html\r\n", "<title>T</title><p>Hello</p>");
    let address = server(vec![answer("302 Found", "Location: /there\r\n", ""), html]);
    let got =
        get(fetch(open()).unwrap(), json!({ "url": format!("http://{address}/here") })).unwrap();
    assert_eq!(got.to_text(), "# T\n\nHello\n");
    let facts = got.metadata.unwrap();
    assert_eq!(facts["url"], format!("http://{address}/there"));
    assert_eq!(facts["status"], 200);
}

#[test]
fn what_is_not_allowed_or_not_there_is_told() {
    let address = server(vec![
        answer("404 Not Found", "", "no"),
        answer("200 OK", "Content-Type: image/png\r\n", "x"),
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n{}",
            "x".repeat(FETCH_BYTES_MAX + 1)
        ),
    ]);
    let url = format!("http://{address}/");
    for why in ["404", "only text", "more than 10485760 bytes"] {
        let error = get(fetch(open()).unwrap(), json!({ "url": url })).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let closed = || fetch(NetClient::new(NetPolicy::default())).unwrap();
    for url in [
        "http://127.0.0.1/",
        "https://169.254.169.254/",
        "file:///etc/passwd",
        "https://localhost/",
        "nonsense",
        "",
    ] {
        let error = get(closed(), json!({ "url": url })).unwrap_err();
        assert!(!error.to_string().is_empty(), "{url}");
    }
}

#[test]
fn a_long_page_is_cut_and_kept_whole() {
    let body: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
    let reply = answer("200 OK", "Content-Type: text/plain\r\n", &body);
    let address = server(vec![reply.clone(), reply]);
    let url = format!("http://{address}/");
    let dir = tempfile::tempdir().unwrap();
    let spill = Arc::new(FileArtifactStore::new(dir.path(), "artifacts"));
    let got =
        get(fetch_with_artifacts(open(), spill).unwrap(), json!({ "url": url })).unwrap().to_text();
    assert!(
        got.starts_with("[showing first 2000 of 5000 lines (48893 bytes total)]\nline 1\n"),
        "{}",
        &got[..80]
    );
    assert!(
        got.contains("[Use offset=2001 to continue reading]\n["),
        "{}",
        &got[got.len() - 200..]
    );
    let kept = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(kept.path()).unwrap(), body);
    let got = get(fetch(open()).unwrap(), json!({ "url": url, "offset": 4001 })).unwrap().to_text();
    assert!(got.ends_with("line 5000\n"), "{got}");
}

#[tokio::test]
async fn what_is_kept_and_where_it_is_cut_holds_no_part_of_a_secret() {
    const SECRET: &str = "swordfish-swordfish-swordfish";
    // The lines before it fill what is shown, so that the cut is within the secret.
    let body = format!("{}{SECRET}\n{}", "x".repeat(OUTPUT_BYTES_MAX), "line\n".repeat(5000));
    let url = format!("http://{}/", server(vec![answer("200 OK", "", &body)]));
    let dir = tempfile::tempdir().unwrap();
    let spill = Arc::new(FileArtifactStore::new(dir.path(), "artifacts"));
    let redactor = provost_redact::Redactor::new();
    redactor.register(&provost_core::Secret::from(SECRET)).unwrap();
    let services = GuardServices { redact: Some(Arc::new(redactor)), ..GuardServices::default() };
    let guard = Guard::default().with_services(services);
    let tool = Arc::new(fetch_with_artifacts(open(), spill).unwrap()) as Arc<dyn Tool>;
    let shown = call_under(&guard, &tool, json!({ "url": url }), &key(1)).await.unwrap().to_text();
    let kept = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap();
    let kept = std::fs::read_to_string(kept.path()).unwrap();
    assert!(kept.contains("[REDACTED]") && kept.ends_with("line\n"));
    assert!(!kept.contains("sword") && !shown.contains("sword"));
}
