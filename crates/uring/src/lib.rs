//! The io_uring loop and its fallback.
