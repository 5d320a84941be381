use super::*;

#[test]
fn the_shipped_table_can_be_read_and_has_no_twins() {
    let catalog = ModelCatalog::parse(TABLE).unwrap();
    assert!(catalog.entries.len() > 10);
    for (place, entry) in catalog.entries.iter().enumerate() {
        let twin = catalog.entries[..place]
            .iter()
            .any(|other| other.provider == entry.provider && other.model == entry.model);
        assert!(!twin, "{} is listed twice", entry.model);
        if entry.kind == ModelKind::Chat {
            assert!(
                entry.context_window.unwrap() > entry.max_output.unwrap_or(0),
                "{}",
                entry.model
            );
        } else {
            assert!(!entry.tools && !entry.reasoning, "{}", entry.model);
        }
    }
}

#[test]
fn names_with_a_date_are_found_and_others_are_unknown() {
    let catalog = ModelCatalog::builtin();
    let dated = catalog.info("openai", "gpt-4o-2024-08-06");
    assert_eq!(dated.model, "gpt-4o-2024-08-06");
    assert_eq!(dated.context_window, Some(128_000));
    assert_eq!(catalog.info("anthropic", "claude-haiku-4-5-20251001").max_output, Some(64_000));
    let mini = catalog.info("openai", "gpt-4o-mini");
    assert_ne!(mini.pricing, dated.pricing);
    for (provider, model) in [("openai", "gpt-4o-huge"), ("groq", "gpt-4o"), ("openai", "")] {
        assert_eq!(catalog.info(provider, model), ModelInfo::unknown(provider, model));
    }
    assert!(catalog.entry("anthropic", "claude-haiku-4-5").unwrap().thinking_budget);
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
        assert_eq!(has_date_suffix(model, name), dated, "{model}");
    }
}

#[test]
fn a_catalog_of_ones_own_wins_and_a_provider_only_adds() {
    let mut catalog = ModelCatalog::builtin().clone();
    let own = r#"
        [[model]]
        provider = "openai"
        model = "gpt-4o"
        context_window = 1
        [[model]]
        provider = "house"
        model = "talker"
        pricing = { input = "1", output = "2", reasoning = "3" }
    "#;
    catalog.overlay(ModelCatalog::parse(own).unwrap());
    assert_eq!(catalog.info("openai", "gpt-4o").context_window, Some(1));
    assert_eq!(catalog.info("house", "talker").pricing.unwrap().reasoning, Some(3.into()));
    let mut told = CatalogEntry::new("house", "talker");
    told.context_window = Some(9);
    catalog.refresh(vec![told, CatalogEntry::new("house", "new")]);
    let talker = catalog.find("house/talker").unwrap();
    assert_eq!((talker.context_window, talker.pricing.is_some()), (Some(9), true));
    assert_eq!(catalog.find("new").unwrap().provider, "house");
    let again = ModelCatalog::parse(&catalog.to_json().unwrap()).unwrap();
    assert_eq!(again, catalog);
    assert!(ModelCatalog::parse("[[model]]\nprovider = 1").is_err());
    assert!(ModelCatalog::parse("{\"model\":[{\"speed\":1}]}").is_err());
}

#[test]
fn models_are_found_by_words_and_by_name() {
    let catalog = ModelCatalog::builtin();
    let words = ["claude".to_owned(), "OPUS".to_owned()];
    let found: Vec<&str> = catalog.search(&words).map(|entry| entry.model.as_str()).collect();
    assert!(found.contains(&"claude-opus-5"), "{found:?}");
    assert!(found.iter().all(|name| name.contains("opus")), "{found:?}");
    assert_eq!(catalog.find("gpt-4o-2024-08-06"), None, "a date needs its provider");
    assert_eq!(catalog.find("openai/gpt-4o-2024-08-06").unwrap().model, "gpt-4o");
    assert_eq!(catalog.find("gpt-4o").unwrap().modalities(), ["text", "image"]);
    assert_eq!(catalog.find("text-embedding-3-small").unwrap().dimensions, Some(1536));
    assert_eq!(catalog.find("nobody/nothing"), None);
}
