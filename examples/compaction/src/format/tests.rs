use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::builder::TableBuilder;

type Entries = std::collections::BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn table(entries: &Entries, block_size: usize, sequence: u64) -> Vec<u8> {
    let mut builder = TableBuilder::new(block_size, sequence);
    let mut bytes = Vec::new();
    for (key, value) in entries {
        let block = builder.add(key, value.as_deref()).unwrap();
        bytes.extend_from_slice(block.unwrap_or_default());
    }
    bytes.extend_from_slice(&builder.finish());
    bytes
}

/// Parses a table like a reader, but does not check the order across blocks.
fn read(bytes: &[u8]) -> Result<(Footer, TableIndex, Vec<TableEntry>), Damage> {
    let (bytes, size) = (Bytes::copy_from_slice(bytes), bytes.len());
    let footer = Footer::parse(&bytes, size as u64)?;
    let end = size - Footer::SIZE;
    let index = TableIndex::parse(bytes.slice(end - footer.index as usize..end), &footer, size as u64)?;
    let mut entries = Vec::new();
    for block in index.blocks() {
        let start = block.offset as usize;
        let content = bytes.slice(start..start + block.length as usize);
        for entry in BlockEntries::parse(&content, block.number)? {
            entries.push(entry?);
        }
        assert_eq!(entries.last().map(TableEntry::key), Some(&block.last_key[..]));
    }
    Ok((footer, index, entries))
}

fn entries() -> impl Strategy<Value = Entries> {
    btree_map(vec(any::<u8>(), 0..12), proptest::option::of(vec(any::<u8>(), 0..40)), 0..60)
}

proptest! {
    #[test]
    fn what_is_written_is_read(entries in entries(), block_size in 1usize..300, sequence: u64) {
        let bytes = table(&entries, block_size, sequence);
        let (footer, index, read) = read(&bytes).unwrap();
        prop_assert_eq!((footer.entries, footer.sequence), (entries.len() as u64, sequence));
        let first = entries.keys().next().cloned().unwrap_or_default();
        let last = entries.keys().next_back().cloned().unwrap_or_default();
        prop_assert_eq!(index.keys(), (&Bytes::from(first), &Bytes::from(last)));
        let read = read.iter().map(|entry| (entry.key().to_vec(), entry.value().map(<[u8]>::to_vec)));
        prop_assert_eq!(read.collect::<Vec<_>>(), entries.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_size_is_known_before_the_end(entries in entries(), block_size in 1usize..300) {
        let mut builder = TableBuilder::new(block_size, 1);
        let mut given = 0;
        for (key, value) in &entries {
            given += builder.add(key, value.as_deref()).unwrap().map_or(0, <[u8]>::len);
        }
        let said = builder.size();
        prop_assert_eq!((given + builder.finish().len()) as u64, said);
    }

    #[test]
    fn a_flipped_bit_is_found(entries in entries(), at: prop::sample::Index, bit in 0u8..8, block_size in 1usize..300) {
        let mut bytes = table(&entries, block_size, 1);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn a_beginning_is_no_table(entries in entries(), at: prop::sample::Index, block_size in 1usize..300) {
        let bytes = table(&entries, block_size, 1);
        prop_assert!(read(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_a_table_or_an_error(
        blocks in vec(any::<u8>(), 0..200),
        index in vec(any::<u8>(), 0..200),
        count in 0u32..4,
        entries in 0u64..9,
    ) {
        // With correct checksums, so that the parser gets past them.
        let mut bytes = blocks;
        BlockEntries::seal(&mut bytes);
        let start = bytes.len();
        bytes.extend_from_slice(&index);
        let crc = crc32c(&index);
        bytes.extend_from_slice(&crc.to_le_bytes());
        let index = (bytes.len() - start) as u32;
        Footer { index, blocks: count, entries, sequence: 1 }.write(&mut bytes);
        drop(read(&bytes));
    }

    #[test]
    fn a_wrong_index_is_an_error(entries in entries(), block_size in 1usize..300, at: prop::sample::Index, byte: u8) {
        // The index has a correct checksum and wrong content.
        let bytes = table(&entries, block_size, 1);
        let footer = Footer::parse(&bytes, bytes.len() as u64).unwrap();
        let end = bytes.len() - Footer::SIZE;
        let mut index = bytes[end - footer.index as usize..end - CRC].to_vec();
        let at = at.index(index.len());
        index[at] = byte;
        let unchanged = index == bytes[end - footer.index as usize..end - CRC];
        BlockEntries::seal(&mut index);
        let parsed = TableIndex::parse(index.into(), &footer, bytes.len() as u64);
        // A changed letter may leave the keys in order: only reading the block detects that.
        prop_assert!(unchanged || parsed.is_err() || parsed.is_ok_and(|index| index.blocks().count() == footer.blocks as usize));
    }

    #[test]
    fn a_wrong_block_gives_entries_and_then_at_most_one_error(content in vec(any::<u8>(), 0..300)) {
        let mut bytes = content;
        BlockEntries::seal(&mut bytes);
        let read: Vec<_> = BlockEntries::parse(&bytes.into(), 3).unwrap().collect();
        let errors = read.iter().filter(|entry| entry.is_err()).count();
        prop_assert!(errors <= 1 && read.iter().rev().skip(1).all(Result::is_ok));
    }
}

#[test]
fn lengths_beyond_the_bytes_are_refused_without_taking_memory() {
    let mut bytes = vec![1];
    bytes.extend_from_slice(&u16::MAX.to_le_bytes());
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    BlockEntries::seal(&mut bytes);
    let error = BlockEntries::parse(&bytes.into(), 0).unwrap().next().unwrap().unwrap_err();
    assert_eq!(error, TablePlace::Block(0).is(Wrong::Length));
}

#[test]
fn other_versions_and_other_files_are_named() {
    let mut bytes = table(&Entries::new(), 1, 1);
    assert_eq!(read(b"hello").unwrap_err().to_string(), "footer: this is no table");
    let crc_at = bytes.len() - 12;
    bytes[crc_at - 4] = 2;
    let crc = crc32c(&bytes[bytes.len() - Footer::SIZE..crc_at]);
    bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(read(&bytes).unwrap_err().to_string(), "footer: version 2 is not known");
}

#[test]
fn entries_that_no_table_takes_are_refused() {
    let mut builder = TableBuilder::new(100, 1);
    builder.add(b"b", None).unwrap();
    for key in [&b"b"[..], b"a", b""] {
        let refused = builder.add(key, None).unwrap_err();
        assert!(refused.contains("does not come behind b"), "{refused}");
    }
    assert!(builder.add(&vec![b'c'; TableEntry::LONGEST_KEY + 1], None).is_err());
    assert!(builder.add(b"c", Some(&vec![0; TableEntry::LONGEST_VALUE + 1])).is_err());
    assert!(builder.add(b"c", Some(&vec![0; TableEntry::LONGEST_VALUE])).unwrap().is_some());
    assert_eq!(builder.entries(), 2);
}
