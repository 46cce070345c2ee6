//! Information classes of named pipes: [MS-FSCC] 2.4.37 to 2.4.39.

use super::field::fixed;

fixed! {
    /// [MS-FSCC] 2.4.37.
    FilePipeInformation[8] {
        /// ReadMode: 0 bytes, 1 messages.
        read_mode: u32,
        /// CompletionMode: 0 blocks, 1 returns at once.
        completion_mode: u32,
    }

    /// [MS-FSCC] 2.4.38.
    FilePipeLocalInformation[40] {
        /// NamedPipeType: 0 bytes, 1 messages.
        named_pipe_type: u32,
        /// NamedPipeConfiguration: 0 inbound, 1 outbound, 2 both.
        named_pipe_configuration: u32,
        /// MaximumInstances: highest number of instances.
        maximum_instances: u32,
        /// CurrentInstances: number of open instances.
        current_instances: u32,
        /// InboundQuota: size of the buffer for data to the server.
        inbound_quota: u32,
        /// ReadDataAvailable: bytes that can be read at once.
        read_data_available: u32,
        /// OutboundQuota: size of the buffer for data to the client.
        outbound_quota: u32,
        /// WriteQuotaAvailable: bytes that can be written at once.
        write_quota_available: u32,
        /// NamedPipeState: 1 disconnected, 2 listening, 3 connected, 4 closing.
        named_pipe_state: u32,
        /// NamedPipeEnd: 0 client, 1 server.
        named_pipe_end: u32,
    }

    /// [MS-FSCC] 2.4.39.
    FilePipeRemoteInformation[12] {
        /// CollectDataTime: longest delay of written data, in 100 ns.
        collect_data_time: u64,
        /// MaximumCollectionCount: bytes that are sent without delay.
        maximum_collection_count: u32,
    }
}
