//! Attributes and tags, converted between `object_store` and Tidegate.

use ::object_store::{Attribute, AttributeValue, Error, Result, TagSet};

use super::error::no_condition;
use crate::{Attributes, Store};

/// The attributes and tags that the caller asks for.
pub(super) fn to_attributes(asked: &object_store::Attributes, tags: &TagSet) -> Result<Attributes> {
    let mut attributes = Attributes::default();
    for (attribute, value) in asked {
        let value = value.as_ref().to_owned();
        let field = match attribute {
            Attribute::ContentDisposition => &mut attributes.content_disposition,
            Attribute::ContentEncoding => &mut attributes.content_encoding,
            Attribute::ContentLanguage => &mut attributes.content_language,
            Attribute::ContentType => &mut attributes.content_type,
            Attribute::CacheControl => &mut attributes.cache_control,
            Attribute::StorageClass => &mut attributes.storage_class,
            Attribute::Metadata(name) => {
                attributes.metadata.insert(name.to_ascii_lowercase(), value);
                continue;
            }
            _ => return Err(no_condition("an attribute that is not known here")),
        };
        *field = Some(value);
    }
    let pairs = url::form_urlencoded::parse(tags.encoded().as_bytes());
    attributes.tags = pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    Ok(attributes)
}

/// An object's attributes. The storage class is left out, because it says how the object is stored.
pub(super) fn from_attributes(kept: &Attributes) -> object_store::Attributes {
    let fields = [
        (Attribute::ContentDisposition, &kept.content_disposition),
        (Attribute::ContentEncoding, &kept.content_encoding),
        (Attribute::ContentLanguage, &kept.content_language),
        (Attribute::ContentType, &kept.content_type),
        (Attribute::CacheControl, &kept.cache_control),
    ];
    let fields = fields.into_iter().filter_map(|(attribute, value)| Some((attribute, value.clone()?)));
    let metadata = kept.metadata.iter();
    let metadata = metadata.map(|(name, value)| (Attribute::Metadata(name.clone().into()), value.clone()));
    fields.chain(metadata).map(|(attribute, value)| (attribute, AttributeValue::from(value))).collect()
}

/// Refuses attributes and tags that the store would silently lose: a file holds only bytes.
pub(super) fn check_kept(store: &Store, attributes: &Attributes) -> Result<()> {
    if store.context().backend().capabilities().tokens || *attributes == Attributes::default() {
        return Ok(());
    }
    Err(Error::NotImplemented { operation: "attributes and tags".into(), implementer: store.location() })
}
