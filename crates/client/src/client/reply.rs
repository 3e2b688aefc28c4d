//! What comes back for a request.
//!
//! | state | what ends the reply |
//! |---|---|
//! | nothing cancelled | the last packet of the message |
//! | attention sent | the DONE that acknowledges it, in this message or a later one |

use super::{Client, ClientError, Result};
use daruma_tds::TdsVersion;
use daruma_tds::packet::PacketType;
use daruma_tds::token::{Column, Done, ReturnValue, ServerMessage, Token, TokenDecoder};
use daruma_value::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

/// One thing a reply says. What concerns the connection alone is kept from the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A result begins.
    Columns(Arc<[Column]>),
    Row(Vec<Value>),
    /// PRINT, information or error, by its class.
    Message(ServerMessage),
    /// A statement or procedure has ended; `Done::count` is the number of rows.
    Done(Done),
    ReturnStatus(i32),
    ReturnValue(ReturnValue),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attention {
    NotSent,
    Cancelled,
    TimedOut { seconds: u64 },
}

#[derive(Debug)]
pub(super) struct ReplyState {
    decoder: TokenDecoder,
    deadline: Option<(Instant, Duration)>,
    attention: Attention,
    acknowledged: bool,
}

impl ReplyState {
    /// A reply of which nothing has been read; `timeout` counts from now.
    pub fn new(version: TdsVersion, timeout: Option<Duration>) -> ReplyState {
        let deadline = timeout.map(|timeout| (Instant::now() + timeout, timeout));
        ReplyState {
            decoder: TokenDecoder::new(version),
            deadline,
            attention: Attention::NotSent,
            acknowledged: false,
        }
    }
}

/// A reply being read. Pull events until `None`.
pub struct Reply<'a> {
    client: &'a mut Client,
}

impl<'a> Reply<'a> {
    pub(super) fn new(client: &'a mut Client) -> Reply<'a> {
        Reply { client }
    }

    /// The next event; `None` at the end. An error that is not fatal is the end too.
    pub fn next_event(&mut self) -> Result<Option<Event>> {
        loop {
            match self.poll_event()? {
                Poll::Ready(event) => return Ok(event),
                Poll::Pending => {
                    let fed = self.feed();
                    if fed.is_err() {
                        self.forget();
                    }
                    fed?;
                }
            }
        }
    }

    /// The next event as far as it has come already: `Pending` where [`Reply::next_event`] would wait for the server.
    pub fn poll_event(&mut self) -> Result<Poll<Option<Event>>> {
        let event = self.pull();
        if !matches!(event, Ok(Poll::Pending | Poll::Ready(Some(_)))) {
            self.forget();
        }
        event
    }

    /// The reply has been read.
    fn forget(&mut self) {
        self.client.reply = None;
        self.client.cancel.store(false, Ordering::Relaxed);
    }

    /// Reads away the rest.
    pub fn drain(&mut self) -> Result<()> {
        while self.next_event()?.is_some() {}
        Ok(())
    }

    /// Asks the server to stop; the reply has to be read to its end all the same.
    pub fn cancel(&mut self) -> Result<()> {
        self.attention(Attention::Cancelled)
    }

    fn attention(&mut self, reason: Attention) -> Result<()> {
        match &mut self.client.reply {
            Some(state) if state.attention == Attention::NotSent => state.attention = reason,
            _ => return Ok(()),
        }
        self.client.send(PacketType::Attention, &[])
    }

    fn pull(&mut self) -> Result<Poll<Option<Event>>> {
        loop {
            let Some(state) = &mut self.client.reply else {
                return Ok(Poll::Ready(None));
            };
            match state.decoder.next_token()? {
                Some(token) => {
                    if let Some(event) = self.take(token) {
                        return Ok(Poll::Ready(Some(event)));
                    }
                }
                None if state.decoder.is_finished() => match self.end_of_message()? {
                    true => return Ok(Poll::Ready(None)),
                    false if self.feed_at_hand()? => {}
                    false => return Ok(Poll::Pending),
                },
                None if self.feed_at_hand()? => {}
                None => return Ok(Poll::Pending),
            }
        }
    }

    fn take(&mut self, token: Token) -> Option<Event> {
        let cancelled = self
            .client
            .reply
            .as_ref()
            .is_some_and(|state| state.attention != Attention::NotSent);
        match token {
            // What was under way when the attention went out interests nobody any more.
            Token::Columns(_) | Token::Row(_) if cancelled => None,
            Token::Columns(columns) => Some(Event::Columns(columns)),
            Token::Row(row) => Some(Event::Row(row)),
            Token::Error(message) | Token::Info(message) => Some(Event::Message(message)),
            Token::Done(done) if done.is_attention() => {
                if let Some(state) = &mut self.client.reply {
                    state.acknowledged = true;
                }
                None
            }
            Token::Done(_) if cancelled => None,
            Token::Done(done) => Some(Event::Done(done)),
            Token::ReturnStatus(status) => Some(Event::ReturnStatus(status)),
            Token::ReturnValue(value) => Some(Event::ReturnValue(value)),
            Token::EnvChange(change) => {
                self.client.note(&change);
                None
            }
            _ => None,
        }
    }

    /// Is the reply over with the message? After an attention it is not, until the server has acknowledged it.
    fn end_of_message(&mut self) -> Result<bool> {
        let version = self.client.version;
        let Some(state) = &mut self.client.reply else {
            return Ok(true);
        };
        match (state.attention, state.acknowledged) {
            (Attention::NotSent, _) => Ok(true),
            (_, false) => {
                state.decoder = TokenDecoder::new(version);
                Ok(false)
            }
            (Attention::Cancelled, true) => Err(ClientError::Cancelled),
            (Attention::TimedOut { seconds }, true) => Err(ClientError::QueryTimeout { seconds }),
        }
    }

    /// Gives the decoder one more packet, and waits for it.
    fn feed(&mut self) -> Result<()> {
        self.look_around()?;
        while !self.feed_at_hand()? {
            self.client.transport.fill()?;
            self.look_around()?;
        }
        Ok(())
    }

    /// Gives the decoder the next packet, if it has come.
    fn feed_at_hand(&mut self) -> Result<bool> {
        let Some(state) = &mut self.client.reply else {
            return Ok(true);
        };
        let packet = self.client.transport.next_packet()?;
        if let Some(packet) = &packet {
            state.decoder.feed(packet.payload, packet.header.is_last());
        }
        Ok(packet.is_some())
    }

    /// Has someone pressed Ctrl-C, has the time run out? The flag stays set until the reply is over, so that a second
    /// Ctrl-C can be told from the first.
    fn look_around(&mut self) -> Result<()> {
        if self.client.cancel.load(Ordering::Relaxed) {
            return self.attention(Attention::Cancelled);
        }
        match self.client.reply.as_ref().and_then(|state| state.deadline) {
            Some((at, timeout)) if Instant::now() >= at => self.attention(Attention::TimedOut {
                seconds: timeout.as_secs(),
            }),
            _ => Ok(()),
        }
    }
}
