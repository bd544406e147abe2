use super::*;

const KEYS: [&str; 7] = ["a", "a/1", "a/2", "b/1/x", "b/2", "c", "d/1"];

fn list<'a>(query: Query<'a>) -> Page<&'static str> {
    let sequence = KEYS.into_iter().filter(|key| *key >= query.start());
    let sequence = sequence.filter(|key| query.after.is_empty() || *key > query.after);
    query.page(sequence.map(|key| (key, key)))
}

fn all() -> Query<'static> {
    Query { limit: 1000, ..Query::default() }
}

#[test]
fn everything() {
    let page = list(all());
    assert_eq!(page.items, KEYS);
    assert!(!page.is_truncated && page.prefixes.is_empty());
}

#[test]
fn a_prefix_need_not_end_at_a_delimiter() {
    assert_eq!(list(Query { prefix: "a", ..all() }).items, ["a", "a/1", "a/2"]);
    assert_eq!(list(Query { prefix: "b/", ..all() }).items, ["b/1/x", "b/2"]);
    assert!(list(Query { prefix: "x", ..all() }).items.is_empty());
}

#[test]
fn a_delimiter_folds() {
    let page = list(Query { delimiter: Some("/"), ..all() });
    assert_eq!(page.items, ["a", "c"]);
    assert_eq!(page.prefixes, ["a/", "b/", "d/"]);
    let page = list(Query { prefix: "b/", delimiter: Some("/"), ..all() });
    assert_eq!((page.items, page.prefixes), (vec!["b/2"], vec!["b/1/".to_owned()]));
}

#[test]
fn pages_of_any_size_make_the_whole() {
    for delimiter in [None, Some("/")] {
        let whole = list(Query { delimiter, ..all() });
        for limit in 1..9 {
            let (mut items, mut prefixes, mut after) = (Vec::new(), Vec::new(), String::new());
            loop {
                let page = list(Query { delimiter, limit, after: &after, ..all() });
                assert!(page.items.len() + page.prefixes.len() <= limit);
                items.extend(page.items);
                prefixes.extend(page.prefixes);
                if !page.is_truncated {
                    break;
                }
                after = page.last.unwrap();
            }
            assert_eq!((&items, &prefixes), (&whole.items, &whole.prefixes), "limit {limit}");
        }
    }
}

#[test]
fn a_full_last_page_is_not_truncated() {
    assert!(!list(Query { limit: KEYS.len(), ..all() }).is_truncated);
    assert!(!list(Query { limit: 0, ..all() }).is_truncated);
}

#[test]
fn url_encoding_keeps_slashes() {
    assert_eq!(encode(true, "a b/ü+%"), "a%20b/%C3%BC%2B%25");
    assert_eq!(encode(false, "a b"), "a b");
}
