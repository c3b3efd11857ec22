//! Names of what is in traces and not used, by the field numbers of the published schema. What is not here is told of
//! by its number.

/// Events: fields of `FtraceEvent`.
const EVENTS: [(u32, &str); 66] = [
    (12, "cpu_frequency_limits"),
    (14, "clock_enable"),
    (15, "clock_disable"),
    (16, "clock_set_rate"),
    (18, "sched_blocked_reason"),
    (19, "sched_cpu_hotplug"),
    (21, "ipi_entry"),
    (22, "ipi_exit"),
    (23, "ipi_raise"),
    (24, "softirq_entry"),
    (25, "softirq_exit"),
    (26, "softirq_raise"),
    (36, "irq_handler_entry"),
    (37, "irq_handler_exit"),
    (41, "ext4_da_write_begin"),
    (42, "ext4_da_write_end"),
    (43, "ext4_sync_file_enter"),
    (44, "ext4_sync_file_exit"),
    (46, "mm_vmscan_direct_reclaim_begin"),
    (47, "mm_vmscan_direct_reclaim_end"),
    (48, "mm_vmscan_kswapd_wake"),
    (49, "mm_vmscan_kswapd_sleep"),
    (50, "binder_transaction"),
    (51, "binder_transaction_received"),
    (52, "binder_set_priority"),
    (53, "binder_lock"),
    (54, "binder_locked"),
    (55, "binder_unlock"),
    (56, "workqueue_activate_work"),
    (57, "workqueue_execute_end"),
    (58, "workqueue_execute_start"),
    (59, "workqueue_queue_work"),
    (80, "tracing_mark_write of a display"),
    (98, "mm_filemap_delete_from_page_cache"),
    (113, "suspend_resume"),
    (117, "block_bio_complete"),
    (119, "block_bio_queue"),
    (120, "block_bio_remap"),
    (123, "block_plug"),
    (129, "block_rq_requeue"),
    (133, "block_unplug"),
    (219, "ext4_write_begin"),
    (230, "ext4_write_end"),
    (237, "sched_process_exec"),
    (238, "sched_process_exit"),
    (240, "sched_process_free"),
    (241, "sched_process_hang"),
    (242, "sched_process_wait"),
    (255, "f2fs_sync_file_enter"),
    (256, "f2fs_sync_file_exit"),
    (271, "f2fs_write_begin"),
    (273, "f2fs_write_end"),
    (313, "rss_stat"),
    (323, "binder_transaction_alloc_buf"),
    (324, "signal_deliver"),
    (325, "signal_generate"),
    (326, "oom_score_adj_update"),
    (329, "sys_enter"),
    (330, "sys_exit"),
    (332, "gpu_frequency"),
    (340, "gpu_mem_total"),
    (341, "thermal_temperature"),
    (342, "cdev_update"),
    (351, "dma_heap_stat"),
    (359, "rss_stat_throttled"),
    (491, "sched_migrate_task"),
];

/// Packets: fields of `TracePacket`, but for those that say something of the packet itself.
const PACKETS: [(u32, &str); 22] = [
    (2, "process_tree"),
    (4, "inode_file_map"),
    (6, "clock_snapshot"),
    (7, "sys_stats"),
    (9, "process_stats"),
    (11, "track_event"),
    (33, "trace_config"),
    (34, "ftrace_stats"),
    (35, "trace_stats"),
    (36, "synchronization_marker"),
    (38, "battery"),
    (39, "android_log"),
    (40, "power_rails"),
    (43, "process_descriptor"),
    (44, "thread_descriptor"),
    (45, "system_info"),
    (46, "trigger"),
    (47, "packages_list"),
    (60, "track_descriptor"),
    (67, "cpu_info"),
    (69, "service_event"),
    (89, "trace_uuid"),
];

/// The name of an event.
pub(super) fn of_event(field: u32) -> String {
    of(&EVENTS, field, "event")
}

/// The name of a packet.
pub(super) fn of_packet(field: u32) -> String {
    of(&PACKETS, field, "packet")
}

fn of(names: &[(u32, &str)], field: u32, what: &str) -> String {
    match names.binary_search_by_key(&field, |(number, _)| *number) {
        Ok(at) => names[at].1.to_owned(),
        Err(_) => format!("{what} {field} of Perfetto's schema"),
    }
}

/// Fields of `TracePacket` that say something of the packet itself, not what it holds: uid, time, sequence, its flags
/// and state, what was dropped, clock, defaults, and whose it is.
pub(super) fn is_about_packet(field: u32) -> bool {
    [3, 8, 10, 12, 13, 41, 42, 58, 59, 79, 87].contains(&field) || field > 89
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_their_numbers() {
        assert!(EVENTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(PACKETS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!((of_event(12).as_str(), of_event(491).as_str()), ("cpu_frequency_limits", "sched_migrate_task"));
        assert_eq!(
            (of_event(9999).as_str(), of_packet(6).as_str()),
            ("event 9999 of Perfetto's schema", "clock_snapshot")
        );
    }
}
