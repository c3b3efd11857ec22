//! Board profiles: the files in `devices/`.

mod architecture;
mod nand;
mod remote;

pub use architecture::Architecture;
pub use nand::NandProfile;
pub use remote::{
    AdbProfile, Charging, CommandProfile, Erase, FlashProfile, LabgridProfile, Place, Screen, SshProfile,
};

use pocketstone_core::block::BlockDevice;
use pocketstone_core::error::Context;
use pocketstone_core::volume::{FileSystem, Medium, Volume};
use pocketstone_core::words::choices;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A board as its file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The file's name without `.toml`.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// The kind of board and its settings.
    pub kind: ProfileKind,
    /// The file's text, stored with every result.
    pub text: String,
}

/// Kinds of board.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileKind {
    /// This machine.
    Host(HostProfile),
    /// A machine that ssh reaches.
    Ssh(SshProfile),
    /// A phone that adb reaches.
    Adb(AdbProfile),
    /// A machine, or a part of one, that a command reaches.
    Command(CommandProfile),
    /// Several equal boards that ssh, adb or a command reaches, which share the work.
    Pool(Vec<Profile>),
    /// A machine in QEMU.
    Virtual(Box<VirtualProfile>),
}

/// A kind of board, as studies name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its word.
    pub name: &'static str,
    /// The board of this kind that is shipped.
    pub usual: &'static str,
    /// Whether cells are measured one after the other.
    pub one_at_a_time: bool,
}

/// Boards that QEMU makes.
pub const VIRTUAL: Kind = Kind { name: "virtual", usual: "virt-nand", one_at_a_time: false };

/// This machine, and every other one that is no virtual board.
pub const HOST: Kind = Kind { name: "host", usual: "host", one_at_a_time: true };

/// Kinds of board that an experiment may have other factors for.
pub const KINDS: [Kind; 2] = [VIRTUAL, HOST];

/// Settings of the host board.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostProfile {
    #[serde(rename = "kind", skip_serializing)]
    _kind: String,
    #[serde(rename = "description", default, skip_serializing)]
    _description: String,
    /// Directory of target files; `None`: the user's own folder in /var/tmp.
    #[serde(default)]
    pub directory: Option<PathBuf>,
}

/// Settings of a virtual board.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VirtualProfile {
    #[serde(rename = "kind", skip_serializing)]
    _kind: String,
    #[serde(rename = "description", default, skip_serializing)]
    _description: String,
    /// The machine.
    pub machine: Machine,
    /// Its kernel.
    pub kernel: Kernel,
    /// Kernel modules.
    #[serde(default)]
    pub modules: Modules,
    /// The simulated flash chip, if any.
    pub nand: Option<NandProfile>,
    /// Its managed flash, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockDevice>,
}

/// A QEMU machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// What its programs are made for.
    #[serde(default)]
    pub architecture: Architecture,
    /// QEMU's `-M`.
    pub model: String,
    /// QEMU's `-cpu`.
    pub cpu: String,
    /// Each instruction takes 2^shift ns.
    pub icount_shift: u8,
    /// Memory.
    pub ram_mib: u32,
    /// Wall-clock limit of a boot.
    pub boot_timeout_s: u64,
    /// Wall-clock limit of one order: a preparation step or a cell.
    pub cell_timeout_s: u64,
}

/// The kernel of a virtual board.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// A Debian kernel package of the board's architecture.
    pub package: Option<String>,
    /// A kernel image of one's own, instead of a package.
    pub image: Option<PathBuf>,
    /// Its folder of modules (`lib/modules/VERSION`).
    pub modules: Option<PathBuf>,
    /// Added to the kernel's command line.
    #[serde(default)]
    pub append: String,
}

/// Kernel modules to load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modules {
    /// Names, in order.
    #[serde(default)]
    pub load: Vec<String>,
    /// Parameters by module name.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

impl VirtualProfile {
    /// One on the flash that it has.
    fn usual_volume(&self) -> Volume {
        match (&self.nand, &self.block) {
            (Some(_), _) => Volume::usual(FileSystem::Jffs2),
            (None, Some(_)) => Volume { medium: Medium::Block, ..Volume::usual(FileSystem::Ext4) },
            (None, None) => Volume::usual(FileSystem::Tmpfs),
        }
    }
}

