//! The mongodb daemon on real mongods and a real etcd.

mod changing;
mod crashing;
mod forming;
mod ground;
mod leaving;
mod losing;
mod refusing;
