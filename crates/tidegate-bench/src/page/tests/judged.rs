//! Tests that the page shows the claims of a table that do not hold.

use super::*;
use crate::published::Judged;

/// The section of the page for one file.
fn section<'a>(page: &'a str, file: &str) -> &'a str {
    let from = page.find(&format!("<section id=\"{file}\"")).unwrap();
    page[from..].split("</section>").next().unwrap()
}

#[test]
fn what_does_not_hold_is_before_the_plots_of_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let reports = [
        ("a", json!(parts_of(parts::Published::Async, &[4 * MIB]))),
        ("b", json!(journal_of(&[1]))),
        ("c", json!(parts_of(parts::Published::Threaded, &[MIB]))),
        ("compaction", json!(compaction_of())),
        ("tables", json!(tables_of())),
        ("prefixes", prefixes_of()),
        ("growth", json!(growth::tests::growth_of())),
    ];
    for (file, mut report) in reports {
        all(folder.path());
        report["broken"] = json!(["4 MiB: <slow>", "8 MiB: slower"]);
        put(folder.path(), &format!("{file}.json"), &report);
        let page = made(folder.path()).unwrap();
        let of = section(&page, file);
        let first =
            "<li>DOES NOT HOLD: 4 MiB: &lt;slow&gt;</li><li>DOES NOT HOLD: 8 MiB: slower</li></ul><p>";
        assert!(of.find(first).is_some_and(|at| at < of.find("<figure>").unwrap()), "{file}: {of}");
        assert_eq!(page.matches("DOES NOT HOLD").count(), 2, "{file}: nothing is said of another table");
    }
}

#[test]
fn a_report_is_read_as_it_is_written_with_what_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let broken = |report: &tables::TablesReport| vec![format!("{} rows are too few", report.lines.len())];
    put(folder.path(), "tables.json", &Judged::of(tables_of(), broken));
    let page = made(folder.path()).unwrap();
    assert!(page.contains("DOES NOT HOLD: 1 rows are too few"));
    assert!(page.contains("<th scope=\"row\">whole</th><td>8 MiB</td><td>3.00 (2.00–4.00)</td>"));
    put(folder.path(), "tables.json", &Judged::of(tables_of(), |_| Vec::new()));
    let page = made(folder.path()).unwrap();
    assert!(!page.contains("DOES NOT HOLD") && !page.contains("class=\"first\""));
}

#[test]
fn older_files_say_less() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = json!(tables_of());
    let machine = report["machine"].as_object_mut().unwrap();
    assert!(machine.remove("date").is_some() && machine.remove("version").is_some());
    assert_eq!(report.get("broken"), None);
    put(folder.path(), "tables.json", &report);
    let page = made(folder.path()).unwrap();
    assert!(page.contains("load average 0.5 before, – after.<"));
    assert!(!page.contains("Measured on") && !page.contains("DOES NOT HOLD"));
}

#[test]
fn what_is_no_list_of_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = json!(tables_of());
    report["broken"] = json!(["slow", 7]);
    put(folder.path(), "tables.json", &report);
    let error = made(folder.path()).unwrap_err().to_string();
    assert!(error.contains("tables.json is no report of this kind: broken[1]: invalid type"), "{error}");
}
