//! The commands and options of other tools (aws s3, gsutil, gcloud storage, rclone, s5cmd, azcopy, mc) and of habit,
//! each with what does the same here.

mod options;

pub(crate) use options::instead_of_option;

/// Commands that we do not have, and what to do instead.
const ANSWERS: [(&[&str], &str); 28] = [
    (&["s3", "s3api", "storage"], "leave it out, as in `tidegate ls s3://BUCKET/`"),
    (&["get", "download", "fetch", "pull", "dl"], "use `tidegate cp s3://BUCKET/KEY FILE`"),
    (&["put", "upload", "push", "copyurl"], "use `tidegate cp FILE s3://BUCKET/KEY`"),
    (&["copy", "copyto"], "use `tidegate cp SOURCE TARGET`, with -r for everything below"),
    (&["pipe", "rcat"], "use `tidegate cp - s3://BUCKET/KEY`"),
    (
        &["concat", "compose"],
        "use `tidegate cat SOURCE...`, with `| tidegate cp - s3://BUCKET/KEY` behind it",
    ),
    (&["more", "less", "select"], "use `tidegate cat s3://BUCKET/KEY`"),
    (&["move", "moveto", "rename", "ren"], "use `tidegate mv SOURCE TARGET`"),
    (
        &["rsync", "mirror", "synchronize", "bisync"],
        "use `tidegate sync SOURCE TARGET`, which has one direction",
    ),
    (&["diff", "compare", "cryptcheck", "checksum"], "use `tidegate check SOURCE TARGET`"),
    (
        &["list", "dir", "find", "lsd", "lsf", "lsl", "tree", "la"],
        "use `tidegate ls s3://BUCKET/`, with -r for everything below",
    ),
    (&["lsjson"], "use `tidegate ls --json s3://BUCKET/`"),
    (&["head", "info", "attrs", "show", "objects"], "use `tidegate stat s3://BUCKET/KEY`"),
    (
        &["hash", "hashsum", "md5sum", "sha1sum"],
        "`tidegate stat s3://BUCKET/KEY` shows the checksum that the store keeps",
    ),
    (&["size", "usage", "ncdu"], "use `tidegate du s3://BUCKET/`"),
    (&["delete", "remove", "del", "deletefile"], "use `tidegate rm s3://BUCKET/KEY`"),
    (&["purge", "rmr"], "use `tidegate rm -r s3://BUCKET/PREFIX/`"),
    (&["mkbucket", "makebucket", "make-bucket", "create-bucket", "mkdir"], "use `tidegate mb s3://BUCKET`"),
    (
        &["rmbucket", "removebucket", "remove-bucket", "delete-bucket", "rmdir"],
        "use `tidegate rb s3://BUCKET`",
    ),
    (&["buckets", "lsb", "list-buckets"], "use `tidegate ls s3://`, which lists the buckets"),
    (&["sign", "signurl", "sign-url", "share", "link", "sas"], "use `tidegate presign s3://BUCKET/KEY`"),
    (&["cleanup"], "use `tidegate sweep s3://BUCKET/`"),
    (&["ilm"], "use `tidegate lifecycle show s3://BUCKET`"),
    (&["completion", "autocomplete"], "use `tidegate completions SHELL`"),
    (&["version"], "use `tidegate --version`"),
    (
        &["config", "configure", "login", "auth", "alias"],
        "none is needed, because credentials come from the environment and the files of each cloud's tools; see docs/CREDENTIALS.md",
    ),
    (
        &[
            "acl",
            "setmeta",
            "tag",
            "retention",
            "legalhold",
            "anonymous",
            "policy",
            "iam",
            "versioning",
            "bucket-version",
        ],
        "use the program of your store",
    ),
    (&["touch"], "use `tidegate cp /dev/null s3://BUCKET/KEY`"),
];

/// What to do instead of `command`; `None` if it is not one that we know.
pub(crate) fn instead_of(command: &str) -> Option<&'static str> {
    let (_, instead) = ANSWERS.iter().find(|(commands, _)| commands.contains(&command))?;
    Some(instead)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::CommandLine;

    #[test]
    fn every_answer_names_commands_that_there_are() {
        let command_line = CommandLine::command();
        let is_command = |name: &str| command_line.find_subcommand(name).is_some();
        let mut known = BTreeSet::new();
        for (commands, instead) in ANSWERS {
            for command in commands {
                assert!(!is_command(command) && known.insert(command), "{command}");
                assert_eq!(instead_of(command), Some(instead));
            }
            for example in instead.split('`').skip(1).step_by(2) {
                let name = example.trim_start_matches("| ").split(' ').nth(1).unwrap();
                assert!(is_command(name) || name == "--version", "{name}");
            }
        }
        assert_eq!(instead_of("frobnicate"), None);
    }
}
