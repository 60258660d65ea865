//! The code in `generated` is what the protocols in `proto` compile to.
//!
//! It is kept in the repository so that no build of divvy compiles a compiler of protocols first. Who changes a
//! protocol writes it anew: `DIVVY_PROTO=write cargo test -p divvy-proto generated`. `protox` reads the protocols, so
//! no `protoc` has to be installed.

use std::path::Path;

use tonic_prost_build::Builder;

#[test]
fn generated_code_is_that_of_the_protocol() {
    let counting = |builder: Builder| builder.codec_path("crate::codec::CountingCodec");
    check("divvy/v1/divvy.proto", "divvy.v1.rs", counting);
}

#[test]
fn generated_code_is_that_of_the_protocol_of_keda() {
    check("externalscaler/externalscaler.proto", "externalscaler.rs", |builder| builder);
}

fn check(protocol: &str, code: &str, tune: impl FnOnce(Builder) -> Builder) {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile([protocol], [crate_folder.join("proto")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let builder = tonic_prost_build::configure().build_transport(false).bytes(".");
    tune(builder).out_dir(folder.path()).compile_fds(files).unwrap();
    let fresh = std::fs::read_to_string(folder.path().join(code)).unwrap();
    let kept = crate_folder.join("generated").join(code);
    if std::env::var_os("DIVVY_PROTO").is_some_and(|wish| wish == "write") {
        std::fs::write(&kept, &fresh).unwrap();
    }
    assert!(
        std::fs::read_to_string(&kept).unwrap() == fresh,
        "generated/{code} is not what {protocol} says; write it anew with \
         `DIVVY_PROTO=write cargo test -p divvy-proto generated`"
    );
}
