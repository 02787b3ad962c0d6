//! One member of the consumer group: gathers, stores and commits.
//!
//! The [`Machine`] decides; the [`Worker`] executes its actions and answers with what happened.

use std::sync::Arc;
use std::time::Instant;

use chrono::Utc;
use control::{Permit, is_replaced};
use eventlog::{Delivery, Fetch, LogError, Member, Position, Record, StoredRecord};
use tokio::sync::{Mutex, watch};

use crate::config::GROUP;
use crate::dead_letter::{self, Poison};
use crate::dependencies::Shared;
use crate::error::ProcessorError;

use crate::hot::HotRuns;
use crate::known_runs::KnownRuns;
use crate::partitioning;
use crate::step::{self, Sources, decode};
use crate::stop::stopped_by;
use activity::{Activity, COMMITTING, FETCHING, PAUSING};
use appends::Appends;
use leases::Leases;
use machine::{Action, Input, Machine, Settings, StoreOutcome, ToStore};

pub(crate) mod activity;
mod appends;
mod bisection;
mod leases;
mod machine;
mod placing;
mod step_plan;
mod takeovers;

pub(crate) struct Worker {
    shared: Arc<Shared>,
    known: Arc<KnownRuns>,
    hot: HotRuns,
    activity: Activity,
    /// Tells the worker to join again, because nothing is committed.
    rejoins: watch::Receiver<()>,
    stop: watch::Receiver<bool>,
    /// Wakes a worker without work to clear its hot runs; a worker with work sees the generation when a step begins.
    generations: watch::Receiver<u64>,
    /// The generation of the tables when the last step began.
    generation: u64,
    /// The number of partitions that keys are placed by; `None` where records stay in the partition that they were read
    /// from.
    placed_by: Option<u32>,
    member: Option<Box<dyn Member>>,
    /// Held from the beginning of a step to its end.
    permit: Option<Permit>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        known: Arc<KnownRuns>,
        (hot, activity): (HotRuns, Activity),
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            generations: shared.dependencies.barrier.generations(),
            shared,
            known,
            hot,
            rejoins: activity.rejoins(),
            activity,
            stop,
            generation: 0,
            placed_by: None,
            member: None,
            permit: None,
        }
    }

    pub(crate) async fn run(mut self) -> Result<(), ProcessorError> {
        let config = &self.shared.config;
        let settings = Settings {
            batch_bytes: config.batch_bytes,
            batch_wait: config.batch_wait,
            retry_pause_max: config.retry_pause_max,
            poison_stop_records: config.poison_stop_records,
        };
        let (mut machine, mut actions) = Machine::start(settings, Instant::now());
        let mut is_stop_told = false;
        loop {
            let mut answer = None;
            for action in actions {
                if matches!(action, Action::End) {
                    return machine.into_outcome();
                }
                answer = self.execute(action).await;
            }
            let Some(input) = answer else {
                // Every list of actions ends with one that is answered.
                return machine.into_outcome();
            };
            let is_stop = matches!(input, Input::StopRequested);
            if !is_stop && !is_stop_told && *self.stop.borrow() && !machine.is_waiting() {
                is_stop_told = true;
                machine.handle(Input::StopRequested, Instant::now());
            }
            is_stop_told |= is_stop;
            actions = machine.handle(input, Instant::now());
        }
    }

    /// Returns the action's answer, if it has one.
    async fn execute(&mut self, action: Action) -> Option<Input> {
        if let Some(does) = wait_name(&action) {
            self.activity.begin(does);
        }
        let input = match action {
            Action::ClearHotRuns => {
                self.hot.clear();
                return None;
            }
            Action::EndStep => {
                self.permit = None;
                return None;
            }
            Action::Leave => {
                if self.activity.does() != FETCHING {
                    tracing::warn!(
                        "partitions were lost in the middle of a step; joining the group again"
                    );
                    self.shared.metrics.lost_steps.inc();
                }
                self.activity.has_none();
                self.member = None;
                return None;
            }
            Action::Warn { failed, error } => {
                tracing::warn!(error = %error, "{failed} failed and is retried");
                return None;
            }
            Action::CountStored(counts) => {
                for (project, events) in counts {
                    let stored_events = &self.shared.metrics.stored_events;
                    stored_events.add(project.as_str(), events);
                }
                return None;
            }
            Action::ObserveStep { events, took } => {
                let metrics = &self.shared.metrics;
                metrics.batch_events.observe(events as f64);
                metrics.batch_seconds.observe(took.as_secs_f64());
                return None;
            }
            Action::End => return None,
            Action::Join => self.join().await,
            Action::Fetch(fetch) => self.fetch(fetch).await,
            Action::ReadEnds => {
                let lag = self.shared.dependencies.log.lag(GROUP).await;
                Input::Ends(lag.unwrap_or_default())
            }
            Action::BeginStep { is_new_owner } => self.begin_step(is_new_owner).await,
            Action::Move(misplaced) => {
                let appends = Appends::new(&self.shared, self.placed_by, &self.stop);
                match appends.move_all(misplaced).await {
                    Ok(moved) => {
                        self.shared.metrics.moved_records.inc_by(moved);
                        Input::Moved
                    }
                    Err(error) => failed(error),
                }
            }
            Action::Store(to_store) => self.store(&to_store).await,
            Action::CheckLease => self.check_lease().await,
            Action::DeadLetter { source, bad } => self.dead_letter(&source, &bad).await,
            Action::Commit(next) => self.commit(next).await,
            Action::AppendSlices(slices) => {
                let appends = Appends::new(&self.shared, self.placed_by, &self.stop);
                match appends.append_again(slices).await {
                    Ok(not_taken) => Input::SlicesAppended { not_taken },
                    Err(error) => failed(error),
                }
            }
            Action::Pause(length) => tokio::select! {
                () = tokio::time::sleep(length) => Input::PauseOver,
                () = stopped_by(&mut self.stop) => Input::StopRequested,
                Ok(()) = self.rejoins.changed() => Input::PartitionsLost,
            },
        };
        Some(input)
    }
}

