use serde_json::Value;
use tidegate_dev::{Knobs, Server, Storage};
use tokio::runtime::Runtime;

use super::*;
use crate::machine::Machine;
use crate::sign::Signer;
use crate::size::KIB;

fn line(row: PublishedRow, seconds: &[(PartsWay, &[f64])]) -> PartsLine {
    let done = |(way, seconds): &(PartsWay, &[f64])| PartsRuns { way: *way, seconds: seconds.to_vec() };
    PartsLine { row, done: seconds.iter().map(done).collect() }
}

/// A server in this process that discards all objects, and its endpoint.
async fn serve(shape: &Value) -> (Server, StoreEndpoint) {
    let knobs: Knobs = serde_json::from_value(shape.clone()).unwrap();
    let server = Server::builder().storage(Storage::Discard).knobs(knobs).start().await.unwrap();
    server.create_bucket("bench").unwrap();
    let (access, secret) = server.credentials();
    let (access_key, secret_key) = (access.to_owned(), secret.to_owned());
    let signer = Signer { access_key, secret_key, region: "us-east-1".to_owned() };
    let endpoint = StoreEndpoint { url: server.endpoint(), signer, bucket: "bench", authority: None };
    (server, endpoint)
}

/// Requests for an object whose parts wait for each other; a single part needs no session.
fn requests(row: PublishedRow) -> u64 {
    match row.size.div_ceil(row.part) {
        1 => 1,
        parts => parts + 2,
    }
}

/// Seconds that the store takes for an object in this number of sequential requests.
fn model(shape: &Value, size: u64, requests: u64) -> f64 {
    let latency = shape["latency"]["fixed_ms"].as_f64().unwrap() / 1000.0;
    let stream = shape["bandwidth"]["stream_in"].as_f64().unwrap();
    requests as f64 * latency + size as f64 / stream
}

#[test]
fn the_rows_are_those_that_were_published() {
    let rows: Vec<_> = Published::Async.rows().iter().map(|row| (row.size / MIB, row.published)).collect();
    let expected = [
        (4, 108.32),
        (8, 104.41),
        (16, 117.11),
        (32, 170.03),
        (64, 247.14),
        (128, 284.82),
        (256, 316.53),
        (512, 339.35),
        (1024, 342.67),
        (2048, 332.71),
    ];
    assert_eq!(rows, expected);
    assert!(Published::Async.rows().iter().all(|row| row.part == 10 * MIB && row.streams.is_none()));

    let row = |row: PublishedRow| (row.size / KIB, row.part / MIB, row.streams, row.published);
    let rows: Vec<_> = Published::Threaded.rows().into_iter().map(row).collect();
    let expected = [
        (64, 5, Some(1), 37.0),
        (512, 5, Some(1), 57.0),
        (1024, 5, Some(1), 76.0),
        (10 * 1024, 5, Some(2), 152.0),
        (50 * 1024, 5, Some(5), 201.0),
        (50 * 1024, 5, Some(10), 196.0),
        (150 * 1024, 5, Some(5), 212.0),
        (150 * 1024, 5, Some(10), 199.0),
    ];
    assert_eq!(rows, expected);
}

/// Includes the time that client and server need for each request.
#[test]
fn the_store_gives_the_published_times_back() {
    let shape = Published::Async.shape(false);
    let mut known = Vec::new();
    for row in Published::Async.rows() {
        if let Some(published) = Published::Async.first_ms(row.size) {
            let own = requests(row) as f64 * published::OWN_MS;
            let ms = model(&shape, row.size, requests(row)) * 1000.0 + own;
            assert!((ms / published - 1.0).abs() < 0.01, "{row:?}: {ms} ms, published {published}");
            known.push((row.size / MIB, published));
        }
    }
    assert_eq!(known, [(4, 48.82), (2048, 16_400.0)]);
}

