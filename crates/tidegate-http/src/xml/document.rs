//! Reads pages of XML listings element by element. So a page needs no more memory than its own bytes and the entries
//! it may have, whatever the store puts into it.

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, errors::IllFormedError};

use super::fault;
use crate::LONGEST_TEXT;
use crate::answer::{cut, not_a_store};
use tidegate_core::backend::{Fault, FaultKind};

/// Limit of nested elements. S3's listings are three deep.
const DEEPEST: usize = 32;

/// Stands for a name with a capital letter, see [`XmlPage::each`].
pub const CAPITAL: &str = "@Capital";

/// The beginning or the end of an element.
#[derive(Clone, Copy, Debug)]
pub enum ElementStep<'t> {
    /// The element begins.
    Begins,
    /// The element ends, with this text; empty if the element has children.
    Ends(&'t str),
}

/// An XML document that is a page of a listing.
#[derive(Clone, Copy, Debug)]
pub struct XmlPage<'a> {
    headers: &'a HeaderMap,
    body: &'a [u8],
    root: &'static str,
}

/// The reason why a document cannot be read.
enum Trouble {
    /// The document ends in the middle.
    Cut,
    Wrong(String),
}

impl<'a> XmlPage<'a> {
    /// The answer's document, if its root is `root`: see [`fault::promised`].
    pub fn new(
        headers: &'a HeaderMap,
        body: &'a [u8],
        root: &'static str,
        region: &str,
    ) -> Result<Self, Fault> {
        fault::promised(headers, body, root, region)?;
        Ok(Self { headers, body, root })
    }

