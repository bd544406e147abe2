//! `tidegate journal resume`.

use std::io::Write;
use std::path::PathBuf;

use tidegate::journal::JournalError;
use tidegate::{Left, Resumed, Tidegate};

use super::{all_chosen, has_ended, store};
use crate::commands::cp::journaled::{self, Found};
use crate::exit::{Failure, Outcome};
use crate::options::Connection;
use crate::stores::Stores;
use crate::{output, text};

/// Publish the uploads of a journal directory whose sources were read to their ends.
///
/// Those that were cut before need their source: copy it again, to the same place and with the same
/// --journal. What another process is writing is left alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Only this upload, as `journal ls` shows it; may be given again.
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    #[command(flatten)]
    connection: Connection,
}

impl Resume {
    pub(super) async fn run(self) -> Outcome {
        let engine = self.connection.reached(Tidegate::builder()).journal([&self.directory]);
        Stores::with(engine, async |stores| {
            let all = stores.tide().recover().await?;
            let mut out = output::text()?;
            let (mut published, mut failed) = (0, 0);
            for left in all_chosen(&all, &self.ids, &self.directory)? {
                match self.resume(stores, left).await {
                    Ok(Some(line)) => {
                        published += 1;
                        writeln!(out, "{line}")?;
                    }
                    Ok(None) => {}
                    Err(failure) => {
                        failed += 1;
                        output::say(&format!("error: {}", failure.sentence().unwrap_or_default()));
                    }
                }
            }
            writeln!(out, "published {}", text::count(published, "object"))?;
            out.flush()?;
            match failed {
                0 => Ok(()),
                n => Err(Failure::Failed(format!("{} could not be published", text::count(n, "upload")))),
            }
        })
        .await
    }

    /// What is said of it; nothing where it is another's, or needs its source, and was not asked for.
    async fn resume(&self, stores: &Stores, left: &Left) -> Outcome<Option<String>> {
        let is_asked_for = !self.ids.is_empty();
        if matches!(left.problem(), Some(JournalError::InUse { .. })) && !is_asked_for {
            return Ok(None);
        }
        if left.problem().is_none() && !left.is_finished() {
            let (id, url) = (left.id(), left.url().unwrap_or_default());
            let has = text::size(left.length());
            let sentence = format!("{id}: {url} was cut after {has}: copy its source again to go on");
            if is_asked_for {
                return Err(Failure::Failed(sentence));
            }
            output::say(&sentence);
            return Ok(None);
        }
        let store = store(stores, left, &self.connection).await?;
        // What was listed may be another's by now, or have ended.
        let claimed = match journaled::claim(left, &store).await? {
            Found::Ours(claimed) => claimed,
            Found::InUse(who) if is_asked_for => return Err(Failure::Failed(who)),
            Found::Ended if is_asked_for => return Err(has_ended(left)),
            Found::InUse(_) | Found::Ended => return Ok(None),
        };
        match claimed.resume().await? {
            Resumed::Object(object) => {
                let (id, url) = (left.id(), left.url().unwrap_or_default());
                Ok(Some(format!("{id}  {:>12}  {url}", text::size(object.size))))
            }
            Resumed::Writer(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Strategy;

    use super::*;

    #[tokio::test]
    async fn what_another_process_took_or_ended_since_is_no_failure() {
        let directory = tempfile::tempdir().unwrap();
        let (journals, target) = (directory.path().join("journals"), directory.path().join("target"));
        std::fs::create_dir(&journals).unwrap();
        std::fs::create_dir(&target).unwrap();
        let tide = Tidegate::builder().journal([&journals]).build().unwrap();
        let store = tide.open(target.to_str().unwrap()).await.unwrap();
        let mut writer = store.writer("k").strategy(Strategy::Journal).start().await.unwrap();
        writer.write("bytes".into()).await.unwrap();
        // Nothing can be published in the place of a directory.
        std::fs::create_dir_all(target.join("k/in the way")).unwrap();
        writer.finish().await.unwrap_err();
        std::fs::remove_dir_all(target.join("k")).unwrap();
        tide.settled().await;
        let all = tide.recover().await.unwrap();
        let [left] = &all[..] else { panic!("{all:?}") };
        assert!(left.is_finished(), "{left:?}");
        let command = |ids| Resume { directory: journals.clone(), ids, connection: Connection::default() };
        let (any, this) = (command(Vec::new()), command(vec![left.id().into()]));

        let claimed = left.claim().await.unwrap();
        Stores::with(Tidegate::builder().journal([&journals]), async |stores| {
            assert_eq!(any.resume(stores, left).await.unwrap(), None);
            let failure = this.resume(stores, left).await.unwrap_err();
            assert!(failure.sentence().unwrap().contains("in use"), "{failure:?}");
            claimed.resume().await.unwrap();
            assert_eq!(any.resume(stores, left).await.unwrap(), None);
            let failure = this.resume(stores, left).await.unwrap_err();
            assert!(failure.sentence().unwrap().contains("meanwhile"), "{failure:?}");
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(std::fs::read(target.join("k")).unwrap(), b"bytes");
    }
}
