use super::*;

fn typed(text: &str) -> Input {
    let mut input = Input::default();
    input.insert(text);
    input
}

#[test]
fn editing_works_on_whole_graphemes() {
    let mut input = typed("añ👩‍👩‍👧z");
    input.left();
    input.backspace();
    assert_eq!(input.text(), "añz");
    input.home();
    input.delete();
    input.right();
    input.insert("日");
    assert_eq!(input.text(), "ñ日z");
    input.left();
    input.left();
    input.left();
    input.backspace();
    assert_eq!(input.text(), "ñ日z");
}

#[test]
fn words_and_lines_can_be_removed() {
    let mut input = typed("one two  three");
    input.delete_word();
    assert_eq!(input.text(), "one two  ");
    input.delete_word();
    assert_eq!(input.text(), "one ");
    let mut input = typed("first\nsecond line");
    input.word_left();
    input.delete_to_start();
    assert_eq!(input.text(), "first\nline");
    input.delete_to_end();
    assert_eq!(input.text(), "first\n");
    let mut input = typed("a bc d");
    input.home();
    input.word_right();
    input.word_right();
    input.insert("!");
    assert_eq!(input.text(), "a bc! d");
}

#[test]
fn a_paste_is_cleaned_and_bounded() {
    let mut input = typed("x");
    input.insert("a\r\nb\rc\x1b[31m\x07\td");
    assert_eq!(input.text(), "xa\nb\nc[31m\td");
    let mut input = Input::default();
    input.insert(&"ä".repeat(INPUT_BYTES_MAX));
    assert_eq!(input.text().len(), INPUT_BYTES_MAX);
}

#[test]
fn up_and_down_move_in_lines_first_and_then_in_history() {
    let mut input = typed("older");
    input.submit();
    input.insert("newer");
    input.submit();
    input.insert("draft\nline");
    input.up();
    input.insert("^");
    assert_eq!(input.text(), "draf^t\nline");
    input.up();
    assert_eq!(input.text(), "newer");
    input.up();
    input.up();
    assert_eq!(input.text(), "older");
    input.down();
    input.down();
    assert_eq!(input.text(), "draf^t\nline");
    input.down();
    assert_eq!(input.text(), "draf^t\nline");
}

#[test]
fn rows_wrap_by_columns_and_know_the_cursor() {
    let check = |input: &Input, width, rows: &[&str], cursor| {
        let expected = Rows { rows: rows.iter().map(|&row| row.to_owned()).collect(), cursor };
        assert_eq!(input.rows(width), expected);
    };
    check(&Input::default(), 5, &[""], (0, 0));
    check(&typed("abc"), 5, &["abc"], (0, 3));
    check(&typed("abcde"), 5, &["abcde", ""], (1, 0));
    check(&typed("日本語"), 4, &["日本", "語"], (1, 2));
    check(&typed("a\nb"), 4, &["a", "b"], (1, 1));
    check(&typed("日本"), 1, &["日", "本", ""], (2, 0));
    let mut input = typed("a\nbc");
    input.home();
    check(&input, 4, &["a", "bc"], (1, 0));
}
