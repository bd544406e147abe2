use super::*;
use crate::sign::Signer;

fn line(tool: Tool, source: &Source) -> (String, Vec<(String, String)>) {
    let signer = Signer { access_key: "k".to_owned(), secret_key: "s".to_owned(), region: "r".to_owned() };
    let endpoint = Endpoint { url: "http://h:1".to_owned(), signer, bucket: "b" };
    let program = tool.program(Path::new("/x"), source, &endpoint, "p/");
    let words: Vec<_> = program.arguments.iter().map(|word| word.to_string_lossy()).collect();
    (words.join(" "), program.variables.clone())
}

#[test]
fn a_file_goes_to_a_key() {
    let file = Source::File("/f".into());
    assert_eq!(line(Tool::Tidegate, &file).0, "cp /f s3://b/p/object");
    assert_eq!(line(Tool::S5cmd, &file).0, "--endpoint-url http://h:1 cp /f s3://b/p/object");
    assert_eq!(line(Tool::Rclone, &file).0, "copyto /f bench:b/p/object");
    assert_eq!(line(Tool::ObjectStore, &file).0, "/f s3://b/p/object");
    assert_eq!(line(Tool::Mc, &file).0, "cp /f bench/b/p/object");
    assert_eq!(line(Tool::AwsCli, &file).0, "s3 cp /f s3://b/p/object");
    assert!(line(Tool::Boto3Crt, &file).0.ends_with("/peers/python/peer.py boto3-crt /f s3://b/p/object"));
}

#[test]
fn a_pipe_goes_to_a_key() {
    let pipe = Source::Pipe("/f".into());
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
    let directory = Source::Directory("/d".into());
    assert_eq!(line(Tool::Tidegate, &directory).0, "cp -r /d/ s3://b/p/");
    assert_eq!(line(Tool::S5cmd, &directory).0, "--endpoint-url http://h:1 cp /d/ s3://b/p/");
    assert_eq!(line(Tool::Rclone, &directory).0, "copy /d bench:b/p/");
}

#[test]
fn an_object_goes_into_a_file_of_the_tools_own() {
    let object = Source::Object { original: "/f".into(), into: "/d".into() };
    assert_eq!(line(Tool::Tidegate, &object).0, "cp s3://b/p/object /d/tidegate");
    assert_eq!(line(Tool::S5cmd, &object).0, "--endpoint-url http://h:1 cp s3://b/p/object /d/s5cmd");
    assert_eq!(line(Tool::Rclone, &object).0, "copyto bench:b/p/object /d/rclone");
    assert_eq!(line(Tool::TransferManager, &object).0, "s3://b/p/object /d/transfer-manager");
}

#[test]
fn each_is_told_where_in_its_own_words() {
    let file = Source::File("/f".into());
    let told =
        |tool, name: &str| line(tool, &file).1.into_iter().find(|(found, _)| found == name).map(|(_, v)| v);
    assert_eq!(told(Tool::Tidegate, "AWS_ENDPOINT_URL").as_deref(), Some("http://h:1"));
    assert_eq!(told(Tool::Rclone, "RCLONE_CONFIG_BENCH_ENDPOINT").as_deref(), Some("http://h:1"));
    assert_eq!(told(Tool::Rclone, "RCLONE_CONFIG_BENCH_PROVIDER").as_deref(), Some("Other"));
    assert_eq!(told(Tool::Rclone, "AWS_ENDPOINT_URL"), None);
    assert_eq!(told(Tool::Mc, "MC_HOST_bench").as_deref(), Some("http://k:s@h:1"));
}

#[test]
fn versions_are_found() {
    assert_eq!(version_in("host/path/v2@v2.3.0 .\n").as_deref(), Some("2.3.0"));
    assert_eq!(version_in("nothing"), None);
}
