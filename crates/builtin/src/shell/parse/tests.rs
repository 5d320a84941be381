//! What is read, what is refused, and that a shell reads the canonical form as it was read here.

use std::process::Command as Process;

use proptest::prelude::*;

use super::*;

fn words(line: &str) -> Vec<Vec<String>> {
    let line = parse(line).unwrap_or_else(|reason| panic!("{line}: {reason}"));
    let command = |command: &Command| command.words.iter().map(|word| word.text.clone()).collect();
    line.commands.iter().map(command).collect()
}

#[test]
fn words_quotes_pipes_and_lists_are_read() {
    for (line, expected) in [
        ("ls", vec![vec!["ls"]]),
        ("  ls   -la\t/tmp  ", vec![vec!["ls", "-la", "/tmp"]]),
        ("echo 'a b' \"c d\" e\\ f", vec![vec!["echo", "a b", "c d", "e f"]]),
        ("echo a'b'\"c\"d", vec![vec!["echo", "abcd"]]),
        ("echo '$HOME' '`id`' \"\\$x\"", vec![vec!["echo", "$HOME", "`id`", "$x"]]),
        ("echo \"a\\nb\"", vec![vec!["echo", "a\\nb"]]),
        ("echo ''", vec![vec!["echo", ""]]),
        ("cat a | grep b|wc -l", vec![vec!["cat", "a"], vec!["grep", "b"], vec!["wc", "-l"]]),
        ("a && b || c; d\ne", vec![vec!["a"], vec!["b"], vec!["c"], vec!["d"], vec!["e"]]),
        ("a &&\n b", vec![vec!["a"], vec!["b"]]),
        ("\n\na\n\n", vec![vec!["a"]]),
        ("a;", vec![vec!["a"]]),
        ("ls 2>/dev/null", vec![vec!["ls"]]),
        ("ls >/dev/null 2>&1 | cat", vec![vec!["ls"], vec!["cat"]]),
        ("echo a#b", vec![vec!["echo", "a#b"]]),
        ("env=1x", vec![]),
    ] {
        if expected.is_empty() {
            assert_eq!(parse(line), Err(ParseError::Assignment), "{line}");
        } else {
            assert_eq!(words(line), expected, "{line}");
        }
    }
}

#[test]
fn what_is_not_certain_is_refused() {
    for (line, reason) in [
        ("", ParseError::Empty),
        (" \n ", ParseError::Empty),
        ("echo $HOME", ParseError::Substitution),
        ("echo \"$HOME\"", ParseError::Substitution),
        ("echo `id`", ParseError::Substitution),
        ("echo $(id)", ParseError::Substitution),
        ("echo $'a'", ParseError::Substitution),
        ("(ls)", ParseError::Group),
        ("{ ls; }", ParseError::Pattern),
        ("f() ls", ParseError::Group),
        ("if true", ParseError::Language),
        ("'if' true", ParseError::Language),
        ("! ls", ParseError::Pattern),
        ("A=1 ls", ParseError::Assignment),
        ("A+=1", ParseError::Assignment),
        ("a[0]=1", ParseError::Pattern),
        ("ls > out", ParseError::Redirect),
        ("ls >out", ParseError::Redirect),
        ("cat <in", ParseError::Redirect),
        ("cat <<E", ParseError::Redirect),
        ("cat <<<x", ParseError::Redirect),
        ("ls 2>err", ParseError::Redirect),
        ("ls &>out", ParseError::Redirect),
        ("ls &>/dev/null", ParseError::Redirect),
        ("ls >/dev/nullx", ParseError::Redirect),
        ("ls >/dev/null/../../etc/x", ParseError::Redirect),
        ("ls &", ParseError::Background),
        ("ls & id", ParseError::Background),
        ("ls # x", ParseError::Comment),
        ("ls |& cat", ParseError::Operator),
        ("| ls", ParseError::Operator),
        ("ls |", ParseError::Operator),
        ("ls && ", ParseError::Operator),
        ("ls ;; id", ParseError::Operator),
        ("ls ; ; id", ParseError::Operator),
        ("echo 'a", ParseError::Quote),
        ("echo \"a", ParseError::Quote),
        ("echo a\\", ParseError::Quote),
        ("l\\\ns", ParseError::Quote),
        ("ls\u{200b} -l", ParseError::Control),
        ("ls \u{202e}x", ParseError::Control),
        ("ls\rid", ParseError::Control),
        ("ls\0", ParseError::Control),
        ("*", ParseError::Pattern),
        ("~/x", ParseError::Pattern),
        ("l?", ParseError::Pattern),
        ("{ls,-l}", ParseError::Pattern),
        ("''", ParseError::Empty),
        (">/dev/null", ParseError::Redirect),
    ] {
        assert_eq!(parse(line), Err(reason), "{line:?}");
    }
    assert_eq!(parse(&"a ".repeat(COMMAND_WORDS_MAX + 1)), Err(ParseError::TooLong));
    assert_eq!(parse(&"a".repeat(COMMAND_BYTES_MAX + 1)), Err(ParseError::TooLong));
}

#[test]
fn what_was_quoted_at_the_beginning_of_a_word_stays_quoted() {
    for line in ["\\=''", "'='", "\"=x\" y"] {
        let canonical = parse(line).unwrap().canonical();
        assert!(canonical.starts_with("'='"), "{line}: {canonical}");
        assert_eq!(parse(&canonical).unwrap().canonical(), canonical);
    }
}

/// What a real shell makes of a line: the arguments of `printf`, one in each line of its output.
fn by_shell(shell: &str, line: &str) -> String {
    let output = Process::new(shell).args(["-c", line]).env_clear().output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_shell_reads_the_canonical_form_as_it_was_read_here(
        args in proptest::collection::vec("[ -~éß\n]{0,12}", 1..5)
    ) {
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{}'", arg.replace('\'', "'\\''"))).collect();
        let line = format!("printf '[%s]' {}", quoted.join(" "));
        let read = parse(&line).unwrap();
        let texts: Vec<&str> = read.commands[0].args()[1..].iter().map(|word| word.text.as_str()).collect();
        prop_assert_eq!(&texts, &args.iter().map(String::as_str).collect::<Vec<_>>());
        let expected: String = args.iter().map(|arg| format!("[{arg}]")).collect();
        prop_assert_eq!(by_shell("sh", &read.canonical()), expected);
    }

    #[test]
    fn no_line_is_read_in_another_way_than_a_shell_does(line in "[a-z '\"\\\\;|&=.-]{0,24}") {
        // Each command becomes a function that says its arguments, so nothing of the line itself is run.
        if let Ok(read) = parse(&line) {
            let again = parse(&read.canonical()).unwrap();
            let texts = |line: &CommandLine| -> Vec<Vec<String>> {
                line.commands.iter().map(|it| it.words.iter().map(|word| word.text.clone()).collect()).collect()
            };
            prop_assert_eq!(texts(&again), texts(&read));
        }
    }
}
