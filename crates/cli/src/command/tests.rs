use std::collections::BTreeSet;

use super::*;

/// Command lines in the words of earlier versions, with the same command line in the words of this version.
const OLD_AND_NEW: [(&str, &str); 46] = [
    ("--data d chat", "--data-dir d chat"),
    ("run hello", "exec hello"),
    ("run --resume --session s", "exec --resume --session s"),
    ("exec hi --system s", "exec hi --system-prompt s"),
    ("chat --system s", "chat --system-prompt s"),
    ("chat --workspace w --write", "chat --workspace w --workspace-write"),
    ("chat --resources p --role r", "chat --manifests p --role r"),
    ("chat --shell full --shell-ask off", "chat --shell full --shell-approval never"),
    ("chat --shell full --shell-ask on-miss", "chat --shell full --shell-approval unlisted"),
    ("chat --shell full --shell-files workspace", "chat --shell full --shell-workspace shared"),
    ("chat --shell full --shell-files conversation", "chat --shell full --shell-workspace session"),
    ("chat --container-warm 2", "chat --container-pool-size 2"),
    ("chat --server u --insecure", "chat --server u --allow-http"),
    ("serve --capacity 3", "serve --max-concurrent-runs 3"),
    ("serve --workers 3", "serve --max-concurrent-runs 3"),
    ("serve --open-metrics", "serve --public-metrics"),
    ("serve --allow-remote", "serve --allow-non-loopback"),
    ("serve --workspace w --write", "serve --workspace w --workspace-write"),
    ("serve --resources p", "serve --manifests p"),
    ("task submit hi --within 1h", "task submit hi --deadline 1h"),
    ("task submit hi --system s", "task submit hi --system-prompt s"),
    ("task input TASK hi", "task send TASK hi"),
    ("runs list", "run list"),
    ("runs input RUN hi", "run send RUN hi"),
    ("runs withdraw RUN INPUT", "run delete-input RUN INPUT"),
    ("runs interaction RUN", "run pending RUN"),
    ("runs snapshots RUN", "run transitions RUN"),
    ("runs cassette RUN", "run export-cassette RUN"),
    ("runs fork RUN --say a", "run fork RUN --message a"),
    ("runs fork RUN --instead a", "run fork RUN --replace-message a"),
    ("approval approve APPROVAL --for run", "approval approve APPROVAL --scope run"),
    ("approval answer APPROVAL text", "approval reply APPROVAL text"),
    ("agent defaults a", "agent default-config a"),
    ("agent create a --system s", "agent create a --system-prompt s"),
    ("models list", "model list"),
    ("models show m", "model get m"),
    ("token create a --scope read --only n", "token create a --scope read --allow-namespace n"),
    ("secret rotate --forget", "secret rotate --discard-old-keys"),
    ("webhook posts w", "webhook deliveries w"),
    ("webhook resend w p", "webhook redeliver w p"),
    ("tool describe t", "tool get t"),
    ("tool scaffold t", "tool new t"),
    ("tool keep m.wasm", "tool import m.wasm"),
    ("tool list --resources p", "tool list --manifests p"),
    ("tool list --write", "tool list --workspace-write"),
    ("tool --container-warm 2 list", "tool --container-pool-size 2 list"),
];

/// Commands of earlier versions that have no equal in this version, or that have another place in the tree.
const OLD_COMMANDS: [&str; 6] = [
    "approvals --all",
    "approve APPROVAL",
    "approve APPROVAL --for session",
    "deny APPROVAL --reason no",
    "answer APPROVAL blue",
    "session show s",
];

fn parse(line: &str) -> Result<Cli, clap::Error> {
    let id = |word: &str| match word {
        "RUN" => "run_01jd0000000000000000000000".to_owned(),
        "TASK" => "task_01jd0000000000000000000000".to_owned(),
        "INPUT" => "inp_01jd0000000000000000000000".to_owned(),
        "APPROVAL" => "appr_01jd0000000000000000000000".to_owned(),
        word => word.to_owned(),
    };
    let args: Vec<OsString> =
        std::iter::once("provost").chain(line.split(' ')).map(|word| id(word).into()).collect();
    Cli::from_args(&args, /*is_piped*/ false)
}

/// Calls a function with every visible command and its path.
fn for_each_command(
    command: &clap::Command,
    path: &str,
    check: &mut impl FnMut(&clap::Command, &str),
) {
    check(command, path);
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        if child.get_name() != "help" {
            for_each_command(child, &format!("{path} {}", child.get_name()), check);
        }
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::grouped_command().debug_assert();
}

