//! Reports runs of agents to Spindle.
//!
//! A program says what happens through a [`Client`]; the client keeps the events in a bounded queue and a task sends
//! them every half second, one batch at a time.
//!
//! ```no_run
//! # async fn example() -> Result<(), spindle_client::ClientError> {
//! use spindle_client::{Client, Settings, Tokens};
//!
//! let client = Client::start(Settings::from_env())?;
//! let run = client.agent("clerk").input("Where is my order?").user("ann@example.com").start();
//! let call = run.llm("gpt-4o-mini").input("Where is my order?").start();
//! call.tokens(Tokens::new(812, 203)).end("On its way.");
//! run.end("On its way.");
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Promises
//!
//! - No call waits, panics or fails because of the server: what cannot be kept or sent is dropped and counted, and
//!   [`Client::stats`] says how much of it and why.
//! - Queue, batches, time of a request, attempts and waits are bounded; see [`Settings`].
//! - Every event has an identity of its own, so that sending a batch again changes nothing, and two equal messages are
//!   two.
//!
//! # What it deliberately does not do
//!
//! It keeps nothing on disk: delivery is best effort, and events that are waiting when the process dies are gone.
//! It patches no other library and keeps no state of its own about which run is the current one: a child is made from
//! its parent.
//!
//! Without the feature `transport` there are the types of events alone. That is what the server itself uses where a
//! process run must be durable together with its start: the event goes straight into the log, and not over HTTP.
//!
//! Start reading at `event.rs`, then `queue.rs`, the pure part of the client.

mod event;
mod identity;

#[cfg(feature = "transport")]
mod answer;
#[cfg(feature = "transport")]
mod client;
#[cfg(feature = "transport")]
mod message;
#[cfg(feature = "transport")]
mod queue;
#[cfg(feature = "transport")]
mod run;
#[cfg(feature = "transport")]
mod sender;
#[cfg(feature = "transport")]
mod settings;
#[cfg(feature = "transport")]
mod stats;

pub use event::{ErrorInfo, Event, Kind, Phase, Rating, Role, Timestamp, Tokens, event_name, json};
pub use identity::{event_id, new_id};

#[cfg(feature = "transport")]
pub use client::{Client, ClientError};
#[cfg(feature = "transport")]
pub use message::Message;
#[cfg(feature = "transport")]
pub use run::{Run, RunBuilder};
#[cfg(feature = "transport")]
pub use settings::Settings;
#[cfg(feature = "transport")]
pub use stats::{Dropped, Stats};
