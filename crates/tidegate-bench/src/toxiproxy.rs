//! Puts a slow network between the tools and the server: Toxiproxy.

use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::Result;
use crate::http::LocalClient;
use crate::process::{Program, ServerProcess};

/// The latency and the bandwidth of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkShape {
    /// Latency in milliseconds, each way.
    pub latency_ms: u64,
    /// Bytes a second of one connection, each way.
    pub bandwidth: u64,
}

impl NetworkShape {
    /// Toxiproxy's settings for one direction. Toxiproxy counts bandwidth in KB of 1000 bytes.
    fn toxics(self, stream: &str) -> [Value; 2] {
        [
            json!({"type": "latency", "stream": stream, "attributes": {"latency": self.latency_ms}}),
            json!({"type": "bandwidth", "stream": stream, "attributes": {"rate": (self.bandwidth / 1000).max(1)}}),
        ]
    }
}

/// A running proxy.
#[derive(Debug)]
pub struct Toxiproxy {
    _server: ServerProcess,
    url: String,
}

impl Toxiproxy {
    /// Starts the program `toxiproxy-server` as a proxy to `upstream` (host:port).
    pub fn start(path: &Path, upstream: &str, shape: NetworkShape, folder: &Path) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let program = Program::new(path).arg("-host").arg("127.0.0.1").arg("-port").arg(&port);
        let mut server = ServerProcess::start("toxiproxy", &program, folder)?;
        let (control, client) = (format!("http://127.0.0.1:{port}"), LocalClient::default());
        server.wait_ready(|_| client.answers(&format!("{control}/version")).then_some(()))?;
        let proxy = json!({"name": "bench", "listen": "127.0.0.1:0", "upstream": upstream});
        let made: Value = client.post(&format!("{control}/proxies"), &proxy)?;
        let listen = made["listen"].as_str().ok_or("toxiproxy does not say where it listens")?;
        for toxic in ["upstream", "downstream"].into_iter().flat_map(|stream| shape.toxics(stream)) {
            let _: Value = client.post(&format!("{control}/proxies/bench/toxics"), &toxic)?;
        }
        Ok(Self { _server: server, url: format!("http://{listen}") })
    }

    /// The address of the server through the proxy.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_told_in_kilobytes() {
        let [latency, bandwidth] = NetworkShape { latency_ms: 20, bandwidth: 40_000_000 }.toxics("upstream");
        assert_eq!(latency["attributes"]["latency"], 20);
        assert_eq!(bandwidth["attributes"]["rate"], 40_000);
        let [_, least] = NetworkShape { latency_ms: 0, bandwidth: 1 }.toxics("upstream");
        assert_eq!(least["attributes"]["rate"], 1);
    }
}
