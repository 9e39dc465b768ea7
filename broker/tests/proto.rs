//! The checked-in wire types are those that `proto/broker.proto` gives.
//!
//! `UPDATE_PROTO=1 cargo test -p broker --test proto` writes them anew.

use std::path::Path;

#[test]
fn generated_types_are_those_of_the_proto_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile(["broker.proto"], [root.join("proto")]).expect("the proto file compiles");
    let out = tempfile::tempdir().expect("a temporary directory");
    prost_build::Config::new()
        .bytes(["."])
        .out_dir(out.path())
        .compile_fds(files)
        .expect("Rust types can be generated");

    let generated = std::fs::read_to_string(out.path().join("broker.v1.rs")).expect("one package, one file");
    let checked_in = root.join("src/wire/proto.rs");
    if std::env::var_os("UPDATE_PROTO").is_some() {
        std::fs::write(&checked_in, &generated).expect("src/wire/proto.rs can be written");
    }
    let current = std::fs::read_to_string(&checked_in).expect("src/wire/proto.rs is there");
    assert!(
        current == generated,
        "src/wire/proto.rs does not fit proto/broker.proto; run the tests with UPDATE_PROTO=1"
    );
}
