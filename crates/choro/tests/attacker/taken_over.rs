//! A process of the server that acts as an attacker would have it act who has taken it over.
//!
//! No process of the server has a command for that. So this test is a debugger: it stops the main
//! thread where it waits, and has it make system calls with arguments of the test's choice. A
//! filter is noticed by its signal, which the thread never gets, so that one process can try all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use libc::{c_int, c_long, user_regs_struct};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The instruction of a system call.
#[cfg(target_arch = "x86_64")]
const INSTRUCTION: &[u8] = &[0x0f, 0x05];
#[cfg(target_arch = "aarch64")]
const INSTRUCTION: &[u8] = &[0x01, 0x00, 0x00, 0xd4];

/// Instructions begin at multiples of this.
#[cfg(target_arch = "x86_64")]
const ALIGNMENT: usize = 1;
#[cfg(target_arch = "aarch64")]
const ALIGNMENT: usize = 4;

/// Bytes of memory for arguments: more than all attacks use.
const ROOM: usize = 1 << 20;

/// Bytes that the kernel may want together in one page.
const PAGE: usize = 4_096;

/// Results above this are errors.
const ERRORS: i64 = -4_096;

/// Reason why a call of a process, or a request to another one, came to nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// The filter of the process ends it for the call.
    Filtered,
    /// The kernel refused the call.
    Refused(Errno),
    /// Another process of the server refused the request.
    Unheeded,
    /// The process does not live any more.
    Ended,
    /// This machine or kernel lacks the object of the attack.
    Absent(&'static str),
}

/// Result of a system call.
pub(crate) type Answer = Result<u64, Failure>;

/// A process whose main thread obeys this test. It is killed on drop.
#[derive(Debug)]
pub(crate) struct TakenOver {
    pid: Pid,
    /// Registers of the thread when it was stopped.
    registers: user_regs_struct,
    /// Address of an instruction that makes a system call.
    instruction: u64,
    memory: File,
    /// Memory for arguments, and what is used of it.
    room: u64,
    used: usize,
    is_over: bool,
}

impl TakenOver {
    /// Takes a process over; `None` if this test may trace none.
    pub(crate) fn new(pid: u32) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(pid).expect("it is a pid"));
        match ptrace::attach(pid) {
            Err(Errno::EPERM) => return None,
            attached => attached.expect("it lives"),
        }
        waitpid(pid, Some(WaitPidFlag::__WALL)).expect("it stops");
        let registers = ptrace::getregs(pid).expect("it has stopped");
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let memory = memory.expect("it is traced");
        let instruction = find_instruction(pid, &memory, counter(&registers));
        let mut taken =
            Self { pid, registers, instruction, memory, room: 0, used: 0, is_over: false };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let room = [0, ROOM as u64, number(access), number(kind), u64::MAX, 0];
        taken.room = taken.call(libc::SYS_mmap, &room).expect("a worker may have memory");
        Some(taken)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }

    /// Has it make a system call.
    pub(crate) fn call(&mut self, call: c_long, arguments: &[u64]) -> Answer {
        if self.is_over {
            return Err(Failure::Ended);
        }
        let mut registers = self.registers;
        prepare(&mut registers, self.instruction, call, arguments);
        ptrace::setregs(self.pid, registers).expect("it has stopped");
        let registers = loop {
            ptrace::step(self.pid, None).expect("it has stopped");
            match waitpid(self.pid, Some(WaitPidFlag::__WALL)).expect("it is traced") {
                WaitStatus::Stopped(_, Signal::SIGSYS) => return Err(Failure::Filtered),
                WaitStatus::Stopped(..) => {
                    // The trap of a call before, and signals of others, come before this call.
                    let registers = ptrace::getregs(self.pid).expect("it has stopped");
                    if counter(&registers) != self.instruction {
                        break registers;
                    }
                }
                _ => {
                    self.is_over = true;
                    return Err(Failure::Ended);
                }
            }
        };
        match result(&registers).cast_signed() {
            error @ ERRORS..0 => {
                let errno = c_int::try_from(-error).expect("it is small");
                Err(Failure::Refused(Errno::from_raw(errno)))
            }
            value => Ok(value.cast_unsigned()),
        }
    }

    /// Puts bytes into its memory, for good, and returns their address.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> u64 {
        let address = self.reserve(bytes.len());
        self.write(address, bytes);
        address
    }

    /// Puts a path or another text into its memory.
    pub(crate) fn put_text(&mut self, text: &str) -> u64 {
        self.put(&[text.as_bytes(), &[0]].concat())
    }

    /// Returns the address of unused bytes, all zero.
    pub(crate) fn reserve(&mut self, length: usize) -> u64 {
        let start = self.used;
        self.used = (start + length).next_multiple_of(16);
        assert!(self.used <= ROOM, "there is more room");
        self.room + start as u64
    }

    /// Returns the address of a page of its own, all zero.
    pub(crate) fn reserve_page(&mut self) -> u64 {
        self.used = self.used.next_multiple_of(PAGE);
        self.reserve(PAGE)
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, address).expect("it is mapped");
    }

    pub(crate) fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, address).expect("it is mapped");
        bytes
    }

    pub(crate) fn read_u32(&self, address: u64) -> u32 {
        u32::from_le_bytes(self.read(address))
    }

    /// Has it open a file.
    pub(crate) fn open(&mut self, path: &str, flags: c_int) -> Answer {
        let path = self.put_text(path);
        let arguments = [number(libc::AT_FDCWD), path, number(flags), 0o600];
        self.call(libc::SYS_openat, &arguments)
    }

    /// Returns its open descriptors, with the names of their targets.
    pub(crate) fn descriptors(&self) -> Vec<(u64, String)> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("it lives");
        let describe = |entry: io::Result<fs::DirEntry>| {
            let path = entry.ok()?.path();
            let number = path.file_name()?.to_str()?.parse().ok()?;
            Some((number, fs::read_link(path).ok()?.to_string_lossy().into_owned()))
        };
        entries.filter_map(describe).collect()
    }

    /// Whether it has this file in its memory, shared and to write.
    pub(crate) fn has_mapped_to_write(&self, path: &str) -> bool {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).expect("it lives");
        maps.lines().any(|line| line.ends_with(path) && line.contains(" rw-s "))
    }

    /// Lets it go on, and waits for its end, which another process brings about.
    pub(crate) fn wait_for_end(&mut self) {
        let mut signal = None;
        loop {
            // Fails if it was killed meanwhile.
            let _ = ptrace::cont(self.pid, signal);
            match waitpid(self.pid, Some(WaitPidFlag::__WALL)) {
                Ok(WaitStatus::Stopped(_, other)) => signal = Some(other),
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => break,
                Ok(_) => signal = None,
            }
        }
        self.is_over = true;
    }
}

