//! Runs a case, and looks whether the invariants hold.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures::Stream;
use tidegate_transfer::{Event, Planted, Run};

use crate::case::{Case, Command, Root};
use crate::model::{Plan, has_links};
use crate::world::{Address, Node, Snapshot, World};

/// How long a command may take: a case has few objects.
const LIMIT: Duration = Duration::from_secs(60);

/// What a command must hold, whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// Nothing changes that the command does not name.
    OnlyWhatIsNamed,
    /// The bytes of each object that is moved are at its source or at its target.
    MovesLoseNothing,
    /// A synchronization makes the target like the source, and a second one does nothing.
    SyncIsComplete,
    /// The dry run names the steps of the real one, and changes nothing.
    DryRunIsTrue,
    /// A command succeeds only if it did everything, and says what it left out.
    SuccessMeansDone,
    /// No source is overwritten or removed by a command that keeps it.
    SourcesStay,
    /// A command ends.
    Ends,
}

impl Invariant {
    fn sentence(self) -> &'static str {
        match self {
            Self::OnlyWhatIsNamed => "1: nothing changes that the command does not name",
            Self::MovesLoseNothing => "2: the bytes of what is moved are at the source or at the target",
            Self::SyncIsComplete => {
                "3: a sync makes the target like the source, and removes extras only after all copies"
            }
            Self::DryRunIsTrue => "4: the dry run names the steps of the real run",
            Self::SuccessMeansDone => "5: success only if all was done, and what was left out is said",
            Self::SourcesStay => "6: no source is overwritten before it was read",
            Self::Ends => "a command ends",
        }
    }
}

/// An invariant that does not hold.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    why: String,
    case: Case,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, why, case } = self;
        writeln!(f, "invariant {}", invariant.sentence())?;
        writeln!(f, "  {why}")?;
        writeln!(f, "  seed {}: run it again with TIDEGATE_TREE_SEED={}", case.seed, case.seed)?;
        write!(f, "  {:?}\n  {case:?}", case.command)
    }
}

/// What a command told.
#[derive(Debug, Default)]
struct Told {
    copies: BTreeSet<String>,
    removals: BTreeSet<String>,
    said: Vec<String>,
    result: Option<Result<(), String>>,
}

impl Told {
    fn take(&mut self, event: Event) {
        match event {
            Event::Copied(copied) => _ = self.copies.insert(copied.target.clone()),
            Event::WouldCopy { target, .. } => _ = self.copies.insert(target),
            Event::Removed { url } | Event::WouldRemove { url } => _ = self.removals.insert(url),
            Event::Warning(text) | Event::Notice(text) => self.said.push(text),
            Event::Failed(failure) => self.said.push(failure.error.to_string()),
            _ => {}
        }
    }

