//! Reports runs of agents to Spindle.
//!
//! A program says what happens through a [`Client`]; the client keeps the events in a bounded queue and a thread sends
//! them every half second, one batch at a time. Dropping the client sends what is left.
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
//! - No call waits, panics or fails because of the server: what cannot be queued or sent is dropped and counted by
//!   reason in [`Client::stats`].
//! - Queue, batches, time of a request, attempts and waits are bounded; see [`Settings`].
//! - Every event has a unique identity, so sending a batch again changes nothing, and two equal messages stay two.
//!
//! # What it deliberately does not do
//!
//! It keeps nothing on disk: delivery is best effort, and queued events are lost when the process dies. It patches no
//! other library and has no notion of a current run: a child is made from its parent.
//!
//! Without the feature `transport` only the types of events remain. The server uses them where a process run must be
//! durable together with its start: the event goes straight into the log, and not over HTTP.
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
mod reporter;
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
pub use client::Client;
#[cfg(feature = "transport")]
pub use message::Message;
#[cfg(feature = "transport")]
pub use reporter::ClientError;
#[cfg(feature = "transport")]
pub use run::{Run, RunBuilder};
#[cfg(feature = "transport")]
pub use settings::Settings;
#[cfg(feature = "transport")]
pub use stats::{Dropped, Stats};
