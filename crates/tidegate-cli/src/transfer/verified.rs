//! Prints where an object of `dev://` is that was read back after it was written.

use std::io::Write;

use tidegate::location::Location;

use crate::exit::Outcome;
use crate::invocation::OutputFormat;
use crate::{dev, output, text};

/// Prints where `target` is and how to read it.
pub(crate) async fn say_where(target: &str, prefixed: Option<&str>, verified: u64) -> Outcome {
    let Ok(Location::Dev { bucket, key }) = target.parse() else { return Ok(()) };
    // The program's name as the user typed it, so that the printed command works when it is pasted.
    let program = std::env::args().next().unwrap_or_else(|| "tidegate".to_owned());
    let program = text::quoted(&program);
    let directory = dev::directory();
    let is_object = !key.is_empty() && !key.ends_with('/');
    let (command, copy) = if is_object { ("cat", "") } else { ("ls -r", " --recursive") };
    let mut out = output::text(OutputFormat::Text)?;
    let objects = text::count(verified, "object");
    writeln!(out, "verified: {objects} read back, size and checksum agree")?;
    writeln!(out, "{target} is kept in {}; to read it:", directory.display())?;
    let spread = prefixed.map_or_else(String::new, |root| format!(" --prefixed {}", text::quoted(root)));
    writeln!(out, "  {program} {command} {}{spread}", text::quoted(target))?;
    if prefixed.is_some() {
        return out.finish().await;
    }
    writeln!(out, "or with any S3 client, while `{program} serve` runs:")?;
    writeln!(
        out,
        "  AWS_ACCESS_KEY_ID={key} AWS_SECRET_ACCESS_KEY={key} AWS_REGION={region} \
         aws --endpoint-url http://127.0.0.1:9123 s3 cp{copy} {url} {to}",
        key = dev::KEY,
        region = dev::REGION,
        url = text::quoted(&format!("s3://{bucket}/{key}")),
        to = if is_object { "-" } else { "." },
    )?;
    out.finish().await
}
