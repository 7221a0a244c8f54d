//! What a worker is to take up before the first work of a job.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Paths, variables and packages, opaque to the runtime, which only tells equal ones from others: a worker
/// serves one environment of one job. Empty: what the host's workers are born with.
///
/// It goes along with every demand and actor instead of being looked up: a few hundred bytes, and whoever has
/// work for a worker, has its environment, whoever has died meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Environment(pub Bytes);

impl Environment {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
