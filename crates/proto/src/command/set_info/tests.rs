//! SET_INFO, with a store that is played by the test.
