//! Reads a bucket's lifecycle rules, and adds one by inserting text, so that rules it does not understand stay as
//! they were.

use quick_xml::events::Event;
use quick_xml::{Reader, escape};

use tidegate_core::backend::{AbortRule, Fault, FaultKind, LifecycleRule};
use tidegate_http::xml::complete::NAMESPACE;

/// An XML element, without attributes, comments and the white space between elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Element {
    name: String,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    fn text_of(&self, path: &[&str]) -> Option<&str> {
        path.iter().try_fold(self, |element, name| element.child(name)).map(Self::own_text)
    }

    /// The element's text; empty if it is only white space.
    fn own_text(&self) -> &str {
        if self.text.trim().is_empty() { "" } else { &self.text }
    }

    /// One text for all ways to write the element: sorted children, no white space between elements.
    fn canonical(&self) -> String {
        let mut children: Vec<String> = self.children.iter().map(Self::canonical).collect();
        children.sort();
        let text = if children.is_empty() { escape::escape(self.own_text()) } else { "".into() };
        format!("<{}>{text}{}</{}>", self.name, children.concat(), self.name)
    }

    /// The element on one line: `Transition Days=30 StorageClass=GLACIER`.
    fn line(&self) -> String {
        if self.children.is_empty() {
            let text = self.own_text();
            return if text.is_empty() { self.name.clone() } else { format!("{}={text}", self.name) };
        }
        let parts: Vec<String> = self.children.iter().map(Self::line).collect();
        format!("{} {}", self.name, parts.join(" "))
    }
}

fn odd(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Fault {
    Fault::new(FaultKind::Transient, "the store's lifecycle rules cannot be read as XML").with_source(why)
}

/// Limit of elements in one document. S3 accepts 1,000 rules, each of some ten elements, or thirty with all its tags.
const MOST_ELEMENTS: usize = 100_000;
/// Limit of nested elements. S3's rules are five deep.
const DEEPEST: usize = 32;

/// The fault for a document that is too large or too deep to be a store's.
fn excessive(why: &str) -> Fault {
    Fault::new(FaultKind::NotAStore, format!("the store's lifecycle rules cannot be a store's: {why}"))
}

/// Parses the document into a tree of bounded size and depth.
fn tree(document: &str) -> Result<Element, Fault> {
    let mut reader = Reader::from_str(document);
    let mut elements = 0;
    let mut open: Vec<Element> = vec![Element::default()];
    let named = |name: &str| Element { name: name.to_owned(), ..Element::default() };
    loop {
        let event = reader.read_event().map_err(odd)?;
        if matches!(event, Event::Start(_) | Event::Empty(_)) {
            elements += 1;
            if elements > MOST_ELEMENTS {
                return Err(excessive(&format!("they have more than {MOST_ELEMENTS} elements")));
            }
            if open.len() > DEEPEST {
                return Err(excessive(&format!("their elements go more than {DEEPEST} deep")));
            }
        }
        let Some(top) = open.last_mut() else { return Err(odd("it ends before it begins")) };
        match event {
            Event::Start(tag) => open.push(named(tag.local_name().as_ref())),
            Event::Empty(tag) => top.children.push(named(tag.local_name().as_ref())),
            Event::End(_) => {
                if let (Some(done), Some(parent)) = (open.pop(), open.last_mut()) {
                    parent.children.push(done);
                }
            }
            Event::Text(text) => top.text.push_str(&text.xml10_content()),
            Event::CData(text) => top.text.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) => match reference.resolve_char_ref().map_err(odd)? {
                Some(letter) => top.text.push(letter),
                None => top.text.push_str(escape::resolve_predefined_entity(&reference).unwrap_or_default()),
            },
            Event::Eof => break,
            _ => {}
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(mut document), true) if document.children.len() == 1 => Ok(document.children.remove(0)),
        _ => Err(odd("it does not end")),
    }
}

/// Reads the rules of a document.
pub(super) fn rules(document: &str) -> Result<Vec<LifecycleRule>, Fault> {
    let root = tree(document)?;
    if root.name != "LifecycleConfiguration" {
        return Err(odd(format!("it is a {}", root.name)));
    }
    Ok(root.children.iter().filter(|child| child.name == "Rule").map(rule).collect())
}

