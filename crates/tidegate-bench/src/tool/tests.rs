use super::*;
use crate::embedded::StoreEndpoint;
use crate::sign::Signer;

fn line(tool: Tool, source: &TransferSource) -> (String, Vec<(String, String)>) {
    tuned(tool, source, None)
}

fn tuned(tool: Tool, source: &TransferSource, tuning: Option<Tuning>) -> (String, Vec<(String, String)>) {
    let signer = Signer { access_key: "k".to_owned(), secret_key: "s".to_owned(), region: "r".to_owned() };
    let endpoint = StoreEndpoint { url: "http://h:1".to_owned(), signer, bucket: "b", authority: None };
    let program = tool.program(Path::new("/x"), source, &endpoint, "p/", tuning);
    let words: Vec<_> = program.arguments.iter().map(|word| word.to_string_lossy()).collect();
    (words.join(" "), program.variables.clone())
}

#[test]
fn a_file_goes_to_a_key() {
    let file = TransferSource::File("/f".into());
    assert_eq!(line(Tool::Tidegate, &file).0, "cp /f s3://b/p/object");
    assert_eq!(line(Tool::S5cmd, &file).0, "--endpoint-url http://h:1 cp /f s3://b/p/object");
    assert_eq!(line(Tool::Rclone, &file).0, "copyto /f bench:b/p/object");
    assert_eq!(line(Tool::ObjectStore, &file).0, "/f s3://b/p/object");
    assert_eq!(line(Tool::Mc, &file).0, "cp /f bench/b/p/object");
    assert_eq!(line(Tool::AwsCli, &file).0, "s3 cp /f s3://b/p/object");
    assert!(line(Tool::Crt, &file).0.ends_with("/peers/python/peer.py crt /f s3://b/p/object"));
}

#[test]
fn a_pipe_goes_to_a_key() {
    let pipe = TransferSource::Pipe("/f".into());
    assert_eq!(line(Tool::Tidegate, &pipe).0, "cp - s3://b/p/object");
    assert_eq!(line(Tool::S5cmd, &pipe).0, "--endpoint-url http://h:1 pipe s3://b/p/object");
    assert_eq!(line(Tool::Rclone, &pipe).0, "rcat bench:b/p/object");
    assert_eq!(line(Tool::Mc, &pipe).0, "pipe bench/b/p/object");
    assert_eq!(line(Tool::AwsCli, &pipe).0, "s3 cp - s3://b/p/object");
    assert_eq!(line(Tool::ObjectStore, &pipe).0, "/dev/stdin s3://b/p/object");
    assert!(line(Tool::Obstore, &pipe).0.ends_with("peer.py obstore - s3://b/p/object"));
}

#[test]
fn a_directory_goes_below_a_prefix() {
    let directory = TransferSource::Directory("/d".into());
    assert_eq!(line(Tool::Tidegate, &directory).0, "cp -r /d/ s3://b/p/");
    assert_eq!(line(Tool::S5cmd, &directory).0, "--endpoint-url http://h:1 cp /d/ s3://b/p/");
    assert_eq!(line(Tool::Rclone, &directory).0, "copy /d bench:b/p/");
}

#[test]
fn an_object_goes_into_a_file_of_the_tools_own() {
    let object = TransferSource::Object { original: "/f".into(), into: "/d".into() };
    assert_eq!(line(Tool::Tidegate, &object).0, "cp s3://b/p/object /d/tidegate");
    assert_eq!(line(Tool::S5cmd, &object).0, "--endpoint-url http://h:1 cp s3://b/p/object /d/s5cmd");
    assert_eq!(line(Tool::Rclone, &object).0, "copyto bench:b/p/object /d/rclone");
    assert_eq!(line(Tool::TransferManager, &object).0, "s3://b/p/object /d/transfer-manager");
}

#[test]
fn many_objects_go_into_a_directory_of_the_tools_own() {
    let objects = TransferSource::Objects { originals: "/o".into(), into: "/d".into() };
    assert_eq!(line(Tool::Tidegate, &objects).0, "cp -r s3://b/p/ /d/tidegate/");
    assert_eq!(line(Tool::S5cmd, &objects).0, "--endpoint-url http://h:1 cp s3://b/p/* /d/s5cmd/");
    assert_eq!(line(Tool::Rclone, &objects).0, "copy bench:b/p/ /d/rclone/");
    assert_eq!(line(Tool::Mc, &objects).0, "cp --recursive bench/b/p/ /d/mc/");
    assert_eq!(line(Tool::TransferManager, &objects).0, "s3://b/p/ /d/transfer-manager/");
}

#[test]
fn each_is_tuned_in_its_own_words() {
    let [file, tree, pipe] =
        [TransferSource::File, TransferSource::Directory, TransferSource::Pipe].map(|of| of("/s".into()));
    let object = TransferSource::Object { original: "/s".into(), into: "/d".into() };
    let words = |tool, source| tuned(tool, source, Some(Tuning { part_mib: 16, at_once: 8 }));
    assert_eq!(words(Tool::Tidegate, &file).0, "cp --part-size 16MiB --concurrency 8 /s s3://b/p/object");
    assert!(words(Tool::S5cmd, &object).0.contains("cp --part-size 16 --concurrency 8 s3://"));
    assert!(words(Tool::S5cmd, &tree).0.contains("--numworkers 8 cp /s/"));
    assert!(
        words(Tool::Rclone, &object).0.contains("--multi-thread-streams 8 --multi-thread-chunk-size 16Mi")
    );
    assert!(words(Tool::Rclone, &pipe).0.contains("rcat --s3-upload-concurrency 8 --s3-chunk-size 16Mi"));
    assert!(words(Tool::Mc, &pipe).0.starts_with("pipe --concurrent 8 --part-size 16MiB"));
    let of = |tool, source, name: &str| words(tool, source).1.into_iter().find(|(found, _)| found == name);
    assert_eq!(of(Tool::Mc, &file, "MC_UPLOAD_MULTIPART_SIZE").unwrap().1, "16MiB");
    assert_eq!(of(Tool::Opendal, &file, "PEER_AT_ONCE").unwrap().1, "8");
    let tuning = Tuning { part_mib: 16, at_once: 8 };
    assert!(Tool::AwsCli.configuration(tuning).unwrap().contains("multipart_chunksize = 16MB"));
    // Settings that a tool has no option for are not tried.
    assert!(Tool::Mc.tried(&object).is_empty());
    assert_eq!(Tool::AwsCli.tried(&tree).len(), 4);
    assert_eq!(Tool::Floor.tried(&file).len(), 5);
    // Settings with the same words are tried once: this tool has no option for the number of parts in flight.
    assert_eq!(Tool::Crt.tried(&file).len(), 3);
}

