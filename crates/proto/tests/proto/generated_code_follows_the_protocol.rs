//! The code in `generated` is what the protocols in `proto` compile to.
//!
//! It is kept in the repository so that no build of divvy compiles a compiler of protocols first. Who changes a
//! protocol writes it anew: `DIVVY_PROTO=write cargo test -p divvy-proto generated`. `protox` reads the protocols, so
//! no `protoc` has to be installed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use protox::prost_reflect::prost_types::FileDescriptorSet;
use tonic_prost_build::Builder;

/// Messages that strangers send, whose lists are counted before they are read.
const SENT_BY_STRANGERS: [&str; 2] = ["SubmitRequest", "FromWorker"];

#[test]
fn generated_code_is_that_of_the_protocol() {
    let counting = |builder: Builder| builder.codec_path("crate::codec::CountingCodec");
    check("divvy/v1/divvy.proto", "divvy.v1.rs", counting);
}

#[test]
fn generated_code_is_that_of_the_protocol_of_keda() {
    check("externalscaler/externalscaler.proto", "externalscaler.rs", |builder| builder);
}

#[test]
fn generated_tables_of_lists_are_those_of_the_protocol() {
    let protocol = "divvy/v1/divvy.proto";
    compare(protocol, "lists.rs", &tables(&read(protocol)));
}

fn check(protocol: &str, code: &str, tune: impl FnOnce(Builder) -> Builder) {
    let folder = tempfile::tempdir().unwrap();
    let builder = tonic_prost_build::configure().build_transport(false).bytes(".");
    tune(builder).out_dir(folder.path()).compile_fds(read(protocol)).unwrap();
    compare(protocol, code, &std::fs::read_to_string(folder.path().join(code)).unwrap());
}

fn read(protocol: &str) -> FileDescriptorSet {
    protox::compile([protocol], [crate_folder().join("proto")]).unwrap()
}

fn crate_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn compare(protocol: &str, code: &str, fresh: &str) {
    let kept = crate_folder().join("generated").join(code);
    if std::env::var_os("DIVVY_PROTO").is_some_and(|wish| wish == "write") {
        std::fs::write(&kept, fresh).unwrap();
    }
    assert!(
        std::fs::read_to_string(&kept).unwrap() == fresh,
        "generated/{code} is not what {protocol} says; write it anew with \
         `DIVVY_PROTO=write cargo test -p divvy-proto generated`"
    );
}

/// For each message that strangers send, and each in one of those: which fields are lists, and which lead to some. What
/// these words mean is in `src/lists.rs`.
fn tables(protocol: &FileDescriptorSet) -> String {
    let messages = &protocol.file.last().unwrap().message_type;
    let mut todo = SENT_BY_STRANGERS.map(str::to_owned).to_vec();
    let mut tables = BTreeMap::new();
    while let Some(name) = todo.pop() {
        if tables.contains_key(&name) {
            continue;
        }
        let message = messages.iter().find(|message| message.name() == name).unwrap();
        let mut fields = Vec::new();
        for field in &message.field {
            let (number, is_list) =
                (field.number(), field.label().as_str_name().ends_with("REPEATED"));
            match field.r#type().as_str_name() {
                "TYPE_MESSAGE" => {
                    let inner = field.type_name().rsplit('.').next().unwrap();
                    let table = words(inner).to_uppercase();
                    fields.push(match is_list {
                        true => format!("list({number}, List::{}, {table})", camel(field.name())),
                        false => format!("one({number}, {table})"),
                    });
                    todo.push(inner.to_owned());
                }
                "TYPE_STRING" if is_list => fields.push(format!("names({number})")),
                other => {
                    assert!(!is_list, "nobody counts lists of {other}: {name}.{}", field.name())
                }
            }
        }
        tables.insert(name, fields);
    }
    let mut text = "// This file is @generated from divvy.proto.\n".to_owned();
    for (name, fields) in tables {
        let name = words(&name).to_uppercase();
        writeln!(text, "const {name}: &[Field] = &[{}];", fields.join(", ")).unwrap();
    }
    text
}

/// `RetryPolicy` as `Retry_Policy`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.push(letter);
    }
    words
}

/// `after_groups` as `AfterGroups`.
fn camel(name: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(capital).collect()
}
