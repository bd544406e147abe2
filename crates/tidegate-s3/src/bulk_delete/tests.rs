use super::*;

fn keys<const N: usize>(keys: [&str; N]) -> Vec<String> {
    keys.map(str::to_owned).into()
}

fn kinds(keys: &[String], inside: &str) -> Vec<Option<FaultKind>> {
    let body =
        format!("<?xml version=\"1.0\"?>\n<DeleteResult xmlns=\"{NAMESPACE}\">{inside}</DeleteResult>");
    let outcomes = outcomes(keys, &HeaderMap::new(), body.as_bytes(), "us-east-1").unwrap();
    outcomes.into_iter().map(|outcome| outcome.err().map(|fault| fault.kind)).collect()
}

fn failed(key: &str, code: &str) -> String {
    format!("<Error><Key>{key}</Key><Code>{code}</Code><Message>no.</Message></Error>")
}

#[test]
fn a_document_names_each_key_safely() {
    let document = document(&keys(["a/b", "<&>\"'", "]]>", "日本 x"]));
    let start =
        format!("<Delete xmlns=\"{NAMESPACE}\"><Object><Key>a/b</Key></Object><Object><Key>&lt;&amp;&gt;");
    assert!(document.starts_with(&start), "{document}");
    assert!(document.contains("<Key>]]&gt;</Key>") && document.contains("<Key>日本 x</Key>"), "{document}");
    assert!(document.ends_with("<Quiet>true</Quiet></Delete>"), "{document}");
}

#[test]
fn keys_that_xml_may_change_are_not_taken() {
    for key in ["a", "a b", "<&>", "a/ b", "ü\u{301}", "\u{1f30a}"] {
        assert!(is_exact_in_xml(key), "{key:?}");
    }
    for key in
        ["a\u{1}", "a\nb", "a\r", "\tb", " a", "a ", "\u{a0}a", "a\u{85}", "\u{7f}", "\u{ffff}", "a\u{2028}b"]
    {
        assert!(!is_exact_in_xml(key), "{key:?}");
    }
}

#[test]
fn each_key_has_the_outcome_that_the_answer_names() {
    let asked = keys(["a", "<b>", "c", "d", "e", "f", "g"]);
    let inside = [
        "<Deleted><Key>&lt;b&gt;</Key><DeleteMarker>true</DeleteMarker></Deleted><Deleted><Key>a</Key></Deleted>".into(),
        failed("c", "AccessDenied"),
        failed("d", "NoSuchKey"),
        failed("e", "InternalError"),
        failed("f", "Unheard"),
        "<Deleted><Key>other</Key></Deleted>".into(),
    ];
    let expected = [
        None,
        None,
        Some(FaultKind::Denied),
        None,
        Some(FaultKind::Transient),
        Some(FaultKind::Invalid),
        Some(FaultKind::NotAStore),
    ];
    assert_eq!(kinds(&asked, &inside.concat()), expected);
}

#[test]
fn a_quiet_answer_names_failures_only() {
    let asked = keys(["a", "b"]);
    assert_eq!(kinds(&asked, ""), [None, None]);
    assert_eq!(kinds(&asked, &failed("b", "AccessDenied")), [None, Some(FaultKind::Denied)]);
}

#[test]
fn a_failure_of_no_key_that_was_asked_for_leaves_all_undecided() {
    let asked = keys(["p/a b", "p/c", "p/d"]);
    let removed = "<Deleted><Key>p/c</Key></Deleted>";
    for stray in ["", "<Key/>", "<Key>/p/a b</Key>", "<Key>p%2Fa+b</Key>", "<Key>p/other</Key>"] {
        let stray = format!("<Error>{stray}<Code>AccessDenied</Code><Message>no.</Message></Error>");
        let undecided = Some(FaultKind::NotAStore);
        for inside in [stray.clone(), format!("{removed}{stray}"), format!("{stray}{removed}")] {
            assert_eq!(kinds(&asked, &inside), [undecided; 3], "{inside}");
        }
        let named = format!("{stray}{}", failed("p/d", "AccessDenied"));
        assert_eq!(kinds(&asked, &named), [undecided, undecided, Some(FaultKind::Denied)], "{named}");
    }
}

#[test]
fn a_key_that_an_answer_names_twice_has_failed_if_one_says_so() {
    let removed = "<Deleted><Key>a</Key></Deleted>";
    for inside in [format!("{removed}{}", failed("a", "AccessDenied")), failed("a", "AccessDenied") + removed]
    {
        assert_eq!(kinds(&keys(["a", "a"]), &inside), [Some(FaultKind::Denied); 2], "{inside}");
    }
}

#[test]
fn an_answer_that_is_cut_or_another_document_decides_nothing() {
    let asked = keys(["a"]);
    let kind = |body: &str| outcomes(&asked, &HeaderMap::new(), body.as_bytes(), "").unwrap_err().kind;
    assert_eq!(kind("<DeleteResult><Deleted><Key>a</Key>"), FaultKind::Transient);
    assert_eq!(kind("<html>Please log in</html>"), FaultKind::NotAStore);
    assert_eq!(kind("<Error><Code>SlowDown</Code></Error>"), FaultKind::Throttled);
    assert_eq!(kind(""), FaultKind::NotAStore);
}
