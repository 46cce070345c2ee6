//! What the protocol engine asks of an object store, and what the store answers: the vocabulary of [MS-FSA]. No I/O.

#![forbid(unsafe_code)]
