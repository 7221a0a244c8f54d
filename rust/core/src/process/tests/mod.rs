//! Several processes with a perfect network between them, and a controller that does as it is told.
//!
//! - [`net`]: the network: messages in order between two, held back where a test says so; deaths.
//! - [`fake`]: the controller: workers, leases, actors, who watches whom.
//! - [`user`]: what user code does: put, call, reply, let go.
//!
//! Every test ends in [`net::Net::assert_clean`]: nothing is known anywhere, all memory was freed once.

mod actors;
mod arguments;
mod blocks;
mod definitions;
mod departed;
mod fake;
mod handles;
mod leases;
mod legacies;
mod lineage;
mod names;
mod nearness;
mod net;
mod objects;
mod pipeline;
mod random;
mod results;
mod retries;
mod user;
mod waits;
