//! Messages of Perfetto's protobuf schema, for who writes traces and who reads them, by the names and field numbers of
//! the published `perfetto_trace.proto`. What is left out here is neither written nor read.
//!
//! Texts that come from a kernel are bytes here: names of threads are cut off after 15 bytes, in the middle of a letter
//! if need be, and such a text is none in protobuf.
// Each message and field is documented where its name is from.
#![allow(missing_docs)]

use prost::Message;

/// `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` among Perfetto's built-in clocks.
pub const CLOCK_MONOTONIC: u32 = 3;
pub const CLOCK_BOOTTIME: u32 = 6;

/// Kinds of track event.
pub const SLICE_BEGIN: i32 = 1;
pub const SLICE_END: i32 = 2;
pub const INSTANT: i32 = 3;
pub const COUNTER: i32 = 4;

/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
pub const STATE_CLEARED: u32 = 1;
pub const NEEDS_STATE: u32 = 2;

/// Field 1 of the file's message, `Trace.packet`, with its wire type: length-delimited.
pub const PACKET_TAG: u8 = 1 << 3 | 2;

#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    #[prost(message, optional, tag = "1")]
    pub ftrace_events: Option<FtraceEventBundle>,
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "45")]
    pub system_info: Option<SystemInfo>,
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "59")]
    pub trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// Energy of a phone's power rails, as its power statistics have it.
#[derive(Clone, PartialEq, Message)]
pub struct PowerRails {
    #[prost(message, repeated, tag = "1")]
    pub rail_descriptor: Vec<RailDescriptor>,
    #[prost(message, repeated, tag = "2")]
    pub energy_data: Vec<EnergyData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RailDescriptor {
    #[prost(uint32, optional, tag = "1")]
    pub index: Option<u32>,
    #[prost(string, optional, tag = "2")]
    pub rail_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub subsys_name: Option<String>,
}

/// `timestamp_ms` is on CLOCK_BOOTTIME, `energy` in uWs since boot.
#[derive(Clone, PartialEq, Message)]
pub struct EnergyData {
    #[prost(uint32, optional, tag = "1")]
    pub index: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub timestamp_ms: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub energy: Option<u64>,
}

/// `ProcessTree.Thread`.
#[derive(Clone, PartialEq, Message)]
pub struct TreeThread {
    #[prost(int32, optional, tag = "1")]
    pub tid: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub name: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "3")]
    pub tgid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TracePacketDefaults {
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub primary_trace_clock: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub utsname: Option<Utsname>,
    #[prost(uint32, optional, tag = "6")]
    pub page_size: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Utsname {
    #[prost(string, optional, tag = "1")]
    pub sysname: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub release: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// Empty: what is counted has its name, and no unit of Perfetto's.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {}

#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub pid: Option<u32>,
    #[prost(oneof = "Ftrace", tags = "3, 4, 11, 13, 17, 20, 45, 97, 114, 125, 126, 235, 236, 239, 327")]
    pub event: Option<Ftrace>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Ftrace {
    #[prost(message, tag = "3")]
    Print(Print),
    #[prost(message, tag = "4")]
    SchedSwitch(SchedSwitch),
    #[prost(message, tag = "11")]
    CpuFrequency(CpuState),
    #[prost(message, tag = "13")]
    CpuIdle(CpuState),
    #[prost(message, tag = "17")]
    SchedWakeup(SchedWaking),
    #[prost(message, tag = "20")]
    SchedWaking(SchedWaking),
    #[prost(message, tag = "45")]
    BlockRqIssue(BlockRequest),
    #[prost(message, tag = "97")]
    MmFilemapAddToPageCache(MmFilemapAddToPageCache),
    #[prost(message, tag = "114")]
    SchedWakeupNew(SchedWaking),
    #[prost(message, tag = "125")]
    BlockRqComplete(BlockRequest),
    #[prost(message, tag = "126")]
    BlockRqInsert(BlockRequest),
    #[prost(message, tag = "235")]
    TaskNewtask(TaskNewtask),
    #[prost(message, tag = "236")]
    TaskRename(TaskRename),
    #[prost(message, tag = "239")]
    SchedProcessFork(SchedProcessFork),
    #[prost(message, tag = "327")]
    Generic(Generic),
}

#[derive(Clone, PartialEq, Message)]
pub struct Print {
    #[prost(bytes = "vec", optional, tag = "2")]
    pub buf: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedSwitch {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub prev_comm: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "2")]
    pub prev_pid: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub prev_state: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub next_comm: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "6")]
    pub next_pid: Option<i32>,
}

/// Of a frequency in kHz, or of an idle state.
#[derive(Clone, PartialEq, Message)]
pub struct CpuState {
    #[prost(uint32, optional, tag = "1")]
    pub state: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub cpu_id: Option<u32>,
}

/// Also of `sched_wakeup` and `sched_wakeup_new`.
#[derive(Clone, PartialEq, Message)]
pub struct SchedWaking {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub comm: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
}

/// Of `block_rq_issue`, `block_rq_insert` and `block_rq_complete`. `dev` is a device's number as programs see it, not
/// as the kernel's own text has it: [`device`] and [`kernels_device`].
#[derive(Clone, PartialEq, Message)]
pub struct BlockRequest {
    #[prost(uint64, optional, tag = "1")]
    pub dev: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub sector: Option<u64>,
    #[prost(uint32, optional, tag = "3")]
    pub nr_sector: Option<u32>,
    #[prost(string, optional, tag = "5")]
    pub rwbs: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MmFilemapAddToPageCache {
    #[prost(uint64, optional, tag = "2")]
    pub i_ino: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub index: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub s_dev: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TaskNewtask {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub comm: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TaskRename {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub newcomm: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessFork {
    #[prost(int32, optional, tag = "2")]
    pub parent_pid: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub child_pid: Option<i32>,
}

/// An event that the schema does not know.
#[derive(Clone, PartialEq, Message)]
pub struct Generic {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub event_name: Option<Vec<u8>>,
}

/// A device's number as `makedev` of programs makes it, from major << 20 | minor.
pub fn device(of: u32) -> u64 {
    let (major, minor) = (u64::from(of >> 20), u64::from(of & 0xf_ffff));
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12
}

/// A device's number as major << 20 | minor, from that of programs; `None` of one that no kernel has.
pub fn kernels_device(of: u64) -> Option<u32> {
    let major = (of >> 8) & 0xfff | (of >> 32) & 0xffff_f000;
    let minor = of & 0xff | (of >> 12) & 0xffff_ff00;
    (major < 1 << 12 && minor < 1 << 20).then_some((major << 20 | minor) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rustix's are the C library's, which are what programs use.
    #[test]
    fn devices_are_numbered_as_programs_have_them() {
        for (major, minor) in [(0, 0), (8, 0), (179, 42), (254, 255), (259, 256), (4095, 0xf_ffff), (1, 0x1_2345)] {
            let kernels = major << 20 | minor;
            assert_eq!(device(kernels), rustix::fs::makedev(major, minor), "{major}:{minor}");
            assert_eq!(kernels_device(rustix::fs::makedev(major, minor)), Some(kernels), "{major}:{minor}");
        }
        assert_eq!(kernels_device(rustix::fs::makedev(4096, 0)), None);
        assert_eq!(kernels_device(rustix::fs::makedev(0, 1 << 20)), None);
    }
}