impl Drop for TakenOver {
    fn drop(&mut self) {
        if !self.is_over {
            // Fails if it has ended by itself.
            let _ = kill(self.pid, Signal::SIGKILL);
            self.wait_for_end();
        }
    }
}

/// Returns a number as a register has it.
pub(crate) const fn number(value: c_int) -> u64 {
    (value as i64).cast_unsigned()
}

/// Searches the mapping at `near`, where the thread waits in a call, for such an instruction.
fn find_instruction(pid: Pid, memory: &File, near: u64) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let hexadecimal = |text| u64::from_str_radix(text, 16).expect("an address");
    for line in maps.lines() {
        let (start, rest) = line.split_once('-').expect("a range");
        let (start, end) =
            (hexadecimal(start), hexadecimal(rest.split(' ').next().expect("its end")));
        if (start..end).contains(&near) {
            let mut code = vec![0; usize::try_from(end - start).expect("it fits into memory")];
            memory.read_exact_at(&mut code, start).expect("it is mapped");
            let mut places = code.windows(INSTRUCTION.len()).step_by(ALIGNMENT);
            let found = places.position(|it| it == INSTRUCTION).expect("the thread is in a call");
            return start + (found * ALIGNMENT) as u64;
        }
    }
    panic!("nothing is mapped at {near:#x}");
}

#[cfg(target_arch = "x86_64")]
fn counter(registers: &user_regs_struct) -> u64 {
    registers.rip
}

#[cfg(target_arch = "x86_64")]
fn result(registers: &user_regs_struct) -> u64 {
    registers.rax
}

#[cfg(target_arch = "x86_64")]
fn prepare(registers: &mut user_regs_struct, instruction: u64, call: c_long, arguments: &[u64]) {
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    registers.rip = instruction;
    // The call that it waits in is not to be begun again.
    registers.orig_rax = u64::MAX;
    registers.rax = call.cast_unsigned();
    (registers.rdi, registers.rsi, registers.rdx) = (argument(0), argument(1), argument(2));
    (registers.r10, registers.r8, registers.r9) = (argument(3), argument(4), argument(5));
}

#[cfg(target_arch = "aarch64")]
fn counter(registers: &user_regs_struct) -> u64 {
    registers.pc
}

#[cfg(target_arch = "aarch64")]
fn result(registers: &user_regs_struct) -> u64 {
    registers.regs[0]
}

#[cfg(target_arch = "aarch64")]
fn prepare(registers: &mut user_regs_struct, instruction: u64, call: c_long, arguments: &[u64]) {
    registers.pc = instruction;
    registers.regs[8] = call.cast_unsigned();
    for (index, register) in registers.regs[..6].iter_mut().enumerate() {
        *register = arguments.get(index).copied().unwrap_or(0);
    }
}
