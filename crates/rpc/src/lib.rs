//! DCE/RPC over named pipes: srvsvc and wkssvc.

#![forbid(unsafe_code)]
