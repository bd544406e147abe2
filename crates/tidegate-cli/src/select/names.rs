//! `--files-from`: names of objects in a file or on standard input.

use std::ffi::OsString;
use std::path::Path;

use futures::{StreamExt, TryStreamExt, future};
use tidegate_transfer::{Error, NameList, Result};
use tokio::fs::File;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};

use crate::exit::{CommandFailure, Outcome};
use crate::standard;

/// The longest name, in bytes: more than a key or a path can have.
const LONGEST: usize = 64 << 10;

/// Where the names of a command's objects come from.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which objects")]
pub(crate) struct NamesOption {
    /// Take the objects that this file names, or standard input (-). Each line is a name below the source, or a whole
    /// URL or path if no source is given.
    #[arg(long, value_name = "FILE|-")]
    files_from: Option<OsString>,

    /// Read names of --files-from that end with a NUL byte. `find -print0` prints such names.
    #[arg(short = '0', long, requires = "files_from")]
    null: bool,
}

impl NamesOption {
    pub(crate) fn is_given(&self) -> bool {
        self.files_from.is_some()
    }

    /// Opens the file of `--files-from`; `None` if the option is not given.
    pub(crate) async fn open(&self) -> Outcome<Option<NameList>> {
        let Some(list) = &self.files_from else { return Ok(None) };
        let from = list.to_string_lossy().into_owned();
        let file = match &*from {
            "-" => File::from_std(standard::input()?),
            _ => {
                let path = Path::new(list);
                File::open(path).await.map_err(|error| CommandFailure::of_file(path, &error))?
            }
        };
        Ok(Some(NameList { names: names(file, from.clone(), self.null).boxed(), from }))
    }
}

/// The names in a file. A read error ends them; a name that is not UTF-8 is one failure. Empty ones are skipped; with lines, so are the carriage returns at their ends.
fn names(
    file: File,
    from: String,
    ends_with_null: bool,
) -> impl futures::Stream<Item = Result<String>> + Send {
    let end = if ends_with_null { 0 } else { b'\n' };
    let codec = AnyDelimiterCodec::new_with_max_length(vec![end], vec![end], LONGEST);
    let mut number = 0_u64;
    let names = FramedRead::new(file, codec).map(move |name| {
        number += 1;
        let wrong = |why: &str| Error::Failed(format!("{from}: name {number} {why}"));
        let name = name.map_err(|error| match error {
            AnyDelimiterCodecError::MaxChunkLengthExceeded => {
                wrong(&format!("has more than {LONGEST} bytes; with -0, names end with a NUL byte"))
            }
            AnyDelimiterCodecError::Io(error) => Error::of_file(Path::new(&from), &error),
        })?;
        let name = String::from_utf8(name.into()).map_err(|_| wrong("is not UTF-8, which keys are"))?;
        let is_line = !ends_with_null && name.ends_with('\r');
        Ok(if is_line { name[..name.len() - 1].to_owned() } else { name })
    });
    names.try_filter(|name| future::ready(!name.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(content: &[u8], null: bool) -> Vec<Result<String>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        std::fs::write(&path, content).unwrap();
        let option = NamesOption { files_from: Some(path.into()), null };
        option.open().await.unwrap().unwrap().names.collect().await
    }

    async fn good(content: &[u8], null: bool) -> Vec<String> {
        read(content, null).await.into_iter().map(Result::unwrap).collect()
    }

    #[tokio::test]
    async fn names_are_lines_or_end_with_null() {
        assert_eq!(good(b"a\nb c \n\nd/e\r\nlast", false).await, ["a", "b c ", "d/e", "last"]);
        assert_eq!(good(b"a\nb\0c\r\0\0d", true).await, ["a\nb", "c\r", "d"]);
        assert!(good(b"", false).await.is_empty());
    }

    #[tokio::test]
    async fn a_wrong_name_is_named_by_its_number() {
        let names = read(b"a\nm\xff\nb\n", false).await;
        let [Ok(a), Err(wrong), Ok(b)] = &names[..] else { panic!("{names:?}") };
        assert!(a == "a" && b == "b");
        assert!(wrong.to_string().ends_with("name 2 is not UTF-8, which keys are"));
        let names = read(&b"x".repeat(LONGEST + 2), false).await;
        assert!(matches!(&names[..], [Err(_), ..]), "{names:?}");
    }

    #[tokio::test]
    async fn a_missing_list_is_not_found() {
        let option = NamesOption { files_from: Some("/no/such/list".into()), null: false };
        assert_eq!(option.open().await.err().unwrap().code(), 3);
        assert!(NamesOption::default().open().await.unwrap().is_none());
    }
}
