//! Tables of redacted and unchanged texts.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use provost_core::Secret;
use serde_json::json;

use super::redactor_with;
use crate::{PLACEHOLDER, Redactor, RegisterError};

/// `
///
/// ` represents the placeholder.
fn check(cases: &[(&str, &str)]) {
    let redactor = Redactor::new();
    for (text, want) in cases {
        let want = want.replace('¶', PLACEHOLDER);
        let got = redactor.redact(text);
        assert_eq!(got, want, "of {text:?}");
        assert_eq!(redactor.redact(&got), want, "again, of {text:?}");
        assert_eq!(redactor.contains_secret(text.as_bytes()), text != &want);
    }
}

fn unchanged(texts: &[&str]) {
    let cases: Vec<(&str, &str)> = texts.iter().map(|text| (*text, *text)).collect();
    check(&cases);
}

#[test]
fn keys_of_known_services_are_hidden() {
    let a = |prefix: &str, len: usize| {
        format!("{prefix}{}", &"a1B2c3D4e5F6g7H8j9K0".repeat(200)[..len])
    };
    let hex =
        |prefix: &str, len: usize| format!("{prefix}{}", &"0123456789abcdef".repeat(5)[..len]);
    let keys = [
        a("sk-", 48),
        a("sk-proj-", 120),
        a("sk-ant-api03-", 95),
        a("sk-or-v1-", 64),
        a("AIza", 35),
        a("ghp_", 36),
        a("gho_", 36),
        a("ghs_", 36),
        a("github_pat_", 82),
        a("xoxb-123456789012-", 24),
        a("xapp-1-", 60),
        a("sk_live_", 24),
        a("rk_test_", 24),
        a("whsec_", 32),
        a("glpat-", 20),
        a("npm_", 36),
        a("pypi-AgEIcHlwaS5vcmc", 120),
        a("hf_", 34),
        a("gsk_", 52),
        a("SG.", 66),
        a("GOCSPX-", 28),
        a("ya29.", 60),
        a("hvs.", 90),
        hex("dop_v1_", 64),
        hex("shpat_", 32),
        hex("dapi", 32),
        hex("sbp_", 40),
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        "ASIAIOSFODNN7EXAMPLE".to_owned(),
        format!("prv_01jd0000000000000000000000_{}", a("", 43)),
        format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{}", a("", 43)),
        a("sk-", 3000),
    ];
    for key in &keys {
        let shown = |text: &str| text.replace(key.as_str(), PLACEHOLDER);
        for text in [
            key.clone(),
            format!("the key {key} is bad"),
            format!("\"{key}\","),
            format!("a\\n{key}\\n"),
            format!("x%3D{key}"),
            format!("({key})"),
            format!("{key}\n{key}"),
        ] {
            assert_eq!(Redactor::new().redact(&text), shown(&text), "of {text:?}");
        }
    }
}

#[test]
fn what_only_resembles_a_key_stays() {
    unchanged(&[
        "task-management-system-2",
        "sk-button-primary-large",
        "sk-loading-spinner",
        "disk-usage1234567890",
        "risk-averse123abc",
        "AKIA",
        "AIzaShort",
        "eyJhbGciOiJIUzI1NiJ9",
        "npm_config_registry",
        "npm_lifecycle_event",
        "ghp_short",
        "https://example.com:8080/a@b",
        "mailto://me@example.com",
        "git@github.com:a/b.git",
        "https://user@example.com/",
        "postgres://user:password@localhost/db",
        "https://$USER:$PASS@example.com",
        "12:AAA",
        "postgres://${USER}:${PASSWORD}@host/db",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    ]);
}

