//! Probes for bpftrace, perf and SystemTap.
//!
//! A probe is a function of its own, in which there is a `nop` and beside which there is a note that
//! says where that is and in which registers the arguments are:
//! <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>. Whoever attaches adds one to
//! the probe's semaphore; while that is zero the function is not called, and its arguments are not
//! even computed. The note belongs to the section of its function (`SHF_LINK_ORDER`), so that the
//! linker keeps both or none.

/// Makes the module of one probe, with `is_on` and `hit`.
macro_rules! probe {
    ($provider:ident $name:ident($($argument:ident),* ; $time:ident)) => {
        $crate::probe::probe!($provider $name[$($argument)* $time]);
    };
    ($provider:ident $name:ident($($argument:ident),*)) => {
        $crate::probe::probe!($provider $name[$($argument)*]);
    };
    ($provider:ident $name:ident[$first:ident $($rest:ident)*]) => {
        pub(crate) mod $name {
            use std::sync::atomic::{AtomicU16, Ordering};

            /// How many look; the kernel adds to it. Its section is that of the probes' semaphores.
            #[cfg_attr(target_os = "linux", unsafe(link_section = ".probes"))]
            static SEMAPHORE: AtomicU16 = AtomicU16::new(0);

            /// Whether anybody looks.
            #[inline(always)]
            pub(crate) fn is_on() -> bool {
                SEMAPHORE.load(Ordering::Relaxed) != 0
            }

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
        // SAFETY: a `nop`, and a note that is not loaded; nothing is read, written or changed.
        unsafe {
            core::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt,\"o\",@note,{function}",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                // What is linked at an address of its own is not moved: no base is needed.
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
                semaphore = sym SEMAPHORE,
                $first = in(reg) $first,
                $($rest = in(reg) $rest,)*
                options($($option),*)
            );
        }
    };
}

pub(crate) use {note, probe};
