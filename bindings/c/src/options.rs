//! Options by name.

use std::ffi::c_char;

use tidegate::options::Options;

use crate::border::{call, handle, needed};
use crate::error::tg_error;
use crate::object::tg_object;
use crate::text::string;

/// Options: names and values, as on the command line and in Python. One thread at a time may set them; calls read them
/// until they return.
#[derive(Debug, Default)]
pub struct tg_options {
    pub(crate) options: Options,
}

/// New options, none of them set. Wherever options are passed, NULL stands for none.
#[unsafe(no_mangle)]
pub extern "C" fn tg_options_new() -> *mut tg_options {
    handle(tg_options::default())
}

/// Sets an option; docs/C.md lists the names. Sizes are written as `16MiB` or a number of bytes, times as `20ms` or a number of seconds, switches
/// as `true` or `false`. `spool`, `journal`, `owner`, `metadata` and `tags` (`NAME=VALUE`) may be set several times. An
/// unknown name fails here; a wrong value, or an option that a call does not have, fails where the options are passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_options_set(
    options: Option<&mut tg_options>,
    name: *const c_char,
    value: *const c_char,
) -> Option<Box<tg_error>> {
    call(|| {
        let options = needed(options, "options")?;
        // SAFETY: the header demands two strings that a NUL ends.
        let (name, value) = unsafe { (string(name, "name")?, string(value, "value")?) };
        Ok(options.options.set(&name, value)?)
    })
}

/// Sets an option to an object: `replaces` of a write, `if_unchanged` of a read. The object is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_options_set_object(
    options: Option<&mut tg_options>,
    name: *const c_char,
    object: Option<&tg_object>,
) -> Option<Box<tg_error>> {
    call(|| {
        let options = needed(options, "options")?;
        // SAFETY: the header demands a string that a NUL ends.
        let name = unsafe { string(name, "name") }?;
        Ok(options.options.set_object(&name, needed(object, "object")?.object.clone())?)
    })
}

/// Frees options.
#[unsafe(no_mangle)]
pub extern "C" fn tg_options_free(options: Option<Box<tg_options>>) {
    drop(options);
}

/// The options of a call; none for NULL.
pub(crate) fn given(options: Option<&tg_options>) -> Options {
    options.map(|options| options.options.clone()).unwrap_or_default()
}