/// The gain of the largest object: 2 GiB in 16.40 s, 3.3271 times as fast.
#[test]
fn all_streams_together_move_what_the_largest_gained() {
    let total = Published::Async.shape(false)["bandwidth"]["total_in"].as_f64().unwrap();
    let largest = Published::Async.rows()[9];
    let rate = largest.size as f64 / 16.40 * largest.published / 100.0;
    assert!((total / rate - 1.0).abs() < 0.01, "{total} for {rate}");
}

/// A slow machine takes longer; the server does not pace the last bytes of a body, as many as it reads at once.
#[test]
fn a_server_takes_no_less_than_its_shape_says() {
    let runtime = Runtime::new().unwrap();
    let uploads: [(Published, usize, &[PartsWay]); 3] = [
        (Published::Async, 0, &[PartsWay::OneByOne]),
        (Published::Async, 2, &[PartsWay::OneByOne]),
        (Published::Threaded, 3, &[PartsWay::Plain, PartsWay::OneByOne]),
    ];
    for (table, row, ways) in uploads {
        let (shape, row) = (table.shape(true), table.rows()[row]);
        runtime.block_on(async {
            let (server, endpoint) = serve(&shape).await;
            let store = PartsDestination::Server(&endpoint).open().await.unwrap();
            for way in ways {
                server.reset_counts();
                let began = Instant::now();
                upload(&store, *way, row, &producer::piece()).await.unwrap();
                let took = began.elapsed().as_secs_f64();
                let requests = if *way == PartsWay::Plain { 1 } else { requests(row) };
                assert_eq!(server.counts().total(), requests, "{way:?} of {row:?}");
                let least = model(&shape, row.size, requests);
                assert!(took >= 0.9 * least, "{way:?} of {row:?}: {took} s, at least {least}");
            }
        });
    }
}

#[test]
fn a_new_engine_opens_a_connection_for_each_upload() {
    let row = PublishedRow { size: MIB, ..Published::Async.rows()[0] };
    Runtime::new().unwrap().block_on(async {
        let (server, endpoint) = serve(&json!({})).await;
        let extent = PartsExtent { unshaped: true, runs: 2, ..PartsExtent::default() };
        let trial = PartsTrial { table: Published::Async, extent };
        let lines = trial.lines(PartsDestination::Server(&endpoint), vec![row]).await.unwrap();
        let runs: Vec<_> = lines[0].done.iter().map(|done| (done.way, done.seconds.len())).collect();
        let expected =
            [(PartsWay::OneByOne, 2), (PartsWay::AtOnce, 2), (PartsWay::Auto, 2), (PartsWay::Cold, 2)];
        assert_eq!(runs, expected);
        // Three runs of each, one of them the warm-up. All other ways share one connection, and open another if
        // it is not free yet.
        let counts = server.counts();
        assert_eq!(counts.get("PutObject"), 12);
        assert!((1 + 3..12).contains(&counts.connections), "{}", counts.connections);
    });
}

#[test]
fn gains_are_of_medians_and_by_the_first_way() {
    let row = Published::Threaded.rows()[3];
    let done: [(PartsWay, &[f64]); 3] =
        [(PartsWay::Plain, &[2.0, 2.2, 9.0]), (PartsWay::AtOnce, &[1.1]), (PartsWay::Auto, &[4.4])];
    let line = line(row, &done);
    let gain = |way| line.gain(way).map(|gain| gain.round());
    assert_eq!(
        [gain(PartsWay::Plain), gain(PartsWay::AtOnce), gain(PartsWay::Auto)],
        [100.0, 200.0, 50.0].map(Some)
    );
    assert_eq!(line.gain(PartsWay::OneByOne), None);
}

fn report(table: Published, lines: Vec<PartsLine>) -> PartsReport {
    let extent = PartsExtent { runs: 1, ..PartsExtent::default() };
    let conditions = Conditions { machine: Machine::this(), load: [0.0, 1.0] };
    PartsReport { shape: table.shape(false), trial: PartsTrial { table, extent }, conditions, lines }
}

