//! Uploads with an exact size.

use super::*;
use crate::upload::WrongSize;

const SIZE: u64 = 3 * PART + 5;

fn wrong(error: &(dyn std::error::Error + 'static)) -> WrongSize {
    let error: &crate::Error = error.downcast_ref().expect("an error of this crate");
    assert_eq!(error.kind(), ErrorKind::Source, "{error}");
    *std::error::Error::source(error).unwrap().downcast_ref().expect("it says what is wrong")
}

const MANY: WrongSize = WrongSize::TooMany { exact: SIZE };

#[tokio::test]
async fn nothing_of_another_size_is_published() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let tide =
        Tidegate::builder().memory(256 * KIB).slab(4096).part_size(PART).journal([folder.path()]).build()?;
    let store = store(&tide);
    for strategy in [Strategy::Auto, Strategy::Put, Strategy::Chunked, Strategy::Parallel, Strategy::Journal]
    {
        let begin = async || store.writer("k").strategy(strategy).exact_size(SIZE).start().await;
        // Too few bytes, by `write` or `read_from`.
        for given in [0, 1, PART, SIZE - 1] {
            let mut writer = begin().await?;
            writer.write_bytes(data(given)).await?;
            let error = writer.finish().await.unwrap_err();
            assert_eq!(wrong(&error), WrongSize::TooFew { given, exact: SIZE });
            let mut writer = begin().await?;
            writer.read_from(&mut &data(given)[..]).await?;
            let error = writer.shutdown().await.unwrap_err();
            assert_eq!(wrong(error.get_ref().unwrap()), WrongSize::TooFew { given, exact: SIZE });
            assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::Closed);
        }
        // Too many bytes, by every way of writing.
        for more in [1, PART] {
            let bytes = data(SIZE + more);
            let mut writer = begin().await?;
            assert_eq!(wrong(&writer.write_bytes(bytes.clone()).await.unwrap_err()), MANY);
            assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::Closed);
            let mut writer = begin().await?;
            assert_eq!(wrong(&writer.read_from(&mut &bytes[..]).await.unwrap_err()), MANY);
            let mut writer = begin().await?;
            assert_eq!(wrong(&writer.send(bytes.clone()).await.unwrap_err()), MANY);
            let mut writer = begin().await?;
            writer.write_bytes(bytes.slice(..SIZE as usize)).await?;
            let error = writer.write_all(&bytes[SIZE as usize..]).await.unwrap_err();
            assert_eq!(wrong(error.get_ref().unwrap()), MANY);
        }
        tide.settled().await;
        assert_eq!(store.list("").count().await, 0, "{strategy:?}");
        // The exact number of bytes: read, written, or both.
        let bytes = data(SIZE);
        let mut writer = begin().await?;
        assert_eq!(writer.read_from(&mut &bytes[..]).await?, SIZE);
        assert_eq!(writer.finish().await?.size, SIZE);
        let mut writer = begin().await?;
        writer.write_bytes(bytes.slice(..7)).await?;
        writer.read_from(&mut &bytes[7..100]).await?;
        writer.write_all(&bytes[100..]).await.unwrap();
        writer.shutdown().await.unwrap();
        assert_eq!(writer.finish().await?.size, SIZE);
        assert_eq!(stored(&store, "k").await, bytes, "{strategy:?}");
        store.delete("k").await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_empty_object_and_a_file_may_have_an_exact_size_too() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    assert_eq!(store.writer("k").exact_size(0).start().await?.finish().await?.size, 0);
    let mut writer = store.writer("k").exact_size(0).start().await?;
    let error = writer.read_from(&mut &b"x"[..]).await.unwrap_err();
    assert_eq!(wrong(&error), WrongSize::TooMany { exact: 0 });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), data(SIZE)).unwrap();
    for exact in [SIZE - 1, SIZE + 1] {
        let progress = store.writer("f").exact_size(exact);
        let watched = progress.progress();
        let error = progress.upload(file.path()).await.unwrap_err();
        assert!(matches!(wrong(&error), WrongSize::TooMany { .. } | WrongSize::TooFew { .. }));
        assert_eq!(watched.snapshot().requests, 0);
    }
    assert_eq!(store.writer("f").exact_size(SIZE).upload(file.path()).await?.size, SIZE);
    Ok(())
}
