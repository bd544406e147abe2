//! The commands of other tools (aws s3, gsutil, rclone, s5cmd, mc) and of habit, each with what does the same here.

/// Commands that we do not have, and what to do instead.
const ANSWERS: [(&[&str], &str); 18] = [
    (&["s3", "storage"], "leave it out, as in `tidegate ls s3://BUCKET/`"),
    (&["get", "download", "fetch", "pull"], "use `tidegate cp s3://BUCKET/KEY FILE`"),
    (&["put", "upload", "push"], "use `tidegate cp FILE s3://BUCKET/KEY`"),
    (&["copy", "copyto"], "use `tidegate cp SOURCE TARGET`, with -r for everything below"),
    (&["pipe", "rcat"], "use `tidegate cp - s3://BUCKET/KEY`"),
    (&["move", "moveto", "rename", "ren"], "use `tidegate mv SOURCE TARGET`"),
    (&["rsync", "mirror", "synchronize"], "use `tidegate sync SOURCE TARGET`"),
    (&["diff", "compare", "cryptcheck"], "use `tidegate check SOURCE TARGET`"),
    (
        &["list", "dir", "find", "lsd", "lsf", "lsl", "tree"],
        "use `tidegate ls s3://BUCKET/`, with -r for everything below",
    ),
    (&["lsjson"], "use `tidegate ls --json s3://BUCKET/`"),
    (&["head", "info", "attrs", "show"], "use `tidegate stat s3://BUCKET/KEY`"),
    (&["size", "usage"], "use `tidegate du s3://BUCKET/`"),
    (&["delete", "remove", "del", "deletefile"], "use `tidegate rm s3://BUCKET/KEY`"),
    (&["purge", "rmr"], "use `tidegate rm -r s3://BUCKET/PREFIX/`"),
    (&["mkbucket", "makebucket", "make-bucket", "create-bucket", "mkdir"], "use `tidegate mb s3://BUCKET`"),
    (
        &["rmbucket", "removebucket", "remove-bucket", "delete-bucket", "rmdir"],
        "use `tidegate rb s3://BUCKET`",
    ),
    (&["sign", "signurl", "sign-url", "share", "link"], "use `tidegate presign s3://BUCKET/KEY`"),
    (&["cleanup"], "use `tidegate sweep s3://BUCKET/`"),
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
            let named =
                instead.split('`').skip(1).step_by(2).map(|example| example.split(' ').nth(1).unwrap());
            for name in named {
                assert!(is_command(name), "{name}");
            }
        }
        assert_eq!(instead_of("frobnicate"), None);
    }
}