fn rule(element: &Element) -> LifecycleRule {
    let prefixes: [&[&str]; 3] = [&["Filter", "Prefix"], &["Filter", "And", "Prefix"], &["Prefix"]];
    let prefix = prefixes.iter().find_map(|path| element.text_of(path)).unwrap_or_default();
    let narrowed = element.child("Filter").is_some_and(|filter| {
        let conditions = filter.child("And").unwrap_or(filter);
        conditions.children.iter().any(|condition| condition.name != "Prefix")
    });
    let said = ["ID", "Status", "Filter", "Prefix"];
    let actions = element.children.iter().filter(|child| !said.contains(&child.name.as_str()));
    let days = element.text_of(&["AbortIncompleteMultipartUpload", "DaysAfterInitiation"]);
    LifecycleRule {
        id: element.text_of(&["ID"]).filter(|id| !id.is_empty()).map(str::to_owned),
        enabled: element.text_of(&["Status"]).map(str::trim) == Some("Enabled"),
        prefix: prefix.to_owned(),
        narrowed,
        abort_after_days: days.and_then(|days| days.trim().parse().ok()),
        actions: actions.map(Element::line).collect(),
        canonical: element.canonical(),
    }
}

/// The document with one more rule; every other byte stays the same.
pub(super) fn with_rule(document: &str, rule: &AbortRule) -> Result<String, Fault> {
    if document.trim().is_empty() {
        let rule = text(rule, "", false);
        return Ok(format!("<LifecycleConfiguration xmlns=\"{NAMESPACE}\">{rule}</LifecycleConfiguration>"));
    }
    // S3 refuses a document that mixes rules with a `Filter` and rules of the old form with their own `Prefix`.
    let root = tree(document)?;
    let of_old = root.children.iter().any(|rule| rule.name == "Rule" && rule.child("Prefix").is_some());
    let mut reader = Reader::from_str(document);
    let mut depth = 0_usize;
    loop {
        let before = reader.buffer_position() as usize;
        match reader.read_event().map_err(odd)? {
            Event::Start(_) => depth += 1,
            Event::Empty(tag) if depth == 0 => {
                let (name, attributes) = (tag.name().as_ref().to_owned(), tag.attributes_raw().to_owned());
                let rule = text(rule, qualifier(&name), of_old);
                let after = &document[reader.buffer_position() as usize..];
                let attributes = attributes.trim_end();
                return Ok(format!("{}<{name}{attributes}>{rule}</{name}>{after}", &document[..before]));
            }
            Event::End(tag) => {
                depth -= 1;
                if depth == 0 {
                    let rule = text(rule, qualifier(tag.name().as_ref()), of_old);
                    return Ok(format!("{}{rule}{}", &document[..before], &document[before..]));
                }
            }
            Event::Eof => return Err(odd("it does not end")),
            _ => {}
        }
    }
}

/// The namespace prefix of a name, with its colon.
fn qualifier(name: &str) -> &str {
    name.rfind(':').map_or("", |colon| &name[..=colon])
}

