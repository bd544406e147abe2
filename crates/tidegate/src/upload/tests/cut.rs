//! Uploads to a local directory that are cut at any moment leave no unfinished file.

use std::path::Path;
use std::time::Instant;

use super::*;

fn unfinished(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".part")).collect()
}

#[test]
#[allow(clippy::async_yields_async)] // the outer future is awaited elsewhere
fn no_cut_of_an_upload_to_a_directory_leaves_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(90);
    for cut in 0..90 {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let builder = Tidegate::builder().memory(1 << 20).slab(4096).part_size(PART).aborts_on_own_thread();
        let tide = builder.build().unwrap();
        let after = Duration::from_micros(random.u64(0..3_000));
        let write = runtime.block_on(async {
            let store = tide.open(folder.path().to_str().unwrap()).await.unwrap();
            let write = tokio::spawn(async move { store.put("k", data(5 * PART)).await });
            tokio::time::sleep(after).await;
            write
        });
        match cut % 3 {
            0 => runtime.shutdown_background(),
            1 => drop(runtime),
            _ => {
                write.abort();
                runtime.block_on(tide.settled());
            }
        }
        drop(tide);
        let began = Instant::now();
        while !unfinished(folder.path()).is_empty() {
            let left = unfinished(folder.path());
            assert!(began.elapsed() < Duration::from_secs(20), "cut {cut} after {after:?} leaves {left:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
