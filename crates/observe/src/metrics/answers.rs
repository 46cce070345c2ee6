//! The side that may read the server's state. Of the process for clients it accepts single bytes
//! only, one for each request.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, ensure};

use super::exchange::{Question, encode};
use super::{Shared, lock};

/// Answers until the other side has closed the socket.
///
/// # Errors
/// A request is unknown, or arrives before the answer to the same one.
pub(super) fn serve(shared: &Arc<Shared>, stream: UnixStream) -> anyhow::Result<()> {
    let answers = Arc::new(Mutex::new(stream.try_clone().context("cannot duplicate the socket")?));
    // Workers are asked for the metrics; charts must not wait for one that does not answer.
    let (ask, asked) = sync_channel(1);
    let (slow, slow_answers) = (Arc::clone(shared), Arc::clone(&answers));
    thread::Builder::new()
        .name("figures".to_owned())
        .spawn(move || answer_figures(&slow, &asked, &slow_answers))
        .context("cannot start the answering thread")?;
    // Requests are few, and arrive one by one.
    for byte in BufReader::new(stream).bytes() {
        let Ok(byte) = byte else { break };
        let question = Question::of_byte(byte);
        match question.context("the web process sent an unknown request")? {
            question @ (Question::Charts | Question::Latest) => {
                let answer = encode(question, &shared.points(question == Question::Charts));
                if lock(&answers).write_all(&answer).is_err() {
                    break;
                }
            }
            Question::Figures => {
                ensure!(
                    ask.try_send(()).is_ok(),
                    "the web process repeated a request before its answer"
                );
            }
        }
    }
    Ok(())
}

fn answer_figures(shared: &Shared, asked: &Receiver<()>, answers: &Mutex<UnixStream>) {
    for () in asked {
        let answer = encode(Question::Figures, &shared.figures());
        // The other side is gone; the reading thread notices too.
        let _: io::Result<()> = lock(answers).write_all(&answer);
    }
}
