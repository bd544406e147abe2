//! Text from outside (stores, keys, file names) in a form that is safe to print.

use std::borrow::Cow;

use crate::types::azure_host::AzureHost;

/// Characters that a terminal or a log reader acts on instead of showing them.
fn is_unsafe(character: char) -> bool {
    // Bidirectional overrides and isolates reorder the text around them ("Trojan Source", CVE-2021-42574); the line
    // and paragraph separators end a line in some viewers; the byte order mark is invisible.
    character.is_control()
        || matches!(character, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Escapes characters that would move the cursor, change the terminal, start a line or reorder text: a newline
/// becomes `\n`, an escape becomes `\u{1b}`. Everything else stays as it is. Borrows if there is nothing to escape.
///
/// ```
/// use tidegate::text::printable;
/// assert_eq!(printable("a\n\u{1b}[31mb"), r"a\n\u{1b}[31mb");
/// assert_eq!(printable("größe 5"), "größe 5");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(is_unsafe) else { return Cow::Borrowed(text) };
    let mut printed = String::with_capacity(text.len() + 16);
    printed.push_str(&text[..first]);
    for character in text[first..].chars() {
        if is_unsafe(character) {
            printed.extend(character.escape_default());
        } else {
            printed.push(character);
        }
    }
    Cow::Owned(printed)
}

/// As [`printable`], for bytes that may not be text and may be many: shows at most `limit` bytes, then `…`. Bytes
/// that are not UTF-8 are shown as `\xff`.
///
/// ```
/// assert_eq!(tidegate::text::printable_bytes(b"<html>\xff\0</html>", 8), r"<html>\xff\u{0}…");
/// ```
pub fn printable_bytes(bytes: &[u8], limit: usize) -> String {
    let shown = &bytes[..bytes.len().min(limit)];
    let mut printed = String::new();
    let mut chunks = shown.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        printed.push_str(&printable(chunk.valid()));
        // A character that the limit has cut is not shown as bytes.
        let is_cut = shown.len() < bytes.len() && chunks.peek().is_none() && chunk.invalid().len() < 4;
        if !(is_cut && std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none())) {
            printed.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
        }
    }
    if shown.len() < bytes.len() {
        printed.push('…');
    }
    printed
}

/// Leaves out the secrets in a URL: user names and passwords (`http://user:secret@host` becomes `http://…@host`),
/// and a query with a signature or a token in it (`?…`). Borrows if there is no such URL.
///
/// Passwords are often not escaped. So everything up to the last `@` before white space is left out, slashes too, and
/// `user:secret@host` counts without a scheme as well.
///
/// ```
/// use tidegate::text::without_passwords;
/// assert_eq!(without_passwords("by http://user:secret@proxy:1"), "by http://…@proxy:1");
/// assert_eq!(without_passwords("by user:se/cret@proxy:1"), "by …@proxy:1");
/// assert_eq!(without_passwords("https://h/k?X-Amz-Signature=0f3a"), "https://h/k?…");
/// ```
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    if !text.contains(['@', '?']) {
        return Cow::Borrowed(text);
    }
    let words = text.split_inclusive(char::is_whitespace).map(without_users);
    let shown: String = words.map(without_secret_query).collect();
    if shown == text { Cow::Borrowed(text) } else { Cow::Owned(shown) }
}

/// As `without_passwords`, for a text that is one address, whatever characters are in it.
pub fn address_without_password(address: &str) -> Cow<'_, str> {
    let Some((user, host)) = address.rsplit_once('@') else { return Cow::Borrowed(address) };
    let scheme = user.find("://").map_or("", |at| &user[..at + SCHEME_ENDS.len()]);
    Cow::Owned(format!("{scheme}…@{host}"))
}

const SCHEME_ENDS: &str = "://";
/// Characters that may stand after a URL in a message.
const ENDS: [char; 12] = ['"', '\'', '`', '<', '>', ')', ']', '}', ',', ';', ':', '.'];
/// Characters that may stand before a URL in a message.
const BEFORE: [char; 12] = ['"', '\'', '`', '<', '>', '(', '[', '{', ',', '=', '“', '‘'];

