//! When to dial another host, when to wait, and when to give it up. Pure.
//!
//! Of two hosts the one that joined later dials: it could reach the cluster, so it can reach the other, also
//! from behind an address translation. The other one *knocks*: it has the later one told, through the head,
//! that it is wanted.
//!
//! Liveness is what is heard. Both ends say something at least every [`Timing::ping`]. A connection on
//! which nothing was heard for half of [`Timing::silence`] is taken down, in case only it is broken; a host
//! of which nothing was heard for all of it is dead. If its system says that nobody listens there any more,
//! an eighth of it is enough. A host that was never heard has [`FIRST`] times as long: greetings take several
//! ways there and back.
//!
//! On a long way a packet that is lost is missed for longer, and it takes longer to make another connection:
//! the limits grow with the way there and back, as the system measures it ([`Timing::slack`]).
//!
//! The head may be started again: it is dialed for as long as the others have patience, whatever its system
//! says meanwhile.

use std::time::Duration;

/// Nanoseconds on the clock of this host.
pub type Nanos = u64;

/// A host that was never heard may take so many times the silence of one that was.
const FIRST: Nanos = 5;
/// So many ways there and back more are given to those who are far: for a packet that is lost again and again,
/// and for another connection then.
const ROUND_TRIPS: Nanos = 16;

/// At most half of what there is, so that a sum does not overflow.
pub(crate) fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX).min(Nanos::MAX / 2)
}

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Of a host from which nothing was heard for so long, the end is assumed.
    pub silence: Nanos,
    /// Longest pause between two things that are said.
    pub ping: Nanos,
    /// A handshake that takes longer has failed.
    pub handshake: Nanos,
    /// Pause after the first dial that failed; doubles up to `ping`.
    pub retry: Nanos,
}

impl Default for Timing {
    /// A silent host is dead after 2 s.
    fn default() -> Self {
        Self::for_silence(2_000_000_000)
    }
}

impl Timing {
    /// All in proportion to the time after which a silent host is dead.
    #[must_use]
    pub const fn for_silence(silence: Nanos) -> Self {
        Self { silence, ping: silence / 8, handshake: silence / 2, retry: silence / 100 }
    }

    /// What is added to [`Self::silence`] on a way that takes so long there and back; half of it to
    /// [`Self::handshake`]. Nothing up to a twentieth of the silence (100 ms).
    #[must_use]
    pub const fn slack(&self, round_trip: Nanos) -> Nanos {
        // One that takes longer is not far but broken.
        let most = self.silence / 2;
        let round_trip = if round_trip < most { round_trip } else { most };
        ROUND_TRIPS * round_trip.saturating_sub(self.silence / 20)
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to it.
    Dial,
    /// Have it told that it is wanted.
    Knock,
    /// See whether anybody listens where it listened: it should be dialing.
    Probe,
    /// Say something.
    Ping,
    /// Take the connection down.
    Drop,
    /// It is dead.
    GiveUp { silent_for: Nanos },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing to say to each other yet.
    Idle,
    /// No connection; next try at the time given.
    Down {
        next: Nanos,
    },
    /// A dial is on its way.
    Dialing,
    Up {
        last_said: Nanos,
    },
    Dead,
}

/// One other host, as seen from this one.
#[derive(Debug)]
pub struct Peer {
    timing: Timing,
    dials: bool,
    /// The way there and back.
    round_trip: Nanos,
    /// Silence after which it is dead, if it was never heard.
    first: Nanos,
    /// It may return within that time.
    returns: Nanos,
    /// Time after which it is dead if nobody listens there.
    patience_refused: Nanos,
    state: State,
    /// Last sign of life; before there was any, when it was first wanted.
    heard: Nanos,
    /// Before the next dial, should this one fail.
    pause: Nanos,
    /// There was a connection.
    met: bool,
    /// Nobody listens where it listened, since then, whenever it was tried.
    refused: Option<Nanos>,
}

impl Peer {
    /// `dials`: whether it is this end that does.
    #[must_use]
    pub fn new(dials: bool, timing: Timing) -> Self {
        Self {
            timing,
            dials,
            round_trip: 0,
            first: FIRST * timing.silence,
            returns: 0,
            patience_refused: timing.silence / 8,
            state: State::Idle,
            heard: 0,
            pause: timing.retry,
            met: false,
            refused: None,
        }
    }

    /// One that may come back within that time.
    #[must_use]
    pub fn that_may_return(mut self, within: Nanos) -> Self {
        self.first = within.max(self.first);
        self.returns = within;
        self.patience_refused = within.max(self.timing.silence / 8);
        self
    }

    /// It knows of this host, and dials within that time, or it is dead.
    pub fn expect(&mut self, now: Nanos, within: Nanos) {
        self.want(now);
        self.heard = now;
        self.first = within;
    }

