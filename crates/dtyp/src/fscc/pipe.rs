//! Information classes of named pipes: [MS-FSCC] 2.4.37 to 2.4.39.

use super::field::fixed;

fixed! {
    /// [MS-FSCC] 2.4.37.
    FilePipeInformation[8] {
        /// ReadMode: 0 bytes, 1 messages.
        read_mode: u32,
        /// CompletionMode: 0 waits, 1 does not.
        completion_mode: u32,
    }

    /// [MS-FSCC] 2.4.38.
    FilePipeLocalInformation[40] {
        /// NamedPipeType: 0 bytes, 1 messages.
        named_pipe_type: u32,
        /// NamedPipeConfiguration: 0 inbound, 1 outbound, 2 both.
        named_pipe_configuration: u32,
        /// MaximumInstances.
        maximum_instances: u32,
        /// CurrentInstances.
        current_instances: u32,
        /// InboundQuota, in bytes.
        inbound_quota: u32,
        /// ReadDataAvailable, in bytes.
        read_data_available: u32,
        /// OutboundQuota, in bytes.
        outbound_quota: u32,
        /// WriteQuotaAvailable, in bytes.
        write_quota_available: u32,
        /// NamedPipeState: 1 disconnected, 2 listening, 3 connected, 4 closing.
        named_pipe_state: u32,
        /// NamedPipeEnd: 0 client, 1 server.
        named_pipe_end: u32,
    }

    /// [MS-FSCC] 2.4.39.
    FilePipeRemoteInformation[12] {
        /// CollectDataTime, in 100 ns.
        collect_data_time: u64,
        /// MaximumCollectionCount, in bytes.
        maximum_collection_count: u32,
    }
}