/// The table claims nothing about the new engine.
#[test]
fn what_is_slower_than_it_may_be_is_told() {
    let rows = Published::Async.rows();
    let even: [(PartsWay, &[f64]); 4] = [
        (PartsWay::OneByOne, &[1.0, 1.1]),
        (PartsWay::AtOnce, &[1.1, 1.1]),
        (PartsWay::Auto, &[1.0, 1.3]),
        (PartsWay::Cold, &[0.5]),
    ];
    let slow: [(PartsWay, &[f64]); 4] = [
        (PartsWay::OneByOne, &[1.0]),
        (PartsWay::AtOnce, &[1.3]),
        (PartsWay::Auto, &[1.2]),
        (PartsWay::Cold, &[9.0]),
    ];
    let report = report(Published::Async, vec![line(rows[0], &even), line(rows[1], &slow)]);
    let expected = [
        "8 MiB: parts at once takes 1.30 times as long as part by part",
        "8 MiB: auto takes 1.20 times as long as part by part",
    ];
    assert_eq!(report.broken(), expected);
    assert!(report.to_string().contains("- DOES NOT HOLD: 8 MiB: auto"));
}

/// Column names and cells of the row that begins with `object`.
fn cells<'a>(said: &'a str, object: &str) -> Vec<(&'a str, &'a str)> {
    let of = |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let of = |begin: &str| of(said.lines().find(|line| line.starts_with(begin)).unwrap());
    of("| object").into_iter().zip(of(&format!("| {object}"))).collect()
}

#[test]
fn what_was_published_is_beside_what_was_measured() {
    let rows = Published::Async.rows();
    let done: [(PartsWay, &[f64]); 4] = [
        (PartsWay::OneByOne, &[0.05]),
        (PartsWay::AtOnce, &[0.04]),
        (PartsWay::Auto, &[0.025]),
        (PartsWay::Cold, &[0.1]),
    ];
    let said = report(Published::Async, vec![line(rows[0], &done), line(rows[3], &done)]).to_string();
    let expected = [
        ("object", "4 MiB (10 MiB)"),
        ("part by part, published: ms", "48.82"),
        ("part by part: ms", "50.0 (50.0–50.0)"),
        ("iterations/s", "20.000"),
        ("parts at once: ms", "40.0 (40.0–40.0)"),
        ("iterations/s", "25.000"),
        ("auto: ms", "25.0 (25.0–25.0)"),
        ("iterations/s", "40.000"),
        ("auto, new engine: ms", "100.0 (100.0–100.0)"),
        ("iterations/s", "10.000"),
        ("parts at once, published %", "108.32"),
        ("parts at once %", "125"),
        ("auto %", "200"),
        ("auto, new engine %", "50"),
    ];
    assert_eq!(cells(&said, "4 MiB"), expected);
    let unknown = cells(&said, "32 MiB");
    assert_eq!((unknown[1].1, unknown[10].1), ("", "170.03"));
}

#[test]
fn of_threads_all_ways_are_percent_of_one_request() {
    let done: [(PartsWay, &[f64]); 5] = [
        (PartsWay::Plain, &[2.0]),
        (PartsWay::OneByOne, &[2.5]),
        (PartsWay::AtOnce, &[1.0]),
        (PartsWay::Auto, &[0.8]),
        (PartsWay::Cold, &[1.6]),
    ];
    let row = Published::Threaded.rows()[3];
    let said = report(Published::Threaded, vec![line(row, &done)]).to_string();
    let cells = cells(&said, "10 MiB (5 MiB × 2)");
    assert_eq!(cells[1..3], [("plain: ms", "2000.0 (2000.0–2000.0)"), ("MB/s", "5.24")]);
    let expected = [
        ("part by part %", "80"),
        ("parts at once, published %", "152"),
        ("parts at once %", "200"),
        ("auto %", "250"),
        ("auto, new engine %", "125"),
    ];
    assert_eq!(cells[11..], expected);
}

#[test]
fn the_model_is_told_of_a_store_that_follows_it() {
    for (table, model) in [(Published::Async, "28.2 ms a request"), (Published::Threaded, "about 75 ms")] {
        let mut report = report(table, Vec::new());
        assert!(report.to_string().contains(model));
        report.trial.extent.unshaped = true;
        assert!(!report.to_string().contains(model));
    }
}
