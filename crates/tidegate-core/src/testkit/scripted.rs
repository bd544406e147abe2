//! A store over another store, whose requests a script answers: it may count them, delay or hold them, fail them,
//! change what they carry, and lose the answer of a request that was carried out.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;

use crate::backend::{
    AbortRule, Admin, Append, Appended, Attempt, Backend, Body, BucketCheck, Copied, CopySource, Entry,
    Fault, Held, Info, Lifecycle, Listing, OpenSession, PartOrigin, PartSource, Parts, Presign, Receipt,
    Rename, ServerCopy, Session, StoredPart, Versioning, WriteOptions,
};
use crate::memory::payload::{Payload, Unending};
use crate::types::checksum::Checksum;
use crate::types::object::Object;

/// A request, with what it carries.
#[derive(Debug)]
pub enum Call<'a> {
    Put {
        key: &'a str,
        payload: Payload,
        options: &'a WriteOptions,
    },
    Head {
        key: &'a str,
    },
    Get {
        key: &'a str,
        range: Option<Range<u64>>,
        same: Option<&'a Object>,
    },
    Delete {
        key: &'a str,
        same: Option<&'a Object>,
    },
    Open {
        key: &'a str,
        options: &'a WriteOptions,
        origin: PartOrigin,
    },
    Part {
        session: &'a Session,
        number: u32,
        offset: u64,
        source: PartSource<'a>,
    },
    StoredParts {
        session: &'a Session,
    },
    Complete {
        session: &'a Session,
        parts: &'a [Receipt],
        checksum: Option<&'a Checksum>,
        options: &'a WriteOptions,
    },
    Abort {
        session: &'a Session,
    },
    OpenAppend {
        key: &'a str,
        options: &'a WriteOptions,
    },
    Append {
        session: &'a Session,
        offset: u64,
        payload: Payload,
        whole: Option<&'a Checksum>,
    },
    Stream {
        session: &'a Session,
        offset: u64,
        bytes: Unending,
    },
    Position {
        session: &'a Session,
    },
    Copy {
        from: &'a CopySource,
        key: &'a str,
        cursor: Option<&'a str>,
        options: &'a WriteOptions,
    },
    Held {
        session: &'a Session,
    },
    Tags {
        key: &'a str,
    },
}

/// The answer to a request.
pub enum Answer {
    Object(Object),
    Body(Body),
    Done,
    Session(Session),
    Receipt(Receipt),
    StoredParts(Vec<StoredPart>),
    Appended(Appended),
    Copied(Copied),
    Held(Held),
    Tags(BTreeMap<String, String>),
}

/// Takes the answer of one kind out of the answer to a call of that kind.
macro_rules! answered {
    ($answer:expr, $kind:ident) => {
        match $answer? {
            Answer::$kind(answer) => Ok(answer),
            _ => panic!("a script answers another kind of request"),
        }
    };
}

/// The store below, for one attempt of a request.
#[derive(Clone, Copy, Debug)]
pub struct Below<'a> {
    pub store: &'a dyn Backend,
    pub attempt: Attempt,
}

impl Below<'_> {
    /// Passes a request on.
    pub async fn send(&self, call: Call<'_>) -> Result<Answer, Fault> {
        let (store, attempt) = (self.store, self.attempt);
        Ok(match call {
            Call::Put { key, payload, options } => {
                Answer::Object(store.put(key, payload, options, attempt).await?)
            }
            Call::Head { key } => Answer::Object(store.head(key, attempt).await?),
            Call::Get { key, range, same } => Answer::Body(store.get(key, range, same, attempt).await?),
            Call::Delete { key, same } => {
                store.delete(key, same, attempt).await?;
                Answer::Done
            }
            Call::Open { key, options, origin } => {
                Answer::Session(store.need_parts()?.open(key, options, origin, attempt).await?)
            }
            Call::Part { session, number, offset, source } => {
                Answer::Receipt(store.need_parts()?.part(session, number, offset, source, attempt).await?)
            }
            Call::StoredParts { session } => {
                Answer::StoredParts(store.need_parts()?.stored_parts(session, attempt).await?)
            }
            Call::Complete { session, parts, checksum, options } => {
                let below = store.need_parts()?;
                Answer::Object(below.complete(session, parts, checksum, options, attempt).await?)
            }
            Call::Abort { session } => {
                store.abort(session, attempt).await?;
                Answer::Done
            }
            Call::OpenAppend { key, options } => {
                Answer::Session(store.need_append()?.open(key, options, attempt).await?)
            }
            Call::Append { session, offset, payload, whole } => {
                let below = store.need_append()?;
                Answer::Appended(below.append(session, offset, payload, whole, attempt).await?)
            }
            Call::Stream { session, offset, bytes } => {
                Answer::Appended(store.need_append()?.stream(session, offset, bytes, attempt).await?)
            }
            Call::Position { session } => {
                Answer::Appended(store.need_append()?.position(session, attempt).await?)
            }
            Call::Copy { from, key, cursor, options } => {
                let below = store.need_server_copy()?;
                Answer::Copied(below.copy(from, key, cursor, options, attempt).await?)
            }
            Call::Held { session } => Answer::Held(store.need_admin()?.held(session, attempt).await?),
            Call::Tags { key } => Answer::Tags(store.need_admin()?.tags(key, attempt).await?),
        })
    }
}

/// How a scripted store answers.
#[async_trait]
pub trait Script: Debug + Send + Sync + 'static {
    /// Answers a request, mostly by passing it on.
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        below.send(call).await
    }

    /// Lists objects.
    fn list(&self, below: &Arc<dyn Backend>, prefix: &str, recursive: bool) -> Listing<Entry> {
        below.list(prefix, recursive)
    }

    /// Lists unfinished uploads.
    fn sessions(&self, below: &Arc<dyn Backend>, prefix: &str) -> Listing<OpenSession> {
        below.admin().map_or_else(Listing::empty, |admin| admin.sessions(prefix))
    }
}

