//! Reads the blocks of an object that an index names, in order.

use std::collections::VecDeque;
use std::future::IntoFuture;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures::Stream;
use futures::future::BoxFuture;
use tokio::task::coop::poll_proceed;
use tokio::time::Instant;

use super::Reader;
use super::ahead::Ahead;
use super::direct::Direct;
use super::ranges::Ranges;
use super::source::{ObjectSource, OpenObject};
use crate::engine::Context;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Progress;

/// Sets up a read of blocks. Awaiting the builder makes the first request; none if no block is wanted. If all wanted
/// blocks are empty, it only asks for the object's size.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] where blocks are not in ascending order, overlap, or lie past the object's end;
/// [`ErrorKind::Replaced`] where the key has another object than [`if_unchanged`](Self::if_unchanged) names.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use futures::TryStreamExt;
/// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
/// store.put("table", "one two three").await?;
///
/// let index = [0..3, 4..7, 8..13];
/// let wanted = store.blocks("table", index).filter(|number, _| number != 1).await?;
/// let blocks: Vec<_> = wanted.map_ok(|block| (block.number, block.bytes)).try_collect().await?;
/// assert_eq!(blocks, [(0, "one".into()), (2, "three".into())]);
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is read before the builder is awaited"]
pub struct BlocksBuilder {
    context: Context,
    key: String,
    blocks: Vec<(usize, Range<u64>)>,
    gap: u64,
    same: Option<Object>,
    progress: Progress,
}

/// A block of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// Its place in the index, from 0.
    pub number: usize,
    /// The block's range in the object.
    pub range: Range<u64>,
    /// All of its bytes.
    pub bytes: Bytes,
}

impl BlocksBuilder {
    /// A gap that takes no longer to read than another request would take: 256 KiB is 10 ms at 25 MB/s.
    const GAP: u64 = 256 << 10;

    pub(crate) fn new(context: Context, key: String, index: impl IntoIterator<Item = Range<u64>>) -> Self {
        let progress = context.engine().progress.part();
        let blocks = index.into_iter().enumerate().collect();
        Self { context, key, blocks, gap: Self::GAP, same: None, progress }
    }

    /// Reads only the blocks for which `wanted` returns true, given their number and range.
    pub fn filter(mut self, mut wanted: impl FnMut(usize, &Range<u64>) -> bool) -> Self {
        self.blocks.retain(|(number, range)| wanted(*number, range));
        self
    }

    /// Reads gaps of up to this many bytes between two blocks instead of making another request; 256 KiB by default.
    pub fn gap(mut self, bytes: u64) -> Self {
        self.gap = bytes;
        self
    }

    /// Fails with [`ErrorKind::Replaced`] unless the key still has the object that `object`
    /// describes ([`Object::is_same`]): the one that the index belongs to.
    pub fn if_unchanged(mut self, object: &Object) -> Self {
        self.same = Some(object.clone());
        self
    }

    /// The progress of this read.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    pub(crate) async fn start(self) -> Result<BlockStream> {
        let source = Arc::new(ObjectSource::new(&self.context, &self.key, self.progress.clone()));
        let wrong = |block: &(usize, Range<u64>), what: String| {
            let (number, range) = block;
            let message =
                format!("block {number} of the index (bytes {}..{}) {what}", range.start, range.end);
            Error::new(ErrorKind::InvalidInput, Operation::Get, source.url(), message)
        };
        let mut end = 0;
        for block in &self.blocks {
            let Range { start, end: block_end } = block.1;
            if start < end || block_end < start {
                return Err(wrong(block, format!("begins before byte {end}, or ends before it begins")));
            }
            end = block_end;
        }
        self.context.check(Operation::Get, &self.key, None)?;
        let check_end = |object: &Object| match self.blocks.iter().find(|(_, block)| block.end > object.size)
        {
            Some(block) => Err(wrong(block, format!("lies past the object's end at byte {}", object.size))),
            None => Ok(()),
        };
        let parts = self.blocks.iter().map(|(_, range)| range.clone());
        let Some(ranges) = Ranges::joined(parts, self.gap) else {
            let object = match self.blocks.is_empty() {
                true => None,
                false => {
                    let described = source.head(self.same.as_ref()).await;
                    let object = described.map_err(|failure| source.failed(failure, 0))?;
                    check_end(&object)?;
                    Some(Arc::new(self.context.relative(object)))
                }
            };
            return Ok(BlockStream {
                of: BlockSource::Empty(object),
                blocks: self.blocks.into(),
                begun: BytesMut::new(),
            });
        };
        let open = async |range: &Range<u64>, same: Option<&Object>| {
            let opened = source.open(Some(range.clone()), same).await;
            opened.map_err(|failure| source.failed(failure, 0))
        };
        let (first, span) = (ranges.first(), ranges.span());
        let asked = if source.ignores_ranges() { &span } else { &first };
        let mut body = open(asked, self.same.as_ref()).await?;
        if *asked != span && source.is_one_stream(&body.object) {
            // One request brings all blocks and the gaps between them.
            let same = Some(&body.object).filter(|object| object.has_identity()).cloned();
            drop(body);
            body = open(&span, same.as_ref()).await?;
        }
        let OpenObject { object, range, pieces } = body;
        check_end(&object)?;
        let ahead = match source.is_one_stream(&object) {
            true => None,
            false => Ahead::for_more_than_one_request(&ranges, &self.context.engine().budget),
        };
        let reader = Reader {
            source,
            object: Arc::new(self.context.relative(object)),
            at: range.start,
            direct: Some(Direct::of(pieces, range)),
            reach: u64::MAX,
            ranges,
            ahead,
            hasher: None,
            began: Instant::now(),
            piece: Bytes::new(),
            progress: self.progress,
            failed: None,
        };
        Ok(BlockStream {
            of: BlockSource::Read(Box::new(reader)),
            blocks: self.blocks.into(),
            begun: BytesMut::new(),
        })
    }
}

