//! What a worker does with the records in its hand: store, bury, commit.

use std::collections::BTreeMap;
use std::time::Instant;

use chrono::Utc;
use eventlog::{LogError, Member, StoredRecord};
use store::StoreError;
use tokio::sync::Mutex;

use super::Worker;
use super::order::Part;
use crate::ProcessorError;
use crate::batch::Sources;
use crate::dead_letter;
use crate::decode::{self, Poison};
use crate::fence::Leases;
use crate::gate::{Pass, is_replaced};
use crate::patient::{Patient, Pause};
use crate::processor::stopped_by;
use crate::step::{self, Stored};

/// Why a worker leaves its records as they are.
pub(super) enum Halt {
    /// It was told to stop while it waited; they stay in the log.
    Stopped,
    /// They are another member's, from the last commit on.
    Lost,
    /// The store takes no rows of some of them.
    Refused(StoreError),
    /// A person has to look; they stay in the log.
    Failed(ProcessorError),
}

impl From<ProcessorError> for Halt {
    fn from(error: ProcessorError) -> Self {
        match error {
            ProcessorError::Lost => Self::Lost,
            ProcessorError::Refused(error) => Self::Refused(error),
            // All that may pass is waited for, until the word to stop.
            ProcessorError::Store(error) if error.is_retryable() => Self::Stopped,
            ProcessorError::Log(error) if error.is_retryable() => Self::Stopped,
            error => Self::Failed(error),
        }
    }
}

impl Worker {
    /// Stores what the records say, then commits them.
    pub(super) async fn process(
        &mut self,
        member: &mut dyn Member,
        part: Part,
    ) -> Result<(), Halt> {
        let Part {
            mut records,
            mut careful,
            commit,
            is_covered,
            ..
        } = part;
        let started = Instant::now();
        let needs_care = |record| match decode::is_slice(record) {
            true => decode::is_deep(record) || decode::is_moved(record),
            false => decode::is_settle(record) || decode::is_moved(record),
        };
        careful |= records.iter().any(needs_care);
        let (_pass, stored) = loop {
            let pass = self.pass().await?;
            let misplaced = self.misplaced(&mut records);
            self.put_in_place(misplaced).await?;
            match self.store_good(member, &pass, &records, careful).await? {
                Some(stored) => break (pass, stored),
                // What was read of the tables may be old, and some rows may be stored. The records are still in hand.
                None => careful = true,
            }
            self.hot.clear();
        };
        self.count_bad(&records, &stored)?;
        // Whoever lost the partitions meanwhile leaves the letters to the next owner, who finds them too.
        if !stored.poison.is_empty()
            && let Err(LogError::NotAssigned(_)) = member.lease().await
        {
            return Err(Halt::Lost);
        }
        self.bury(&records, &stored.poison).await?;
        let is_committed = self.commit(member, commit).await?;
        self.uncounted.extend(stored.accepted);
        if is_covered || !is_committed {
            self.count_stored(is_committed);
        }
        let metrics = &self.processor.metrics;
        metrics.batch_events.observe(stored.events as f64);
        metrics
            .batch_seconds
            .observe(started.elapsed().as_secs_f64());
        Ok(())
    }

    /// Counts events that are stored; what is not committed is counted by whoever commits it (P4).
    pub(super) fn count_stored(&mut self, is_committed: bool) {
        let stored_events = &self.processor.metrics.stored_events;
        for (project, events) in self.uncounted.drain(..).filter(|_| is_committed) {
            stored_events.add(project.as_str(), events);
        }
    }

