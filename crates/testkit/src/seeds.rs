//! Inputs for the fuzzers, recorded from conversations that go well.
