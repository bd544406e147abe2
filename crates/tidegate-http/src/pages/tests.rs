use super::*;
use futures::TryStreamExt;
use tidegate_core::types::object::Object;

/// Lists pages of keys; `page` returns the keys of the page at a marker, and the next marker.
async fn listed(
    order: Order,
    page: impl Fn(u64) -> (Vec<String>, Option<u64>) + Send + Sync + 'static,
) -> Result<Vec<String>, Fault> {
    let pages = paged(0, order, move |marker, _| {
        let (keys, next) = page(marker);
        let entries = keys.into_iter().map(|key| Entry::Object(Object { key, ..Object::default() }));
        let page = (entries.collect(), next.map_or(PagePosition::End, PagePosition::At));
        async move { Ok(page) }
    });
    pages.map_ok(|entry| Keyed::key(&entry).to_owned()).try_collect().await
}

fn key(number: u64) -> Vec<String> {
    vec![format!("{number:09}")]
}

#[tokio::test]
async fn markers_in_a_circle_end_a_listing() {
    for length in [1, 2, 3, 7, 64] {
        // Each page has a different key, so only the markers show the circle.
        let count = std::sync::atomic::AtomicU64::new(0);
        let page = move |at: u64| {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            assert!(number < 10 * length + 10, "it goes on");
            (key(number), Some(at % length + 1))
        };
        let fault = listed(Order::ByKey, page).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotAStore);
        assert!(fault.message.contains("was read before"), "{}", fault.message);
    }
    // The marker of the first page, again.
    assert!(listed(Order::None, |_| (key(1), Some(0))).await.is_err());
}

#[tokio::test]
async fn empty_pages_are_passed_over_but_not_for_ever() {
    let some = |at| if at == 900 { (key(1), None) } else { (Vec::new(), Some(at + 1)) };
    assert_eq!(listed(Order::ByKey, some).await.unwrap(), key(1));
    let all = |at| (Vec::new(), Some(at + 1));
    assert!(listed(Order::ByKey, all).await.unwrap_err().message.contains("after 1000 pages"));
    // A page with keys resets the count.
    let mixed = |at| (if at % 600 == 0 { key(at) } else { Vec::new() }, (at < 3_000).then_some(at + 1));
    assert_eq!(listed(Order::ByKey, mixed).await.unwrap().len(), 6);
}

#[tokio::test]
async fn keys_that_do_not_advance_end_a_listing() {
    let same = |at| (key(5), Some(at + 1));
    let fault = listed(Order::ByKey, same).await.unwrap_err();
    assert!(fault.message.contains("after 101 pages"), "{}", fault.message);
    let back_and_forth = |at| (key(at % 2), Some(at + 1));
    assert!(listed(Order::ByKey, back_and_forth).await.is_err());
    assert!(listed(Order::None, same).await.is_err());
    assert!(listed(Order::None, back_and_forth).await.is_err());
    // A store with keys that are sometimes out of order still makes progress.
    let odd = |at: u64| (key(at ^ 7), (at < 1_000).then_some(at + 1));
    assert_eq!(listed(Order::ByKey, odd).await.unwrap().len(), 1_001);
    let descending = |at: u64| (key(10_000 - at), (at < 2_000).then_some(at + 1));
    assert_eq!(listed(Order::None, descending).await.unwrap().len(), 2_001);
}

#[test]
fn a_page_takes_so_many_entries_and_no_more() {
    let mut entries = Entries::default();
    for number in 0..MOST_ENTRIES {
        entries.push(number).unwrap();
    }
    assert!(entries.push(0).unwrap_err().contains("10000"));
}
