//! The code in `generated` is what the protocol in `proto` compiles to.
//!
//! It is kept in the repository so that no build of divvy compiles a compiler of protocols first. Who changes the
//! protocol writes it anew: `DIVVY_PROTO=write cargo test -p divvy-proto generated`. `protox` reads the protocol, so
//! no `protoc` has to be installed.

use std::path::Path;

#[test]
fn generated_code_is_that_of_the_protocol() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile(["divvy/v1/divvy.proto"], [crate_folder.join("proto")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".")
        .codec_path("crate::codec::CountingCodec")
        .out_dir(folder.path())
        .compile_fds(files)
        .unwrap();
    let fresh = std::fs::read_to_string(folder.path().join("divvy.v1.rs")).unwrap();
    let kept = crate_folder.join("generated/divvy.v1.rs");
    if std::env::var_os("DIVVY_PROTO").is_some_and(|wish| wish == "write") {
        std::fs::write(&kept, &fresh).unwrap();
    }
    assert!(
        std::fs::read_to_string(&kept).unwrap() == fresh,
        "generated/divvy.v1.rs is not what divvy.proto says; write it anew with \
         `DIVVY_PROTO=write cargo test -p divvy-proto generated`"
    );
}