impl IntoFuture for BlocksBuilder {
    type Output = Result<BlockStream>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

/// The blocks of an object that an index names, in order: a [`Stream`] of [`Block`].
///
/// Blocks that lie close together are one request; larger gaps are not read. Blocks are read ahead as by a
/// [`Reader`], and all else that is said there holds here too. Beside the memory on loan, the stream holds the next
/// block: a block that arrived in one piece is shared, not copied.
pub struct BlockStream {
    of: BlockSource,
    blocks: VecDeque<(usize, Range<u64>)>,
    /// The first bytes of a block that comes in several pieces.
    begun: BytesMut,
}

/// The source of the blocks.
#[derive(Debug)]
enum BlockSource {
    Read(Box<Reader>),
    /// All blocks are empty; the object they belong to, if any is wanted.
    Empty(Option<Arc<Object>>),
}

impl std::fmt::Debug for BlockStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockStream").field("of", &self.of).field("left", &self.blocks.len()).finish()
    }
}

impl BlockStream {
    /// The object being read, as the store described it; `None` if no block is wanted, because then the store was not
    /// asked.
    pub fn object(&self) -> Option<&Object> {
        match &self.of {
            BlockSource::Read(reader) => Some(reader.object()),
            BlockSource::Empty(object) => object.as_deref(),
        }
    }
}

impl Reader {
    /// The bytes of `range`, which is next, perhaps after bytes of a gap.
    fn poll_block(
        &mut self,
        range: &Range<u64>,
        begun: &mut BytesMut,
        cx: &mut task::Context<'_>,
    ) -> Poll<Result<Bytes>> {
        let length = (range.end - range.start) as usize;
        loop {
            if self.piece.is_empty() {
                match ready!(self.poll_piece(cx)) {
                    Some(piece) => self.piece = piece?,
                    None => {
                        let message = format!("it ended before bytes {}..{}", range.start, range.end);
                        let error =
                            Error::new(ErrorKind::Unavailable, Operation::Get, self.source.url(), message);
                        return Poll::Ready(Err(error));
                    }
                }
            }
            let before = range.start.saturating_sub(self.position()).min(self.piece.len() as u64);
            self.piece.advance(before as usize);
            if begun.is_empty() && self.piece.len() >= length {
                return Poll::Ready(Ok(self.piece.split_to(length)));
            }
            let next = self.piece.split_to(self.piece.len().min(length - begun.len()));
            if begun.is_empty() {
                begun.reserve(length);
            }
            begun.extend_from_slice(&next);
            if begun.len() == length {
                return Poll::Ready(Ok(begun.split().freeze()));
            }
        }
    }
}

impl Stream for BlockStream {
    type Item = Result<Block>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Option<Result<Block>>> {
        let this = self.get_mut();
        let Some((number, range)) = this.blocks.front().cloned() else { return Poll::Ready(None) };
        let turn = ready!(poll_proceed(cx));
        let bytes = match &mut this.of {
            BlockSource::Read(reader) if !range.is_empty() => {
                let block = ready!(reader.poll_block(&range, &mut this.begun, cx));
                match block {
                    Ok(bytes) => bytes,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            _ => Bytes::new(),
        };
        turn.made_progress();
        this.blocks.pop_front();
        Poll::Ready(Some(Ok(Block { number, range, bytes })))
    }
}
