//! The task of a process that receives control messages and publishes its heartbeats.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eventlog::LogError;
use schemas::control::{ControlMessage, Heartbeat};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::barrier::BarrierDriver;
use crate::channel::ControlChannel;
use crate::members::Members;

/// How often the driver looks at the clock: a fifth of the shortest interval between two heartbeats.
const TICK: Duration = Duration::from_millis(200);
/// A process publishes heartbeats only if it has received every message up to this long ago: one that cannot receive
/// orders must not look alive.
const RECEIVES_WITHIN: Duration = Duration::from_secs(10);
/// Unpublished messages: beyond it the oldest are outdated and dropped (X1).
const UNPUBLISHED_MAX: usize = 16;
/// Time for the last messages of a process.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

type Publishing = Pin<Box<dyn Future<Output = Result<(), LogError>> + Send>>;
type Describe = Box<dyn Fn() -> Heartbeat + Send + Sync>;

/// Keeps the [`Members`] of a process and its barrier current.
pub struct Driver {
    channel: Arc<dyn ControlChannel>,
    members: Members,
    describe: Describe,
    barrier: Option<BarrierDriver>,
    unpublished: VecDeque<ControlMessage>,
    publishing: Option<Publishing>,
}

impl Driver {
    /// `describe` returns the current heartbeat; process, sequence and processor state are set here.
    pub fn new(
        channel: Arc<dyn ControlChannel>,
        members: Members,
        describe: impl Fn() -> Heartbeat + Send + Sync + 'static,
        barrier: Option<BarrierDriver>,
    ) -> Self {
        Self {
            channel,
            members,
            describe: Box::new(describe),
            barrier,
            unpublished: VecDeque::new(),
            publishing: None,
        }
    }

    /// Runs until stopped, which has to be after the last step of this process; then publishes that no other process
    /// has to wait for this one.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut messages = self.channel.subscribe();
        // What was published before is unknown.
        self.receive(ControlMessage::Missed);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                received = messages.recv() => match received {
                    Ok(message) => self.receive(message),
                    Err(RecvError::Lagged(_)) => self.receive(ControlMessage::Missed),
                    Err(RecvError::Closed) => break,
                },
                _ = ticks.tick() => {
                    if let Some(barrier) = &mut self.barrier {
                        self.members.with(|members| barrier.tick(members));
                    }
                }
                () = self.members.hurried() => {}
                () = barrier_event(&mut self.barrier) => {}
                published = done(&mut self.publishing) => {
                    self.publishing = None;
                    if let Err(error) = published {
                        tracing::warn!(error.message = %error, "a control message could not be published; the next one is in a second or two");
                    }
                }
                () = stop.cancelled() => break,
            }
            self.advance();
        }
        self.barrier = None;
        self.unpublished.push_back(self.heartbeat(true));
        let farewell = async {
            if let Some(publishing) = &mut self.publishing {
                let _ = publishing.await;
            }
            for message in &self.unpublished {
                let _ = self.channel.publish(message).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL_MAX, farewell).await;
    }

    fn receive(&mut self, message: ControlMessage) {
        let is_heartbeat = matches!(message, ControlMessage::Heartbeat(_));
        self.members
            .with(|members| match (&mut self.barrier, message) {
                (Some(barrier), message) => barrier.receive(message, members),
                (None, ControlMessage::Heartbeat(heartbeat)) => {
                    members.receive(*heartbeat, Instant::now());
                }
                (None, _) => {}
            });
        if is_heartbeat {
            self.members.count_received();
        }
    }

    fn advance(&mut self) {
        if let Some(barrier) = &mut self.barrier {
            let messages = self.members.with(|members| barrier.advance(members));
            self.unpublished.extend(messages);
        }
        let is_due = self.members.with(|members| members.is_due(Instant::now()));
        if is_due && self.channel.received_until().elapsed() <= RECEIVES_WITHIN {
            let heartbeat = self.heartbeat(false);
            self.unpublished.push_back(heartbeat);
        }
        while self.unpublished.len() > UNPUBLISHED_MAX {
            self.unpublished.pop_front();
        }
        if self.publishing.is_none()
            && let Some(message) = self.unpublished.pop_front()
        {
            let channel = self.channel.clone();
            self.publishing = Some(Box::pin(async move { channel.publish(&message).await }));
        }
    }

    fn heartbeat(&self, is_last: bool) -> ControlMessage {
        let heartbeat = (self.describe)();
        let barrier = self.barrier.as_ref();
        let heartbeat = Heartbeat {
            processor: barrier.map(BarrierDriver::processor_state),
            leaving: heartbeat.leaving || is_last,
            ..heartbeat
        };
        let stamped = self
            .members
            .with(|members| members.stamp(heartbeat, Instant::now()));
        ControlMessage::Heartbeat(Box::new(stamped))
    }
}

async fn barrier_event(barrier: &mut Option<BarrierDriver>) {
    match barrier {
        Some(barrier) => barrier.event().await,
        None => std::future::pending().await,
    }
}

async fn done(publishing: &mut Option<Publishing>) -> Result<(), LogError> {
    match publishing {
        Some(publishing) => publishing.await,
        None => std::future::pending().await,
    }
}
