//! What a search puts first.

use serde_json::json;

use super::*;

fn def(name: &str, description: &str, arguments: &[&str]) -> Arc<ToolDefinition> {
    let properties: serde_json::Map<_, _> =
        arguments.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    let input_schema = json!({ "type": "object", "properties": properties });
    Arc::new(ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
    })
}

fn office() -> Vec<Arc<ToolDefinition>> {
    vec![
        def("send_mail", "Sends a message to somebody", &["recipient", "subject", "body"]),
        def("list_mail", "Lists the messages of a folder", &["folder"]),
        def("create_issue", "Opens a ticket in the tracker", &["title", "body"]),
        def("closeIssue", "Closes a ticket", &["number"]),
        def("weather", "Tells the forecast for a city", &["city", "days"]),
        def("天気", "天気予報を調べる", &["都市"]),
        def("read_file", "Reads a file; never deletes anything", &["path"]),
    ]
}

/// The names that are found for a query, in order.
fn check(query: &str, expected: &[&str]) {
    let defs = office();
    let found = Index::new(defs.clone()).search(query, 3);
    let names: Vec<&str> = found.into_iter().map(|place| defs[place].name.as_str()).collect();
    assert_eq!(names, expected, "for {query:?}");
}

#[test]
fn names_count_more_than_descriptions_and_descriptions_as_much_as_arguments() {
    check("mail", &["list_mail", "send_mail"]);
    check("forecast", &["weather"]);
    check("recipient", &["send_mail"]);
    check("close ticket", &["closeIssue", "create_issue"]);
}

#[test]
fn words_match_in_other_forms_and_by_their_beginning() {
    check("sending mails", &["send_mail", "list_mail"]);
    check("WEATHER", &["weather"]);
    check("creating issues", &["create_issue", "closeIssue"]);
    check("fore", &["weather"]);
    check("close", &["closeIssue"]);
    check("天気", &["天気"]);
}

#[test]
fn a_name_as_it_is_comes_first_and_equal_ones_keep_their_order() {
    check("list_mail", &["list_mail", "send_mail"]);
    let twins =
        vec![def("b", "the same", &[]), def("a", "the same", &[]), def("c", "same the", &[])];
    assert_eq!(Index::new(twins).search("same", 9), [0, 1, 2]);
}

#[test]
fn what_does_not_fit_is_not_found() {
    for query in ["", "   ", "!?", "quantum", "zz"] {
        check(query, &[]);
    }
    assert!(Index::new(Vec::new()).search("mail", 3).is_empty());
}

#[test]
fn a_rare_word_decides() {
    let mut defs: Vec<_> =
        (0..50).map(|n| def(&format!("get_{n}"), "Gets a report by its number", &[])).collect();
    defs.push(def("other", "Gets a report of the moon", &[]));
    assert_eq!(Index::new(defs).search("a report of the moon", 1), [50]);
}

#[test]
fn hostile_texts_are_bounded() {
    let mut schema = json!({});
    for _ in 0..200 {
        schema = json!({ "properties": { "deep": schema } });
    }
    let long = "word ".repeat(100_000);
    let tool = ToolDefinition { name: "x".into(), description: long.clone(), input_schema: schema };
    let index = Index::new(vec![Arc::new(tool), def("y", &"a".repeat(100_000), &[])]);
    assert!(index.words.len() < 10, "{:?}", index.words.keys());
    assert_eq!(index.search(&long, 5), [0]);
}

#[test]
fn an_index_knows_its_tools() {
    let defs = office();
    let index = Index::new(defs.clone());
    assert!(index.is_of(&defs));
    assert!(!index.is_of(&defs[1..]));
    assert!(!index.is_of(&office()), "equal, but not the same");
}