impl Profile {
    /// Whether it names raw flash of a board that is not thrown away, and lets it be erased.
    pub fn flash_may_be_erased(&self) -> bool {
        match &self.kind {
            ProfileKind::Ssh(SshProfile { flash, .. }) | ProfileKind::Command(CommandProfile { flash, .. }) => {
                flash.as_ref().is_some_and(FlashProfile::may_be_erased)
            }
            ProfileKind::Pool(boards) => boards.iter().any(Profile::flash_may_be_erased),
            ProfileKind::Host(_) | ProfileKind::Adb(_) | ProfileKind::Virtual(_) => false,
        }
    }

    /// The kind of board that it is.
    pub fn kind(&self) -> &'static Kind {
        match self.kind {
            ProfileKind::Virtual(_) => &VIRTUAL,
            // What a study says of this machine is right for any other that is no board of ours.
            ProfileKind::Host(_)
            | ProfileKind::Ssh(_)
            | ProfileKind::Adb(_)
            | ProfileKind::Command(_)
            | ProfileKind::Pool(_) => &HOST,
        }
    }

    /// Whether this machine takes its place where it cannot be used, and only the study names it: a virtual board's.
    /// Who names a board far away means that one.
    pub fn may_be_replaced(&self) -> bool {
        match self.kind {
            ProfileKind::Virtual(_) => true,
            ProfileKind::Host(_)
            | ProfileKind::Ssh(_)
            | ProfileKind::Adb(_)
            | ProfileKind::Command(_)
            | ProfileKind::Pool(_) => false,
        }
    }

    /// The way to it, in a word.
    pub fn way(&self) -> &'static str {
        match self.kind {
            ProfileKind::Virtual(_) => "virtual",
            ProfileKind::Host(_) => "host",
            ProfileKind::Ssh(_) => "ssh",
            ProfileKind::Adb(_) => "adb",
            ProfileKind::Command(_) => "command",
            ProfileKind::Pool(_) => "pool",
        }
    }

    /// How many of its cells are measured at once on a machine with so many cores.
    pub fn at_once(&self, cores: usize) -> usize {
        match &self.kind {
            ProfileKind::Pool(boards) => boards.len(),
            _ if self.kind().one_at_a_time => 1,
            _ => cores,
        }
    }

    /// The volume to measure on it where the user names none.
    pub fn usual_volume(&self) -> Volume {
        match &self.kind {
            ProfileKind::Virtual(machine) => machine.usual_volume(),
            ProfileKind::Host(_)
            | ProfileKind::Ssh(_)
            | ProfileKind::Adb(_)
            | ProfileKind::Command(_)
            | ProfileKind::Pool(_) => Volume::usual(FileSystem::Directory),
        }
    }

    /// Bytes of its simulated chip, where it has one and its ID is known.
    pub fn chip_bytes(&self) -> Option<u64> {
        match &self.kind {
            ProfileKind::Virtual(machine) => machine.nand.as_ref()?.bytes(),
            ProfileKind::Host(_)
            | ProfileKind::Ssh(_)
            | ProfileKind::Adb(_)
            | ProfileKind::Command(_)
            | ProfileKind::Pool(_) => None,
        }
    }

    /// Reads the profile `name`: a file's path, or a name in `folder`.
    ///
    /// # Errors
    /// `ErrorKind::User` for an unknown name, or an invalid profile; the message includes the place.
    pub fn load(folder: &Path, name: &str) -> Result<Self> {
        Self::load_for(folder, name, false)
    }

    /// As [`Profile::load`]; a pool has no pools.
    fn load_for(folder: &Path, name: &str, pool: bool) -> Result<Self> {
        let path = match name.ends_with(".toml") {
            true => PathBuf::from(name),
            false => folder.join(format!("{name}.toml")),
        };
        let text = fs::read_to_string(&path).map_err(|e| {
            Error::user(format!("unknown board `{name}` ({})", path.display())).because(e).hint(choices(
                name,
                "available boards",
                &names(folder),
            ))
        })?;
        Self::of_file(folder, &path, &text, pool)
    }

    /// The profile that the file `path` would be with this text. Boards of a pool are beside it, or in `folder`.
    ///
    /// # Errors
    /// `ErrorKind::User` for an invalid profile; the message includes the place.
    pub fn of_text(folder: &Path, path: &Path, text: &str) -> Result<Self> {
        Self::of_file(folder, path, text, false)
    }

    fn of_file(folder: &Path, path: &Path, text: &str, pool: bool) -> Result<Self> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let base = path.parent().unwrap_or(Path::new("."));
        // Boards of a pool are beside it, or shipped.
        let member = |name: &str| match base.join(format!("{name}.toml")) {
            _ if pool => Err(Error::user("a pool has no pools").hint("name its boards instead")),
            beside if beside.is_file() => Self::load_for(folder, &beside.to_string_lossy(), true),
            _ => Self::load_for(folder, name, true),
        };
        let parsed = Self::parse(&name, text, &member);
        let mut profile = parsed.user(|| format!("{} is not a board profile", path.display()))?;
        if let ProfileKind::Virtual(machine) = &mut profile.kind {
            for file in [&mut machine.kernel.image, &mut machine.kernel.modules].into_iter().flatten() {
                *file = base.join(&file);
            }
        }
        Ok(profile)
    }

    fn parse(name: &str, text: &str, member: &dyn Fn(&str) -> Result<Self>) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Pool {
            #[serde(rename = "kind")]
            _kind: String,
            #[serde(rename = "description", default)]
            _description: String,
            boards: Vec<String>,
        }
        // `toml`'s errors name line, column and the offending text.
        let read = |e: toml::de::Error| Error::user(e.to_string());
        let head: Head = toml::from_str(text).map_err(read)?;
        // Results keep the profiles of all boards that took part.
        let mut whole = text.to_owned();
        let kind = match head.kind.as_str() {
            "host" => ProfileKind::Host(toml::from_str(text).map_err(read)?),
            "ssh" => ProfileKind::Ssh(toml::from_str(text).map_err(read)?),
            "adb" => ProfileKind::Adb(toml::from_str(text).map_err(read)?),
            "command" => ProfileKind::Command(toml::from_str(text).map_err(read)?),
            "pool" => {
                let pool: Pool = toml::from_str(text).map_err(read)?;
                let boards = pool.boards.iter().map(|name| member(name)).collect::<Result<Vec<Profile>>>()?;
                check_pool(&boards)?;
                boards.iter().for_each(|board| whole += &format!("\n# {}\n{}", board.name, board.text));
                ProfileKind::Pool(boards)
            }
            "virtual" => {
                let machine: VirtualProfile = toml::from_str(text).map_err(read)?;
                if machine.kernel.package.is_some() == machine.kernel.image.is_some() {
                    return Err(Error::user("[kernel] requires either `package` or `image`"));
                }
                machine.block.as_ref().map_or(Ok(()), BlockDevice::check)?;
                ProfileKind::Virtual(Box::new(machine))
            }
            MODEL => {
                let error = Error::user(format!("`{name}` is a device model, on which nothing runs"));
                return Err(error.hint(format!("use it as the device of a replay; a board has kind {KIND_WORDS}")));
            }
            TLB => {
                let error = Error::user(format!("`{name}` describes a data TLB, on which nothing runs"));
                return Err(error.hint(format!("use it as a --processor; a board has kind {KIND_WORDS}")));
            }
            other => {
                return Err(Error::user(format!("unknown kind `{other}`")).hint(format!("kinds: {KIND_WORDS}")));
            }
        };
        Ok(Profile { name: name.to_owned(), description: head.description, kind, text: whole })
    }
}

