//! Text from outside (stores, keys, file names) in a form that is safe to print.

use std::borrow::Cow;

/// Characters that a terminal or a log reader acts on instead of showing them.
fn is_unsafe(character: char) -> bool {
    // Bidirectional overrides and isolates reorder what stands around them ("Trojan Source", CVE-2021-42574); the line
    // and paragraph separators end a line in some viewers; the byte order mark is invisible.
    character.is_control()
        || matches!(character, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Escapes characters that would move the cursor, change the terminal, start a line or reorder text: a newline becomes
/// `\n`, an escape becomes `\u{1b}`. Everything else stays as it is. Borrows where there is nothing to escape.
///
/// ```
/// use tidegate::printable;
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

/// As [`printable`], of bytes that may be no text and may be many: at most `limit` bytes of them, then `…`. Bytes that are
/// not UTF-8 are shown as `\xff`.
///
/// ```
/// assert_eq!(tidegate::printable_bytes(b"<html>\xff\0</html>", 8), r"<html>\xff\u{0}…");
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

/// Leaves out what in a URL is secret: user names and passwords (`http://user:secret@host` becomes `http://…@host`), and a
/// query with a signature or a token in it (`?…`). Borrows where there is no such URL.
///
/// ```
/// use tidegate::without_passwords;
/// assert_eq!(without_passwords("by http://user:secret@proxy:1"), "by http://…@proxy:1");
/// assert_eq!(without_passwords("https://h/k?X-Amz-Signature=0f3a"), "https://h/k?…");
/// ```
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, behind) = rest.split_at(at + 3);
        shown.push_str(before);
        let ends =
            |character: char| character.is_whitespace() || matches!(character, '"' | '\'' | '`' | '<' | '>');
        let (url, after) = behind.split_at(behind.find(ends).unwrap_or(behind.len()));
        let (authority, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        match authority.rsplit_once('@') {
            Some((_, host)) => shown.extend(["…@", host]),
            None => shown.push_str(authority),
        }
        match path.split_once('?') {
            Some((path, query)) if is_secret(query) => shown.extend([path, "?…"]),
            _ => shown.push_str(path),
        }
        rest = after;
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    shown.into()
}

/// Whether a query has a parameter that gives access to what it belongs to.
fn is_secret(query: &str) -> bool {
    const SECRET: [&str; 6] = ["sig", "signature", "token", "credential", "password", "secret"];
    query.split('&').filter_map(|pair| pair.split_once('=')).any(|(name, _)| {
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
            ("no address", "no address"),
            ("://", "://"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }

    #[test]
    fn long_bytes_are_cut_between_characters() {
        assert_eq!(printable_bytes("aé".as_bytes(), 2), "a…");
        assert_eq!(printable_bytes(b"a\xe9", 9), r"a\xe9");
        assert_eq!(printable_bytes(b"\xff\xfe\xfd", 2), r"\xff\xfe…");
        assert_eq!(printable_bytes(b"", 2), "");
    }
}