/// What a worker does during an action that is answered.
fn wait_name(action: &Action) -> Option<&'static str> {
    Some(match action {
        Action::Join => "joining the group",
        Action::Fetch(_) => FETCHING,
        Action::ReadEnds => "reading the ends of its partitions",
        Action::BeginStep { .. } => "waiting for the barrier",
        Action::Move(_) => "moving records to their partitions",
        Action::Store(_) => "storing rows",
        Action::CheckLease => "checking its lease",
        Action::DeadLetter { .. } => "dead-lettering a record",
        Action::Commit(_) => COMMITTING,
        Action::AppendSlices(_) => "appending slices",
        Action::Pause(_) => PAUSING,
        _ => return None,
    })
}

/// Retryable errors were retried until the process stopped, so here they mean that it stops.
fn failed(error: ProcessorError) -> Input {
    match error {
        ProcessorError::PartitionsLost => Input::PartitionsLost,
        ProcessorError::Store(error) if error.is_retryable() => Input::Interrupted,
        ProcessorError::Log(error) if error.is_retryable() => Input::Interrupted,
        error => Input::Failed(error),
    }
}

impl Worker {
    async fn join(&mut self) -> Input {
        match self.shared.dependencies.log.join(GROUP).await {
            Ok(member) => {
                self.member = Some(member);
                self.rejoins.mark_unchanged();
                Input::Joined
            }
            Err(error) => Input::LogFailed(error),
        }
    }

    async fn fetch(&mut self, fetch: Fetch) -> Input {
        let Some(member) = &mut self.member else {
            return Input::PartitionsLost;
        };
        loop {
            tokio::select! {
                delivery = member.next(fetch) => return match delivery {
                    Ok(delivery) => {
                        log_change(&delivery);
                        self.activity.follow(&delivery);
                        Input::Delivered(delivery)
                    }
                    Err(error) => Input::LogFailed(error),
                },
                () = stopped_by(&mut self.stop) => return Input::StopRequested,
                Ok(()) = self.rejoins.changed() => return Input::PartitionsLost,
                Ok(()) = self.generations.changed() => self.hot.clear(),
            }
        }
    }

    /// Waits until steps may begin, then learns which tables were replaced and which runs other processes wrote.
    async fn begin_step(&mut self, is_new_owner: bool) -> Input {
        let barrier = self.shared.dependencies.barrier.clone();
        let permit = tokio::select! {
            // A stop flushes the records in hand, if that needs no wait.
            biased;
            permit = barrier.permit() => permit,
            () = stopped_by(&mut self.stop) => return Input::StopRequested,
        };
        match self.learn(&permit, is_new_owner).await {
            Ok(()) => {
                self.permit = Some(permit);
                Input::StepBegun {
                    placed_by: self.placed_by,
                }
            }
            Err(error) => failed(error),
        }
    }

