//! Opens the segments of a folder: existing, missing and damaged ones, and the one to continue with.

use std::sync::Arc;

use super::config::EmbeddedConfig;
use super::cursors::Committed;
use super::gaps::{self, Extent, Loss, Noted};
use super::segment::Segment;
use super::store::{self, Surroundings};
use crate::LogError;

/// Suffix of a damaged file that is kept and not read.
const ASIDE: &str = ".damaged";

/// The segments of a log, oldest first; the last one is written to.
pub(super) struct Opened {
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) losses: Vec<Loss>,
}

/// Opens all segments, and creates one to write to if the last one is not the end of the log.
///
/// # Errors
/// A damaged segment with unprocessed records: a backup may contain it, so an operator has to decide. Missing segments
/// are only reported ([`Opened::losses`]): there is nothing to decide.
pub(super) fn open_segments(
    around: &Surroundings,
    config: &EmbeddedConfig,
    committed: &Committed,
    noted: &Noted,
) -> Result<Opened, LogError> {
    let mut segments = Vec::new();
    let mut damaged = Vec::new();
    for id in ids(around)? {
        match Segment::open(around.clone(), id) {
            Ok(segment) => {
                segment.close_if_idle();
                segments.push(Arc::new(segment));
            }
            Err(LogError::Damaged(why)) => damaged.push(DamagedSegment { id, why }),
            Err(error) => return Err(error),
        }
    }
    let extents: Vec<Extent> = segments.iter().map(|segment| segment.extent()).collect();
    // A damaged file proves its number as well as a record of it.
    let newest = noted.newest.max(damaged.last().map(|segment| segment.id));
    let noted = Noted {
        newest,
        ended: noted.ended.clone(),
    };
    let losses = gaps::find(&extents, &floor(committed, config.partitions), &noted);
    for segment in damaged {
        set_aside(around, config, segment, &losses)?;
    }
    for loss in &losses {
        let records = loss.records().unwrap_or(1);
        around.metrics.lost_records.inc_by(records);
        tracing::error!(
            log.folder = %config.folder.display(), log.lost_records = records,
            "{loss}; restore the data folder from a backup, or accept that they are lost: processing goes on behind them"
        );
    }
    let ended = segments.last().map(|segment| segment.ends());
    // If segments were removed by hand, offsets must still not be assigned twice.
    let mut next = vec![0; config.partitions as usize];
    let known = ended.iter().chain(&noted.ended).chain(committed.values());
    for offsets in known {
        for (next, known) in next.iter_mut().zip(offsets) {
            *next = (*next).max(*known);
        }
    }
    let last_id = segments.last().map(|segment| segment.id);
    if last_id < newest || ended.as_ref() != Some(&next) {
        let id = last_id.max(newest).map_or(0, |id| id + 1);
        let segment = Segment::create(around.clone(), id, next.clone(), next)?;
        segments.push(Arc::new(segment));
    }
    Ok(Opened { segments, losses })
}

/// Numbers of the existing segments. Unfinished files hold nothing, and are removed.
fn ids(around: &Surroundings) -> Result<Vec<u64>, LogError> {
    let names = around
        .disk
        .list()
        .map_err(|error| store::log_error(error.into()))?;
    for name in names
        .iter()
        .filter(|name| name.ends_with(store::UNFINISHED))
    {
        let _ = around.disk.remove(name);
    }
    let mut ids: Vec<u64> = names.iter().filter_map(|n| Segment::id_of(n)).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// By partition, the lowest commit of all groups.
fn floor(committed: &Committed, partitions: u32) -> Vec<u64> {
    let lowest = (0..partitions as usize).map(|partition| {
        let offsets = committed.values();
        let offsets = offsets.filter_map(|offsets| offsets.get(partition));
        offsets.min().copied().unwrap_or(0)
    });
    lowest.collect()
}

#[derive(Debug)]
struct DamagedSegment {
    id: u64,
    why: String,
}

/// Keeps a damaged segment under another name if everything in it was processed; otherwise fails with instructions.
fn set_aside(
    around: &Surroundings,
    config: &EmbeddedConfig,
    damaged: DamagedSegment,
    losses: &[Loss],
) -> Result<(), LogError> {
    let DamagedSegment { id, why } = damaged;
    let name = Segment::file_name(id);
    let path = config.folder.join(&name);
    let path = path.display();
    if let Some(loss) = losses.iter().find(|loss| loss.segments.contains(&id)) {
        let records = match loss.records() {
            Some(records) => format!(
                "up to {records} accepted records that were not processed: {}",
                loss.places()
            ),
            None => "accepted records that were not processed, how many is not known".to_owned(),
        };
        return Err(LogError::Damaged(format!(
            "the file {path} cannot be read ({why}), and holds {records}; restore it from a backup, or give these \
             records up: move it away with `mv {path} {path}{ASIDE}` and start again"
        )));
    }
    let renamed = around.disk.rename(&name, &format!("{name}{ASIDE}"));
    renamed
        .and_then(|()| around.disk.sync())
        .map_err(|error| store::log_error(error.into()))?;
    tracing::warn!(
        log.segment = id,
        reason = why,
        "a damaged segment was set aside as {path}{ASIDE}: everything in it was processed"
    );
    Ok(())
}
