//! FSCTL_VALIDATE_NEGOTIATE_INFO: [MS-SMB2] 3.3.5.15.12.

use model::reject::{Disconnect, Reject};
use wire::Dialect;
use wire::ioctl::{
    FsctlCode, IoctlRequest, ValidateNegotiateInfoRequest, ValidateNegotiateInfoResponse,
};

use super::{ImmediateFsctl, Output, WithoutOpen, output_max};
use crate::command::negotiate::choose_dialect;

/// Repeats the negotiation under a signature. A mismatch ends the connection: a man in the middle
/// made both sides agree on less than they support.
pub(crate) struct ValidateNegotiateInfo;

impl ImmediateFsctl for ValidateNegotiateInfo {
    const CODE: FsctlCode = FsctlCode::VALIDATE_NEGOTIATE_INFO;
    type Scope<'s> = WithoutOpen<'s>;

    fn answer(scope: WithoutOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        let negotiated = scope.connection.negotiated();
        if negotiated.dialect == Dialect::SMB_3_1_1 {
            return Err(Reject::Disconnect(Disconnect::ValidationNotWanted));
        }
        let changed = Reject::Disconnect(Disconnect::NegotiationChanged);
        if output_max(request) < ValidateNegotiateInfoResponse::SIZE {
            return Err(changed);
        }
        let repeated = ValidateNegotiateInfoRequest::decode(request.input).map_err(|_| changed)?;
        let settings = &scope.globals.settings;
        let dialect = choose_dialect(settings, |dialect| repeated.dialects.contains(dialect));
        let agrees = dialect == Some(negotiated.dialect)
            && repeated.guid == negotiated.client_guid
            && repeated.security_mode == negotiated.client_security_mode
            && repeated.capabilities == negotiated.client_capabilities;
        if !agrees {
            return Err(changed);
        }
        let mut bytes = Vec::with_capacity(ValidateNegotiateInfoResponse::SIZE);
        ValidateNegotiateInfoResponse {
            capabilities: negotiated.server_capabilities,
            guid: settings.server_guid,
            security_mode: negotiated.server_security_mode,
            dialect: negotiated.dialect,
        }
        .encode(&mut bytes);
        Ok(Output::new(bytes))
    }
}
