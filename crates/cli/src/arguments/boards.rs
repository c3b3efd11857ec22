//! Of boards.

use crate::names;
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use std::path::PathBuf;

/// Commands on boards.
#[derive(Debug, Subcommand)]
pub enum BoardCommand {
    /// List the boards
    List,
    /// Add a board that ssh, adb, a command or labgrid reaches: tries what it can do, and writes its profile
    Add(BoardAddArguments),
    /// Say what a board can measure and what not, why, and what would help
    Doctor {
        /// The board
        #[arg(add = ArgValueCandidates::new(names::boards))]
        name: String,
    },
    /// Build a virtual board's kernel, runner, initramfs and saved state
    Build {
        /// The board
        #[arg(add = ArgValueCandidates::new(names::boards))]
        name: String,
    },
    /// Cold-boot a virtual board and show its console until it is ready
    Start {
        /// The board
        #[arg(add = ArgValueCandidates::new(names::boards))]
        name: String,
    },
    /// Open a shell on a virtual board
    Shell {
        /// The board
        #[arg(add = ArgValueCandidates::new(names::boards))]
        name: String,
    },
    /// Run a command on a freshly started virtual board
    Exec {
        /// The board
        #[arg(add = ArgValueCandidates::new(names::boards))]
        name: String,
        /// Program and arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Write a virtual board's packages and saved states into one archive, for a machine without network
    Export {
        /// The board
        #[arg(add = ArgValueCandidates::new(names::boards))]
        name: String,
        /// The archive to write
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Put what `board export` wrote into this machine's cache
    Import {
        /// The archive
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Arguments of `board add`.
#[derive(Debug, Args)]
pub struct BoardAddArguments {
    /// The name to give to it
    pub name: String,
    /// The host, as ssh and ~/.ssh/config know it, such as root@192.168.1.7
    #[arg(long, value_name = "HOST", required_unless_present_any = ["adb", "command", "labgrid", "pool"])]
    pub ssh: Option<String>,
    /// The phone, as `adb devices` has it, or HOST:PORT
    #[arg(long, value_name = "SERIAL", conflicts_with_all = ["ssh", "ssh_options"])]
    pub adb: Option<String>,
    /// The words in front of `sh -c`, such as "docker exec -i box"
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["ssh", "ssh_options", "adb", "labgrid"])]
    pub command: Option<String>,
    /// The place in a labgrid lab, which also says where ssh reaches it, unless --ssh does
    #[arg(long, value_name = "PLACE", conflicts_with = "adb")]
    pub labgrid: Option<String>,
    /// Equal boards that share the work, such as router-a,router-b
    #[arg(
        long,
        value_name = "BOARDS",
        value_delimiter = ',',
        conflicts_with_all = ["adb", "command", "labgrid", "ssh", "ssh_options", "folder", "directory", "become"]
    )]
    pub pool: Vec<String>,
    /// An option for ssh, such as -p2222; repeatable
    #[arg(long = "ssh-option", value_name = "OPTION", allow_hyphen_values = true)]
    pub ssh_options: Vec<String>,
    /// Folder on the board for the runner [default: /var/tmp/pocketstone-runner, on phones in /data/local/tmp]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<String>,
    /// Directory on the board whose file system is measured [default: a folder in that folder]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// What starts the runner with more rights, such as "sudo -n" or, on a rooted phone, "su 0"
    #[arg(long = "become", value_name = "COMMAND")]
    pub r#become: Option<String>,
    /// Replace an existing profile of that name
    #[arg(long)]
    pub force: bool,
}
