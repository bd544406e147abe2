//! Jobs: many tasks write files below one directory, and one driver publishes all of them.

use std::time::Duration;

use jni_sys::{JNIEnv, jboolean, jbyteArray, jclass};
use tidegate::Store;
use tidegate_transfer::job::{self, AttemptAbort, CommittedJob, FoundJob, Job, JobAbort, JobOutcome};

use crate::border;
use crate::call::Reply;
use crate::error::{Failure, Outcome};
use crate::handle::Handle;
use crate::pending::lifetime;
use crate::wire::{self, Encoder};
use crate::writer::{OpenWriter, during};

/// Stands for what Java has no name for.
const UNKNOWN: i64 = -1;

/// As `CommittedJob` in Java reads it.
fn encode_committed(job: &CommittedJob, to: &mut Encoder) {
    to.count(job.objects);
    to.count(job.bytes);
    to.count(job.abandoned);
    to.texts(&job.unreadable);
}

/// As `JobAbort` in Java reads it.
fn encode_abort(abort: &JobAbort, to: &mut Encoder) {
    match abort {
        JobAbort::Abandoned { uploads, visible, unreadable, .. } => {
            to.number(0);
            to.count(*uploads);
            to.count(*visible);
            to.texts(unreadable);
        }
        JobAbort::Begun => to.number(1),
        JobAbort::Removed { uploads, .. } => {
            to.number(2);
            to.count(*uploads);
        }
        _ => to.number(UNKNOWN),
    }
}

/// As `JobOutcome` in Java reads it.
fn encode_outcome(outcome: &JobOutcome, to: &mut Encoder) {
    match outcome {
        JobOutcome::Committed(job) => {
            to.number(0);
            encode_committed(job, to);
        }
        JobOutcome::NotBegun => to.number(1),
        JobOutcome::Ended(abort) => {
            to.number(2);
            encode_abort(abort, to);
        }
        _ => to.number(UNKNOWN),
    }
}

/// As `FoundJob` in Java reads them: the id, 1 and what was done, or 0 and the failure.
fn found(jobs: Vec<FoundJob>) -> Reply {
    Reply::bytes(wire::encoded(|to| {
        for job in jobs {
            to.text(&job.id);
            match job.outcome {
                Ok(outcome) => {
                    to.number(1);
                    encode_outcome(&outcome, to);
                }
                Err(error) => {
                    to.number(0);
                    Failure::from(error).encode(to);
                }
            }
        }
    }))
}

/// As `AttemptAbort` in Java reads it.
fn attempt_abort(abort: AttemptAbort) -> Reply {
    Reply::bytes(wire::encoded(|to| match abort {
        AttemptAbort::Abandoned(uploads) => {
            to.number(0);
            to.count(uploads);
        }
        AttemptAbort::LeftToJob => to.number(1),
        AttemptAbort::JobBegun => to.number(2),
        _ => to.number(UNKNOWN),
    }))
}

/// Has the engine carry out `work` on a job of the store's directory.
///
/// # Safety
/// As for [`about`](crate::store::about).
unsafe fn of_job<F>(env: *mut JNIEnv, store: i64, token: i64, id: jbyteArray, work: impl FnOnce(Job) -> F)
where
    F: Future<Output = Outcome<Reply>> + Send + 'static,
{
    // SAFETY: the caller promises it.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            store.start(token, work(Job::new(&store.store, border::text(env, id)?)?));
            Ok(())
        })
    }
}

/// Has the engine carry out `work` on a job, with the names of a task and of an attempt.
///
/// # Safety
/// As for [`about`](crate::store::about), with three references.
unsafe fn of_attempt<F>(
    env: *mut JNIEnv,
    store: i64,
    token: i64,
    [id, task, attempt]: [jbyteArray; 3],
    work: impl FnOnce(Job, String, String) -> F,
) where
    F: Future<Output = Outcome<Reply>> + Send + 'static,
{
    // SAFETY: the caller promises it.
    unsafe {
        border::call(env, |env| {
            let store = Handle::store(store)?;
            let job = Job::new(&store.store, border::text(env, id)?)?;
            let (task, attempt) = (border::text(env, task)?, border::text(env, attempt)?);
            store.start(token, work(job, task, attempt));
            Ok(())
        })
    }
}

/// Has a store carry out `work` on all jobs of its directory.
///
/// # Safety
/// `env` is what the JVM passed to this native method, and `store` is a handle whose Java object is reachable.
unsafe fn all<F>(env: *mut JNIEnv, store: i64, token: i64, work: impl FnOnce(Store) -> F)
where
    F: Future<Output = Outcome<Reply>> + Send + 'static,
{
    // SAFETY: the caller promises it.
    unsafe {
        border::call(env, |_| {
            let store = Handle::store(store)?;
            store.start(token, work(store.store.clone()));
            Ok(())
        })
    }
}