    /// Calls `on` at the beginning and end of each element below the root, with the path of names from the root to
    /// it. A name that is not in `names` is passed as an empty one, and the text of that element is skipped. An element
    /// `<Name Encoded="true">` is named `Name@Encoded`; if `names` has [`CAPITAL`], that stands for each other name with
    /// a capital letter. An error from `on` makes the document a `NotAStore` fault.
    pub fn each(
        &self,
        names: &[&'static str],
        on: impl FnMut(&[&'static str], ElementStep<'_>) -> Result<(), String>,
    ) -> Result<(), Fault> {
        self.read(names, on).map_err(|trouble| match trouble {
            Trouble::Cut => cut(&format!("<{}>", self.root)),
            Trouble::Wrong(why) => self.wrong(&why),
        })
    }

    /// The value of an element that every listing has. Without it, the page may be half of one, or none at all.
    pub fn promised<T>(&self, element: &str, value: Option<T>) -> Result<T, Fault> {
        value.ok_or_else(|| self.wrong(&format!("it has no <{element}>")))
    }

    /// The fault for a document with the right root that is not a valid listing.
    pub fn wrong(&self, why: &str) -> Fault {
        let mut fault = not_a_store(&format!("<{}>", self.root), self.headers, self.body);
        fault.message = format!("{} ({why})", fault.message);
        fault
    }

    fn read(
        &self,
        names: &[&'static str],
        mut on: impl FnMut(&[&'static str], ElementStep<'_>) -> Result<(), String>,
    ) -> Result<(), Trouble> {
        let body = match std::str::from_utf8(self.body) {
            Ok(body) => body,
            // The body ends in the middle of a character: read up to there, and report a cut document.
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(&self.body[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(error) => return Err(wrong(error)),
        };
        let mut reader = Reader::from_str(body.trim_start_matches('\u{feff}').trim_ascii_start());
        // The open elements, and where the text of each begins.
        let (mut open, mut begins, mut text) = (Vec::<&'static str>::new(), Vec::new(), String::new());
        let find = |name: &str| names.iter().find(|known| **known == name).copied();
        let known = |name: &str| {
            let has_capital = || name.bytes().any(|byte| byte.is_ascii_uppercase());
            let other = || find(CAPITAL).filter(|_| has_capital());
            find(name).or_else(other).unwrap_or_default()
        };
        // True once the root element has begun.
        let mut is_inside = false;
        loop {
            let event = match reader.read_event() {
                Ok(event) => event,
                Err(error) => return Err(trouble(error, body)),
            };
            let piece = match &event {
                Event::Start(tag) | Event::Empty(tag) => {
                    let is_empty = matches!(event, Event::Empty(_));
                    if !is_inside {
                        if is_empty {
                            return Ok(());
                        }
                        is_inside = true;
                        continue;
                    }
                    if open.len() == DEEPEST {
                        return Err(Trouble::Wrong(format!("its elements go more than {DEEPEST} deep")));
                    }
                    let own = &text[begins.last().copied().unwrap_or_default()..];
                    if !own.trim().is_empty() {
                        return Err(Trouble::Wrong("text and elements are mixed".to_owned()));
                    }
                    text.truncate(begins.last().copied().unwrap_or_default());
                    open.push(match is_encoded(tag) {
                        true => known(&format!("{}@Encoded", tag.local_name().as_ref())),
                        false => known(tag.local_name().as_ref()),
                    });
                    begins.push(text.len());
                    on(&open, ElementStep::Begins).map_err(Trouble::Wrong)?;
                    if is_empty {
                        on(&open, ElementStep::Ends("")).map_err(Trouble::Wrong)?;
                        open.pop();
                        begins.pop();
                    }
                    continue;
                }
                Event::End(_) => {
                    let Some(begin) = begins.pop() else { return Ok(()) };
                    on(&open, ElementStep::Ends(&text[begin..])).map_err(Trouble::Wrong)?;
                    open.pop();
                    text.truncate(begin);
                    continue;
                }
                Event::Text(piece) => piece.xml10_content(),
                Event::CData(piece) => piece.xml10_content(),
                Event::GeneralRef(reference) => match reference.resolve_char_ref().map_err(wrong)? {
                    Some(letter) => letter.to_string().into(),
                    None => match resolve_predefined_entity(reference) {
                        Some(text) => text.into(),
                        None => return Err(Trouble::Wrong(format!("it has an entity `&{};`", &**reference))),
                    },
                },
                Event::Eof => return Err(Trouble::Cut),
                _ => continue,
            };
            if open.last().is_some_and(|name| !name.is_empty()) {
                if text.len() + piece.len() > LONGEST_TEXT {
                    return Err(Trouble::Wrong(format!("it has a text of more than {LONGEST_TEXT} bytes")));
                }
                text.push_str(&piece);
            }
        }
    }
}

/// Whether an element has the attribute `Encoded="true"`, as Azure's names have that XML cannot express.
fn is_encoded(tag: &BytesStart<'_>) -> bool {
    let is = |attribute: &Attribute<'_>| {
        attribute.key.as_ref() == "Encoded" && attribute.value.trim().eq_ignore_ascii_case("true")
    };
    tag.attributes().flatten().any(|attribute| is(&attribute))
}

fn wrong(error: impl std::fmt::Display) -> Trouble {
    Trouble::Wrong(error.to_string())
}

fn trouble(error: quick_xml::Error, body: &str) -> Trouble {
    let is_cut = match &error {
        quick_xml::Error::Syntax(_) => true,
        // The missing end may be the `;` of a reference.
        quick_xml::Error::IllFormed(IllFormedError::UnclosedReference) => {
            body.rfind('&').is_some_and(|at| !body[at..].contains(['<', ';']))
        }
        _ => false,
    };
    if is_cut { Trouble::Cut } else { wrong(error) }
}

/// Reads `true` or `false`; empty text means false.
pub fn flag(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        other => Err(format!("`{other}` is neither true nor false")),
    }
}

/// Reads a flag that a page must have, such as `IsTruncated`: `None` if the element is empty.
pub fn promised_flag(text: &str) -> Result<Option<bool>, String> {
    filled(text).map(|text| flag(&text)).transpose()
}

/// The trimmed text, if it is not empty.
pub fn filled(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Decodes a key of a listing. A request may ask for encoded keys, because XML cannot express all of them; the
/// listing says whether it encoded them.
pub fn key(text: String, encoding: Option<&str>) -> Result<String, Fault> {
    if !encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("url")) {
        return Ok(text);
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|error| {
        Fault::new(FaultKind::Unsupported, "the bucket has a key that is not UTF-8").with_source(error)
    })?;
    Ok(decoded.into_owned())
}
