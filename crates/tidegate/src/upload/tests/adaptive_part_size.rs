//! Streams over slow connections, with memory for only a few parts of the usual size.

use std::sync::Mutex;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::*;
use crate::backend::{
    Attempt, Backend, Body, Capabilities, Entry, Fault, FaultKind, Info, Listing, PartOrigin, PartSource,
    Parts, Receipt, Session, StoredPart, WriteOptions,
};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::object::Object;

const MIB: u64 = 1 << 20;
/// The latency of a request, and below, the bytes per second of one connection.
const LATENCY: Duration = Duration::from_millis(20);
const CONNECTION: f64 = 40e6;

/// A store that keeps only the sizes of parts.
#[derive(Debug)]
struct Far {
    info: Info,
    parts: Mutex<Vec<u64>>,
}

impl Default for Far {
    fn default() -> Self {
        let info = Info::new("far://store", "far://", Capabilities::default());
        Self { info, parts: Mutex::default() }
    }
}

fn no<T>() -> Result<T, Fault> {
    Err(Fault::new(FaultKind::Unsupported, "not asked for here"))
}

#[async_trait]
impl Backend for Far {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn put(&self, _: &str, _: Payload, _: &WriteOptions, _: Attempt) -> Result<Object, Fault> {
        no()
    }

    async fn head(&self, _: &str, _: Attempt) -> Result<Object, Fault> {
        no()
    }

    async fn get(
        &self,
        _: &str,
        _: Option<std::ops::Range<u64>>,
        _: Option<&Object>,
        _: Attempt,
    ) -> Result<Body, Fault> {
        no()
    }

    async fn delete(&self, _: &str, _: Option<&Object>, _: Attempt) -> Result<(), Fault> {
        no()
    }

    fn list(&self, _: &str, _: bool) -> Listing<Entry> {
        futures::stream::empty().boxed().into()
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }
}

#[async_trait]
impl Parts for Far {
    async fn open(&self, key: &str, _: &WriteOptions, _: PartOrigin, _: Attempt) -> Result<Session, Fault> {
        sleep(LATENCY).await;
        Ok(Session { key: key.to_owned(), id: "1".to_owned() })
    }

    async fn part(
        &self,
        _: &Session,
        number: u32,
        _: u64,
        source: PartSource<'_>,
        _: Attempt,
    ) -> Result<Receipt, Fault> {
        let PartSource::Bytes(payload) = source else { return no() };
        self.parts.lock().unwrap().push(payload.len());
        sleep(LATENCY + Duration::from_secs_f64(payload.len() as f64 / CONNECTION)).await;
        Ok(Receipt { number, size: payload.len(), etag: number.to_string(), checksum: payload.checksum() })
    }

    async fn stored_parts(&self, _: &Session, _: Attempt) -> Result<Vec<StoredPart>, Fault> {
        no()
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        _: Option<&Checksum>,
        _: &WriteOptions,
        _: Attempt,
    ) -> Result<Object, Fault> {
        let size = parts.iter().map(|part| part.size).sum();
        Ok(Object { key: session.key.clone(), size, ..Object::default() })
    }

    async fn abort(&self, _: &Session, _: Attempt) -> Result<(), Fault> {
        no()
    }
}

/// How long a stream of 640 MiB takes with 128 MiB of memory, and the sizes of its parts.
async fn streamed(part_size: Option<u64>) -> (Duration, Vec<u64>) {
    static PIECE: [u8; MIB as usize] = [0; MIB as usize];
    let tide = Tidegate::builder().memory(128 * MIB).build().unwrap();
    let far = Arc::new(Far::default());
    let store = tide.store(far.clone());
    let builder = store.writer("k").strategy(Strategy::Parallel);
    let builder = if let Some(size) = part_size { builder.part_size(size) } else { builder };
    let mut writer = builder.start().await.unwrap();
    let began = Instant::now();
    for _ in 0..640 {
        writer.write_bytes(Bytes::from_static(&PIECE)).await.unwrap();
    }
    assert_eq!(writer.finish().await.unwrap().size, 640 * MIB);
    assert!(tide.usage().peak <= 128 * MIB);
    (began.elapsed(), std::mem::take(&mut far.parts.lock().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn more_parts_fly_where_connections_are_slow_and_memory_is_short() {
    let (whole, parts) = streamed(Some(16 * MIB)).await;
    assert!(parts.iter().all(|part| *part == 16 * MIB), "who says a size has it: {parts:?}");
    let (narrow, parts) = streamed(None).await;
    assert!(narrow < whole.mul_f64(0.6), "{narrow:?}, and {whole:?} in parts of 16 MiB");
    let (last, others) = parts.split_last().unwrap();
    assert_eq!(others[0], 16 * MIB, "nothing is known at first");
    assert!(others.iter().all(|part| (5 * MIB..=16 * MIB).contains(part)), "{parts:?}");
    assert!(*last <= 16 * MIB);
}
