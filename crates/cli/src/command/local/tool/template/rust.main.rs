//! A tool: reads a request from its standard input, writes a response to its standard output.

use std::io::Read;

fn main() {
    let mut request = String::new();
    let answer = match std::io::stdin().read_to_string(&mut request) {
        Ok(_) => answer(&request),
        Err(_) => failed("the request is no text"),
    };
    println!("{answer}");
}

/// `input` of the request is the arguments, as JSON in a text.
fn answer(request: &str) -> String {
    let text = field(request, "input").and_then(|input| field(&input, "text"));
    match text {
        Some(text) => {
            let words = text.split_whitespace().count();
            format!(r#"{{"contract_version":"v1","status":"ok","output":"{words}"}}"#)
        }
        None => failed("`text` is missing"),
    }
}

fn failed(message: &str) -> String {
    format!(
        r#"{{"contract_version":"v1","status":"error","error":{{"code":"invalid_input","reason":"tool_invalid_input","retryable":false,"message":"{message}"}}}}"#
    )
}

/// Returns the text field `name` of a JSON object. `None` if there is none. Add serde_json as soon as you need more.
fn field(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    let (mut text, mut chars) = (String::new(), rest.chars());
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => text.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).unwrap_or('?')
                }
                other => other,
            }),
            other => text.push(other),
        }
    }
}