    async fn learn(&mut self, permit: &Permit, is_new_owner: bool) -> Result<(), ProcessorError> {
        let tables = self.shared.retrying_tables(&self.stop);
        let barrier = &self.shared.dependencies.barrier;
        let is_replaced = is_replaced(self.generation, permit.generation());
        if permit.generation() != self.generation {
            // The tables were replaced: cached runs are not the stored ones.
            self.hot.clear();
        }
        if is_replaced {
            self.known.learn(&tables).await?;
        }
        if barrier.is_shared() && (is_replaced || self.placed_by.is_none()) {
            self.placed_by = Some(partitioning::learn(&self.shared, &tables).await?);
        }
        self.generation = permit.generation();
        if is_new_owner && barrier.is_shared() {
            self.known.catch_up(&tables).await?;
        }
        Ok(())
    }

    async fn check_lease(&mut self) -> Input {
        let Some(member) = &mut self.member else {
            return Input::PartitionsLost;
        };
        match member.lease().await {
            Err(LogError::NotAssigned(_)) => Input::PartitionsLost,
            _ => Input::LeaseHeld,
        }
    }

    async fn store(&mut self, to_store: &ToStore) -> Input {
        let records = &to_store.records[to_store.range.clone()];
        let tables = self.shared.retrying_tables(&self.stop);
        let shared = self.shared.clone();
        let continuations = Appends::new(&shared, self.placed_by, &self.stop);
        let (Some(member), Some(permit)) = (&mut self.member, &self.permit) else {
            return Input::PartitionsLost;
        };
        let leases = Leases {
            member: Mutex::new(member.as_mut()),
            permit,
            began: Instant::now(),
            stop: &self.stop,
            pause_max: shared.config.retry_pause_max,
        };
        let prices = shared.dependencies.prices.borrow().clone();
        let sources = Sources {
            tables: &tables,
            hot: &self.hot,
            known: &self.known,
            prices: &prices,
            metrics: &shared.metrics,
            lease: &leases,
            continuations: &continuations,
            limits: shared.config.limits,
            assume_partial_writes: to_store.assume_partial_writes,
        };
        let now_ms = Utc::now().timestamp_millis();
        match step::store(records, sources, now_ms).await {
            Ok(stored) => Input::Store(StoreOutcome::Stored {
                stored,
                continuations: continuations.take_not_taken(records),
            }),
            Err(ProcessorError::Rejected(error)) => Input::Store(StoreOutcome::Rejected(error)),
            Err(ProcessorError::LeaseExpired) => Input::Store(StoreOutcome::LeaseExpired),
            Err(error) => failed(error),
        }
    }

    /// A crash between the append and the commit leaves a second copy in the dead-letter topic.
    async fn dead_letter(&mut self, source: &StoredRecord, bad: &Poison) -> Input {
        let dependencies = &self.shared.dependencies;
        let now_ms = Utc::now().timestamp_millis();
        let record: Record = dead_letter::of(source, bad, dependencies.log.topic(), now_ms);
        if let Err(error) = dependencies.dead_letters.append(record).await {
            return Input::LogFailed(error);
        }
        tracing::error!(
            log.partition = source.position.partition,
            log.offset = source.position.offset,
            "a record cannot be processed and is dead-lettered"
        );
        let project = decode::header(source).map(|header| header.project);
        let metrics = &self.shared.metrics;
        metrics.dead_lettered(project.as_ref().ok(), bad);
        Input::DeadLettered
    }

    async fn commit(&mut self, next: Position) -> Input {
        let Some(member) = &mut self.member else {
            return Input::PartitionsLost;
        };
        let committed = tokio::select! {
            committed = member.commit(next.partition, next.offset) => committed,
            Ok(()) = self.rejoins.changed() => return Input::PartitionsLost,
        };
        match committed {
            Ok(()) => {
                // An order to join again from before this commit is outdated.
                self.rejoins.mark_unchanged();
                Input::Committed
            }
            Err(error) => Input::LogFailed(error),
        }
    }
}

fn log_change(delivery: &Delivery) {
    match delivery {
        Delivery::Assigned(positions) => tracing::debug!(log.positions = ?positions, "assigned"),
        Delivery::Revoked(partitions) | Delivery::Lost(partitions) => {
            tracing::debug!(log.partitions = ?partitions, "no longer assigned");
        }
        _ => {}
    }
}
