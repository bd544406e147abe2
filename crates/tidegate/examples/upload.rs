//! Sends a file: `cargo run --release --example upload -- FILE s3://bucket KEY`.

use tidegate::Tidegate;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [file, location, key] = &arguments[..] else { return Err("usage: upload FILE LOCATION KEY".into()) };
    let tide = Tidegate::builder().build()?;
    let object = tide.open(location).await?.upload(file, key).await?;
    println!("{} bytes, etag {:?}", object.size, object.etag);
    Ok(())
}
