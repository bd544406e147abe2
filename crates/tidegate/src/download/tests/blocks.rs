//! Reads of the blocks that an index names.

use proptest::prelude::*;

use super::*;
use crate::download::BlockStream;

async fn read(stream: BlockStream, data: &[u8]) -> Vec<usize> {
    let blocks: Vec<crate::download::Block> = stream.try_collect().await.unwrap();
    let is_right = |block: &crate::download::Block| {
        block.bytes[..] == data[block.range.start as usize..block.range.end as usize]
    };
    assert!(blocks.iter().all(is_right));
    blocks.into_iter().map(|block| block.number).collect()
}

#[tokio::test]
async fn neighbours_are_one_request_and_what_lies_between_is_left_out() {
    let data = bytes_of(4 * MIB, 1);
    let odd = Odd::with(&data, well()).await;
    let store = store(&odd, |tide| tide);
    let index: Vec<_> = (0..64).map(|at| at * 65_536..(at + 1) * 65_536).collect();
    let all = store.blocks("k", index.clone()).start().await.unwrap();
    assert_eq!(read(all, &data).await, (0..64).collect::<Vec<_>>());
    assert_eq!(*odd.asked.lock().unwrap(), [Some(0..4 * MIB)]);

    odd.asked.lock().unwrap().clear();
    let some = store.blocks("k", index).filter(|number, _| [1, 2, 5, 40].contains(&number));
    assert_eq!(read(some.gap(2 * 65_536).start().await.unwrap(), &data).await, [1, 2, 5, 40]);
    assert_eq!(*odd.asked.lock().unwrap(), [Some(65_536..6 * 65_536), Some(40 * 65_536..41 * 65_536)]);
}

#[tokio::test]
async fn an_index_that_can_not_be_is_refused() {
    let odd = Odd::with(&bytes_of(1000, 1), well()).await;
    let store = store(&odd, |tide| tide);
    for (index, says) in [
        (vec![5..10, 9..20], "block 1 of the index (bytes 9..20) begins before byte 10"),
        (vec![5..10, 900..1001], "block 1 of the index (bytes 900..1001) lies past the object's end"),
    ] {
        let error = store.blocks("k", index).start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(says), "{error}");
    }
    odd.asked.lock().unwrap().clear();
    let none = store.blocks("k", [5..5, 1000..1000]).start().await.unwrap();
    assert_eq!(none.object().unwrap().size, 1000);
    assert_eq!(read(none, &bytes_of(1000, 1)).await, [0, 1]);
    let none = store.blocks("k", [5..10]).filter(|_, _| false).start().await.unwrap();
    assert!(none.object().is_none());
    assert_eq!(odd.requests(), 0, "no byte was asked for");
}

#[tokio::test]
async fn an_empty_block_past_the_end_is_refused_as_any_other() {
    let odd = Odd::with(&bytes_of(1000, 1), well()).await;
    let store = store(&odd, |tide| tide);
    for index in [vec![1001..1001], vec![5..5, 1001..1001], vec![0..10, 2000..2000], vec![u64::MAX..u64::MAX]]
    {
        let error = store.blocks("k", index.clone()).start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{index:?}: {error}");
        assert!(error.to_string().contains("past the object's end at byte 1000"), "{error}");
    }
    let missing = store.blocks("missing", [5..5]).start().await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_block_that_is_wanted_comes_whole(
        lengths in prop::collection::vec((0_u64..200_000, 0_u64..700_000), 1..60),
        gap in 0_u64..300_000,
        wanted in any::<u64>(),
        memory in 0_usize..3,
    ) {
        let mut at = 0;
        let index: Vec<_> = lengths.iter().map(|(skip, len)| {
            let start = at + skip;
            at = start + len;
            start..at
        }).collect();
        let data = bytes_of(at, wanted);
        let is_wanted = |number: usize| wanted >> number & 1 == 1;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let got = runtime.block_on(async {
            let odd = Odd::with(&data, vec![Fate::Breaks(30_000); 3].into_iter()).await;
            let store = store(&odd, |tide| tide.memory([MIB, 8 * MIB, 64 * MIB][memory]));
            let blocks = store.blocks("k", index.clone()).gap(gap).filter(|number, _| is_wanted(number));
            let got = read(blocks.start().await.unwrap(), &data).await;
            let returned = async {
                // Requests in flight return their memory when the runtime drops their tasks.
                while store.context().engine().budget.usage().held > 0 {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(10), returned).await.expect("memory is held for ever");
            got
        });
        let expected: Vec<_> = (0..index.len()).filter(|number| is_wanted(*number)).collect();
        prop_assert_eq!(got, expected);
    }
}
