//! The encoding of what crosses the border beside bytes of objects: numbers of eight bytes, the highest first, and texts
//! in UTF-8 with their length before them. `Wire` in Java has the other half.

use crate::error::{Failure, Outcome};

pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

/// The bytes that `write` encodes.
pub(crate) fn encoded(write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut to = Encoder { bytes: Vec::new() };
    write(&mut to);
    to.bytes
}

impl Encoder {
    pub(crate) fn number(&mut self, number: i64) {
        self.bytes.extend(number.to_be_bytes());
    }

    /// The largest number of Java stands for a larger count.
    pub(crate) fn count(&mut self, count: impl TryInto<i64>) {
        self.number(count.try_into().unwrap_or(i64::MAX));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as i64);
        self.bytes.extend(text.as_bytes());
    }

    /// Their number, and each.
    pub(crate) fn texts(&mut self, texts: &[String]) {
        self.count(texts.len());
        texts.iter().for_each(|text| self.text(text));
    }

    /// A length of -1 stands for no text.
    pub(crate) fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.number(-1),
        }
    }
}

pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl Decoder<'_> {
    pub(crate) fn has_more(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn number(&mut self) -> Outcome<i64> {
        let (number, rest) = self.0.split_first_chunk().ok_or_else(torn)?;
        self.0 = rest;
        Ok(i64::from_be_bytes(*number))
    }

    pub(crate) fn optional(&mut self) -> Outcome<Option<String>> {
        let length = self.number()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| torn())?;
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(torn)?;
        self.0 = rest;
        let text = str::from_utf8(text).map_err(|_| Failure::invalid("a text is not UTF-8"))?;
        Ok(Some(text.to_owned()))
    }

    pub(crate) fn text(&mut self) -> Outcome<String> {
        self.optional()?.ok_or_else(torn)
    }
}

fn torn() -> Failure {
    Failure::invalid("the arguments of a native method are not what its class encodes")
}