    /// Stops the processor when so many records in a row are bad that it is not the records.
    fn count_bad(&mut self, records: &[StoredRecord], stored: &Stored) -> Result<(), Halt> {
        if stored.good_records > 0 {
            self.bad_in_a_row = 0;
        } else {
            self.bad_in_a_row += records.len() as u64;
        }
        match stored.poison.last() {
            Some(last)
                if self.bad_in_a_row >= u64::from(self.processor.config.poison_stop_records) =>
            {
                Err(Halt::Failed(ProcessorError::AllBad {
                    records: self.bad_in_a_row,
                    reason: last.code.as_str().to_owned(),
                }))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn tables(&self) -> Patient {
        Patient {
            processor: self.processor.clone(),
            stop: self.stop.clone(),
        }
    }

    /// Passes the gate, and learns what happened to the tables behind it and while their runs were another process's.
    async fn pass(&mut self) -> Result<Pass, Halt> {
        let gate = self.processor.parts.gate.clone();
        let mut stop = self.stop.clone();
        let pass = tokio::select! {
            pass = gate.pass() => pass,
            () = stopped_by(&mut stop) => return Err(Halt::Stopped),
        };
        let tables = self.tables();
        let learned = if pass.generation() == self.generation {
            Ok(())
        } else {
            // Somebody put other rows in place of those this worker knows.
            self.hot.clear();
            match is_replaced(self.generation, pass.generation()) {
                true => self.known.learn(&tables).await,
                false => Ok(()),
            }
        };
        learned.map_err(ProcessorError::from)?;
        let is_old = is_replaced(self.generation, pass.generation()) || self.placed_by.is_none();
        if is_old && self.processor.parts.gate.is_shared() {
            let learned = self.processor.learn_placing(&tables).await;
            self.placed_by = Some(learned.map_err(ProcessorError::from)?);
        }
        self.generation = pass.generation();
        if std::mem::take(&mut self.is_new_owner) && gate.is_shared() {
            let caught_up = self.known.catch_up(&tables).await;
            caught_up.map_err(ProcessorError::from)?;
        }
        Ok(pass)
    }

    /// Makes rows of the records and stores them; `None` when that lasted longer than its leases and has to be done
    /// anew.
    pub(super) async fn store(
        &mut self,
        member: &mut dyn Member,
        pass: &Pass,
        records: &[StoredRecord],
        careful: bool,
    ) -> Result<Option<Stored>, Halt> {
        let tables = self.tables();
        let processor = &self.processor;
        let leases = Leases {
            member: Mutex::new(member),
            pass,
            began: Instant::now(),
            stop: &self.stop,
            pause_max: processor.config.retry_pause_max,
        };
        let later = self.later();
        let prices = processor.parts.prices.borrow().clone();
        let sources = Sources {
            tables: &tables,
            hot: &self.hot,
            known: &self.known,
            prices: &prices,
            metrics: &processor.metrics,
            fence: &leases,
            later: &later,
            limits: processor.config.limits,
            careful,
        };
        let now_ms = Utc::now().timestamp_millis();
        let mut outcome = step::store(records, sources, now_ms).await;
        while outcome.is_ok() {
            let rest = later.take_refused(records);
            if rest.is_empty() {
                break;
            }
            if *self.stop.borrow() {
                return Err(Halt::Stopped);
            }
            let careful = careful || rest.iter().any(decode::is_deep);
            let sources = Sources { careful, ..sources };
            if let Err(error) = step::store(&rest, sources, now_ms).await {
                outcome = Err(error);
            }
        }
        match outcome {
            Ok(stored) => Ok(Some(stored)),
            Err(ProcessorError::Lapsed) if *self.stop.borrow() => Err(Halt::Stopped),
            Err(ProcessorError::Lapsed) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts what could not be read into the dead letters, durably, before its record is committed (P1), and after the
    /// rest is stored: only a crash between the two makes a second letter of it.
    async fn bury(&mut self, records: &[StoredRecord], poison: &[Poison]) -> Result<(), Halt> {
        let parts = &self.processor.parts;
        for bad in poison {
            let source = &records[bad.record];
            tracing::error!(
                log.partition = source.position.partition,
                log.offset = source.position.offset,
                "a record cannot be processed; it goes to the dead letters"
            );
            let now_ms = Utc::now().timestamp_millis();
            let letter = dead_letter::of(source, bad, parts.log.topic(), now_ms);
            let mut pause = Pause::new(self.processor.config.retry_pause_max);
            while let Err(error) = parts.dead_letters.append(letter.clone()).await {
                if !error.is_retryable() {
                    return Err(ProcessorError::from(error).into());
                }
                tracing::warn!(error = %error, "the dead letters cannot be written for now");
                if !pause.wait(&self.stop).await {
                    return Err(Halt::Stopped);
                }
            }
            let project = decode::header(source).map(|header| header.project);
            self.processor
                .metrics
                .dead_lettered(project.as_ref().ok(), bad);
        }
        Ok(())
    }

    /// Commits; `false` when a partition is another member's by now.
    pub(super) async fn commit(
        &mut self,
        member: &mut dyn Member,
        next: BTreeMap<u32, u64>,
    ) -> Result<bool, Halt> {
        let mut is_whole = true;
        for (partition, offset) in next {
            let mut pause = Pause::new(self.processor.config.retry_pause_max);
            loop {
                match member.commit(partition, offset).await {
                    Ok(()) => break,
                    // Whoever has it now reads the same records again, which changes nothing (P2).
                    Err(LogError::NotAssigned(_)) => {
                        is_whole = false;
                        break;
                    }
                    Err(error) if error.is_retryable() => {
                        tracing::warn!(error = %error, log.partition = partition, "cannot commit for now");
                        if !pause.wait(&self.stop).await {
                            return Err(Halt::Stopped);
                        }
                    }
                    Err(error) => return Err(ProcessorError::from(error).into()),
                }
            }
        }
        Ok(is_whole)
    }
}
