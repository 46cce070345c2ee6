//! A list of create contexts.
#![no_main]

use dtyp::fscc::FullEaList;
use libfuzzer_sys::fuzz_target;
use wire::create_context::{
    AllocationSize, AppInstanceId, AppInstanceVersion, CreateContextList, CreateContexts,
    DurableHandleReconnect, DurableHandleReconnectV2, DurableHandleRequest, DurableHandleRequestV2,
    DurableHandleResponseV2, ExtendedAttributes, LeaseContext, PosixRequest, PosixResponse,
    QueryMaximalAccessRequest, QueryMaximalAccessResponse, QueryOnDiskIdResponse,
    SecurityDescriptor, TimewarpToken,
};

fuzz_target!(|input: &[u8]| {
    let Ok(contexts) = CreateContexts::parse(input) else { return };
    let mut again = CreateContextList::new();
    for context in contexts.iter() {
        again.push_raw(context.name, context.data);
        let _ = context.read::<AllocationSize>();
        let _ = context.read::<AppInstanceId>();
        let _ = context.read::<AppInstanceVersion>();
        let _ = context.read::<DurableHandleReconnect>();
        let _ = context.read::<DurableHandleReconnectV2>();
        let _ = context.read::<DurableHandleRequest>();
        let _ = context.read::<DurableHandleRequestV2>();
        let _ = context.read::<DurableHandleResponseV2>();
        let _ = context.read::<LeaseContext>();
        let _ = context.read::<PosixRequest>();
        let _ = context.read::<PosixResponse>();
        let _ = context.read::<QueryMaximalAccessRequest>();
        let _ = context.read::<QueryMaximalAccessResponse>();
        let _ = context.read::<QueryOnDiskIdResponse>();
        let _ = context.read::<SecurityDescriptor<'_>>();
        let _ = context.read::<TimewarpToken>();
        if let Ok(attributes) = context.read::<ExtendedAttributes<'_>>() {
            FullEaList(attributes.entries).iter().take_while(Result::is_ok).for_each(drop);
        }
    }
    assert!(contexts.iter().eq(again.contexts().iter()), "what we encode reads alike");
});
