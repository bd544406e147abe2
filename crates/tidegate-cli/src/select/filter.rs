//! The options that choose among the objects of a tree: by name, time and size.

use std::time::SystemTime;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use tidegate_transfer::ObjectFilter;

use crate::exit::{CommandFailure, Outcome};
use crate::values;

/// Which objects of a tree, or of what a pattern matches, to take.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which objects")]
pub(crate) struct FilterOptions {
    #[command(flatten)]
    names: NameRules,

    /// Take only objects that were modified after this. Give an age (7d, 12h) or a time in UTC (2026-11-27, or
    /// 2026-11-27T10:15:00Z).
    #[arg(long, value_parser = values::moment, value_name = "AGE|TIME")]
    newer_than: Option<SystemTime>,

    /// Take only objects that were modified before this. Give an age or a time, as for --newer-than.
    #[arg(long, value_parser = values::moment, value_name = "AGE|TIME")]
    older_than: Option<SystemTime>,

    /// Take only objects of at least this size.
    #[arg(long, value_parser = values::size, value_name = "SIZE")]
    min_size: Option<u64>,

    /// Take only objects of at most this size.
    #[arg(long, value_parser = values::size, value_name = "SIZE")]
    max_size: Option<u64>,
}

impl FilterOptions {
    /// Whether an option is given; `None`, or the name of one.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let Self { names, newer_than, older_than, min_size, max_size } = self;
        [
            ("--include", names.0.iter().any(|rule| rule.takes)),
            ("--exclude", names.0.iter().any(|rule| !rule.takes)),
            ("--newer-than", newer_than.is_some()),
            ("--older-than", older_than.is_some()),
            ("--min-size", min_size.is_some()),
            ("--max-size", max_size.is_some()),
        ]
        .into_iter()
        .find_map(|(name, is_given)| is_given.then_some(name))
    }

    /// The filter; refuses a pattern that is too long.
    pub(crate) fn filter(self) -> Outcome<ObjectFilter> {
        let Self { names, newer_than, older_than, min_size, max_size } = self;
        let mut filter = ObjectFilter::default();
        for NameRule { pattern, takes } in names.0 {
            let (option, added) = match takes {
                true => ("--include", filter.include(&pattern)),
                false => ("--exclude", filter.exclude(&pattern)),
            };
            filter = added.map_err(|error| CommandFailure::Usage(format!("{option}: {error}")))?;
        }
        let filter = match newer_than {
            Some(time) => filter.newer_than(time),
            None => filter,
        };
        let filter = match older_than {
            Some(time) => filter.older_than(time),
            None => filter,
        };
        let filter = match min_size {
            Some(bytes) => filter.min_size(bytes),
            None => filter,
        };
        Ok(match max_size {
            Some(bytes) => filter.max_size(bytes),
            None => filter,
        })
    }
}

/// The values of `--include` and `--exclude`, in the order of the command line.
#[derive(Clone, Debug, Default)]
struct NameRules(Vec<NameRule>);

#[derive(Clone, Debug)]
struct NameRule {
    pattern: String,
    takes: bool,
}

/// By hand, because the derived parser keeps no order between two options.
impl FromArgMatches for NameRules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of_option = |option: &'static str, takes| {
            let places = matches.indices_of(option).into_iter().flatten();
            let patterns = matches.get_many::<String>(option).into_iter().flatten();
            places.zip(patterns.map(move |pattern| NameRule { pattern: pattern.clone(), takes }))
        };
        let mut rules: Vec<_> = of_option("include", true).chain(of_option("exclude", false)).collect();
        rules.sort_by_key(|(place, _)| *place);
        Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for NameRules {
    fn augment_args(command: Command) -> Command {
        let option = |name: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .action(ArgAction::Append)
                .value_parser(clap::builder::NonEmptyStringValueParser::new())
        };
        let include = option("include").help(
            "Take only names that match this pattern. In it, `*` stands for any characters but `/`, `**` for any characters. The pattern is a \
             name at any depth, or begins with `/` for the top; it also takes everything below a name. Of several \
             --include and --exclude, the last that matches decides, and what none matches is taken if the first is an \
             --exclude",
        );
        let exclude = option("exclude").help("Leave out names that match, and everything below them");
        command.next_help_heading("Which objects").arg(include).arg(exclude)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use clap::Parser;
    use tidegate::Object;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: FilterOptions,
    }

    fn filter(words: &[&str]) -> ObjectFilter {
        let line = Line::try_parse_from([&["tidegate"], words].concat()).unwrap();
        line.filter.filter().unwrap()
    }

    #[test]
    fn the_last_rule_that_matches_decides() {
        for (words, taken, left_out) in [
            (&[][..], &["a", "a/b"][..], &[][..]),
            (&["--include", "*.log"], &["a.log", "a/b.log"], &["a", "a/b"]),
            (&["--exclude", "*.log"], &["a", "a/b"], &["a.log", "a/b.log"]),
            (&["--exclude", "*", "--include", "*.log"], &["a.log"], &["a"]),
            (&["--include", "*.log", "--exclude", "*"], &[], &["a.log", "a"]),
            (
                &["--include", "*.log", "--exclude", "tmp", "--include", "keep.log"],
                &["a.log", "tmp/keep.log"],
                &["tmp/a.log", "a"],
            ),
        ] {
            let filter = filter(words);
            for key in taken {
                assert!(filter.takes_name(key), "{words:?} {key}");
            }
            for key in left_out {
                assert!(!filter.takes_name(key), "{words:?} {key}");
            }
        }
    }

    #[test]
    fn times_and_sizes_decide_too() {
        let object = |size: Option<u64>, modified: Option<u64>| Object {
            size: size.unwrap_or(0),
            size_is_unknown: size.is_none(),
            modified: modified.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)),
            ..Object::default()
        };
        let sizes = filter(&["--min-size", "1K", "--max-size", "2K"]);
        for (size, expected) in
            [(Some(1023), false), (Some(1024), true), (Some(2048), true), (Some(2049), false), (None, false)]
        {
            assert_eq!(sizes.takes("a", &object(size, None)), expected, "{size:?}");
        }
        let times = filter(&["--newer-than", "1970-01-01T00:01:40Z", "--older-than", "1970-01-01 00:03:20"]);
        for (modified, expected) in
            [(Some(100), false), (Some(101), true), (Some(199), true), (Some(200), false), (None, false)]
        {
            assert_eq!(times.takes("a", &object(None, modified)), expected, "{modified:?}");
        }
        assert!(!sizes.is_everything() && !times.is_everything() && filter(&[]).is_everything());
    }
}
