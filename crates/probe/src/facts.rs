//! Facts about a machine that belong to every result.

use pocketstone_core::outcome::Facts;
use std::fs::read_to_string;

/// The value of the first line `name : value` in a text like /proc/cpuinfo.
fn field(text: &str, names: &[&str]) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        names.contains(&name.trim()).then(|| value.trim().to_owned())
    })
}

/// Gathers what identifies the machine: kernel, processor, memory, MTD devices.
pub fn gather() -> Facts {
    let uname = rustix::system::uname();
    let mut facts = Facts::new();
    let mut put = |name: &str, value: Option<String>| {
        facts.extend(value.map(|v| (name.to_owned(), v)));
    };
    put("kernel.release", Some(uname.release().to_string_lossy().into_owned()));
    put("kernel.version", Some(uname.version().to_string_lossy().into_owned()));
    put("machine", Some(uname.machine().to_string_lossy().into_owned()));
    let cpu = read_to_string("/proc/cpuinfo").unwrap_or_default();
    put("cpu", field(&cpu, &["model name", "Hardware"]));
    put("cpus", std::thread::available_parallelism().ok().map(|n| n.to_string()));
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    put("memory", field(&memory, &["MemTotal"]));
    put("page_bytes", Some(rustix::param::page_size().to_string()));
    put("runner.version", Some(env!("CARGO_PKG_VERSION").to_owned()));
    for n in 0..8 {
        let attribute = |a: &str| read_to_string(format!("/sys/class/mtd/mtd{n}/{a}")).ok();
        let Some(name) = attribute("name") else { break };
        let number = |a: &str| attribute(a).unwrap_or_default().trim().to_owned();
        let text = format!(
            "{}: size {}, eraseblock {}, page {}+{} bytes",
            name.trim(),
            number("size"),
            number("erasesize"),
            number("writesize"),
            number("oobsize")
        );
        put(&format!("mtd{n}"), Some(text));
    }
    facts
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_has_a_kernel_and_a_page_size() {
        let facts = super::gather();
        let release = std::process::Command::new("uname").arg("-r").output().unwrap().stdout;
        assert_eq!(facts["kernel.release"], String::from_utf8(release).unwrap().trim());
        assert!(facts["page_bytes"].parse::<u64>().unwrap() >= 4096);
    }
}