/// Leaves user names and passwords out of a word.
fn without_users(word: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(word.len()), word);
    while let Some(at) = rest.find(SCHEME_ENDS) {
        let (scheme, url) = rest.split_at(at + SCHEME_ENDS.len());
        shown.push_str(&without_bare_user(scheme));
        rest = match user_of(&rest[..at], url) {
            Some(user) => {
                shown.push('…');
                &url[user.len()..]
            }
            None => url,
        };
    }
    if rest.len() == word.len() {
        return without_bare_user(word).into_owned();
    }
    shown.push_str(rest);
    shown
}

/// The user's name and password in a URL, up to the `@` after them; `scheme` and `url` are the text before and
/// after its `://`.
fn user_of<'a>(scheme: &str, url: &'a str) -> Option<&'a str> {
    const OF_AZURE: [&str; 6] = ["az", "azure", "abfs", "abfss", "wasb", "wasbs"];
    const OF_OTHERS: [&str; 8] = ["s3", "s3a", "s3n", "gs", "gcs", "dev", "memory", "file"];
    let name = scheme.rsplit(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    // A key may have an `@`. Neither buckets nor profiles have a colon: if there is one, a password follows.
    let before = &authority[..authority.rfind('@').unwrap_or(authority.len())];
    let is_of = |names: &[&str]| names.iter().any(|of_keys| name.eq_ignore_ascii_case(of_keys));
    let is_key = (is_of(&OF_AZURE) || is_of(&OF_OTHERS)) && !before.contains(':');
    // `s3://PROFILE@bucket` names a profile, which is no secret.
    if is_key && name.eq_ignore_ascii_case("s3") {
        return None;
    }
    // `abfss://container@account.dfs.core.windows.net` names a container and an account.
    let host = authority[before.len()..].trim_start_matches('@').trim_end().trim_end_matches(ENDS);
    if is_key && is_of(&OF_AZURE) && !before.contains('@') && AzureHost::parse(host).is_some() {
        return None;
    }
    let at = if is_key { authority.rfind('@') } else { url.rfind('@') };
    at.map(|at| &url[..at])
}

/// Leaves `user:secret` out of a word that has `user:secret@host` in it, but not after a directory, as in
/// `logs/12:30@host`.
fn without_bare_user(word: &str) -> Cow<'_, str> {
    let (Some(colon), Some(at)) = (word.find(':'), word.rfind('@')) else { return Cow::Borrowed(word) };
    let begins = word[..colon]
        .rfind(BEFORE)
        .map_or(0, |at| word[at..].chars().next().map_or(0, |c| at + c.len_utf8()));
    let user = &word[begins..];
    let user = user.trim_start_matches(['.', '/']);
    let begins = word.len() - user.len();
    if at < colon || begins > colon || word[begins..colon].contains('/') {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("{}…{}", &word[..begins], &word[at..]))
}

/// Leaves out the query of the URL in a word if it gives access.
fn without_secret_query(word: String) -> String {
    let Some(url) = word.find(SCHEME_ENDS) else { return word };
    let Some(query) = word[url..].find('?').map(|at| url + at + 1) else { return word };
    let ends = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | '<' | '>');
    let end = word[query..].find(ends).map_or(word.len(), |at| query + at);
    match is_secret(&word[query..end]) {
        true => format!("{}…{}", &word[..query], &word[end..]),
        false => word,
    }
}

