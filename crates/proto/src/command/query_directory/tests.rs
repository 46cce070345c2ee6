//! QUERY_DIRECTORY, with a store that is played by the test.