#[test]
fn every_visible_command_is_in_exactly_one_group() {
    let command = Cli::command();
    let visible: BTreeSet<&str> = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(clap::Command::get_name)
        .collect();
    let mut grouped: Vec<&str> =
        groups::GROUPS.iter().flat_map(|group| group.commands).copied().collect();
    grouped.sort_unstable();
    assert_eq!(grouped, Vec::from_iter(visible));
}

#[test]
fn the_help_shows_every_group_with_its_example() {
    let help = Cli::grouped_command().render_long_help().to_string();
    for group in &groups::GROUPS {
        assert!(help.contains(&format!("\n{}:\n", group.heading)), "{help}");
        assert!(help.contains(&format!("Example: {}\n", group.example)), "{help}");
        for name in group.commands {
            assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        }
    }
    assert!(help.contains("\nOptions:\n") && help.contains("Exit codes:"), "{help}");
}

#[test]
fn every_command_has_an_example() {
    for_each_command(&Cli::command(), "provost", &mut |command, path| {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(path == "provost" || text.contains("Examples:\n  provost "), "{path}: {text}");
    });
}

#[test]
fn every_old_word_still_works_and_is_hidden() {
    for (old, new) in OLD_AND_NEW {
        let [old_cli, new_cli] = [old, new].map(|line| parse(line).map(|cli| format!("{cli:?}")));
        let new_cli = new_cli.unwrap_or_else(|error| panic!("{new}: {error}"));
        assert_eq!(old_cli.unwrap_or_else(|error| panic!("{old}: {error}")), new_cli, "{old}");
    }
    for old in OLD_COMMANDS {
        let parsed = parse(old);
        assert!(parsed.is_ok(), "{old}: {}", parsed.unwrap_err());
    }
    let flags: BTreeSet<&str> = OLD_AND_NEW
        .iter()
        .flat_map(|(old, _)| old.split(' '))
        .filter(|word| word.starts_with("--"))
        .filter(|word| !OLD_AND_NEW.iter().any(|(_, new)| new.split(' ').any(|new| new == *word)))
        .collect();
    assert!(flags.contains("--resources") && flags.contains("--within"), "{flags:?}");
    for_each_command(&Cli::command(), "provost", &mut |command, path| {
        let help = command.clone().render_long_help().to_string();
        let shown = help.split_whitespace().find(|word| flags.contains(word));
        assert_eq!(shown, None, "{path}");
    });
}

#[test]
fn a_mistyped_subcommand_of_run_is_no_prompt() {
    let error = parse("run lst").unwrap_err().to_string();
    assert!(error.contains("list"), "{error}");
    for line in ["run", "run cancel", "run list --json", "run get nonsense"] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn no_command_has_an_argument_by_the_name_of_a_global_flag() {
    fn check(command: &clap::Command, above: &[String]) {
        let own: Vec<_> = command.get_arguments().collect();
        for arg in own.iter().filter(|arg| !arg.is_global_set()) {
            let id = arg.get_id().to_string();
            assert!(!above.contains(&id), "`{id}` of `{}`", command.get_name());
        }
        let global = own.iter().filter(|arg| arg.is_global_set());
        let global = global.map(|arg| arg.get_id().to_string());
        let above: Vec<String> = above.iter().cloned().chain(global).collect();
        command.get_subcommands().for_each(|command| check(command, &above));
    }
    check(&Cli::command(), &[]);
}

#[test]
fn what_explanations_tell_people_to_type_can_be_typed() {
    for line in [
        "explain RUN",
        "serve",
        "approval approve APPROVAL",
        "approval deny APPROVAL",
        "run cancel RUN",
        "run send RUN …",
        "run resume RUN",
        "run steps RUN",
        "run list --status running",
        "task retry TASK",
        "class set execclass_x 8",
        "session messages chat",
        "delivery retry dlv_01jd0000000000000000000000",
    ] {
        let parsed = parse(line);
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
    }
}

#[test]
fn durations_have_units() {
    for (text, millis) in
        [("500ms", 500), ("2", 2000), ("30s", 30_000), ("5m", 300_000), ("1m30s", 90_000)]
    {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
    }
    for text in ["", "s", "-1s", "1w", "0s", "99999999999999999999", "18446744073709551615h"] {
        assert!(parse_duration(text).is_err(), "{text}");
    }
}
