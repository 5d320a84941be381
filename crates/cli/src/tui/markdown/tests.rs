use ratatui::style::Color;

use super::*;

fn plain(text: &str, width: u16) -> Vec<String> {
    let lines = render(text, width, &Theme::color());
    lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
}

fn style_of(text: &str, wanted: &str) -> Style {
    let lines = render(text, 60, &Theme::color());
    let spans = lines.iter().flat_map(|line| line.spans.iter());
    let found = spans.clone().find(|span| span.content.contains(wanted));
    found.map(|span| span.style).unwrap()
}

#[test]
fn blocks_are_apart_and_lists_hang() {
    let text = "# Title\nText here.\n\n- one\n- two words that wrap\n  - inner\n\n3. three\n4. four\n\n> quoted\n> more\n";
    assert_eq!(
        plain(text, 14),
        [
            "Title",
            "",
            "Text here.",
            "",
            "• one",
            "• two words",
            "  that wrap",
            "  • inner",
            "",
            "3. three",
            "4. four",
            "",
            "│ quoted",
            "│ more",
        ]
    );
}

#[test]
fn code_keeps_its_lines_and_shows_its_language() {
    let text = "Look:\n\n```rust\nfn main() {\n    run();\n}\n```\nDone.";
    assert_eq!(
        plain(text, 40),
        ["Look:", "", "rust", "  fn main() {", "      run();", "  }", "", "Done.",]
    );
    assert_eq!(plain("```\nlong line\n```", 8), ["  long", "  line"]);
}

#[test]
fn inline_styles_are_set_and_nest() {
    let text = "a **bold _both_** `code` [name](http://x) <http://y>";
    assert!(style_of(text, "bold").add_modifier.contains(Modifier::BOLD));
    let both = style_of(text, "both").add_modifier;
    assert!(both.contains(Modifier::BOLD | Modifier::ITALIC));
    assert_eq!(style_of(text, "code").fg, Some(Color::Yellow));
    assert_eq!(plain(text, 80), ["a bold both code name (http://x) http://y"]);
}

#[test]
fn half_written_markdown_never_fails() {
    let text = "# T\n\n- a **b `c\n\n```sh\nls\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n> q [l](u";
    for (end, _) in text.char_indices() {
        for width in [1, 2, 7, 40] {
            render(&text[..end], width, &Theme::mono());
        }
    }
}

#[test]
fn tables_are_aligned_where_they_fit() {
    let text = "| name | n |\n|---|---|\n| a | 10 |\n| longer | 2 |\n";
    assert_eq!(plain(text, 40), ["name   │ n", "a      │ 10", "longer │ 2"]);
}

#[test]
fn tight_items_with_code_and_paragraphs_keep_their_indent() {
    let text = "1. first\n\n   more\n2. second\n";
    assert_eq!(plain(text, 20), ["1. first", "", "   more", "2. second"]);
}

#[test]
fn without_colour_no_colour_is_set() {
    let text = "# T\n`c` [l](u)\n\n> q\n\n```\nx\n```";
    let lines = render(text, 40, &Theme::mono());
    let spans = lines.iter().flat_map(|line| line.spans.iter());
    assert!(spans.clone().all(|span| span.style.fg.is_none()));
    assert!(lines.iter().all(|line| line.style.fg.is_none()));
}
