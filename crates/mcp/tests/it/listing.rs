//! Lists of tools: names, pages, changes, what servers say about their own tools.

use provost_core::recovery::EffectClass;
use provost_mcp::McpPool;
use serde_json::json;

use crate::support::{find, list, names, say, server};

#[tokio::test]
async fn tools_carry_the_name_of_their_server_and_their_whole_schema() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let offered = list(&tools).await.unwrap();
    assert!(names(&offered).iter().all(|name| name.starts_with("test_")));
    let echo = find(&offered, "test_echo");
    assert_eq!(echo.spec().def().description, "Does echo");
    let schema = &echo.spec().def().input_schema;
    assert_eq!(schema["properties"]["message"]["minLength"], 2);
    assert_eq!(schema["required"], json!(["message"]));
    pool.close().await;
}

#[tokio::test]
async fn pages_are_joined() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("pages")).unwrap();
    assert_eq!(names(&list(&tools).await.unwrap()), ["test_t0", "test_t1", "test_t2"]);
    pool.close().await;
}

#[tokio::test]
async fn a_server_is_believed_about_effects_only_if_it_is_trusted() {
    let pool = McpPool::new();
    let class = |offered: &[_], name: &str| find(offered, name).spec().effect;
    let offered = list(&pool.toolset(server("good")).unwrap()).await.unwrap();
    for name in ["test_echo", "test_put", "test_wipe"] {
        assert_eq!(class(&offered, name), EffectClass::Opaque, "{name}");
    }
    let trusted = list(&pool.toolset(server("good").trust_annotations()).unwrap()).await.unwrap();
    assert_eq!(class(&trusted, "test_echo"), EffectClass::Pure);
    assert_eq!(class(&trusted, "test_put"), EffectClass::Idempotent);
    assert_eq!(class(&trusted, "test_wipe"), EffectClass::Opaque);
    pool.close().await;
}

#[tokio::test]
async fn the_list_is_kept_until_the_server_says_that_it_changed() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    for _ in 0..3 {
        assert!(!names(&list(&tools).await.unwrap()).contains(&"test_extra"));
    }
    assert_eq!(say(&tools, "test_lists", json!({})).await, "1");
    assert_eq!(say(&tools, "test_change", json!({})).await, "changed");
    assert!(names(&list(&tools).await.unwrap()).contains(&"test_extra"));
    assert_eq!(say(&tools, "test_lists", json!({})).await, "2");
    pool.close().await;
}

#[tokio::test]
async fn a_storm_of_changes_costs_one_list_each_turn() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    assert_eq!(say(&tools, "test_storm", json!({})).await, "stormed");
    list(&tools).await.unwrap();
    assert_eq!(say(&tools, "test_lists", json!({})).await, "2");
    pool.close().await;
}

#[tokio::test]
async fn a_server_of_the_newer_generation_is_asked_to_tell() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("modern")).unwrap();
    list(&tools).await.unwrap();
    while !say(&tools, "test_seen", json!({})).await.contains("subscriptions/listen") {}
    pool.close().await;
}