    fn is_ok(&self) -> bool {
        matches!(self.result, Some(Ok(())))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct How {
    dry_run: bool,
    killed_after: Option<u32>,
    planted: Option<Planted>,
}

/// Runs the case; with a planted bug, if there is one.
pub(crate) fn run(seed: u64, planted: Option<Planted>) -> Result<(), Violation> {
    let case = Case::new(seed);
    check(&case, planted).map_err(|(invariant, why)| Violation { invariant, why, case })
}

type Checked<T = ()> = Result<T, (Invariant, String)>;

fn check(case: &Case, planted: Option<Planted>) -> Checked {
    let world = case.world();
    let how = How { planted, ..How::default() };
    if case.changes.is_some() {
        execute(case, &world, How::default())?;
        case.change(&world);
    }
    let before = world.snapshot();
    let plan = Plan::new(case, &world, &before);
    let named = execute(case, &world, How { dry_run: true, ..how })?;
    if let Some(change) = difference(&before, &world.snapshot()) {
        return Err((Invariant::DryRunIsTrue, format!("the dry run has changed {change}")));
    }
    world.watch(plan.moving());
    world.fail(case.fails);
    let told = execute(case, &world, How { killed_after: case.killed_after, ..how })?;
    let failed = world.failed();
    world.fail(None);
    let after = world.snapshot();
    look(case, &world, &plan, (&before, &after), &told, &failed)?;
    let is_disturbed = told.result.is_none() || !failed.is_empty();
    if is_disturbed {
        return finish(case, &world, &plan, how);
    }
    let is_sync = matches!(case.command, Command::Sync { .. });
    // Nor does it ask whether two addresses are one.
    if named.is_ok() != told.is_ok() && !plan.is_beyond_the_dry_run && !plan.is_loose {
        let why = format!("the dry run: {named:?}, and the real one: {told:?}");
        return Err((Invariant::DryRunIsTrue, why));
    }
    if told.is_ok()
        && !plan.is_beyond_the_dry_run
        && (&named.copies, &named.removals) != (&told.copies, &told.removals)
    {
        let (copies, removals) = (&named.copies, &named.removals);
        let why = format!(
            "named: copies {copies:?}, removals {removals:?}; done: copies {:?}, removals {:?}",
            told.copies, told.removals
        );
        return Err((Invariant::DryRunIsTrue, why));
    }
    if is_sync && told.is_ok() && !plan.is_loose && !plan.is_unordered && !plan.changes_behind_links {
        again(case, &world, how)?;
    }
    Ok(())
}

/// The command that was disturbed is run again: then everything is done.
fn finish(case: &Case, world: &World, plan: &Plan, how: How) -> Checked {
    world.wait(case.pause);
    let before = world.snapshot();
    let rest = Plan::new(case, world, &before);
    world.watch(rest.moving());
    let told = execute(case, world, how)?;
    let after = world.snapshot();
    look(case, world, &rest, (&before, &after), &told, &[])?;
    let replaces = !matches!(&case.command, Command::Copy { if_exists, .. } if *if_exists != tidegate_transfer::IfExists::Replace);
    for (address, allowed) in plan.allowed.iter().filter(|_| plan.is_sure && replaces) {
        let now = after.get(address);
        if !allowed.iter().any(|node| same(node.as_ref(), now)) {
            let why = format!("{address:?} after the second run: {now:?}, and not {allowed:?}: {told:?}");
            return Err((invariant_of(case), why));
        }
    }
    Ok(())
}

/// A second synchronization does nothing.
fn again(case: &Case, world: &World, how: How) -> Checked {
    world.wait(case.pause);
    let before = world.snapshot();
    let told = execute(case, world, how)?;
    let is_excused = |target: &String| {
        // A file that was changed in the second of its upload counts as newer.
        let is_upload = case.source.is_disk()
            && matches!(case.target, Root::Store { server, .. } if world.dialect(server).whole_seconds);
        is_upload && !target.is_empty()
    };
    let copied: Vec<_> = told.copies.iter().filter(|target| !is_excused(target)).collect();
    // A link to a directory that became a file is a file, too.
    let may_remove = case.target.is_disk() && has_links(&before, case.target);
    if !told.is_ok() || !copied.is_empty() || !told.removals.is_empty() && !may_remove {
        return Err((Invariant::SyncIsComplete, format!("a second run did something: {told:?}")));
    }
    let after = world.snapshot();
    match difference(&before, &after).filter(|_| told.copies.is_empty() && told.removals.is_empty()) {
        Some(change) => Err((Invariant::SyncIsComplete, format!("a second run has changed {change}"))),
        None => Ok(()),
    }
}

/// What a command that is no synchronization must do is its success; that of a synchronization has an invariant of its own.
fn invariant_of(case: &Case) -> Invariant {
    match case.command {
        Command::Sync { .. } => Invariant::SyncIsComplete,
        _ => Invariant::SuccessMeansDone,
    }
}

fn same(one: Option<&Node>, other: Option<&Node>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.has_bytes_of(other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn difference(before: &Snapshot, after: &Snapshot) -> Option<String> {
    let all: BTreeSet<&Address> = before.keys().chain(after.keys()).collect();
    let changed = all.into_iter().find(|address| before.get(address) != after.get(address))?;
    Some(format!("{changed:?} from {:?} to {:?}", before.get(changed), after.get(changed)))
}

fn look(
    case: &Case,
    world: &World,
    plan: &Plan,
    (before, after): (&Snapshot, &Snapshot),
    told: &Told,
    failed: &[&str],
) -> Checked {
    let fails =
        |invariant, why: String| Err((invariant, format!("{why}; {told:?}, failed requests: {failed:?}")));
    if let Some(lost) = world.lost().first() {
        return fails(Invariant::MovesLoseNothing, lost.clone());
    }
    for (source, node, target) in &plan.sources {
        let stays = same(before.get(source), after.get(source));
        // Where a command names an object twice, one of its targets has it.
        let twins = plan.sources.iter().filter(|(twin, ..)| twin == source);
        let is_there = twins.filter_map(|(.., target)| target.as_ref()).any(|target| {
            (target != source || after.contains_key(source)) && same(after.get(target), Some(node))
        });
        match target {
            Some(target) if !stays && !is_there => {
                return fails(Invariant::MovesLoseNothing, format!("{source:?} is not at {target:?}"));
            }
            None if !stays && is_there => {}
            None if !stays && matches!(case.command, Command::Copy { moves: true, .. }) => {
                return fails(Invariant::MovesLoseNothing, format!("{source:?} is {:?}", after.get(source)));
            }
            None if !stays => {
                return fails(Invariant::SourcesStay, format!("{source:?} is {:?}", after.get(source)));
            }
            _ => {}
        }
    }
    if plan.is_loose {
        return Ok(());
    }
    if plan.is_impossible && told.is_ok() {
        return fails(Invariant::SuccessMeansDone, "not all can have been done".to_owned());
    }
    let all: BTreeSet<&Address> = before.keys().chain(after.keys()).collect();
    for address in all.into_iter().chain(plan.allowed.keys()) {
        let (was, now) = (before.get(address), after.get(address));
        let Some(allowed) = plan.allowed.get(address) else {
            if was != now {
                return fails(Invariant::OnlyWhatIsNamed, format!("{address:?} from {was:?} to {now:?}"));
            }
            continue;
        };
        let is_done = allowed.iter().any(|node| same(node.as_ref(), now));
        let is_begun = same(was, now) || plan.in_the_way.contains(address) && now.is_none();
        match told.is_ok() {
            true if !is_done => {
                return fails(invariant_of(case), format!("{address:?} is {now:?}, and not {allowed:?}"));
            }
            false if !is_done && !is_begun => {
                return fails(Invariant::OnlyWhatIsNamed, format!("{address:?} from {was:?} to {now:?}"));
            }
            _ => {}
        }
    }
    let gone =
        plan.extras.iter().find(|extra| !plan.in_the_way.contains(*extra) && !after.contains_key(*extra));
    // Where a directory is in the way and can't be emptied, a part of it is removed.
    if let Some(gone) = gone.filter(|_| !plan.is_beyond_the_dry_run) {
        let mut copies = plan.allowed.iter().filter(|(address, _)| !plan.extras.contains(*address));
        let missing = copies
            .find(|(address, allowed)| !allowed.iter().any(|node| same(node.as_ref(), after.get(*address))));
        if let Some((missing, _)) = missing {
            return fails(
                Invariant::SyncIsComplete,
                format!("{gone:?} is removed, and {missing:?} is not copied"),
            );
        }
        if failed.contains(&"list") {
            return fails(
                Invariant::SyncIsComplete,
                format!("{gone:?} is removed after a listing that failed"),
            );
        }
    }
    if plan.is_sure && failed.is_empty() && matches!(told.result, Some(Err(_))) {
        return fails(invariant_of(case), "it failed, and nothing was wrong".to_owned());
    }
    if plan.leaves_out && told.is_ok() && told.said.is_empty() {
        return fails(Invariant::SuccessMeansDone, "what was left out is not said".to_owned());
    }
    Ok(())
}

/// Runs the command, up to where it is killed.
fn execute(case: &Case, world: &World, how: How) -> Checked<Told> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let command = async {
        let tide = world.engine();
        let mut told = Told::default();
        let run = match case.start(world, &tide, how.dry_run, how.planted) {
            Ok(run) => run,
            Err(error) => {
                told.result = Some(Err(error.to_string()));
                return told;
            }
        };
        told.result = drive(run, how.killed_after, &mut told).await.map(|run| match run.result() {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        });
        told
    };
    let ended = runtime.block_on(async { tokio::time::timeout(LIMIT, command).await });
    // What has begun on the disk ends with the runtime.
    drop(runtime);
    ended.map_err(|_| (Invariant::Ends, "the command does not end".to_owned()))
}

/// Asks for all events; `None` if the run was dropped after so many steps.
async fn drive(run: Run, mut left: Option<u32>, told: &mut Told) -> Option<Run> {
    let mut run = Some(run);
    std::future::poll_fn(|cx| {
        loop {
            let Some(going) = &mut run else { return Poll::Ready(()) };
            if let Some(left) = &mut left {
                if *left == 0 {
                    run = None;
                    return Poll::Ready(());
                }
                *left -= 1;
            }
            match Pin::new(going).poll_next(cx) {
                Poll::Ready(Some(event)) => told.take(event),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    run
}
