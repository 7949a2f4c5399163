fn main() -> std::io::Result<()> {
    tonic_prost_build::configure()
        // File contents and outputs are shared, not copied, on their way through.
        .bytes(".conclave.v1")
        .compile_protos(&["proto/conclave.proto"], &["proto"])
}
