//! Tests of the ranking functions.

use super::*;

#[test]
fn words_fold_case_plural_and_punctuation() {
    assert_eq!(words("Cats, berries; GLASS").distinct, words("cat berry glass").distinct);
    assert_eq!(words("tea tea tea").count, 3);
    assert_eq!(words("tea tea tea").distinct.len(), 1);
    assert_ne!(words("tea").distinct, words("coffee").distinct);
    assert!(words(" .,-").distinct.is_empty());
}

#[test]
fn scripts_without_spaces_are_cut_by_sign() {
    let text = words("私は東京に住んでいます");
    let place = words("東京");
    assert_eq!(place.distinct.len(), 2);
    assert!(place.distinct.iter().all(|word| text.distinct.contains(word)));
}

#[test]
fn the_numbers_of_words_never_change() {
    // Stores persist the hashes. After a change, searches would not find stored memories.
    assert_eq!(words("tea").distinct, [5_227_593_339_319_717_851]);
}

#[test]
fn rare_words_and_short_memories_win() {
    let weights = TermWeights::new(&[1, 50], 100, 10.0);
    assert!(weights.score(0, 10) > weights.score(1, 10), "a rare word says more");
    assert!(weights.score(0, 5) > weights.score(0, 50), "a short memory says more");
    let all = weights.score(0, 0) + weights.score(1, 0);
    assert!((all - 1.0).abs() < 1e-5, "{all}");
}

#[test]
fn common_words_do_not_count() {
    let weights = TermWeights::new(&[1001, 1], 2000, 10.0);
    assert_eq!(weights.score(0, 10), 0.0);
    assert!(weights.score(1, 10) > 0.0);
    let only_common = TermWeights::new(&[2000], 2000, 10.0);
    assert_eq!(only_common.score(0, 10), 0.0);
}

#[test]
fn the_parts_are_weighed() {
    assert_eq!(combine(Some(1.0), Some(0.0), 0.7), 0.7);
    assert_eq!(combine(Some(-1.0), Some(0.5), 0.5), 0.25);
    assert_eq!(combine(Some(0.4), None, 0.7), 0.4);
    assert_eq!(combine(None, Some(0.4), 0.7), 0.4);
}

#[test]
fn vectors_are_made_unit() {
    let vector = unit(&[3.0, 4.0]).unwrap();
    assert!((dot(&vector, &vector) - 1.0).abs() < 1e-6);
    assert_eq!(unit(&[0.0, 0.0]), None);
    assert_eq!(unit(&[f32::MAX, f32::MAX]), None);
    let long: Vec<f32> = (0..19).map(|x| x as f32).collect();
    assert_eq!(dot(&long, &long), long.iter().map(|x| x * x).sum::<f32>());
}

#[test]
fn words_that_only_join_others_do_not_count() {
    assert_eq!(query_words("Which tea do I like?"), words("tea like").distinct);
    assert_eq!(query_words("Who am I?"), words("who am i").distinct, "there is nothing else");
    let many: String = (0..100).map(|n| format!("w{n} ")).collect();
    assert_eq!(query_words(&many).len(), QUERY_WORDS_MAX);
    let unknown = TermWeights::new(&[1, 0], 3, 5.0);
    assert_eq!(unknown.score(0, 5), TermWeights::new(&[1], 3, 5.0).score(0, 5), "nobody has it");
}
