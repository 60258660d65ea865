//! Compiles the protocol with protox, so that no `protoc` has to be installed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["divvy/v1/divvy.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}
