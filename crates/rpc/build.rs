fn main() -> std::io::Result<()> {
    tonic_prost_build::configure()
        // `Bytes` instead of `Vec<u8>`, so that file contents and outputs are shared and not copied.
        .bytes(".conclave.v1")
        .compile_protos(&["proto/conclave.proto"], &["proto"])
}
