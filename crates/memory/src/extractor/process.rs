//! Processing of one extraction job: messages, facts, decisions, changes.

use provost_failpoint::failpoint;
use provost_model::ChatRequest;
use serde_json::json;

use super::decide::{self, FactDecision, FactWithCandidates};
use super::extract::{self, ExtractionLimits, Fact};
use super::{ExtractorInner, ExtractorStats};
use crate::MemoryError;
use crate::job::ExtractionJob;
use crate::memory::{NewMemory, Owner};
use crate::service::MemoryUpdate;
use crate::store::{ChangeSet, MemoryChange, SearchQuery};

impl ExtractorInner {
    /// Processes a job: extracts facts, decides about each and stores all changes in one transaction, which also
    /// finishes the job. Nothing is stored before that.
    pub(super) async fn process(&self, job: &ExtractionJob) -> Result<(), MemoryError> {
        let facts = self.extract_facts(job).await?;
        failpoint!("memory.job.extracted");
        let candidates = self.find_candidates(&job.owner, facts).await?;
        let decisions = self.decide(&candidates).await?;
        failpoint!("memory.job.decided");
        let mut stats = ExtractorStats::default();
        let mut changes = Vec::new();
        for (candidate, decision) in candidates.into_iter().zip(decisions) {
            changes.extend(self.change(&job.owner, candidate.fact, decision, &mut stats).await?);
        }
        let changes = ChangeSet { changes, finished_job: Some(job.claim) };
        self.service.store().apply(&job.owner, changes).await?;
        failpoint!("memory.job.applied");
        let mut total = self.stats.lock();
        total.added += stats.added;
        total.updated += stats.updated;
        total.superseded += stats.superseded;
        total.duplicates += stats.duplicates;
        Ok(())
    }

    /// Asks the model for the facts in the messages of a job.
    async fn extract_facts(&self, job: &ExtractionJob) -> Result<Vec<Fact>, MemoryError> {
        let options = &self.options;
        let mut facts: Vec<Fact> = Vec::new();
        for messages in extract::chunks(&job.messages, options.chunk_bytes_max) {
            let limits = ExtractionLimits {
                facts_max: options.facts_max.saturating_sub(facts.len()),
                fact_bytes_max: options.fact_bytes_max.min(crate::memory::TEXT_BYTES_MAX),
            };
            if limits.facts_max == 0 {
                break;
            }
            let instructions = options.instructions.as_deref();
            let request = extract::request(messages, instructions, &options.settings, limits);
            let response = self.complete(request).await?;
            let new = extract::read(&response, &job.session, messages, limits)?;
            let is_new =
                |fact: &Fact| facts.iter().all(|old| !extract::is_same(&old.text, &fact.text));
            let new: Vec<Fact> = new.into_iter().filter(is_new).collect();
            facts.extend(new);
        }
        Ok(facts)
    }

    /// Searches the memories that resemble each fact.
    async fn find_candidates(
        &self,
        owner: &Owner,
        facts: Vec<Fact>,
    ) -> Result<Vec<FactWithCandidates>, MemoryError> {
        let mut found = Vec::with_capacity(facts.len());
        for fact in facts {
            let query = SearchQuery {
                text: fact.text.clone(),
                limit: self.options.candidates,
                threshold: self.options.candidate_score_min,
                ..SearchQuery::default()
            };
            let similar = match self.options.candidates {
                0 => Vec::new(),
                _ => self.service.search(owner, query).await?,
            };
            found.push(FactWithCandidates { fact, similar });
        }
        Ok(found)
    }

    /// Decides what to do with each fact. Asks the model unless every decision is trivial.
    async fn decide(&self, facts: &[FactWithCandidates]) -> Result<Vec<FactDecision>, MemoryError> {
        let response = if facts.iter().all(|fact| fact.decision_without_model().is_some()) {
            None
        } else {
            match self.complete(decide::request(facts, &self.options.settings)).await {
                Ok(response) => Some(response),
                // A retry may succeed. After any other error, adding a duplicate is better than losing a fact.
                Err(error) if error.kind().retryable() => return Err(error),
                Err(error) => {
                    tracing::warn!(error = %error, "facts are added without comparison with stored memories");
                    None
                }
            }
        };
        Ok(decide::read(response.as_deref(), facts, self.options.fact_bytes_max))
    }

    /// Converts a decision into a change, with the embedding of its text. `None` for a duplicate. Counts the change in
    /// `stats`.
    async fn change(
        &self,
        owner: &Owner,
        fact: Fact,
        decision: FactDecision,
        stats: &mut ExtractorStats,
    ) -> Result<Option<MemoryChange>, MemoryError> {
        let Fact { text, category, sources } = fact;
        let metadata = [("source".to_owned(), json!("auto_extract"))].into_iter().collect();
        let new = NewMemory { text, category, metadata, sources, valid_from: None };
        Ok(match decision {
            FactDecision::Duplicate => {
                stats.duplicates += 1;
                None
            }
            FactDecision::Add => {
                stats.added += 1;
                let record = self.service.records(owner, vec![new]).await?.pop();
                record.map(|record| MemoryChange::Add(Box::new(record)))
            }
            FactDecision::Update { id, text } => {
                stats.updated += 1;
                let NewMemory { category, sources, .. } = new;
                let update = MemoryUpdate { text, category, sources, ..MemoryUpdate::default() };
                Some(self.service.update_change(id, update).await?)
            }
            FactDecision::Supersede { id } => {
                stats.superseded += 1;
                Some(self.service.supersede_change(owner, id, new).await?)
            }
        })
    }

    /// Sends a request to the model, records its usage and returns the text of the response.
    async fn complete(&self, request: ChatRequest) -> Result<String, MemoryError> {
        let response = provost_model::complete(&*self.model, request).await?;
        self.stats.lock().usage += response.usage;
        Ok(response.message.text())
    }
}
