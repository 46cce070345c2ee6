//! Probes for bpftrace, perf and SystemTap.
//!
//! A probe is a function with a `nop` and a note that gives the address of the `nop` and the
//! registers of the arguments:
//! <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>. A tool that attaches
//! increments the probe's semaphore. All probes share one semaphore: so a worker tests a single
//! word after each wait, and while that is zero no probe is called, and no argument computed. The
//! note belongs to the section of its function (`SHF_LINK_ORDER`), so that the linker keeps both or
//! none.

use std::sync::atomic::{AtomicU16, Ordering};

/// Number of attached tools at all probes; the kernel counts it, in the section for semaphores.
#[cfg_attr(target_os = "linux", unsafe(link_section = ".probes"))]
pub(crate) static SEMAPHORE: AtomicU16 = AtomicU16::new(0);

/// True while a tool is attached.
#[inline(always)]
pub(crate) fn are_on() -> bool {
    SEMAPHORE.load(Ordering::Relaxed) != 0
}

/// Creates the module of one probe, with `hit`.
macro_rules! probe {
    ($provider:ident $name:ident($($argument:ident),* ; $time:ident)) => {
        $crate::probe::probe!($provider $name[$($argument)* $time]);
    };
    ($provider:ident $name:ident($($argument:ident),*)) => {
        $crate::probe::probe!($provider $name[$($argument)*]);
    };
    ($provider:ident $name:ident[$first:ident $($rest:ident)*]) => {
        pub(crate) mod $name {
            #[cold]
            #[inline(never)]
            pub(crate) fn hit($first: u64 $(, $rest: u64)*) {
                #[cfg(target_arch = "x86_64")]
                $crate::probe::note!(
                    [$provider $name $first $($rest)*]
                    options(att_syntax, readonly, nostack, preserves_flags)
                );
                #[cfg(target_arch = "aarch64")]
                $crate::probe::note!(
                    [$provider $name $first $($rest)*]
                    options(readonly, nostack, preserves_flags)
                );
                #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
                let _ = ($first $(, $rest)*);
            }
        }
    };
}

/// The `nop` and its note, version 3: addresses of probe, base and semaphore, then three texts.
macro_rules! note {
    ([$provider:ident $name:ident $first:ident $($rest:ident)*] options($($option:ident),*)) => {
        // SAFETY: a `nop`, and a note that is not loaded; no memory or register changes.
        unsafe {
            core::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt,\"o\",@note,{function}",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                // Prelink is not used, so no base is needed.
                ".8byte 0",
                ".8byte {semaphore}",
                concat!(".asciz \"", stringify!($provider), "\""),
                concat!(".asciz \"", stringify!($name), "\""),
                concat!(
                    ".asciz \"8@{", stringify!($first), "}",
                    $(" 8@{", stringify!($rest), "}",)* "\""
                ),
                "994: .balign 4",
                ".popsection",
                function = sym hit,
                semaphore = sym $crate::probe::SEMAPHORE,
                $first = in(reg) $first,
                $($rest = in(reg) $rest,)*
                options($($option),*)
            );
        }
    };
}

pub(crate) use {note, probe};
