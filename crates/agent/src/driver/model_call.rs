//! One model call: build the request, stream the response, call hooks, apply the response.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use provost_core::{EventKind, Money};
use provost_model::{
    ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelResponse, ModelStream,
    ResponseAccumulator, ToolChoice,
};
use tokio::time::Instant;
use tracing::Instrument;

use super::setup::DriverContext;
use super::{Driver, hook_error};
use crate::driver::offered_tools::OfferedTools;
use crate::driver::telemetry;
use crate::error::Error;
use crate::run::{ApplyResult, JournalEntry, OutputMode};

impl Driver {
    /// Calls the model and applies its response. If the provider rejects the conversation as too long, compacts it and
    /// repeats the call once.
    pub(super) async fn call_model(&mut self, turn: u32, without_tools: bool) -> Result<(), Error> {
        let request = self.build_request(turn, without_tools).await?;
        let started = Instant::now();
        let mut announced = HashSet::new();
        self.begin_model_call(turn, &request).await?;
        // A copy is needed only if hooks changed the request: otherwise it can be built again.
        let mut kept = (!self.cx.hooks.is_empty()).then(|| request.clone());
        let mut outcome = self.call_in_span(*request, &mut announced).await;
        if let Err(error) = &outcome
            && error.class == ModelErrorClass::ContextLength
        {
            let again = Box::pin(self.retry_compacted(turn, &mut kept, &mut announced));
            outcome = again.await?.unwrap_or(outcome);
        }
        let used = |answer: &ModelResponse| answer.usage_known.then_some(answer.usage);
        self.unreviewed_usage = outcome.as_ref().ok().map(used);
        let seen = self.cx.hooks.after_model_call(&mut outcome, started.elapsed()).await;
        seen.map_err(hook_error("post_model_call"))?;
        let response = match outcome {
            Ok(response) => response,
            Err(error) => Box::pin(self.recover(kept.as_deref(), error)).await?,
        };
        self.unreviewed_usage = None;
        self.apply_response(turn, response, &announced)
    }

    /// Lists the tools, compacts the conversation if needed, and builds the request with the changes of hooks. Boxed,
    /// because it is kept until the response is complete.
    async fn build_request(
        &mut self,
        turn: u32,
        without_tools: bool,
    ) -> Result<Box<ChatRequest>, Error> {
        if without_tools {
            self.offered_tools = OfferedTools::default();
            if let Some(reached) = self.run.final_answer_limit() {
                self.emit_limit_reached(reached);
            }
        } else {
            self.offered_tools = OfferedTools::gather(&self.cx, &self.run).await;
        }
        let tools = self.offered_tools.defs(&self.cx, &self.run);
        self.compact_context(&tools, /*too_long*/ false).await?;
        self.cx.events.emit(EventKind::TurnStarted { turn });
        let mut request = Box::new(self.request(tools));
        self.before_model_call(&mut request).await?;
        // A hook may remove tools. A tool that is not offered cannot run.
        self.offered_tools.keep(&request.tools);
        Ok(request)
    }

    /// Builds the request from the state of the run.
    fn request(&self, tools: Vec<Arc<provost_core::ToolDefinition>>) -> ChatRequest {
        let config = self.run.config();
        let only_output_tool = matches!(config.output, OutputMode::Tool(_)) && !tools.is_empty();
        let output = match config.output {
            OutputMode::Native => {
                self.cx.definition.output.as_ref().map(|spec| Arc::clone(&spec.schema))
            }
            _ => None,
        };
        ChatRequest {
            system: self.system.clone(),
            messages: self.run.context().to_vec(),
            tools,
            // With an output tool, plain text is never the output, so a call is required.
            tool_choice: if only_output_tool { ToolChoice::Required } else { ToolChoice::Auto },
            settings: self.cx.settings.clone(),
            output,
            deadline: self.deadline(),
        }
    }

