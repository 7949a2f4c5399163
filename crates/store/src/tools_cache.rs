//! The decoded tools of executors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::{ExecutorTools, QueueKeys, ToolRequirement};

use crate::StoreError;
use crate::document::decode_tools;

/// How many different tools the cache keeps. Executors that are set up in the same way have the same ones.
const MAX_CACHED_TOOLS: usize = 256;

/// The tools of an executor, as a claim uses them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DecodedTools {
    pub(crate) tools: Arc<ExecutorTools>,
    pub(crate) queue_keys: QueueKeys,
}

impl DecodedTools {
    pub(crate) fn satisfy(&self, required: &ToolRequirement) -> bool {
        match required.queue_key() {
            Some(key) => self.queue_keys.contains(&key),
            None => true,
        }
    }
}

impl From<Arc<ExecutorTools>> for DecodedTools {
    fn from(tools: Arc<ExecutorTools>) -> DecodedTools {
        DecodedTools {
            queue_keys: tools.queue_keys(),
            tools,
        }
    }
}

/// A store's cache of the tools that executors have reported, by their encoded form. It saves most claims and lists of
/// executors from decoding them.
#[derive(Debug, Default)]
pub(crate) struct ToolsCache(Mutex<HashMap<Vec<u8>, Arc<DecodedTools>>>);

impl ToolsCache {
    pub(crate) fn decode(&self, document: &[u8]) -> Result<Arc<DecodedTools>, StoreError> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tools) = cached.get(document) {
            return Ok(tools.clone());
        }
        let tools = Arc::new(DecodedTools::from(Arc::new(decode_tools(document)?)));
        if cached.len() >= MAX_CACHED_TOOLS {
            cached.clear();
        }
        cached.insert(document.to_vec(), tools.clone());
        Ok(tools)
    }
}

#[cfg(test)]
mod tests {
    use model::{OfferedRoot, RootName};

    use super::*;
    use crate::document::encode_tools;

    #[test]
    fn equal_tools_are_decoded_once_and_few_are_kept() {
        let cache = ToolsCache::default();
        let encoded = |number: usize| {
            let name = RootName::new(format!("root-{number}")).unwrap();
            let tools = ExecutorTools::new(vec![], vec![OfferedRoot { name, sha256: None }]);
            encode_tools(&tools).unwrap()
        };
        let first = cache.decode(&encoded(0)).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.decode(&encoded(0)).unwrap()));
        assert_eq!(first.queue_keys.of_steps(), ["root-0/"]);
        assert!(first.satisfy(&"root-0/".parse().unwrap()) && first.satisfy(&ToolRequirement::default()));
        assert!(!first.satisfy(&"root-1/".parse().unwrap()));
        for number in 0..3 * MAX_CACHED_TOOLS {
            cache.decode(&encoded(number)).unwrap();
            assert!(cache.0.lock().unwrap().len() <= MAX_CACHED_TOOLS);
        }
        assert!(cache.decode(b"").is_err());
    }
}