/// `Native.checkJob`: fails if a job can't have this id.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_checkJob(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    id: jbyteArray,
) {
    // SAFETY: the JVM calls this, with references to byte arrays, and handles whose Java objects are reachable. So it is
    // with all functions below.
    unsafe {
        border::call(env, |env| {
            Job::new(&Handle::store(store)?.store, border::text(env, id)?)?;
            Ok(())
        })
    }
}

/// `Native.setUpJob`: gives the jobs that were brought to their end.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_setUpJob(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    id: jbyteArray,
    lifetime_millis: i64,
    has_success_marker: jboolean,
    rolls_forward: jboolean,
    completes_begun: jboolean,
) {
    let given: Option<Duration> = lifetime(lifetime_millis);
    // SAFETY: as above.
    unsafe {
        of_job(env, store, token, id, move |job| async move {
            let mut set_up = job
                .set_up()
                .success_marker(has_success_marker)
                .roll_forward_earlier(rolls_forward)
                .complete_begun(completes_begun);
            if let Some(lifetime) = given {
                set_up = set_up.lifetime(lifetime);
            }
            Ok(found(set_up.await?))
        })
    }
}

/// `Native.beginAttempt`: gives a handle.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_beginAttempt(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    id: jbyteArray,
    task: jbyteArray,
    attempt: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        of_attempt(env, store, token, [id, task, attempt], |job, task, attempt| async move {
            let attempt = job.attempt(&task, &attempt).await?;
            Ok(Reply::number(Handle::Attempt(attempt.into()).into_java()))
        })
    }
}

/// `Native.abortAttempt`: gives what that has done.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_abortAttempt(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    id: jbyteArray,
    task: jbyteArray,
    attempt: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        of_attempt(env, store, token, [id, task, attempt], |job, task, attempt| async move {
            Ok(attempt_abort(job.abort_attempt(&task, &attempt).await?))
        })
    }
}

/// `Native.commitJob`: gives what the job has published.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_commitJob(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    id: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        of_job(env, store, token, id, |job| async move {
            let committed = job.commit().await?;
            Ok(Reply::bytes(wire::encoded(|to| encode_committed(&committed, to))))
        })
    }
}

/// `Native.abortJob`: gives what that has done.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_abortJob(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    id: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        of_job(env, store, token, id, |job| async move {
            let abort = job.abort().await?;
            Ok(Reply::bytes(wire::encoded(|to| encode_abort(&abort, to))))
        })
    }
}

/// `Native.rollForwardJobs`: gives the jobs of a directory.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_rollForwardJobs(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe { all(env, store, token, |out| async move { Ok(found(job::roll_forward(&out).await?)) }) }
}

/// `Native.abandonUnfinishedJobs`: gives the jobs of a directory.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_abandonUnfinishedJobs(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe { all(env, store, token, |out| async move { Ok(found(job::abandon_unfinished(&out).await?)) }) }
}

/// `Native.giveUpAllJobs`: gives the jobs of a directory.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_giveUpAllJobs(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe { all(env, store, token, |out| async move { Ok(found(job::give_up_all(&out).await?)) }) }
}

/// `Native.lastCompletedJob`: gives an id, or no bytes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_lastCompletedJob(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe {
        all(env, store, token, |out| async move {
            Ok(job::last_completed(&out).await?.map(Reply::bytes).unwrap_or_default())
        })
    }
}

/// `Native.openTaskWriter`: gives a handle, and the position 0. `store` is that of the job.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_openTaskWriter(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    attempt: i64,
    key: jbyteArray,
    options: jbyteArray,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |env| {
            let (store, attempt) = (Handle::store(store)?, Handle::attempt(attempt)?.clone());
            let (key, options) = (border::text(env, key)?, border::options(env, options)?);
            let url = format!("{}/{key}", store.store.location());
            // Instead of the equal one that the library gives to a function, which can't fail.
            let builder = options.write(attempt.job().out().writer(key.as_str()))?;
            let shared = store.shared.clone();
            store.start(token, async move {
                let writer = attempt.writer(&key, |_| builder).await?;
                Ok(OpenWriter::reply(&shared, writer, url))
            });
            Ok(())
        })
    }
}

/// `Native.finishTaskFile`: ends a file, which its attempt's commit includes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_finishTaskFile(
    env: *mut JNIEnv,
    _: jclass,
    writer: i64,
    token: i64,
) {
    // SAFETY: as above.
    unsafe {
        during(env, writer, token, |mut in_call| async move {
            in_call.take_task_file()?.close().await?;
            in_call.keep();
            Ok(Reply::default())
        })
    }
}

/// `Native.commitAttempt`: `store` is that of the job.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_io_tidegate_Native_commitAttempt(
    env: *mut JNIEnv,
    _: jclass,
    store: i64,
    token: i64,
    attempt: i64,
) {
    // SAFETY: as above.
    unsafe {
        border::call(env, |_| {
            let attempt = Handle::attempt(attempt)?.clone();
            Handle::store(store)?.start(token, async move {
                attempt.commit().await?;
                Ok(Reply::default())
            });
            Ok(())
        })
    }
}