    /// Returns the deadline of the run in the runtime's clock. `None` if it has no time limit.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let left = self.run.must_end_at()?.since(self.now());
        Some(Instant::now() + left)
    }

    /// Lets hooks change the request. Changed messages also apply to later calls.
    async fn before_model_call(&mut self, request: &mut ChatRequest) -> Result<(), Error> {
        if self.cx.hooks.is_empty() {
            return Ok(());
        }
        self.cx.hooks.before_model_call(request).await.map_err(hook_error("pre_model_call"))?;
        let context = self.run.context();
        let same = request.messages.len() == context.len()
            && request.messages.iter().zip(context).all(|(new, old)| Arc::ptr_eq(new, old));
        if !same {
            let (messages, _) = crate::context::repair(std::mem::take(&mut request.messages));
            request.messages.clone_from(&messages);
            let messages = self.run.diff_context(&messages);
            self.apply_entry(JournalEntry::ContextChanged { messages })?;
            self.recount();
        }
        Ok(())
    }

    /// Repeats the call with a compacted conversation after the provider rejected it as too long. `None` if nothing can
    /// be removed.
    async fn retry_compacted(
        &mut self,
        turn: u32,
        kept: &mut Option<Box<ChatRequest>>,
        announced: &mut HashSet<String>,
    ) -> Result<Option<Result<ModelResponse, ModelError>>, Error> {
        let tools = || self.offered_tools.defs(&self.cx, &self.run);
        let tools = kept.as_ref().map_or_else(tools, |kept| kept.tools.clone());
        if !self.compact_context(&tools, /*too_long*/ true).await? {
            return Ok(None);
        }
        let request = match kept {
            Some(kept) => {
                kept.messages = self.run.context().to_vec();
                ChatRequest::clone(kept)
            }
            None => self.request(tools),
        };
        self.begin_model_call(turn, &request).await?;
        Ok(Some(self.call_in_span(request, announced).await))
    }

    /// Calls the model within a span, and returns its response.
    async fn call_in_span(
        &mut self,
        request: ChatRequest,
        announced: &mut HashSet<String>,
    ) -> Result<ModelResponse, ModelError> {
        let span = telemetry::chat(&self.cx, self.session.as_ref(), &request);
        let answer = span.in_scope(|| self.cx.model.stream(request));
        let outcome = self.read_response(answer, announced).instrument(span.clone()).await;
        telemetry::close_chat(&span, &self.cx, &outcome);
        outcome
    }

    /// Reads one response and emits its deltas. `announced` collects the ids of calls whose start was emitted.
    async fn read_response(
        &mut self,
        mut answer: ModelStream,
        announced: &mut HashSet<String>,
    ) -> Result<ModelResponse, ModelError> {
        let is_watched = !self.cx.events.discards_events();
        self.accumulator = Some(ResponseAccumulator::default());
        let (started, mut is_first) = (Instant::now(), true);
        let outcome = loop {
            let event = match answer.next().await {
                None => break Ok(()),
                Some(Err(error)) => break Err(error),
                Some(Ok(event)) => event,
            };
            if is_first && event.is_delta() {
                is_first = false;
                telemetry::first_chunk(started.elapsed());
            }
            let accumulator = self.accumulator.get_or_insert_default();
            if let Err(error) = accumulator.push(&event) {
                break Err(error);
            }
            if is_watched {
                self.cx.emit_model_event(event, accumulator, announced);
                if self.cx.events.is_full() {
                    self.cx.events.wait_until_read().await;
                }
            }
        };
        let accumulator = self.accumulator.take().unwrap_or_default();
        outcome.and_then(|()| accumulator.finish())
    }

    /// Lets hooks replace the error of a failed model call by a response. Returns the error if no hook does.
    async fn recover(
        &self,
        request: Option<&ChatRequest>,
        error: ModelError,
    ) -> Result<ModelResponse, Error> {
        let Some(request) = request else { return Err(Error::Model(error)) };
        match self.cx.hooks.on_model_error(request, &error).await {
            Ok(Some(recover)) => Ok(recover),
            Ok(None) | Err(_) => Err(Error::Model(error)),
        }
    }

    /// Returns the cost of a response. `None` if its price or usage is unknown.
    pub(super) fn price(&self, response: &ModelResponse) -> Option<Money> {
        self.cx.model.cost(response)
    }

    /// Applies a response to the run, and emits its calls and the end of the turn.
    fn apply_response(
        &mut self,
        turn: u32,
        mut response: ModelResponse,
        announced: &HashSet<String>,
    ) -> Result<(), Error> {
        let (usage, stop) = (response.usage, response.stop);
        self.calibrate_tokens(&usage);
        let cost = self.price(&response);
        self.cx.budget.add(usage, cost);
        let produced = self.run.new_messages().len();
        let at = self.now();
        self.run.normalize_response(&mut response, at);
        let feed = JournalEntry::ModelResponded { response: Box::new(response), cost, at };
        let ApplyResult::Response(message) = self.apply_entry(feed)? else {
            return Err(Error::Bug("an answer was taken as something else".to_owned()));
        };
        for call in message.tool_calls() {
            if !announced.contains(&call.id) {
                self.cx.events.emit_with(|| EventKind::ToolCallStarted {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                });
            }
            let ready = || EventKind::ToolCallReady { call: Box::new(call.clone()) };
            self.cx.events.emit_with(ready);
        }
        self.cx.events.emit(EventKind::TurnFinished { turn, message, stop, usage });
        self.emit_skipped_results(produced);
        Ok(())
    }

    /// Emits the results of calls that were not run. `produced` is the number of new messages before them.
    pub(super) fn emit_skipped_results(&self, produced: usize) {
        for result in self.run.skipped_results_since(produced) {
            let (result, duration) = (Box::new(result), Duration::ZERO);
            self.cx.events.emit(EventKind::ToolFinished { result, duration });
        }
    }
}

impl DriverContext {
    /// Emits a delta of the response. Events without a delta are ignored.
    fn emit_model_event(
        &self,
        event: ModelEvent,
        accumulator: &ResponseAccumulator,
        announced: &mut HashSet<String>,
    ) {
        let call_id = |index| accumulator.call_id(index).unwrap_or_default().to_owned();
        let kind = match event {
            ModelEvent::Text(text) => EventKind::TextDelta { text },
            ModelEvent::Reasoning(text) => EventKind::ReasoningDelta { text },
            // A call without an id gets one when the response is complete, and is announced then.
            ModelEvent::ToolCallStart { id, name, .. } if !id.is_empty() => {
                announced.insert(id.clone());
                EventKind::ToolCallStarted { call_id: id, name }
            }
            ModelEvent::ToolCallArguments { index, json } => {
                EventKind::ToolCallDelta { call_id: call_id(index), arguments: json }
            }
            ModelEvent::Retry { attempt, delay, error } => {
                EventKind::ModelRetry { attempt, delay, error: Box::new(error.info()) }
            }
            _ => return,
        };
        self.events.emit(kind);
    }
}
