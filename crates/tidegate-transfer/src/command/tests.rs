use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tidegate::{Store, Strategy, Tidegate};

use super::*;
use crate::{CopyTrees, Report};

fn shell(script: &str) -> ExternalCommand {
    ExternalCommand::new("sh", ["-c", script])
}

async fn copy(command: &ExternalCommand, tide: &Tidegate) -> Result<Report> {
    CopyTrees::command(tide, command.clone(), "memory://command/k".parse().unwrap()).await
}

async fn store() -> (Tidegate, Store) {
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.open("memory://command").await.unwrap();
    (tide, store)
}

#[tokio::test]
async fn only_what_a_successful_command_wrote_is_published() {
    let (tide, store) = store().await;
    for (script, code) in [
        ("head -c 100000 /dev/zero; exit 3", 3),
        ("head -c 100000 /dev/zero; kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("exit 255", 255),
        // The pipe stays open in a process that the command leaves behind.
        ("(sleep 60 >&1) & head -c 100000 /dev/zero; exit 4", 4),
    ] {
        let failed = copy(&shell(script), &tide).await.unwrap_err();
        let Error::Command(failed) = &failed else { panic!("{script}: {failed:?}") };
        assert_eq!(failed.exit_code(), code, "{script}: {failed}");
        assert!(!store.exists("k").await.unwrap(), "{script}");
    }
    for (script, size) in [
        ("head -c 100000 /dev/zero", 100_000),
        ("true", 0),
        // Its output ends long before itself.
        ("printf abc; exec >&-; sleep 0.3", 3),
        ("(sleep 0.3; printf behind) & printf before", 12),
        ("(kill -STOP $$; sleep 0.2; kill -CONT $$) & wait; printf abc", 3),
    ] {
        let report = copy(&shell(script), &tide).await.unwrap();
        assert_eq!((report.copied, store.head("k").await.unwrap().size), (1, size), "{script}");
        store.delete("k").await.unwrap();
    }
    assert_eq!(tide.usage().held, 0);
}

#[tokio::test]
async fn a_command_that_can_t_be_started_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (program, code) in [(Path::new("tidegate-no-such-command"), 127), (&file, 126)] {
        let failed = ExternalCommand::new(program, [""; 0]).produce().unwrap_err();
        let Error::Command(failed) = failed else { panic!("{failed:?}") };
        assert_eq!(failed.exit_code(), code, "{failed}");
    }
}

#[tokio::test]
async fn a_command_has_so_much_time_and_what_holds_its_output_is_named() {
    let (tide, store) = store().await;
    let limit = Some(Duration::from_millis(300));
    for (script, named) in [("printf abc; exec sleep 60", false), ("printf abc; sleep 60 & exit 0", true)] {
        let failed = copy(&shell(script).timeout(limit), &tide).await.unwrap_err().to_string();
        assert!(failed.contains("did not end within 0.3 seconds"), "{failed}");
        assert_eq!(failed.contains("(sleep)"), named, "{failed}");
        assert!(!store.exists("k").await.unwrap());
    }
}

#[tokio::test]
async fn a_source_that_is_dropped_ends_its_command() {
    let mut output = shell("trap 'exit 0' TERM; echo begun; while :; do sleep 0.01; done").produce().unwrap();
    let id = output.command.child.id().unwrap();
    let mut begun = [0; 6];
    tokio::io::AsyncReadExt::read_exact(&mut output, &mut begun).await.unwrap();
    drop(output);
    // What the runtime has not waited for yet is a zombie.
    let state = || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let until = Instant::now() + Duration::from_secs(20);
    while !state().is_empty() && !state().contains(") Z ") {
        assert!(Instant::now() < until, "{}", state());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A journal that was cut is resumed by the same command, and published only if the command succeeds then.
#[tokio::test]
async fn a_journal_is_published_when_its_command_has_succeeded() {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().journal([directory.path()]).build().unwrap();
    let store = tide.open("memory://command").await.unwrap();
    let run = async |script: &str| {
        let command = shell(script);
        let target = "memory://command/k".parse().unwrap();
        let copy = CopyTrees::command(&tide, command, target).strategy(Strategy::Journal);
        copy.journals(vec![directory.path().to_owned()]).await
    };
    for script in ["printf 'one\n'; exit 1", "printf 'one\ntwo\n'; exit 1"] {
        run(script).await.unwrap_err();
        tide.settled().await;
        assert!(!store.exists("k").await.unwrap());
        assert_eq!(store.left("k").await.unwrap().len(), 1);
    }
    assert_eq!(run("printf 'one\ntwo\nthree\n'").await.unwrap().copied, 1);
    assert_eq!(store.get("k").await.unwrap().as_ref(), b"one\ntwo\nthree\n");
    assert_eq!(store.left("k").await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_consumer_must_succeed() {
    for (script, expected) in [
        ("cat >/dev/null", Ok(Consumed::All)),
        ("head -c 1 >/dev/null", Ok(Consumed::Part)),
        ("cat >/dev/null; exit 7", Err(7)),
        ("exit 8", Err(8)),
    ] {
        let mut input = shell(script).consume().unwrap();
        for _ in 0..40 {
            if input.write(&[0; 1 << 16]).await.unwrap() == Consumed::Part {
                break;
            }
        }
        let ended = input.finish().await.map_err(|error| match error {
            Error::Command(error) => error.exit_code(),
            error => panic!("{error:?}"),
        });
        assert_eq!(ended, expected, "{script}");
    }
    let mut input = shell("sleep 60").timeout(Some(Duration::from_millis(200))).consume().unwrap();
    let failed = loop {
        match input.write(&[0; 1 << 16]).await {
            Ok(consumed) => assert_eq!(consumed, Consumed::All),
            Err(failed) => break failed,
        }
    };
    assert!(failed.to_string().contains("did not end within"), "{failed}");
}
