use serde_json::{Value, json};

use super::*;

fn values(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn render(source: &str, with: Value) -> Result<String, PromptError> {
    Template::new(source)?.render(&values(with))
}

#[test]
fn s218_substitution_plain_text_and_parse_errors() {
    assert_eq!(render("Hello {{ name }}!", json!({"name": "Ada"})).unwrap(), "Hello Ada!");
    assert_eq!(render("plain", json!({})).unwrap(), "plain");
    assert_eq!(
        render("{% for x in list %}{{ x }},{% endfor %}", json!({"list": [1, 2]})).unwrap(),
        "1,2,"
    );
    let error = Template::new("a\nb {{ name").unwrap_err();
    assert!(matches!(error, PromptError::Syntax { line: 2, .. }), "{error}");
}

#[test]
fn s218_everything_missing_is_listed_with_what_to_do() {
    let error = render("{{ b }} {{ a }} {{ c }}", json!({"c": 1})).unwrap_err();
    assert_eq!(error, PromptError::Missing(vec!["a".into(), "b".into()]));
    assert_eq!(error.to_string(), "the template needs `a`, `b`: set it with `.state(name, value)`");
    let required = Template::new("fixed").unwrap().require(["user", "day"]);
    assert_eq!(
        required.render(&values(json!({"day": 1}))),
        Err(PromptError::Missing(vec!["user".into()]))
    );
    assert_eq!(required.render(&values(json!({"day": 1, "user": 2}))).unwrap(), "fixed");
    assert!(matches!(render("{{ a.b.c }}", json!({"a": {}})), Err(PromptError::Render { .. })));
}

#[test]
fn s218_a_default_excuses_a_missing_value() {
    assert_eq!(render("{{ name | default('you') }}", json!({})).unwrap(), "you");
}

#[test]
fn s218_the_same_source_renders_the_same_and_another_source_is_another_template() {
    let first = Template::new("{{ x }}").unwrap();
    let second = Template::new("{{ x }}!").unwrap();
    assert_eq!(first.render(&values(json!({"x": 1}))).unwrap(), "1");
    assert_eq!(second.render(&values(json!({"x": 1}))).unwrap(), "1!");
    assert_eq!(first.source(), "{{ x }}");
}

#[test]
fn s218_own_functions_win() {
    let template = Template::with_functions("{{ 'a' | upper }}", |environment| {
        environment.add_filter("upper", |text: &str| format!("<{text}>"));
    });
    assert_eq!(template.unwrap().render(&Map::new()).unwrap(), "<a>");
}

#[test]
fn s218_every_filter_and_function() {
    let table = [
        ("{{ 'ab' | upper }}{{ 'AB' | lower }}{{ ' a ' | trim }}", "ABaba"),
        ("{{ 'prefix-x' | trim_prefix('prefix-') }}", "x"),
        ("{{ 'x.md' | trim_suffix('.md') }}", "x"),
        ("{{ 'abc' | replace('b', '_') }}", "a_c"),
        (
            "{{ 'abc' | contains('b') }} {{ 'abc' | has_prefix('b') }} {{ 'abc' | has_suffix('c') }}",
            "True False True",
        ),
        ("{{ 'a,b' | split(',') | join('+') }}", "a+b"),
        ("{{ [1, 2] | first }}{{ [1, 2] | last }}[{{ [] | first }}]", "12[]"),
        ("{{ list(1, 2) | join('-') }}", "1-2"),
        ("{{ coalesce('', none, 'x') }}", "x"),
        (
            "{{ empty('') }} {{ empty(0) }} {{ empty([]) }} {{ empty(none) }} {{ empty(false) }} {{ empty({}) }}",
            "True True True True True True",
        ),
        ("{{ empty('a') }} {{ empty(1) }} {{ empty([0]) }}", "False False False"),
        ("{{ ternary('y', 'n', 1 < 2) }}", "y"),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
        ("{{ 'a\nb' | nindent(2) }}", "\n  a\n  b"),
        ("{{ 'a' | quote }} {{ 'a' | squote }}", "\"a\" 'a'"),
        ("{{ 1 == 1.0 }} {{ 1 != 2 }} {{ 2 >= 2 }}", "True True True"),
    ];
    for (source, expected) in table {
        assert_eq!(render(source, json!({})).unwrap(), expected, "{source}");
    }
}
