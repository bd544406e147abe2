//! A backend on top of another one.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;

use super::{
    AbortRule, Appended, Backend, Body, Capabilities, Copied, CopySource, Entry, Fault, Held, Lifecycle,
    Listing, OpenSession, Receipt, Session, StoredPart, WriteOptions,
};
use crate::memory::payload::{Payload, Unending};
use crate::types::checksum::Checksum;
use crate::types::object::Object;

/// Lists each method once. A forgotten method that has a default in `Backend` would compile, so the test below
/// compares the two lists.
macro_rules! passed_on {
    (
        $( fn $plain:ident($($input:ident: $of:ty),*) -> $output:ty; )*
        $( async fn $request:ident($($argument:ident: $type:ty),*) -> $answer:ty; )*
    ) => {
        /// A backend on top of another one: methods that it does not override are passed on unchanged. For counting,
        /// delaying or failing requests.
        ///
        /// ```
        /// use std::sync::atomic::{AtomicU64, Ordering};
        ///
        /// use tidegate::backend::{Backend, Fault, Layer};
        ///
        /// /// Counts what is removed.
        /// #[derive(Debug)]
        /// struct Counting<B> {
        ///     below: B,
        ///     removed: AtomicU64,
        /// }
        ///
        /// #[async_trait::async_trait]
        /// impl<B: Backend> Layer for Counting<B> {
        ///     fn below(&self) -> &dyn Backend {
        ///         &self.below
        ///     }
        ///
        ///     async fn delete(&self, key: &str) -> Result<(), Fault> {
        ///         self.removed.fetch_add(1, Ordering::Relaxed);
        ///         self.below.delete(key).await
        ///     }
        /// }
        /// ```
        #[async_trait]
        pub trait Layer: Debug + Send + Sync + 'static {
            /// The backend below.
            fn below(&self) -> &dyn Backend;

            $(
                #[doc = concat!("[`Backend::", stringify!($plain), "`]")]
                fn $plain(&self, $($input: $of),*) -> $output {
                    self.below().$plain($($input),*)
                }
            )*

            $(
                #[doc = concat!("[`Backend::", stringify!($request), "`]")]
                async fn $request(&self, $($argument: $type),*) -> $answer {
                    self.below().$request($($argument),*).await
                }
            )*
        }

        #[async_trait]
        impl<L: Layer> Backend for L {
            $(
                fn $plain(&self, $($input: $of),*) -> $output {
                    Layer::$plain(self, $($input),*)
                }
            )*

            $(
                async fn $request(&self, $($argument: $type),*) -> $answer {
                    Layer::$request(self, $($argument),*).await
                }
            )*
        }
    };
}

passed_on! {
    fn location() -> &str;
    fn endpoint() -> &str;
    fn capabilities() -> &Capabilities;
    fn check(key: &str, options: Option<&WriteOptions>) -> Result<(), Fault>;
    fn sessions(prefix: &str) -> Listing<OpenSession>;
    fn unlisted_sessions() -> Option<&'static str>;
    fn list(prefix: &str, recursive: bool) -> Listing<Entry>;
    async fn put(key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault>;
    async fn open(key: &str, options: &WriteOptions) -> Result<Session, Fault>;
    async fn part(session: &Session, number: u32, offset: u64, payload: Payload) -> Result<Receipt, Fault>;
    async fn parts(session: &Session) -> Result<Vec<StoredPart>, Fault>;
    async fn complete(
        session: &Session,
        parts: &[Receipt],
        checksum: &Checksum,
        options: &WriteOptions
    ) -> Result<Object, Fault>;
    async fn open_appending(key: &str, options: &WriteOptions) -> Result<Session, Fault>;
    async fn append(
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>
    ) -> Result<Appended, Fault>;
    async fn append_stream(session: &Session, offset: u64, bytes: Unending) -> Result<Appended, Fault>;
    async fn appended(session: &Session) -> Result<Appended, Fault>;
    async fn abort(session: &Session) -> Result<(), Fault>;
    async fn unlisted(session: &Session) -> Result<Option<OpenSession>, Fault>;
    async fn held(session: &Session) -> Result<Held, Fault>;
    async fn lifecycle() -> Result<Lifecycle, Fault>;
    async fn add_abort_rule(to: &Lifecycle, rule: &AbortRule) -> Result<(), Fault>;
    async fn head(key: &str) -> Result<Object, Fault>;
    async fn get(key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault>;
    async fn delete(key: &str) -> Result<(), Fault>;
    async fn is_one_place(location: &str, from: &str, key: &str) -> bool;
    async fn copy(
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions
    ) -> Result<Copied, Fault>;
    async fn open_copy(key: &str, options: &WriteOptions) -> Result<Session, Fault>;
    async fn copy_part(
        session: &Session,
        number: u32,
        from: &CopySource,
        range: Range<u64>
    ) -> Result<StoredPart, Fault>;
    async fn complete_copy(
        session: &Session,
        parts: &[StoredPart],
        checksum: Option<&Checksum>,
        options: &WriteOptions
    ) -> Result<Object, Fault>;
    async fn tags(key: &str) -> Result<BTreeMap<String, String>, Fault>;
}

#[cfg(test)]
mod tests {
    /// The names of the methods in the block that begins with `head`.
    fn methods(source: &str, head: &str) -> Vec<String> {
        let body = source.split_once(head).unwrap().1;
        let lines = body.lines().take_while(|line| *line != "}");
        let names = lines.filter_map(|line| {
            let line = line.strip_prefix("    ").unwrap_or_default();
            let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
            Some(rest.split('(').next().unwrap().to_owned())
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn every_method_is_passed_on() {
        let asked = methods(include_str!("../backend.rs"), "\npub trait Backend");
        let passed_on = methods(include_str!("layer.rs"), "\npassed_on! {");
        assert!(asked.len() > 20, "{asked:?}");
        assert_eq!(asked, passed_on);
    }
}