#[test]
fn values_behind_labels_are_hidden_and_labels_stay() {
    check(&[
        ("Authorization: Bearer abc", "Authorization: Bearer ¶"),
        ("authorization: bearer abc.def-ghi\r\nHost: x", "authorization: bearer ¶\r\nHost: x"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ¶"),
        ("Authorization: 0123456789", "Authorization: ¶"),
        (
            "Proxy-Authorization: Digest username=\"a\", response=\"b\"",
            "Proxy-Authorization: Digest ¶",
        ),
        ("curl -H 'Authorization: token abcdef1' x", "curl -H 'Authorization: token ¶' x"),
        (
            "Authorization: AWS4-HMAC-SHA256 Credential=A/B, Signature=c",
            "Authorization: AWS4-HMAC-SHA256 ¶",
        ),
        ("X-Api-Key: swordfish1", "X-Api-Key: ¶"),
        ("x-api-key: 8f14e45f", "x-api-key: ¶"),
        ("Cookie: sid=abc; theme=dark\nHost: x", "Cookie: ¶\nHost: x"),
        ("Set-Cookie: sid=abc; HttpOnly", "Set-Cookie: ¶"),
        ("it says Bearer a1b2c3d4e5 here", "it says Bearer ¶ here"),
        ("it says Basic dXNlcjpwYXNzd29yZA== here", "it says Basic ¶ here"),
        ("password=hunter2", "password=¶"),
        ("password=hunter2&user=me", "password=¶&user=me"),
        ("PASSWORD=hunter", "PASSWORD=¶"),
        ("export DB_PASSWORD='hunter 2'", "export DB_PASSWORD='¶'"),
        ("password: hunter2", "password: ¶"),
        ("password: swordfish\nuser: me", "password: ¶\nuser: me"),
        ("api_key = abc123def456", "api_key = ¶"),
        ("apikey:abc123def456", "apikey:¶"),
        ("secret=a1b2c3d4e5f6", "secret=¶"),
        ("token: a1b2c3d4e5f6", "token: ¶"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "AWS_SECRET_ACCESS_KEY=¶"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "aws_secret_access_key = ¶"),
        ("GET /a?token=x&b=c HTTP/1.1", "GET /a?token=¶&b=c HTTP/1.1"),
        ("https://a/b?x=1&access_token=abc#f", "https://a/b?x=1&access_token=¶"),
        ("?X-Amz-Signature=0a1b2c&x=y", "?X-Amz-Signature=¶&x=y"),
        ("next=%2Fa%3Ftoken%3Dabcdef123456", "next=%2Fa%3Ftoken%3D¶"),
        ("https://me:pa55@example.com/x", "https://me:¶@example.com/x"),
        ("https:\\/\\/me:pa55@example.com\\/x", "https:\\/\\/me:¶@example.com\\/x"),
        ("postgres://u:p@ss@db:5432/x", "postgres://u:¶@db:5432/x"),
        ("--password hunter2 --user me", "--password ¶ --user me"),
        ("--api-key=abcdef12", "--api-key=¶"),
        ("<password>hunter2</password>", "<password>¶</password>"),
        ("let password: &str = \"hunter2\";", "let password: &str = \"¶\";"),
        ("const TOKEN = 'a1b2c3d4e5';", "const TOKEN = '¶';"),
        ("headers[\"x-api-key\"] = \"abcdefgh\"", "headers[\"x-api-key\"] = \"¶\""),
        ("password: \"it has \\\"quotes\\\" in it\", x", "password: \"¶\", x"),
        (
            "bot123456789:AAabcdefghijklmnopqrstuvwxyz012345/x",
            "bot123456789:AAabcdefghijklmnopqrstuvwxyz012345/x",
        ),
        ("bot123456789:AAabcdefghijklmnopqrstuvwxyz0123456/x", "bot123456789:¶/x"),
    ]);
}

#[test]
fn json_is_understood_at_any_depth_of_quoting() {
    let mut text =
        json!({ "a": 1, "password": "hunter \"two\" \\ x", "clientSecret": "abc\ndef1", "b": "x" })
            .to_string();
    for _ in 0..4 {
        let clean = Redactor::new().redact(&text).into_owned();
        assert!(
            !clean.contains("hunter") && !clean.contains("two") && !clean.contains("def1"),
            "{clean}"
        );
        assert_eq!(clean.matches(PLACEHOLDER).count(), 2, "{clean}");
        assert!(clean.contains("password") && clean.contains("clientSecret"), "{clean}");
        // The result is still valid JSON.
        serde_json::from_str::<serde_json::Value>(&clean).unwrap();
        text = json!(text).to_string();
    }
    check(&[
        (r#"{"password":"","x":1}"#, r#"{"password":"","x":1}"#),
        (r#"{"password": null, "token": 12}"#, r#"{"password": null, "token": 12}"#),
        (r#"{"Authorization":"Bearer abc"}"#, r#"{"Authorization":"Bearer ¶"}"#),
        (r#"{'api_key': 'abcd1234'}"#, r#"{'api_key': '¶'}"#),
    ]);
}

#[test]
fn private_keys_are_hidden_between_their_first_and_last_line() {
    check(&[
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIE/+a=\n-----END RSA PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----¶-----END RSA PRIVATE KEY-----\n",
        ),
        (
            "{\"k\":\"-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----\\n\",\"x\":1}",
            "{\"k\":\"-----BEGIN PRIVATE KEY-----¶-----END PRIVATE KEY-----\\n\",\"x\":1}",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "-----BEGIN OPENSSH PRIVATE KEY-----¶"),
    ]);
}

#[test]
fn what_is_said_about_secrets_stays() {
    unchanged(&[
        "password: String,",
        "password: &str",
        "password: Option<String>,",
        "pub token: Secret<String>,",
        "token: u64",
        "let token = parse(text)?;",
        "token = self.next_token()",
        "password=password",
        "password=args.password",
        "password = os.environ[\"DB_PASSWORD\"]",
        "api_key=settings.api_key",
        "token=None",
        "secret: true",
        "if token == other {",
        "token::hash(&secret)",
        "max_tokens: 4096",
        "\"max_tokens\": 4096",
        "next_page_token: abc123def456",
        "\"eos_token\": \"</s>\"",
        "\"token\": \"hello\"",
        "password: ${DB_PASSWORD}",
        "password: <your password>",
        "password={{ password }}",
        "password=****",
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "api_key: YOUR_API_KEY",
        "the password: it must be long",
        "Tokens: 512 in, 20 out",
        "Authorization: see below for more",
        "Bearer authentication is used",
        "Basic authentication",
        "the Authorization: Bearer header",
        "Bearer tokens: a guide",
        "Basic understanding of things",
        "\"password\": \"Enter your password\"",
        "secretRef: db:password",
        "tokenURL: https://x/y",
        "secret_ref: a",
        "Cookie: a small file",
        "cookie: session",
        "PWD=/home/me/x1y2z3",
        "password.len()",
        "a secret: none",
        "password: string;",
        "\"secret\": {\"name\": \"x\"}",
        "--token <TOKEN>",
        "--password PASSWORD",
        "passed: 12, failed: 3",
        "token-count: 1234abcd5678",
        "private_key: /etc/ssl/key1.pem",
        "credentials: include",
        "\"signature\": \"fn x() -> u8\"",
        "secret: my-db-credentials",
        "token: TokenId",
        "(password == \"\")",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    ]);
}

#[test]
fn learned_values_are_hidden_in_every_form() {
    let value = "pä\"ss/w+rd\n~7?x=1 &c";
    let redactor = redactor_with(&[value]);
    let json1 = serde_json::to_string(value).unwrap();
    let json2 = serde_json::to_string(&json1).unwrap();
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for text in [
        value.to_owned(),
        json1,
        json2,
        BASE64_STANDARD.encode(value),
        BASE64_URL_SAFE_NO_PAD.encode(value),
        BASE64_STANDARD.encode(format!("a{value}b")),
        BASE64_STANDARD.encode(format!("me:{value}")),
        hex.to_uppercase(),
        hex,
        percent.to_lowercase(),
        percent,
        "p\\u00e4\\\"ss/w+rd\\n~7?x=1 &c".to_owned(),
        "p%C3%A4%22ss%2Fw%2Brd%0A~7%3Fx%3D1+%26c".to_owned(),
    ] {
        let clean = redactor.redact(&text);
        assert!(clean.contains(PLACEHOLDER), "{text}");
        let rest = clean.replace(PLACEHOLDER, "");
        assert!(rest.len() <= 8, "{text} became {clean}");
    }
    assert_eq!(redactor.redact("nothing of it"), "nothing of it");
}

#[test]
fn long_values_and_many_with_one_beginning_are_found() {
    let long: String = (0..9000).map(|n| char::from(b'a' + (n * n % 23) as u8)).collect();
    let many: Vec<String> =
        (0..500).map(|n| format!("common-beginning-of-all-keys-{n:04}")).collect();
    let redactor =
        redactor_with(&many.iter().map(String::as_str).chain([long.as_str()]).collect::<Vec<_>>());
    assert_eq!(redactor.redact(&format!("<{long}>")), format!("<{PLACEHOLDER}>"));
    assert_eq!(
        redactor.redact(&format!("<{}>", BASE64_STANDARD.encode(&long))),
        format!("<{PLACEHOLDER}>")
    );
    for key in &many {
        assert_eq!(redactor.redact(&format!("a {key} b")), format!("a {PLACEHOLDER} b"));
    }
    assert_eq!(redactor.redact("common-beginning-of-all-keys-x"), "common-beginning-of-all-keys-x");
}

#[test]
fn values_that_stand_everywhere_are_refused_with_a_reason() {
    let redactor = Redactor::new();
    let register = |value: &str| redactor.register(&Secret::from(value));
    assert_eq!(register("abc"), Err(RegisterError::TooShort { len: 3 }));
    assert_eq!(register("  a  "), Err(RegisterError::TooShort { len: 1 }));
    assert_eq!(register("abcd"), Ok(()));
    assert!(matches!(register(&"x".repeat(2 << 20)), Err(RegisterError::TooLong { .. })));
    assert!(RegisterError::TooShort { len: 3 }.to_string().contains("4 bytes"));
    assert_eq!(redactor.redact("an abc and abcd"), format!("an abc and {PLACEHOLDER}"));
}

#[test]
fn a_value_that_is_learned_under_way_is_hidden_at_once() {
    let redactor = Redactor::new();
    let mut stream = redactor.stream();
    let mut out = stream.push(b"swordfish is not known yet, and then it is: ");
    redactor.register(&Secret::from("swordfish")).unwrap();
    out.extend(stream.push(b"sword"));
    out.extend(stream.push(b"fish"));
    out.extend(stream.finish());
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, format!("swordfish is not known yet, and then it is: {PLACEHOLDER}"));
}

#[test]
fn json_values_are_redacted_in_place() {
    let redactor = redactor_with(&["swordfish", "987654"]);
    let mut value = json!({
        "password": "x", "pin": 987654, "count": 7, "headers": { "Authorization": ["Bearer abc"], "cookie": "a=b; c=d" },
        "list": ["a swordfish", "b"], "swordfish": 1, "token": "hello", "api_key": null, "apiKey": "abcd1234", "passcode": 1234,
    });
    assert!(redactor.redact_json(&mut value));
    assert_eq!(
        value,
        json!({
            "password": PLACEHOLDER, "pin": PLACEHOLDER, "count": 7, "headers": { "Authorization": [format!("Bearer {PLACEHOLDER}")], "cookie": PLACEHOLDER },
            "list": [format!("a {PLACEHOLDER}"), "b"], PLACEHOLDER: 1, "token": "hello", "api_key": null, "apiKey": PLACEHOLDER, "passcode": PLACEHOLDER,
        })
    );
    assert!(!redactor.redact_json(&mut value));
}

#[test]
fn it_cannot_be_read_back() {
    let redactor = redactor_with(&["swordfish"]);
    assert_eq!(format!("{redactor:?}"), "Redactor([REDACTED])");
}
