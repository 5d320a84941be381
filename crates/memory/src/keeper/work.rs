//! One job from its messages to its changes.

use provost_failpoint::failpoint;
use provost_model::{ChatRequest, complete};
use serde_json::json;

use super::decide::{self, Case, Decision};
use super::extract::{self, Bounds, Fact};
use super::{Inner, KeeperTotals};
use crate::MemoryError;
use crate::job::Job;
use crate::memories::Edit;
use crate::memory::{NewMemory, Owner};
use crate::store::{Batch, Change, Query};

impl Inner {
    /// Does a job. Nothing is changed before the last line, and there everything at once.
    pub(super) async fn work(&self, job: &Job) -> Result<(), MemoryError> {
        let facts = self.facts(job).await?;
        failpoint!("memory.job.extracted");
        let cases = self.cases(&job.owner, facts).await?;
        let decisions = self.decide(&cases).await?;
        failpoint!("memory.job.decided");
        let mut totals = KeeperTotals::default();
        let mut changes = Vec::new();
        for (case, decision) in cases.into_iter().zip(decisions) {
            changes.extend(self.change(&job.owner, case.fact, decision, &mut totals).await?);
        }
        let batch = Batch { changes, done: Some(job.key) };
        self.memories.store().apply(&job.owner, batch).await?;
        failpoint!("memory.job.applied");
        let mut all = self.totals();
        all.added += totals.added;
        all.updated += totals.updated;
        all.superseded += totals.superseded;
        all.known += totals.known;
        Ok(())
    }

    async fn facts(&self, job: &Job) -> Result<Vec<Fact>, MemoryError> {
        let options = &self.options;
        let mut facts: Vec<Fact> = Vec::new();
        for messages in extract::chunks(&job.messages, options.chunk_bytes_max) {
            let bounds = Bounds {
                facts_max: options.facts_max.saturating_sub(facts.len()),
                fact_bytes_max: options.fact_bytes_max.min(crate::memory::TEXT_BYTES_MAX),
            };
            if bounds.facts_max == 0 {
                break;
            }
            let instructions = options.instructions.as_deref();
            let request = extract::request(messages, instructions, &options.settings, bounds);
            let answer = self.ask(request).await?;
            let new = extract::read(&answer, &job.session, messages, bounds)?;
            let is_new =
                |fact: &Fact| facts.iter().all(|old| !extract::is_same(&old.text, &fact.text));
            let new: Vec<Fact> = new.into_iter().filter(is_new).collect();
            facts.extend(new);
        }
        Ok(facts)
    }

    /// The facts with what resembles them.
    async fn cases(&self, owner: &Owner, facts: Vec<Fact>) -> Result<Vec<Case>, MemoryError> {
        let mut cases = Vec::with_capacity(facts.len());
        for fact in facts {
            let query = Query {
                text: fact.text.clone(),
                limit: self.options.candidates,
                threshold: self.options.candidate_score_min,
                ..Query::default()
            };
            let like = match self.options.candidates {
                0 => Vec::new(),
                _ => self.memories.search(owner, query).await?,
            };
            cases.push(Case { fact, like });
        }
        Ok(cases)
    }

    async fn decide(&self, cases: &[Case]) -> Result<Vec<Decision>, MemoryError> {
        let answer = if cases.iter().all(|case| case.obvious().is_some()) {
            None
        } else {
            match self.ask(decide::request(cases, &self.options.settings)).await {
                Ok(answer) => Some(answer),
                // Waiting helps; for the rest a repetition is better than a loss.
                Err(error) if error.kind().retryable() => return Err(error),
                Err(error) => {
                    tracing::warn!(error = %error, "facts are added without comparison");
                    None
                }
            }
        };
        Ok(decide::read(answer.as_deref(), cases, self.options.fact_bytes_max))
    }

    async fn change(
        &self,
        owner: &Owner,
        fact: Fact,
        decision: Decision,
        totals: &mut KeeperTotals,
    ) -> Result<Option<Change>, MemoryError> {
        let Fact { text, category, sources } = fact;
        let metadata = [("source".to_owned(), json!("auto_extract"))].into_iter().collect();
        let new = NewMemory { text, category, metadata, sources, valid_from: None };
        Ok(match decision {
            Decision::Known => {
                totals.known += 1;
                None
            }
            Decision::Add => {
                totals.added += 1;
                let entry = self.memories.entries(owner, vec![new]).await?.pop();
                entry.map(|entry| Change::Add(Box::new(entry)))
            }
            Decision::Update { id, text } => {
                totals.updated += 1;
                let NewMemory { category, sources, .. } = new;
                let edit = Edit { text, category, sources, ..Edit::default() };
                Some(self.memories.updated(id, edit).await?)
            }
            Decision::Supersede { id } => {
                totals.superseded += 1;
                Some(self.memories.superseded(owner, id, new).await?)
            }
        })
    }

    /// Asks the model and counts what it used.
    async fn ask(&self, request: ChatRequest) -> Result<String, MemoryError> {
        let response = complete(&*self.model, request).await?;
        self.totals().usage += response.usage;
        Ok(response.message.text())
    }
}