/// What every profile says.
#[derive(Deserialize)]
struct Head {
    kind: String,
    #[serde(default)]
    description: String,
}

/// Kinds of what has a profile and is no board.
const MODEL: &str = "model";
const TLB: &str = "tlb";

/// Kinds, for messages.
const KIND_WORDS: &str = "`host`, `ssh`, `adb`, `command`, `pool` or `virtual`";

/// Refuses boards that cannot share work.
fn check_pool(boards: &[Profile]) -> Result<()> {
    let cure = "name two or more different boards of kind `ssh`, `adb` or `command`";
    let refused = |why: String| Err(Error::user(why).hint(cure));
    if boards.len() < 2 {
        return refused("`boards` names fewer than two boards".into());
    }
    for (index, board) in boards.iter().enumerate() {
        if !matches!(board.kind, ProfileKind::Ssh(_) | ProfileKind::Adb(_) | ProfileKind::Command(_)) {
            return refused(format!("`{}` in `boards` has kind `{}`", board.name, board.way()));
        }
        if boards[..index].iter().any(|other| other.name == board.name) {
            return refused(format!("`{}` is in `boards` twice", board.name));
        }
    }
    Ok(())
}

/// All boards of a folder, by name; devices to model are left out. One that is not understood keeps nobody from the
/// others.
///
/// # Errors
/// `ErrorKind::User` if the folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Result<Profile>>> {
    Ok(files(folder)?.iter().map(|path| Profile::load(folder, &path.to_string_lossy())).collect())
}

