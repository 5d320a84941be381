use super::*;

#[test]
fn the_shipped_table_can_be_read_and_has_no_twins() {
    let catalog = Catalog::parse(TABLE).unwrap();
    assert!(catalog.entries.len() > 10);
    for (place, entry) in catalog.entries.iter().enumerate() {
        let twin = catalog.entries[..place]
            .iter()
            .any(|other| other.provider == entry.provider && other.model == entry.model);
        assert!(!twin, "{} is listed twice", entry.model);
        assert!(entry.context_window.unwrap() > entry.max_output.unwrap(), "{}", entry.model);
    }
}

#[test]
fn names_with_a_date_are_found_and_others_are_unknown() {
    let catalog = Catalog::builtin();
    let dated = catalog.info("openai", "gpt-4o-2024-08-06");
    assert_eq!(dated.model, "gpt-4o-2024-08-06");
    assert_eq!(dated.context_window, Some(128_000));
    assert_eq!(catalog.info("anthropic", "claude-haiku-4-5-20251001").max_output, Some(64_000));
    let mini = catalog.info("openai", "gpt-4o-mini");
    assert_ne!(mini.pricing, dated.pricing);
    for (provider, model) in [("openai", "gpt-4o-huge"), ("groq", "gpt-4o"), ("openai", "")] {
        assert_eq!(catalog.info(provider, model), ModelInfo::unknown(provider, model));
    }
    assert_eq!(catalog.anthropic_traits("claude-haiku-4-5").thinking, Thinking::Budget);
    assert_eq!(catalog.anthropic_traits("claude-of-tomorrow").thinking, Thinking::Adaptive);
    assert!(catalog.models("anthropic").count() > 3);
}

#[test]
fn a_version_is_no_date() {
    for (model, name, dated) in [
        ("m-4-20251001", "m-4", true),
        ("m-4-2025-10-01", "m-4", true),
        ("m-4-latest", "m-4", true),
        ("m-4-5-20251001", "m-4", false),
        ("m-4-5", "m-4", false),
        ("m-4-2025100", "m-4", false),
        ("m-4-20251001-x", "m-4", false),
        ("m-420251001", "m-4", false),
        ("m-4", "m-4", false),
    ] {
        assert_eq!(is_dated(model, name), dated, "{model}");
    }
}
