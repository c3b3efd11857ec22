//! Networks of their own: what is in one neither reaches this machine's nor is reached from there.

use crate::command::run;
use pocketstone_testing::wait::until;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

/// A network, until this is dropped. It takes the rights of the superuser.
pub struct Network(Child);

impl Network {
    /// A network in which nothing is up.
    pub fn new() -> Network {
        let child = Command::new("unshare").args(["--net", "sleep", "1000"]).spawn().expect("unshare runs");
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        until("the network is there", || of(&child.id().to_string()).is_some_and(|net| Some(net) != of("self")));
        Network(child)
    }

    /// A cable to another network: a device `name` here, and `cable` there, each with its address.
    pub fn cable(&self, other: &Network, name: &str, [near, far]: [&str; 2]) {
        let there = other.0.id().to_string();
        let ip = |network: &Network, words: &[&str]| run(network.command("ip").args(words)).ends_with(0);
        ip(self, &["link", "add", name, "type", "veth", "peer", "name", "cable", "netns", &there]);
        for (network, device, address) in [(self, name, near), (other, "cable", far)] {
            ip(network, &["addr", "add", &format!("{address}/30"), "dev", device]);
            ip(network, &["link", "set", device, "up"]);
        }
    }

    /// What stands for it in the file system.
    fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }

    /// The words in front of a command that is to run in it.
    pub fn enter(&self) -> String {
        format!("nsenter --net={}", self.file().display())
    }

    /// A program that is to run in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file().display())).arg(program);
        command
    }
}

impl Default for Network {
    fn default() -> Network {
        Network::new()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
