//! The threads: one for each end of a lane.

use std::sync::Arc;

use raymesh_net::{Body, Lane, LinkError};
use raymesh_wire::HostId;

use super::depot::Depot;

/// Serves a lane until it ends or breaks.
pub fn serve(depot: &Arc<Depot>, id: u64, host: HostId, sends: bool, mut lane: Lane) {
    let ended = lane
        .begin()
        .and_then(|()| if sends { send(depot, host, &mut lane) } else { receive(depot, &mut lane) });
    if sends && ended.is_ok() {
        lane.finish();
    }
    // The other end meets the end of the lane no later than this host hears of it.
    drop(lane);
    depot.lane_over(id, host, sends, ended.is_err());
}

fn send(depot: &Depot, host: HostId, lane: &mut Lane) -> Result<(), LinkError> {
    while let Some(job) = depot.next(host) {
        let sent = match depot.segment.block_bytes(&job.block) {
            Ok(bytes) => {
                if lane.is_encrypted() {
                    // One call instead of a fault for each page; otherwise the pages are not looked at.
                    let _ = depot.segment.populate_for_reading(&job.block);
                }
                let file = depot.segment.block_in_file(&job.block);
                lane.send(job.request.0, job.at, Body { bytes, file: file.ok() })
            }
            // Checked when the consignment was made.
            Err(_) => Err(LinkError::Garbage("a piece that is not in the arena")),
        };
        depot.sent(host, job.request);
        sent?;
    }
    Ok(())
}

fn receive(depot: &Depot, lane: &mut Lane) -> Result<(), LinkError> {
    while let Some(header) = lane.receive()? {
        let Some(claim) = depot.claim(&header) else {
            lane.skip(header.len as usize)?;
            continue;
        };
        if let Some(cold) = claim.cold {
            // Refused for want of memory: then the write itself meets that.
            let _ = depot.segment.populate(cold);
        }
        let read = depot.segment.write_block(&claim.into, |into| lane.read(into));
        let read = read.unwrap_or(Err(LinkError::Garbage("a piece that is not in the arena")));
        depot.landed(claim, read.is_ok());
        read?;
    }
    Ok(())
}