    /// The way there and back takes so long.
    pub fn measured(&mut self, round_trip: Nanos) {
        self.round_trip = round_trip;
    }

    pub const fn round_trip(&self) -> Nanos {
        self.round_trip
    }

    /// Silence after which it is dead, wherever it is.
    fn silence(&self) -> Nanos {
        self.timing.silence + self.timing.slack(self.round_trip)
    }

    fn patience(&self) -> Nanos {
        if self.met { self.silence().max(self.returns) } else { self.first }
    }

    /// Whether a connection is there.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Whether it is connected, and has said something lately.
    #[must_use]
    pub fn is_heard(&self, now: Nanos) -> bool {
        self.is_up() && now.saturating_sub(self.heard) <= 2 * (self.timing.ping + self.round_trip)
    }

    /// Whether it is connected, and has missed the time to say something.
    #[must_use]
    pub fn is_late(&self, now: Nanos) -> bool {
        self.is_up() && now.saturating_sub(self.heard) > 2 * self.timing.ping
    }

    #[must_use]
    pub const fn is_dead(&self) -> bool {
        matches!(self.state, State::Dead)
    }

    /// There is something to say to it, or it has knocked.
    pub fn want(&mut self, now: Nanos) {
        match &mut self.state {
            State::Idle => {
                self.heard = now;
                self.state = State::Down { next: now };
            }
            // A knock: it is there, no need to wait for the next try.
            State::Down { next } if self.dials => *next = now.min(*next),
            _ => {}
        }
    }

    /// A connection has proved itself.
    pub fn connected(&mut self, now: Nanos) {
        if self.state != State::Dead {
            self.heard = now;
            self.met = true;
            self.refused = None;
            self.state = State::Up { last_said: now };
        }
    }

    /// The connection has ended, or a dial has failed.
    pub fn disconnected(&mut self, now: Nanos) {
        match self.state {
            // One that was good is made anew at once.
            State::Up { .. } => {
                self.pause = self.timing.retry;
                self.state = State::Down { next: now };
            }
            State::Dialing => {
                self.state = State::Down { next: now + self.pause };
                self.pause = (self.pause * 2).min(self.timing.ping);
            }
            State::Idle | State::Down { .. } | State::Dead => {}
        }
    }

    /// Its system says that nobody listens there. True: that has been so for long enough, its process has
    /// ended. A firewall in between says the same for a moment.
    pub fn refused(&mut self, now: Nanos) -> bool {
        let since = *self.refused.get_or_insert(now);
        if now.saturating_sub(since) < self.patience_refused {
            return false;
        }
        self.state = State::Dead;
        true
    }

    /// Somebody listens there.
    pub fn not_refused(&mut self) {
        self.refused = None;
    }

    /// Bytes have arrived from it.
    pub fn heard(&mut self, now: Nanos) {
        self.heard = now;
    }

    /// Something was said to it.
    pub fn said(&mut self, now: Nanos) {
        if let State::Up { last_said } = &mut self.state {
            *last_said = now;
        }
    }

    /// It has said that it leaves, or somebody who decides has declared it dead.
    pub fn gone(&mut self) {
        self.state = State::Dead;
    }

    /// What is to be done by now; to be asked until it is nothing.
    pub fn tick(&mut self, now: Nanos) -> Option<Action> {
        let silent_for = now.saturating_sub(self.heard);
        match self.state {
            State::Idle | State::Dead => return None,
            _ if silent_for >= self.patience() => {
                self.state = State::Dead;
                return Some(Action::GiveUp { silent_for });
            }
            State::Up { .. } if silent_for >= self.silence() / 2 => {
                self.state = State::Down { next: now };
                return Some(Action::Drop);
            }
            State::Up { last_said } if now.saturating_sub(last_said) >= self.timing.ping => {
                self.state = State::Up { last_said: now };
                return Some(Action::Ping);
            }
            State::Down { next } if next <= now && self.dials => {
                self.state = State::Dialing;
                return Some(Action::Dial);
            }
            State::Down { next } if next <= now && self.met => {
                self.state = State::Down { next: now + self.pause };
                self.pause = (self.pause * 2).min(self.timing.ping);
                return Some(Action::Probe);
            }
            State::Down { next } if next <= now => {
                self.state = State::Down { next: now + self.timing.ping };
                return Some(Action::Knock);
            }
            _ => {}
        }
        None
    }

    /// When [`Self::tick`] has something to say.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        let dead = self.heard + self.patience();
        match self.state {
            State::Idle | State::Dead => None,
            State::Dialing => Some(dead),
            State::Down { next } => Some(next.min(dead)),
            State::Up { last_said } => {
                Some((last_said + self.timing.ping).min(self.heard + self.silence() / 2))
            }
        }
    }
}

#[cfg(test)]
mod tests;
