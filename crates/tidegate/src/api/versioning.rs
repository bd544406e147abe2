//! Whether a bucket keeps the versions of its objects.

use super::Store;
use crate::backend::Versioning;
use crate::types::error::{Operation, Result};

impl Store {
    /// Whether the bucket keeps the versions of objects that are overwritten or removed.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store does not say: only S3 and its compatibles do.
    pub async fn versioning(&self) -> Result<Versioning> {
        let operation = Operation::Versioning;
        self.context().refuse_spread(operation, "versions")?;
        let requests = self.context().requests("", self.context().engine().progress.clone());
        let backend = self.context().backend();
        let asked = |attempt| async move { backend.need_admin()?.versioning(attempt).await };
        let answer = requests.send(operation, None, None, asked).await;
        answer.map_err(|failure| failure.into_error(operation, &self.location()))
    }
}