/// Names of all boards of a folder. They are not read: a pool's boards may be missing, which says these names.
fn names(folder: &Path) -> Vec<String> {
    let stem = |path: &PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
    files(folder).unwrap_or_default().iter().filter_map(stem).collect()
}

/// The files of a folder that are, or should be, boards, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).user(|| format!("cannot list the boards in {}", folder.display()))?;
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|path| is_profile(path) && !is_model(path)).collect();
    paths.sort();
    Ok(paths)
}

fn is_profile(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// Whether a file is certainly one of a device to model.
fn is_model(path: &Path) -> bool {
    let head = fs::read_to_string(path).ok().and_then(|text| toml::from_str::<Head>(&text).ok());
    head.is_some_and(|head| [MODEL, TLB].contains(&&*head.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::board::Setting;

    fn shipped() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices")
    }

    #[test]
    fn every_shipped_profile_is_understood() {
        let texts = fs::read_dir(shipped()).unwrap().flatten().map(|e| fs::read_to_string(e.path()).unwrap());
        let kind = |text: &str, kind: &str| text.lines().any(|line| line == format!("kind = \"{kind}\""));
        let boards = texts.filter(|text| !kind(text, "model") && !kind(text, "tlb"));
        let listed = list(&shipped()).unwrap().into_iter().collect::<Result<Vec<_>>>().unwrap();
        assert_eq!(listed.len(), boards.count());
    }

    #[test]
    fn the_usual_volume_of_a_board_is_on_the_flash_that_it_has() {
        let mut virtual_boards = 0;
        for profile in list(&shipped()).unwrap().into_iter().map(Result::unwrap) {
            let volume = profile.usual_volume();
            volume.check().unwrap();
            let ProfileKind::Virtual(machine) = &profile.kind else {
                assert_eq!(volume.name(), "directory", "{}", profile.name);
                continue;
            };
            virtual_boards += 1;
            assert_eq!(volume.medium == Medium::Mtd, machine.nand.is_some(), "{}", profile.name);
            assert_eq!(volume.medium == Medium::Block, machine.block.is_some(), "{}", profile.name);
            let module = volume.file_system.name();
            assert!(machine.modules.load.iter().any(|name| name == module), "{} lacks {module}", profile.name);
        }
        assert!(virtual_boards > 0);
        let text = "kind = \"virtual\"\n[machine]\nmodel = \"virt\"\ncpu = \"cortex-a15\"\nicount_shift = 1\n\
                    ram_mib = 512\nboot_timeout_s = 9\ncell_timeout_s = 9\n[kernel]\npackage = \"linux-image-armmp\"\n";
        let bare = Profile::of_text(&shipped(), Path::new("bare.toml"), text).unwrap();
        assert_eq!(bare.usual_volume().name(), "tmpfs", "a board without flash");
    }

    #[test]
    fn a_device_to_model_is_no_board_and_says_what_it_is() {
        let error = Profile::load(&shipped(), "nexus-6").unwrap_err();
        assert!(error.chain().contains("on which nothing runs"), "{}", error.chain());
        assert!(error.cure().unwrap().contains("replay"));
        assert!(list(&shipped()).unwrap().iter().flatten().all(|p| p.name != "nexus-6"));
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let parse = |text: &str| Profile::parse("x", text, &|name| Profile::load(&shipped(), name));
        let error = parse("kind = \"host\"\ndirectory = 5\n").unwrap_err();
        assert!(error.chain().contains("directory"), "{}", error.chain());
        let error = parse("kind = \"host\"\ndirectory = \"/x\"\ndirektory = 1\n").unwrap_err();
        assert!(error.chain().contains("direktory"), "{}", error.chain());
        let missing = Profile::load(&shipped(), "nexus-99").unwrap_err();
        assert!(missing.cure().unwrap().contains("virt-nand"));
    }

    #[test]
    fn settings_are_files_or_commands_with_what_undoes_them() {
        let parse = |settings: &str| {
            let text = format!("kind = \"ssh\"\nhost = \"a\"\nsettings = {settings}\n");
            Profile::parse("x", &text, &|name| Profile::load(&shipped(), name))
        };
        let ProfileKind::Ssh(board) =
            parse("[{ file = \"/sys/x\", value = \"1\" }, { set = [\"a\"], undo = [\"b\"] }]").unwrap().kind
        else {
            panic!("a board by ssh")
        };
        let command = Setting::Command { set: vec!["a".into()], undo: vec!["b".into()], read: None };
        assert_eq!(board.settings, [Setting::File { file: "/sys/x".into(), value: "1".into() }, command]);
        for wrong in [
            "[{ set = [\"a\"] }]",
            "[{ file = \"/x\", value = \"1\", undo = [\"b\"] }]",
            "[{ set = [\"a\"], undo = [] }]",
            "[{ set = [\"\"], undo = [\"b\"] }]",
            "[{ set = [\"a\"], undo = [\"b\"], read = [] }]",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.chain().contains("either `file` and `value`, or `set` and `undo`"), "{}", error.chain());
        }
    }

    #[test]
    fn a_pool_is_of_different_boards_far_away_and_keeps_their_profiles() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
        let load = || Profile::load(&shipped(), &folder.path().join("pool.toml").to_string_lossy());
        put("a", "kind = \"ssh\"\nhost = \"a\"\n");
        put("b", "kind = \"adb\"\nserial = \"b\"\n");
        put("pool", "kind = \"pool\"\nboards = [\"a\", \"b\"]\n");
        let pool = load().unwrap();
        assert_eq!((pool.at_once(16), pool.way()), (2, "pool"));
        let a_virtual_one = Profile::load(&shipped(), "virt-emmc").unwrap();
        assert!(a_virtual_one.may_be_replaced() && !pool.may_be_replaced());
        let ProfileKind::Pool(boards) = &pool.kind else { panic!("a pool") };
        assert!(boards.iter().all(|board| !board.may_be_replaced() && *board.kind() == HOST));
        assert!(pool.text.contains("host = \"a\"") && pool.text.contains("serial = \"b\""), "{}", pool.text);
        for (boards, why) in [
            ("[\"a\"]", "fewer than two"),
            ("[\"a\", \"a\"]", "`a` is in `boards` twice"),
            ("[\"a\", \"virt-nand\"]", "`virt-nand` in `boards` has kind `virtual`"),
            ("[\"a\", \"c\"]", "unknown board `c`"),
            ("[\"a\", \"pool\"]", "a pool has no pools"),
        ] {
            put("pool", &format!("kind = \"pool\"\nboards = {boards}\n"));
            let error = load().unwrap_err();
            assert!(error.chain().contains(why), "{boards}: {}", error.chain());
        }
    }

    #[test]
    fn a_pool_without_its_boards_is_named_beside_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(format!("{name}.toml"));
        fs::write(path("here"), "kind = \"ssh\"\nhost = \"a\"\n").unwrap();
        fs::write(path("pool"), "kind = \"pool\"\nboards = [\"here\", \"gone\"]\n").unwrap();
        fs::write(path("typo"), "kind = \"ssh\"\nhots = \"a\"\n").unwrap();
        let listed = list(folder.path()).unwrap();
        let said = listed.iter().map(|one| one.as_ref().map_or_else(Error::chain, |board| board.name.clone()));
        let said: Vec<String> = said.collect();
        assert_eq!((said.len(), said[0].as_str()), (3, "here"));
        assert!(said[1].contains("pool.toml") && said[1].contains("unknown board `gone`"), "{}", said[1]);
        assert!(said[2].contains("typo.toml") && said[2].contains("hots"), "{}", said[2]);
        let alone = Profile::load(folder.path(), "nowhere").unwrap_err();
        assert_eq!(alone.cure(), Some("available boards: here, pool, typo"));
        // One that is not written yet has the same boards beside it.
        let text = "kind = \"pool\"\nboards = [\"here\", \"virt-nand\"]\n";
        let error = Profile::of_text(&shipped(), &path("new"), text).unwrap_err();
        assert!(error.chain().contains("`virt-nand` in `boards` has kind `virtual`"), "{}", error.chain());
    }

    #[test]
    fn a_chip_becomes_module_parameters() {
        let Profile { kind: ProfileKind::Virtual(machine), .. } = Profile::load(&shipped(), "virt-nand").unwrap()
        else {
            panic!("a virtual board")
        };
        let chip = machine.nand.unwrap();
        assert_eq!(chip.bytes(), Some(256 << 20), "docs/boards.md: 256 MiB");
        let text = chip.module_parameters();
        assert!(text.starts_with("first_id_byte=0x20 second_id_byte=0xaa third_id_byte=0x00 fourth_id_byte=0x15"));
        assert!(text.contains("programm_delay=200 erase_delay=2"));
    }
}
