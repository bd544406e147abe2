//! The options of other tools, each with what does the same here.

/// Options that we do not have, and what to do instead. Some commands may have an option of the same name: then only
/// the others give the answer.
const ANSWERS: [(&[&str], &str); 69] = [
    // What is copied.
    (&["--no-clobber", "--ignore-existing", "--no-overwrite", "--skip-existing"], "use `--if-absent`"),
    (
        &["--overwrite"],
        "objects are replaced, unless `--if-absent` (skip) or `--create-only` (fail) is given",
    ),
    (
        &["--force", "-f", "--yes", "-y"],
        "none is needed, because nothing asks for confirmation; a bucket with objects needs `tidegate rm -r s3://BUCKET` before \
         `tidegate rb`",
    ),
    (&["--immutable", "--if-generation-match"], "use `--create-only`"),
    (&["--dryrun", "--interactive", "-i", "--trial-run"], "use `--dry-run`"),
    (&["--archive", "-a", "-R"], "use `--recursive`"),
    (&["--size-only", "--if-size-differ"], "use `tidegate sync --size-only`"),
    (&["--update", "-u", "--if-source-newer", "--exact-timestamps"], "use `tidegate sync`"),
    (&["--checksum", "-c", "--checksums-only", "--compute-checksums"], "use `tidegate sync --checksum`"),
    (
        &[
            "--delete",
            "--delete-after",
            "--delete-before",
            "--delete-during",
            "--delete-destination",
            "--delete-unmatched-destination-objects",
            "--remove",
        ],
        "use `tidegate sync --delete`",
    ),
    (&["--delete-excluded"], "`tidegate sync --delete` leaves alone what `--exclude` leaves out"),
    (&["--raw"], "use `--literal`"),
    (
        &[
            "--filter",
            "--filter-from",
            "--include-from",
            "--exclude-from",
            "--include-pattern",
            "--exclude-pattern",
            "--include-path",
            "--exclude-path",
            "--include-regex",
            "--exclude-regex",
        ],
        "use `--include` and `--exclude`, of which the last that matches decides",
    ),
    (&["--max-age", "--include-after", "--newer"], "use `--newer-than`"),
    (&["--min-age", "--include-before", "--older"], "use `--older-than`"),
    (
        &["--list-of-files", "--read-paths-from-stdin", "-I", "--files"],
        "use `--files-from`, with - for standard input",
    ),
    (&["--flatten"], "name the objects one by one, as in `tidegate cp s3://BUCKET/a/1 s3://BUCKET/b/2 DIR/`"),
    (
        &["--all-versions", "--versions", "--version-id", "--rewind"],
        "old versions of objects are not handled",
    ),
    (&["--incomplete"], "use `tidegate sessions ls s3://BUCKET/`"),
    // What the object carries.
    (
        &["--acl", "--grants", "--predefined-acl", "--canned-acl", "--preserve-acl", "--acl-public"],
        "ACLs are not set, on purpose; use a policy of the bucket",
    ),
    (
        &["--sse-kms-key-id", "--s3-sse-kms-key-id", "--kms-key", "--encryption-key"],
        "use `--sse aws:kms:KEY`",
    ),
    (&["--sse-c", "--sse-c-key", "--decryption-keys"], "keys of one's own (SSE-C) are not supported"),
    (
        &["--attr", "--custom-metadata", "--header-upload", "--update-custom-metadata"],
        "use `--metadata NAME=VALUE`",
    ),
    (
        &["--content-encoding", "--content-disposition", "--content-language", "--expires"],
        "it is not set, and copies between stores keep it",
    ),
    (
        &["--metadata-directive", "--copy-props"],
        "copies keep the attributes of their source, unless others are given",
    ),
    (&["--no-guess-mime-type", "--mime-type", "--mimetype"], "use `--content-type TYPE`"),
    (&["--gzip", "-z", "-Z", "-J", "--gzip-in-flight-all", "--decompress"], "bytes are copied as they are"),
    (&["--tags", "--tagging"], "use `--tag NAME=VALUE`"),
    (
        &["--put-md5", "--check-md5", "--content-md5", "--md5"],
        "none is needed, because every object is sent with a checksum, which the store compares",
    ),
    (&["--checksum-algorithm"], "use `tidegate cp --checksum crc64nvme` or crc32c"),
    (&["--checksum-mode"], "none is needed, because every object is checked while it is read"),
    (&["--follow-symlinks", "--copy-links"], "use `--links follow`"),
    (&["--no-follow-symlinks", "--skip-links", "--ignore-symlinks"], "use `--links skip`"),
    (&["--preserve-symlinks", "-l"], "use `--links preserve`"),
    (&["--preserve-posix", "--preserve-posix-properties", "-p"], "use `--preserve`"),
    // How it travels.
    (
        &[
            "--numworkers",
            "--workers",
            "--transfers",
            "--checkers",
            "--threads",
            "--parallel",
            "--jobs",
            "-j",
            "-P",
            "--max-workers",
            "--multi-thread-streams",
            "--s3-upload-concurrency",
            "--max-concurrent-requests",
        ],
        "none is needed, because the number of requests adapts; `--concurrency N` sets it",
    ),
    (&["-m"], "none is needed, because objects are copied in parallel"),
    (
        &["--block-size-mb", "--block-size", "--s3-chunk-size", "--chunk-size", "--multipart-chunksize"],
        "use `--part-size SIZE`",
    ),
    (&["--disable-multipart"], "use `tidegate cp --strategy put`"),
    (
        &["--buffer-size", "--max-buffer-memory", "--use-mmap"],
        "use `--memory SIZE`, for all transfers together",
    ),
    (&["--retry-count", "--retries", "--low-level-retries", "--max-retries"], "use `--attempts N`"),
    (
        &["--bwlimit", "--cap-mbps", "--limit-upload", "--limit-download", "--limit-rate", "--max-bandwidth"],
        "use `--bandwidth RATE`, such as 50MB/s",
    ),
    (
        &["--expected-size"],
        "none is needed, because streams may have any size; `tidegate cp --expect-size BYTES` refuses an input of another size",
    ),
    (
        &["--page-size", "--fast-list", "--list-chunk", "--max-items"],
        "none is needed, because listings are read in pages as large as the store allows",
    ),
    (
        &["--cli-read-timeout", "--cli-connect-timeout", "--timeout", "--contimeout"],
        "none is needed, because deadlines adapt; see `--min-rate` and `--attempts`",
    ),
    (
        &["--daisy-chain", "--server-side-across-configs", "--from-to", "--s2s"],
        "none is needed, because the store copies where it can",
    ),
    (
        &["--continue-on-error", "--skip-errors", "--exit-on-error"],
        "a failure of one object never stops the others, and the exit code tells",
    ),
    (&["--watch", "-w"], "run `tidegate sync` again when something has changed"),
    // Output.
    (&["--only-show-errors", "--silent", "-s", "--no-summary"], "use `--quiet`"),
    (&["--no-progress"], "use `--progress never`"),
    (
        &["--progress", "--show-progress", "--stats", "--stat"],
        "a bar is shown on a terminal, and a line at the end elsewhere",
    ),
    (&["--log", "--log-level", "--loglevel"], "use `-v` for a line an object, `-vv` for the log"),
    (&["--debug", "-D", "--trace"], "use `-vv`"),
    (&["--output", "--output-type", "--format", "--query"], "use `--json`"),
    (&["--manifest-path", "-L"], "use `-v`, with `--json` for programs"),
    (
        &["--human-readable", "--readable-sizes", "--humanize"],
        "use `tidegate ls --human` or `tidegate du --human`",
    ),
    (&["--summarize", "--total", "--summary"], "use `tidegate du`"),
    (&["--show-fullpath", "--full-path"], "use `tidegate ls --recursive`, which prints whole keys"),
    // Connection.
    (&["--endpoint", "--s3-endpoint", "--host", "--url"], "use `--endpoint-url URL`"),
    (
        &["--no-verify-ssl", "--insecure", "--no-check-certificate", "-k"],
        "certificates are always checked; `--ca-bundle FILE` adds an authority",
    ),
    (
        &["--access-key", "--secret-key", "--s3-access-key-id", "--s3-secret-access-key"],
        "keys do not belong on a command line, which others can see; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use `--profile NAME`",
    ),
    (
        &["--account-key", "--sas-token", "--connection-string"],
        "keys do not belong on a command line, which others can see; set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING",
    ),
    (&["--account-name", "--account", "--azureblob-account"], "use `--azure-account NAME`"),
    (
        &["--auth-mode", "--azureblob-use-msi", "--azureblob-env-auth", "--use-msi"],
        "none is needed, because the identity is found; see docs/CREDENTIALS.md",
    ),
    (
        &["--credentials-file", "--config", "--config-file"],
        "set AWS_SHARED_CREDENTIALS_FILE or AWS_CONFIG_FILE",
    ),
    (&["--anonymous", "--s3-no-credentials", "--no-signature"], "use `--no-sign-request`"),
    (&["--project", "--project-id"], "set GOOGLE_CLOUD_PROJECT"),
    (&["--force-path-style", "--s3-force-path-style", "--path-style"], "use `--addressing path`"),
    (
        &["--duration", "--expire", "--http-verb"],
        "use `tidegate presign --expires TIME`, with `tidegate presign --put` to write",
    ),
];

