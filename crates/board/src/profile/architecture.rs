//! Kinds of processor that a virtual board can have.

use serde::{Deserialize, Serialize};

/// What a virtual board's programs are made for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// 32-bit ARM.
    #[default]
    Armv7,
    /// 64-bit ARM.
    Aarch64,
}

impl Architecture {
    /// As Debian names it.
    pub fn debian(self) -> &'static str {
        match self {
            Architecture::Armv7 => "armhf",
            Architecture::Aarch64 => "arm64",
        }
    }

    /// Its emulator.
    pub fn emulator(self) -> &'static str {
        match self {
            Architecture::Armv7 => "qemu-system-arm",
            Architecture::Aarch64 => "qemu-system-aarch64",
        }
    }

    /// The program that loads the libraries of others; it is named in each of these, and not among their libraries.
    pub fn loader(self) -> &'static str {
        match self {
            Architecture::Armv7 => "ld-linux-armhf.so.3",
            Architecture::Aarch64 => "ld-linux-aarch64.so.1",
        }
    }

    /// The folder of the cache for packages of that name: those for 32-bit ARM have it as it is.
    pub fn packages(self, name: &str) -> String {
        match self {
            Architecture::Armv7 => name.to_owned(),
            Architecture::Aarch64 => format!("{name}-{}", self.debian()),
        }
    }
}
