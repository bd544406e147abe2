//! Reads fields of Google's JSON in each form that servers write: `null` for an absent field, numbers as text or as
//! numbers, flags as words. A field in any other form counts as absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A text; a number or a flag is read as its text.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::<Value>::deserialize(deserializer).map(|value| value.and_then(scalar))
}

/// Like [`text`]; empty if absent.
pub(super) fn some_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    text(deserializer).map(Option::unwrap_or_default)
}

/// An unsigned number.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = |text: String| text.trim().parse().ok();
    text(deserializer).map(|text| text.and_then(number))
}

/// A flag; false if absent.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let is_set = |text: String| matches!(text.trim().to_ascii_lowercase().as_str(), "true" | "1");
    text(deserializer).map(|text| text.is_some_and(is_set))
}

/// Whether the field is present and not an empty text.
pub(super) fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.is_some_and(|value| value != Value::String(String::new())))
}

/// Texts by name. Leaves out absent values, lists and objects.
pub(super) fn texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let Some(Value::Object(fields)) = Option::<Value>::deserialize(deserializer)? else {
        return Ok(BTreeMap::new());
    };
    Ok(fields.into_iter().filter_map(|(name, value)| Some((name, scalar(value)?))).collect())
}

fn scalar(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Sample {
        #[serde(deserialize_with = "text")]
        text: Option<String>,
        #[serde(deserialize_with = "number")]
        number: Option<u64>,
        #[serde(deserialize_with = "flag")]
        flag: bool,
        #[serde(deserialize_with = "texts")]
        texts: BTreeMap<String, String>,
    }

    fn read(json: &str) -> Sample {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_field_is_read_in_each_of_its_forms() {
        for (json, text) in [(r#""a""#, Some("a")), ("1", Some("1")), ("true", Some("true")), ("null", None)]
        {
            assert_eq!(read(&format!(r#"{{"text":{json}}}"#)).text.as_deref(), text, "{json}");
        }
        for (json, number) in [
            ("5", Some(5)),
            (r#""5""#, Some(5)),
            ("18446744073709551615", Some(u64::MAX)),
            ("null", None),
            ("-1", None),
            ("5.5", None),
            (r#""five""#, None),
            ("{}", None),
        ] {
            assert_eq!(read(&format!(r#"{{"number":{json}}}"#)).number, number, "{json}");
        }
        for (json, flag) in [
            ("true", true),
            (r#""true""#, true),
            ("1", true),
            ("false", false),
            ("null", false),
            ("[]", false),
        ] {
            assert_eq!(read(&format!(r#"{{"flag":{json}}}"#)).flag, flag, "{json}");
        }
        let texts = read(r#"{"texts":{"a":null,"b":1,"c":true,"d":"x","e":[]},"unknown":[{}]}"#).texts;
        assert_eq!(
            texts.into_iter().collect::<Vec<_>>(),
            [
                ("b".to_owned(), "1".to_owned()),
                ("c".to_owned(), "true".to_owned()),
                ("d".to_owned(), "x".to_owned())
            ]
        );
        for json in [r#"{"texts":null}"#, r#"{"texts":[]}"#, r#"{"texts":"a"}"#, "{}"] {
            assert_eq!(read(json), Sample::default(), "{json}");
        }
    }
}
