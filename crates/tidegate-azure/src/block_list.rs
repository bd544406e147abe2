//! Reads which blocks a blob has ("Get Block List").

use http::{HeaderMap, Method};

use super::AzureContainer;
use super::fault::no_error;
use super::request::AzureRequest;
use tidegate_core::backend::{Attempt, Fault};
use tidegate_http::proof::tag;
use tidegate_http::xml::document::{ElementStep, XmlPage};

/// The most uncommitted blocks of a blob ("Scalability and performance targets for Blob Storage"); no list is longer.
const MOST: usize = 100_000;

/// Which of the two lists of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListOf {
    Committed,
    Uncommitted,
}

/// A block of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// In base64.
    pub(super) id: String,
    pub(super) size: u64,
}

/// One of the two lists of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockList {
    pub(super) blocks: Vec<Block>,
    /// The ETag of the blob, if it was committed once.
    pub(super) etag: Option<String>,
    /// The size of the blob.
    pub(super) size: Option<u64>,
}

/// Asks for one of the lists. `NotFound` if the blob has never had a block.
pub(super) async fn block_list(
    container: &AzureContainer,
    key: &str,
    of: ListOf,
    attempt: Attempt,
) -> Result<BlockList, Fault> {
    let which = match of {
        ListOf::Committed => "committed",
        ListOf::Uncommitted => "uncommitted",
    };
    let url = container.url.blob(key, &[("comp", "blocklist"), ("blocklisttype", which)])?;
    let request = AzureRequest::new(Method::GET, url, attempt);
    let (headers, body) = container.shared.ask(request).await?;
    read(&headers, &body, of)
}

pub(super) fn read(headers: &HeaderMap, body: &[u8], of: ListOf) -> Result<BlockList, Fault> {
    no_error(headers, body)?;
    let wanted = match of {
        ListOf::Committed => "CommittedBlocks",
        ListOf::Uncommitted => "UncommittedBlocks",
    };
    let (mut blocks, mut block, mut has_size) = (Vec::new(), Block::default(), false);
    let names = ["CommittedBlocks", "UncommittedBlocks", "Block", "Name", "Size"];
    let document = XmlPage::new(headers, body, "BlockList", "")?;
    document.each(&names, |path, step| {
        let [list, "Block", rest @ ..] = path else { return Ok(()) };
        if *list != wanted {
            return Ok(());
        }
        match (rest, step) {
            ([], ElementStep::Begins) => (block, has_size) = (Block::default(), false),
            (["Name"], ElementStep::Ends(id)) => id.trim().clone_into(&mut block.id),
            (["Size"], ElementStep::Ends(size)) => {
                block.size = size.trim().parse().map_err(|_| format!("a block has the size `{size}`"))?;
                has_size = true;
            }
            ([], ElementStep::Ends(_)) if block.id.is_empty() || !has_size => {
                return Err("it has a block without a name or a size".to_owned());
            }
            ([], ElementStep::Ends(_)) if blocks.len() == MOST => {
                return Err(format!("it has more than {MOST} blocks"));
            }
            ([], ElementStep::Ends(_)) => blocks.push(std::mem::take(&mut block)),
            _ => {}
        }
        Ok(())
    })?;
    let size =
        headers.get("x-ms-blob-content-length").and_then(|size| size.to_str().ok()?.trim().parse().ok());
    Ok(BlockList { blocks, etag: tag(headers).map(str::to_owned), size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::backend::FaultKind;

    #[test]
    fn only_the_list_that_was_asked_for_is_read() {
        let body = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList><CommittedBlocks>\
                    <Block><Name>YQ==</Name><Size>5</Size></Block></CommittedBlocks><UncommittedBlocks>\
                    <Block><Name>Yg==</Name><Size>4194304000</Size></Block><Block><Size>0</Size><Name>Yw==</Name></Block>\
                    </UncommittedBlocks></BlockList>";
        let ids = |of| {
            let list = read(&HeaderMap::new(), body.as_bytes(), of).unwrap();
            list.blocks.into_iter().map(|block| (block.id, block.size)).collect::<Vec<_>>()
        };
        assert_eq!(ids(ListOf::Committed), [("YQ==".to_owned(), 5)]);
        assert_eq!(ids(ListOf::Uncommitted), [("Yg==".to_owned(), 4_194_304_000), ("Yw==".to_owned(), 0)]);
    }

    #[test]
    fn a_list_that_is_cut_or_none_is_no_empty_list() {
        let kind = |body: &str| {
            read(&HeaderMap::new(), body.as_bytes(), ListOf::Uncommitted).map_err(|fault| fault.kind)
        };
        assert!(
            kind("<BlockList><CommittedBlocks/><UncommittedBlocks/></BlockList>").unwrap().blocks.is_empty()
        );
        for cut in ["", "<BlockList>", "<BlockList><UncommittedBlocks><Block><Name>Yg=="] {
            assert!(matches!(kind(cut), Err(FaultKind::Transient | FaultKind::NotAStore)), "{cut}");
        }
        for wrong in [
            "<html/>",
            "<BlockList><UncommittedBlocks><Block><Name>Yg==</Name></Block></UncommittedBlocks></BlockList>",
            "<BlockList><UncommittedBlocks><Block><Size>1</Size></Block></UncommittedBlocks></BlockList>",
            "<BlockList><UncommittedBlocks><Block><Name>Yg==</Name><Size>x</Size></Block></UncommittedBlocks>\
             </BlockList>",
        ] {
            assert_eq!(kind(wrong), Err(FaultKind::NotAStore), "{wrong}");
        }
        let error = "<Error><Code>ServerBusy</Code><Message>later</Message></Error>";
        assert_eq!(kind(error), Err(FaultKind::Throttled));
    }
}
