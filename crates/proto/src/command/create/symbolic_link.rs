//! CREATE of a path with a symbolic link that the client must resolve: [MS-SMB2] 2.2.2.2.1.

use dtyp::utf16;
use engine::response::{Response, Step};
use model::connection::Connection;
use model::reject::Reject;
use object::SymbolicLink;
use wire::Dialect;
use wire::error_response::{
    ErrorContext, ErrorId, ErrorResponse, SymbolicLinkError, SymbolicLinkFlags,
};

use crate::command::create::Pending;

/// Makes the response STATUS_STOPPED_ON_SYMLINK with the link's target, in an error context for
/// dialect 3.1.1.
pub(super) fn stopped(connection: &Connection, link: &SymbolicLink) -> Step<Pending> {
    let SymbolicLink { link, unparsed_path } = link;
    let substitute_name = utf16::to_bytes(&link.substitute_name);
    let print_name = utf16::to_bytes(&link.print_name);
    let unparsed = unparsed_path.encode_utf16().count() * 2;
    let mut flags = SymbolicLinkFlags::empty();
    flags.set(SymbolicLinkFlags::RELATIVE, link.is_relative);
    let mut error = Vec::new();
    SymbolicLinkError {
        unparsed_path_length: u16::try_from(unparsed).unwrap_or(u16::MAX),
        flags,
        substitute_name: &substitute_name,
        print_name: &print_name,
    }
    .encode(&mut error);
    let reject = Reject::StoppedOnSymbolicLink;
    let refused = |body| Step::Refused(reject, Response::with_status(reject.status(), &body));
    if connection.negotiated().dialect < Dialect::SMB_3_1_1 {
        return refused(ErrorResponse { error_context_count: 0, error_data: &error });
    }
    let mut contexts = Vec::new();
    ErrorContext { error_id: ErrorId::DEFAULT, error_context_data: &error }
        .encode(&mut contexts, 0);
    refused(ErrorResponse { error_context_count: 1, error_data: &contexts })
}
