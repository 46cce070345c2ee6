//! The side that may look at the server. It takes nothing of the other side for granted but bytes, each of
//! which is a question.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, ensure};

use super::exchange::{Question, encode};
use super::{Shared, lock};

/// Answers until the other side is gone.
///
/// # Errors
/// It asks for what there is not, or before it was answered.
pub(super) fn serve(shared: &Arc<Shared>, stream: UnixStream) -> anyhow::Result<()> {
    let answers = Arc::new(Mutex::new(stream.try_clone().context("no descriptors are left")?));
    // Workers are asked for it, and the page need not wait for those that do not answer.
    let (ask, asked) = sync_channel(1);
    let (slow, slow_answers) = (Arc::clone(shared), Arc::clone(&answers));
    thread::Builder::new()
        .name("figures".to_owned())
        .spawn(move || answer_figures(&slow, &asked, &slow_answers))
        .context("no thread to answer")?;
    // Questions are few, and come one by one.
    for byte in BufReader::new(stream).bytes() {
        let Ok(byte) = byte else { break };
        match Question::of_byte(byte)
            .context("the process for visitors asks for nothing we know")?
        {
            Question::Charts => {
                let answer = encode(Question::Charts, &shared.charts());
                if lock(&answers).write_all(&answer).is_err() {
                    break;
                }
            }
            Question::Figures => {
                ensure!(ask.try_send(()).is_ok(), "the process for visitors asks without end");
            }
        }
    }
    Ok(())
}

fn answer_figures(shared: &Shared, asked: &Receiver<()>, answers: &Mutex<UnixStream>) {
    for () in asked {
        let answer = encode(Question::Figures, &shared.figures());
        // The other side is gone, and whoever reads hears of it.
        let _: io::Result<()> = lock(answers).write_all(&answer);
    }
}