/// What to do instead of giving `option`, such as `--transfers`; `None` if it is not one that we know.
pub(crate) fn instead_of_option(option: &str) -> Option<&'static str> {
    let (_, instead) = ANSWERS.iter().find(|(options, _)| options.contains(&option))?;
    Some(instead)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Command;

    use super::*;
    use crate::command_line;

    fn has_option(command: &Command, option: &str) -> bool {
        command.get_arguments().any(|arg| match option.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => option[1..].chars().all(|letter| arg.get_short() == Some(letter)),
        })
    }

    #[test]
    fn every_answer_names_options_and_commands_that_there_are() {
        let mut program = command_line();
        program.build();
        let mut known = BTreeSet::new();
        for (options, instead) in ANSWERS {
            for option in options {
                assert!(option.starts_with('-') && known.insert(option), "{option}");
                assert_eq!(instead_of_option(option), Some(instead));
                let mut everywhere = program.get_subcommands().filter(|command| command.get_name() != "help");
                assert!(!everywhere.all(|command| has_option(command, option)), "{option} is ours");
            }
            for example in instead.split('`').skip(1).step_by(2) {
                let mut words = example.split(' ').peekable();
                let mut command = &program;
                if words.next_if_eq(&"tidegate").is_some() {
                    while let Some(below) = words.peek().and_then(|name| command.find_subcommand(name)) {
                        (command, _) = (below, words.next());
                    }
                    assert_ne!(command.get_name(), "tidegate", "{instead}");
                }
                let places: Vec<_> = match command.get_name() {
                    "tidegate" => program.get_subcommands().collect(),
                    _ => vec![command],
                };
                for option in words.filter(|word| word.starts_with('-') && *word != "-") {
                    assert!(
                        places.iter().any(|command| has_option(command, option)),
                        "{option} in {instead}"
                    );
                }
            }
        }
        assert_eq!(instead_of_option("--frobnicate"), None);
    }
}
