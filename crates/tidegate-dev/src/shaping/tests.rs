use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[test]
fn a_bucket_fills_at_its_rate_up_to_its_burst() {
    let start = Instant::now();
    let mut bucket = TokenBucket::full(10.0, start);
    bucket.take(10.0);
    let after = |seconds: f64| start + Duration::from_secs_f64(seconds);
    assert!((bucket.available(4.0, 10.0, after(0.5)) - 2.0).abs() < 1e-6);
    assert!((bucket.available(4.0, 10.0, after(100.0)) - 10.0).abs() < 1e-6);
}

#[test]
fn a_clock_that_stands_or_goes_back_gives_nothing() {
    let start = Instant::now() + Duration::from_secs(1);
    let mut bucket = TokenBucket::full(1.0, start);
    bucket.take(1.0);
    let before = start.checked_sub(Duration::from_secs(1)).unwrap();
    assert!(bucket.available(4.0, 10.0, before) < 1e-6);
    assert!(bucket.available(4.0, 10.0, start) < 1e-6);
}

async fn pair(bandwidth: Bandwidth) -> (ShapedStream, TcpStream) {
    let rates = Arc::new(Rates::default());
    rates.set(&bandwidth);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (ShapedStream::new(server, rates, Arc::default()), client)
}

#[tokio::test]
async fn reads_keep_the_rate() {
    let (mut server, mut client) = pair(Bandwidth::per_connection(1_000_000)).await;
    tokio::spawn(async move {
        client.write_all(&vec![7; 300_000]).await.unwrap();
    });
    let start = Instant::now();
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.unwrap();
    assert!(received.len() == 300_000 && received.iter().all(|&byte| byte == 7));
    let seconds = start.elapsed().as_secs_f64();
    assert!((0.2..0.9).contains(&seconds), "300 kB at 1 MB/s took {seconds} s");
}

#[tokio::test]
async fn writes_keep_the_rate() {
    let (mut server, mut client) = pair(Bandwidth::total(1_000_000)).await;
    let start = Instant::now();
    tokio::spawn(async move {
        server.write_all(&vec![7; 300_000]).await.unwrap();
    });
    let mut received = Vec::new();
    client.read_to_end(&mut received).await.unwrap();
    assert!(received.len() == 300_000 && received.iter().all(|&byte| byte == 7));
    let seconds = start.elapsed().as_secs_f64();
    assert!((0.2..0.9).contains(&seconds), "300 kB at 1 MB/s took {seconds} s");
}

#[tokio::test]
async fn a_slow_request_is_received_so_many_times_slower() {
    let (mut server, mut client) = pair(Bandwidth::per_connection(10_000_000)).await;
    server.link.set_slow(Some(20.0));
    tokio::spawn(async move { client.write_all(&vec![7; 200_000]).await });
    let start = Instant::now();
    let mut bytes = vec![0; 200_000];
    server.read_exact(&mut bytes).await.unwrap();
    // At 500 kB/s, except for the burst at the start.
    assert!(start.elapsed() > Duration::from_millis(250), "{:?}", start.elapsed());
}

/// The store's latency does not shorten the body's time: they add up.
#[tokio::test]
async fn a_body_that_waits_to_be_read_gains_nothing() {
    let rates = Arc::new(Rates::default());
    rates.set(&Bandwidth { stream_in: Some(1_000_000), ..Bandwidth::default() });
    let mut pace = BodyPace::new(rates);
    tokio::time::sleep(Duration::from_millis(60)).await;
    let start = Instant::now();
    for _ in 0..5 {
        std::future::poll_fn(|cx| pace.poll_ready(cx)).await;
        pace.took(10_000);
    }
    assert!(start.elapsed() >= Duration::from_millis(39), "{:?}", start.elapsed());
}

#[tokio::test]
async fn each_body_keeps_the_rate() {
    let rates = Arc::new(Rates::default());
    rates.set(&Bandwidth { stream_in: Some(1_000_000), ..Bandwidth::default() });
    let start = Instant::now();
    let read = || async {
        let mut pace = BodyPace::new(rates.clone());
        for _ in 0..30 {
            std::future::poll_fn(|cx| pace.poll_ready(cx)).await;
            pace.took(10_000);
        }
    };
    tokio::join!(read(), read());
    let seconds = start.elapsed().as_secs_f64();
    assert!((0.2..0.9).contains(&seconds), "twice 300 kB at 1 MB/s each took {seconds} s");
}