/// A store whose requests `S` answers. Whatever a test does to the script, it does through this. It has no removals of
/// many objects in one request: the script answers the removal of each.
#[derive(Debug)]
pub struct Scripted<S> {
    script: S,
    below: Arc<dyn Backend>,
}

impl<S: Script> Scripted<S> {
    pub fn new(below: impl Backend, script: S) -> Arc<Self> {
        Self::over(Arc::new(below), script)
    }

    pub fn over(below: Arc<dyn Backend>, script: S) -> Arc<Self> {
        Arc::new(Self { script, below })
    }

    /// The store below.
    pub fn below(&self) -> &Arc<dyn Backend> {
        &self.below
    }

    async fn ask(&self, call: Call<'_>, attempt: Attempt) -> Result<Answer, Fault> {
        self.script.answer(call, Below { store: &*self.below, attempt }).await
    }
}

impl<S> Deref for Scripted<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.script
    }
}

#[async_trait]
impl<S: Script> Backend for Scripted<S> {
    fn info(&self) -> &Info {
        self.below.info()
    }

    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        self.below.check(key, options)
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        answered!(self.ask(Call::Put { key, payload, options }, attempt).await, Object)
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        answered!(self.ask(Call::Head { key }, attempt).await, Object)
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        answered!(self.ask(Call::Get { key, range, same }, attempt).await, Body)
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        self.ask(Call::Delete { key, same }, attempt).await.map(drop)
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        self.script.list(&self.below, prefix, recursive)
    }

    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        self.below.is_one_place(location, from, key).await
    }

    fn parts(&self) -> Option<&dyn Parts> {
        self.below.parts().map(|_| self as &dyn Parts)
    }

    fn appending(&self) -> Option<&dyn Append> {
        self.below.appending().map(|_| self as &dyn Append)
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        self.below.server_copy().map(|_| self as &dyn ServerCopy)
    }

    fn renames(&self) -> Option<&dyn Rename> {
        self.below.renames()
    }

    fn bucket_check(&self) -> Option<&dyn BucketCheck> {
        self.below.bucket_check()
    }

    fn presigning(&self) -> Option<&dyn Presign> {
        self.below.presigning()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.below.admin().map(|_| self as &dyn Admin)
    }
}

#[async_trait]
impl<S: Script> Parts for Scripted<S> {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        answered!(self.ask(Call::Open { key, options, origin }, attempt).await, Session)
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        answered!(self.ask(Call::Part { session, number, offset, source }, attempt).await, Receipt)
    }

    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        answered!(self.ask(Call::StoredParts { session }, attempt).await, StoredParts)
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        answered!(self.ask(Call::Complete { session, parts, checksum, options }, attempt).await, Object)
    }

    async fn keep(&self, session: &Session, until: SystemTime, attempt: Attempt) -> Result<(), Fault> {
        self.below.need_parts()?.keep(session, until, attempt).await
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        self.ask(Call::Abort { session }, attempt).await.map(drop)
    }
}

#[async_trait]
impl<S: Script> Append for Scripted<S> {
    async fn open(&self, key: &str, options: &WriteOptions, attempt: Attempt) -> Result<Session, Fault> {
        answered!(self.ask(Call::OpenAppend { key, options }, attempt).await, Session)
    }

    async fn append(
        &self,
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        answered!(self.ask(Call::Append { session, offset, payload, whole }, attempt).await, Appended)
    }

    async fn stream(
        &self,
        session: &Session,
        offset: u64,
        bytes: Unending,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        answered!(self.ask(Call::Stream { session, offset, bytes }, attempt).await, Appended)
    }

    async fn position(&self, session: &Session, attempt: Attempt) -> Result<Appended, Fault> {
        answered!(self.ask(Call::Position { session }, attempt).await, Appended)
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        self.ask(Call::Abort { session }, attempt).await.map(drop)
    }

    fn tells_position(&self, session: &Session) -> bool {
        self.below.appending().is_none_or(|append| append.tells_position(session))
    }

    fn has(&self, session: &Session) -> bool {
        self.below.appending().is_some_and(|append| append.has(session))
    }
}

#[async_trait]
impl<S: Script> ServerCopy for Scripted<S> {
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Copied, Fault> {
        answered!(self.ask(Call::Copy { from, key, cursor, options }, attempt).await, Copied)
    }
}

#[async_trait]
impl<S: Script> Admin for Scripted<S> {
    fn sessions(&self, prefix: &str) -> Listing<OpenSession> {
        self.script.sessions(&self.below, prefix)
    }

    fn unlisted_sessions(&self) -> Option<&'static str> {
        self.below.admin()?.unlisted_sessions()
    }

    async fn held(&self, session: &Session, attempt: Attempt) -> Result<Held, Fault> {
        answered!(self.ask(Call::Held { session }, attempt).await, Held)
    }

    async fn lifecycle(&self, attempt: Attempt) -> Result<Lifecycle, Fault> {
        self.below.need_admin()?.lifecycle(attempt).await
    }

    async fn add_abort_rule(&self, to: &Lifecycle, rule: &AbortRule, attempt: Attempt) -> Result<(), Fault> {
        self.below.need_admin()?.add_abort_rule(to, rule, attempt).await
    }

    async fn versioning(&self, attempt: Attempt) -> Result<Versioning, Fault> {
        self.below.need_admin()?.versioning(attempt).await
    }

    async fn tags(&self, key: &str, attempt: Attempt) -> Result<BTreeMap<String, String>, Fault> {
        answered!(self.ask(Call::Tags { key }, attempt).await, Tags)
    }
}