/// Whether a query has a parameter that gives access.
fn is_secret(query: &str) -> bool {
    const SECRET: [&str; 6] = ["sig", "signature", "token", "credential", "password", "secret"];
    query.split(['&', '?']).filter_map(|pair| pair.split_once('=')).any(|(name, _)| {
        let name = name.to_ascii_lowercase();
        SECRET.iter().any(|secret| name == *secret || name.ends_with(&format!("-{secret}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        let escaped = [
            ("a\rb", r"a\rb"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("\u{7f}", r"\u{7f}"),
            ("user\u{202e}gpj.exe", r"user\u{202e}gpj.exe"),
            ("a\u{2028}b", r"a\u{2028}b"),
        ];
        for (text, shown) in escaped {
            assert_eq!(printable(text), shown);
        }
        for plain in ["", "a b/c", "日本語", "e\u{301}", r"back\slash"] {
            assert!(matches!(printable(plain), Cow::Borrowed(shown) if shown == plain));
        }
    }

    #[test]
    fn what_is_secret_in_a_url_is_left_out() {
        for (text, shown) in [
            ("via http://user:secret@proxy:3128/ now", "via http://…@proxy:3128/ now"),
            ("http://a:b@c and https://d:e@f", "http://…@c and https://…@f"),
            ("`http://user:pass@word@host`", "`http://…@host`"),
            ("https://a.blob/c/k?sv=1&sig=x%3D then", "https://a.blob/c/k?… then"),
            ("https://h/k?X-Amz-Security-Token=t&x=y", "https://h/k?…"),
            ("https://h/k?list-type=2", "https://h/k?list-type=2"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            ("\"s3://profile@bucket/a@b\": denied", "\"s3://profile@bucket/a@b\": denied"),
            ("s3://profile@bucket: denied", "s3://profile@bucket: denied"),
            ("s3://user:secret@bucket/a", "s3://…@bucket/a"),
            ("gs://secret@bucket/a", "gs://…@bucket/a"),
            ("az://secret@bucket/a", "az://…@bucket/a"),
            ("abfss://c@acc.dfs.core.windows.net/a@b", "abfss://c@acc.dfs.core.windows.net/a@b"),
            ("\"wasbs://c@acc.blob.core.windows.net\": no", "\"wasbs://c@acc.blob.core.windows.net\": no"),
            ("abfss://c@acc.dfs.core.windows.net: denied", "abfss://c@acc.dfs.core.windows.net: denied"),
            ("abfss://u:secret@acc.dfs.core.windows.net/a", "abfss://…@acc.dfs.core.windows.net/a"),
            ("abfss://c@acc.dfs.core.windows.net/a?sig=x", "abfss://c@acc.dfs.core.windows.net/a?…"),
            ("no address", "no address"),
            ("://", "://"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }

    #[test]
    fn a_password_that_is_not_escaped_is_left_out_too() {
        for (text, shown) in [
            ("AWS_ENDPOINT_URL=http://user:pa/ss@127.0.0.1:1 is", "AWS_ENDPOINT_URL=http://…@127.0.0.1:1 is"),
            ("AWS_ENDPOINT_URL=user:secret@127.0.0.1:1", "AWS_ENDPOINT_URL=…@127.0.0.1:1"),
            ("\"http://user:se/cret@h/k\": unknown", "\"http://…@h/k\": unknown"),
            ("'http://user:pa'ss@h/k' found", "'http://…@h/k' found"),
            ("http://user:p?a#ss@h/k?X-Amz-Signature=1", "http://…@h/k?…"),
            ("http://user:p@ss/w@ord@h", "http://…@h"),
            ("s3://key:se/cret@bucket/k", "s3://…@bucket/k"),
            ("user:secret@http://h", "…@http://h"),
            (
                "\"ftp:user:secret@h/k\": no URL (written ./ftp:user:secret@h/k)",
                "\"…@h/k\": no URL (written ./…@h/k)",
            ),
            ("user:se/cr:et@h", "…@h"),
            ("//user:secret@h", "//…@h"),
            ("s3://b/k,http://user:secret@h", "s3://b/k,http://…@h"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
        for plain in [
            "s3://bucket/a:b@c",
            "file:///a:b/c@d",
            "git@github.com:a/b",
            "12:30 worker@host",
            "logs/12:30@host",
            "dir/s3:b@c",
        ] {
            assert!(matches!(without_passwords(plain), Cow::Borrowed(shown) if shown == plain), "{plain}");
        }
        assert_eq!(address_without_password("http://user:p w\n@h"), "http://…@h");
        assert_eq!(address_without_password("user:p w@h"), "…@h");
        assert_eq!(address_without_password("http://h:1/"), "http://h:1/");
    }

    #[test]
    fn long_bytes_are_cut_between_characters() {
        assert_eq!(printable_bytes("aé".as_bytes(), 2), "a…");
        assert_eq!(printable_bytes(b"a\xe9", 9), r"a\xe9");
        assert_eq!(printable_bytes(b"\xff\xfe\xfd", 2), r"\xff\xfe…");
        assert_eq!(printable_bytes(b"", 2), "");
    }
}