#[test]
fn what_each_is_told_is_said() {
    let [file, tree] = [TransferSource::File, TransferSource::Directory].map(|of| of("/s".into()));
    let told = |tool: Tool, source| tool.told(source, Tuning { part_mib: 16, at_once: 8 });
    assert_eq!(told(Tool::S5cmd, &tree).as_deref(), Some("--numworkers 8"));
    assert_eq!(told(Tool::Crt, &file).as_deref(), Some("PEER_PART_MIB=16"));
    let configured = "max_concurrent_requests = 8, multipart_chunksize = 16MB";
    assert_eq!(told(Tool::AwsCli, &file).as_deref(), Some(configured));
    assert_eq!(told(Tool::Mc, &tree), None);
}

#[test]
fn versions_are_those_that_are_pinned() {
    let pins =
        concat!(include_str!("../../peers/Cargo.toml"), include_str!("../../peers/python/requirements.txt"));
    let is_pinned = |tool: Tool, before: &str| {
        let version = tool.version(Path::new("/x")).unwrap();
        assert!(pins.contains(&format!("{before}{version}")), "{} {version}", tool.name());
    };
    is_pinned(Tool::ObjectStore, "object_store = { version = \"=");
    is_pinned(Tool::Opendal, "opendal = { version = \"=");
    is_pinned(Tool::TransferManager, "aws-sdk-s3-transfer-manager = \"=");
    is_pinned(Tool::AwsCli, "awscli==");
    is_pinned(Tool::Boto3, "boto3[crt]==");
    is_pinned(Tool::Obstore, "obstore==");
    let boto3 = Tool::Boto3.version(Path::new("/x")).unwrap();
    assert!(Tool::Crt.version(Path::new("/x")).unwrap().contains(&boto3));
}

#[test]
fn each_is_asked_for_what_it_has_a_word_for() {
    let [file, tree, pipe] =
        [TransferSource::File, TransferSource::Directory, TransferSource::Pipe].map(|of| of("/s".into()));
    let object = TransferSource::Object { original: "/s".into(), into: "/d".into() };
    let objects = TransferSource::Objects { originals: "/s".into(), into: "/d".into() };
    let able =
        |source| Tool::ALL.into_iter().filter(|tool| tool.settings(source).is_some()).collect::<Vec<_>>();
    assert_eq!(able(&file), Tool::ALL);
    assert_eq!(able(&object), Tool::ALL);
    // Other libraries have no call for a tree, and the floor moves one file.
    let trees = [Tool::Tidegate, Tool::TransferManager, Tool::S5cmd, Tool::Rclone, Tool::Mc, Tool::AwsCli];
    assert_eq!(able(&tree), trees);
    assert_eq!(able(&objects), trees);
    assert!(!able(&pipe).contains(&Tool::TransferManager) && !able(&pipe).contains(&Tool::Floor));
    let why = |tool: Tool, source| tool.left_out(source).unwrap();
    assert!(why(Tool::Opendal, &tree).contains("no word for a tree"));
    assert!(why(Tool::Crt, &pipe).contains("no pipe"));
    assert!(why(Tool::Floor, &objects).contains("one file"));
}

#[test]
fn how_many_objects_are_said_to_be_at_once_is_what_cp_has() {
    let cp = include_str!("../../../tidegate-transfer/src/copy/copies.rs");
    assert!(cp.contains("\nconst IN_FLIGHT: usize = 64;\n"));
    let objects = TransferSource::Objects { originals: "/s".into(), into: "/d".into() };
    for source in [TransferSource::Directory("/s".into()), objects] {
        let said = Tool::Tidegate.settings(&source).unwrap();
        let at_once = "64 objects at once or a quarter more than requests,";
        assert!(said.contains(at_once), "{said}");
    }
}

#[test]
fn each_is_told_where_in_its_own_words() {
    let file = TransferSource::File("/f".into());
    let told =
        |tool, name: &str| line(tool, &file).1.into_iter().find(|(found, _)| found == name).map(|(_, v)| v);
    assert_eq!(told(Tool::Tidegate, "AWS_ENDPOINT_URL").as_deref(), Some("http://h:1"));
    assert_eq!(told(Tool::Rclone, "RCLONE_CONFIG_BENCH_ENDPOINT").as_deref(), Some("http://h:1"));
    assert_eq!(told(Tool::Rclone, "RCLONE_CONFIG_BENCH_PROVIDER").as_deref(), Some("Other"));
    assert_eq!(told(Tool::Mc, "MC_HOST_bench").as_deref(), Some("http://k:s@h:1"));
}

#[test]
fn versions_are_found() {
    assert_eq!(version_in("host/path/v2@v2.3.0 .\n").as_deref(), Some("2.3.0"));
    assert_eq!(version_in("nothing"), None);
}
