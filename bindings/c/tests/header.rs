//! The committed header is the one that cbindgen writes from the source. `TIDEGATE_WRITE_HEADER=1` writes it anew.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::path::Path;

use cbindgen::{Builder, Config, DocumentationStyle, ExportConfig, Language, Style};

/// Handles, which functions change behind a shared reference: for C they are not `const`.
const HANDLES: [&str; 7] =
    ["tg_engine", "tg_store", "tg_list", "tg_writer", "tg_reader", "tg_op", "tg_unfinished_list"];

fn generated(root: &Path) -> String {
    let config = Config {
        language: Language::C,
        style: Style::Both,
        cpp_compat: true,
        include_guard: Some("TIDEGATE_H".to_owned()),
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        header: Some(fs::read_to_string(root.join("include/preamble.txt")).unwrap()),
        documentation_style: DocumentationStyle::C,
        usize_is_size_t: true,
        line_length: 100,
        export: ExportConfig { exclude: vec!["tg_test_panic".to_owned()], ..ExportConfig::default() },
        ..Config::default()
    };
    // Its modules are found from there.
    let builder = Builder::new().with_config(config).with_src(root.join("src/lib.rs"));
    let mut written = Vec::new();
    builder.generate().unwrap().write(&mut written);
    let mut header = String::from_utf8(written).unwrap();
    for handle in HANDLES {
        header = header.replace(&format!("const struct {handle} *"), &format!("struct {handle} *"));
    }
    one_line_comments(&header)
}

/// Comments of one line, which cbindgen writes in three, in one.
fn one_line_comments(header: &str) -> String {
    let (lines, mut written, mut at): (Vec<&str>, _, _) = (header.lines().collect(), String::new(), 0);
    while at < lines.len() {
        match lines[at..] {
            [open, text, close, ..] if open.trim() == "/*" && close.trim() == "*/" => {
                let indent = &open[..open.len() - 2];
                written += &format!("{indent}/* {} */\n", text.trim());
                at += 3;
            }
            [line, ..] => {
                written += &format!("{line}\n");
                at += 1;
            }
            [] => break,
        }
    }
    written
}

#[test]
fn the_committed_header_is_the_generated_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (generated, path) = (generated(root), root.join("include/tidegate.h"));
    if std::env::var_os("TIDEGATE_WRITE_HEADER").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    let differs = generated.lines().zip(committed.lines()).position(|(one, other)| one != other);
    assert!(
        committed == generated,
        "include/tidegate.h differs from the source, first at line {}: write it anew with TIDEGATE_WRITE_HEADER=1",
        differs.map_or(0, |line| line + 1)
    );
    has_every_function(root, &committed);
}

/// A file that the list above lacks would be in neither header.
fn has_every_function(root: &Path, header: &str) {
    let mut count = 0;
    for file in fs::read_dir(root.join("src")).unwrap() {
        let path = file.unwrap().path();
        if path.ends_with("panic_for_tests.rs") {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        for line in source.lines() {
            let Some((_, rest)) = line.split_once("extern \"C\" fn tg_") else { continue };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            assert!(header.contains(&format!("tg_{name}(")), "tg_{name} is not in the header");
            count += 1;
        }
    }
    assert!(count > 80, "{count} functions were found in the source");
}

/// What Rust borrows for a function stays borrowed until it returns. The `done` of an asynchronous call may run before that,
/// on another thread: it reads the results and `op`, and may free the handle.
#[test]
fn asynchronous_functions_borrow_nothing_that_done_may_use() {
    let mut count = 0;
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let source = fs::read_to_string(file.unwrap().path()).unwrap();
        for declared in source.split("extern \"C\" fn tg_").skip(1) {
            let (declared, _) = declared.split_once(") -> ").unwrap_or((declared, ""));
            let (name, parameters) = declared.split_once('(').unwrap();
            if name.ends_with("_async") {
                let borrowed = parameters.replace("options: Option<&tg_options>", "");
                assert!(!borrowed.contains('&'), "tg_{name} borrows what `done` may use: {borrowed}");
                count += 1;
            }
        }
    }
    assert!(count >= 9, "{count} asynchronous functions were found in the source");
}
