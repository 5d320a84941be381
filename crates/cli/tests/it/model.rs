//! `provost model`, and runs as cassettes.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::World;

fn done(world: &World, args: &[&str]) -> String {
    let ran = world.run(args);
    assert_eq!(ran.code, 0, "{args:?} {ran:?}");
    ran.out
}

fn data(world: &World, args: &[&str]) -> Value {
    serde_json::from_str(&done(world, args)).unwrap()
}

#[test]
fn models_are_listed_found_shown_and_priced() {
    let world = World::new();
    let table = done(&world, &["model", "list", "--provider", "anthropic"]);
    assert!(table.contains("anthropic/claude-opus-5") && !table.contains("openai/"), "{table}");
    let found = data(&world, &["model", "search", "embedding", "small", "--json"]);
    assert_eq!(found["items"][0]["model"], "text-embedding-3-small");
    let shown = data(&world, &["model", "get", "gpt-4o", "--json"]);
    assert_eq!((&shown["provider"], &shown["context_window"]), (&json!("openai"), &json!(128_000)));
    let args = [
        "model", "price", "gpt-4o", "--input", "1000000", "--cached", "400000", "--output",
        "100000",
    ];
    assert_eq!(done(&world, &args), "$3\n");
    let unknown = world.run(&["model", "get", "nobody/nothing"]);
    assert_eq!(unknown.code, 5, "{unknown:?}");
    assert!(unknown.err.contains("provost model search"), "{unknown:?}");
    let unpriced = world.run(&["model", "price", "openai/gpt-5.6-sol", "--input", "1"]);
    assert_eq!(unpriced.code, 2, "{unpriced:?}");
}

#[test]
fn a_catalog_of_ones_own_is_laid_over() {
    let world = World::new();
    let own = "[[model]]\nprovider = \"house\"\nmodel = \"talker\"\npricing = { input = \"1\", output = \"2\", reasoning = \"4\" }\n";
    std::fs::write(world.path().join("own.toml"), own).unwrap();
    let price = ["model", "price", "talker", "--output", "1000000", "--reasoning", "500000"];
    assert_eq!(world.run(&price).code, 5, "it is not there yet");
    assert_eq!(done(&world, &[&price[..], &["--catalog", "own.toml"]].concat()), "$3\n");
    let mut command = world.command(&price);
    let ran = crate::Ran::of(&command.env("PROVOST_CATALOG", "own.toml").output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, "$3\n"), "{ran:?}");
    std::fs::write(world.path().join("own.toml"), "[[model]]\nspeed = 1\n").unwrap();
    let broken = world.run(&["model", "list", "--catalog", "own.toml"]);
    assert_eq!(broken.code, 2, "{broken:?}");
    assert!(broken.err.contains("own.toml"), "{broken:?}");
}

#[test]
fn a_provider_is_asked_for_its_models() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let read = stream.read(&mut head).unwrap();
        let body = r#"{"models":[{"name":"llama3.2:latest"}]}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let world = World::new();
    let args =
        ["model", "refresh", "ollama", "--base-url", &url, "--file", "models.json", "--json"];
    assert_eq!(data(&world, &args)["models"], 1);
    assert!(server.join().unwrap().starts_with("GET /api/tags "));
    let args = ["model", "get", "ollama/llama3.2:latest", "--json", "--catalog", "models.json"];
    assert_eq!(data(&world, &args)["provider"], "ollama");
}

#[test]
fn a_run_becomes_a_cassette_by_one_command() {
    let world = World::new();
    done(&world, &["exec", "--model", "demo", "my key is sk-proj-abcdefgh12345678"]);
    let runs = data(&world, &["run", "list", "-o", "json"]);
    let run = runs["items"][0]["id"].as_str().unwrap();
    let said = done(&world, &["run", "export-cassette", run, "--file", "talk.json"]);
    assert!(said.contains("to talk.json"), "{said}");
    let text = std::fs::read_to_string(world.path().join("talk.json")).unwrap();
    assert!(!text.contains("abcdefgh12345678"), "{text}");
    let cassette: Value = serde_json::from_str(&text).unwrap();
    assert!(
        cassette["calls"][0]["answer"]["response"]["message"]["parts"][0].is_object(),
        "{text}"
    );
    assert_eq!(data(&world, &["run", "export-cassette", run]), cassette);
    let missing = world.run(&["run", "export-cassette", "run_01jd0000000000000000000000"]);
    assert_eq!(missing.code, 5, "{missing:?}");
}