fn text(rule: &AbortRule, q: &str, of_old: bool) -> String {
    let prefix = escape::escape(&rule.prefix);
    let prefix = format!("<{q}Prefix>{prefix}</{q}Prefix>");
    let scope = if of_old { prefix } else { format!("<{q}Filter>{prefix}</{q}Filter>") };
    format!(
        "<{q}Rule><{q}ID>{id}</{q}ID>{scope}<{q}Status>Enabled</{q}Status>\
         <{q}AbortIncompleteMultipartUpload><{q}DaysAfterInitiation>{days}</{q}DaysAfterInitiation>\
         </{q}AbortIncompleteMultipartUpload></{q}Rule>",
        id = escape::escape(&rule.id),
        days = rule.days,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <!-- kept -->
  <Rule><ID>a &amp; b</ID><Status>Enabled</Status><Filter><And><Prefix>x/</Prefix>
    <Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>
    <Transition><Days>30</Days><StorageClass>GLACIER</StorageClass></Transition>
    <FromTheFuture mode="odd"><Depth>3</Depth></FromTheFuture></Rule>
  <Rule><ID>off</ID><Filter/><Status>Disabled</Status>
    <AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>
  </Rule>
</LifecycleConfiguration>
"#;

    fn ours() -> AbortRule {
        AbortRule::new("ours", "a<b/", 1)
    }

    #[test]
    fn rules_are_read_as_far_as_they_are_understood() {
        let rules = rules(WHOLE).unwrap();
        assert_eq!(rules.len(), 2);
        let first = &rules[0];
        assert_eq!(first.id.as_deref(), Some("a & b"));
        assert!(first.enabled && first.narrowed && first.prefix == "x/");
        assert_eq!(first.actions, ["Transition Days=30 StorageClass=GLACIER", "FromTheFuture Depth=3"]);
        let second = &rules[1];
        assert!(!second.enabled && !second.narrowed && second.prefix.is_empty());
        assert_eq!(second.abort_after_days, Some(7));
    }

    #[test]
    fn one_rule_more_leaves_every_other_byte() {
        let more = with_rule(WHOLE, &ours()).unwrap();
        let at = WHOLE.find("</LifecycleConfiguration>").unwrap();
        assert!(more.starts_with(&WHOLE[..at]) && more.ends_with(&WHOLE[at..]));
        let (before, after) = (rules(WHOLE).unwrap(), rules(&more).unwrap());
        assert_eq!(after[..2], before);
        let ours = &after[2];
        assert!(ours.enabled && !ours.narrowed && ours.prefix == "a<b/");
        assert_eq!((ours.id.as_deref(), ours.abort_after_days), (Some("ours"), Some(1)));
    }

    #[test]
    fn there_may_be_no_rule_before() {
        let empty = "<LifecycleConfiguration xmlns=\"n\" />\n";
        for document in ["", "\n", "<LifecycleConfiguration></LifecycleConfiguration>", empty] {
            let more = with_rule(document, &ours()).unwrap();
            assert_eq!(rules(&more).unwrap().len(), 1, "{more}");
        }
        assert!(with_rule(empty, &ours()).unwrap().starts_with("<LifecycleConfiguration xmlns=\"n\"><Rule>"));
    }

    #[test]
    fn it_is_written_as_its_neighbours_are() {
        let prefixed = "<s3:LifecycleConfiguration xmlns:s3=\"n\"><s3:Rule><s3:ID>i</s3:ID></s3:Rule>\
                        </s3:LifecycleConfiguration>";
        let more = with_rule(prefixed, &ours()).unwrap();
        assert!(more.contains("<s3:Rule><s3:ID>ours</s3:ID><s3:Filter><s3:Prefix>a&lt;b/"), "{more}");
        let old = "<LifecycleConfiguration><Rule><Prefix>p</Prefix></Rule></LifecycleConfiguration>";
        let more = with_rule(old, &ours()).unwrap();
        assert!(more.contains("<ID>ours</ID><Prefix>a&lt;b/</Prefix><Status>"), "{more}");
    }

    #[test]
    fn rules_that_mean_the_same_have_one_form() {
        let of = |text: &str| rules(text).unwrap()[0].canonical.clone();
        let one = "<LifecycleConfiguration><Rule><ID>a&#38;b</ID><Filter/></Rule></LifecycleConfiguration>";
        let two = "<LifecycleConfiguration> <Rule>\n<Filter></Filter> <ID>a&amp;b</ID></Rule></LifecycleConfiguration>";
        let other = "<LifecycleConfiguration><Rule><ID>a&amp;c</ID><Filter/></Rule></LifecycleConfiguration>";
        assert_eq!(of(one), of(two));
        assert_ne!(of(one), of(other));
    }

    #[test]
    fn a_document_is_bounded() {
        let deep = ["<a>".repeat(1_000_000), "</a>".repeat(1_000_000)].concat();
        for inside in [deep, "<a/>".repeat(200_000)] {
            let document = format!("<LifecycleConfiguration>{inside}</LifecycleConfiguration>");
            assert_eq!(rules(&document).unwrap_err().kind, FaultKind::NotAStore);
        }
    }

    #[test]
    fn what_is_no_such_document_is_refused() {
        for document in ["<Other/>", "<LifecycleConfiguration><Rule>", "<a>", "text", "<a></b>"] {
            assert!(rules(document).is_err(), "{document}");
        }
    }
}
