//! One model call: assemble, ask, let hooks see it, feed the answer back.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use provost_core::{EventKind, Money};
use provost_model::{
    ChatRequest, Fold, ModelError, ModelErrorClass, ModelEvent, ModelResponse, ModelStream,
    ToolChoice,
};
use tokio::time::Instant;
use tracing::Instrument;

use super::setup::Cx;
use super::{Driver, hook_error};
use crate::driver::offered_tools::Toolbox;
use crate::driver::telemetry;
use crate::error::Error;
use crate::run::{Fed, Feed, OutputPlan};

impl Driver {
    pub(super) async fn call_model(&mut self, turn: u32, without_tools: bool) -> Result<(), Error> {
        let request = self.assemble(turn, without_tools).await?;
        let started = Instant::now();
        let mut announced = HashSet::new();
        self.begin_model_call(turn, &request).await?;
        // Only hooks can have made it what it would not be again.
        let mut kept = (!self.cx.hooks.is_empty()).then(|| request.clone());
        let mut outcome = self.ask_in_span(*request, &mut announced).await;
        if let Err(error) = &outcome
            && error.class == ModelErrorClass::ContextLength
        {
            let again = Box::pin(self.ask_shorter(turn, &mut kept, &mut announced));
            outcome = again.await?.unwrap_or(outcome);
        }
        let used = |answer: &ModelResponse| answer.usage_known.then_some(answer.usage);
        self.unseen = outcome.as_ref().ok().map(used);
        let seen = self.cx.hooks.post_model_call(&mut outcome, started.elapsed()).await;
        seen.map_err(hook_error("post_model_call"))?;
        let response = match outcome {
            Ok(response) => response,
            Err(error) => Box::pin(self.rescue(kept.as_deref(), error)).await?,
        };
        self.unseen = None;
        self.accept(turn, response, &announced)
    }

    /// Everything before the model is asked. Boxed, because the request is kept until the answer is there.
    async fn assemble(
        &mut self,
        turn: u32,
        without_tools: bool,
    ) -> Result<Box<ChatRequest>, Error> {
        if without_tools {
            self.toolbox = Toolbox::default();
            if let Some(reached) = self.run.exhausted() {
                self.tell_limit(reached);
            }
        } else {
            self.toolbox = Toolbox::gather(&self.cx, &self.run).await;
        }
        let tools = self.toolbox.defs(&self.cx, &self.run);
        self.fit(&tools, /*too_long*/ false).await?;
        self.cx.queue.emit(EventKind::TurnStarted { turn });
        let mut request = Box::new(self.request(tools));
        self.pre_model_call(&mut request).await?;
        // A hook may take tools away; what is not offered cannot run.
        self.toolbox.keep(&request.tools);
        Ok(request)
    }

    fn request(&self, tools: Vec<Arc<provost_core::ToolDef>>) -> ChatRequest {
        let config = self.run.config();
        let only_output_tool = matches!(config.output, OutputPlan::Tool(_)) && !tools.is_empty();
        let output = match config.output {
            OutputPlan::Native => self.cx.core.output.as_ref().map(|spec| Arc::clone(&spec.schema)),
            _ => None,
        };
        ChatRequest {
            system: self.system.clone(),
            messages: self.run.context().to_vec(),
            tools,
            // With an output tool plain text is never the answer, so some call is wanted.
            tool_choice: if only_output_tool { ToolChoice::Required } else { ToolChoice::Auto },
            settings: self.cx.settings.clone(),
            output,
            deadline: self.deadline(),
        }
    }

    /// The run's time limit as a moment of the runtime's clock.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let left = self.run.must_end_at()?.since(self.now());
        Some(Instant::now() + left)
    }

    /// Changed messages stay for the following calls.
    async fn pre_model_call(&mut self, request: &mut ChatRequest) -> Result<(), Error> {
        if self.cx.hooks.is_empty() {
            return Ok(());
        }
        self.cx.hooks.pre_model_call(request).await.map_err(hook_error("pre_model_call"))?;
        let context = self.run.context();
        let same = request.messages.len() == context.len()
            && request.messages.iter().zip(context).all(|(new, old)| Arc::ptr_eq(new, old));
        if !same {
            let (messages, _) = crate::context::repair(std::mem::take(&mut request.messages));
            request.messages.clone_from(&messages);
            let messages = self.run.pieces(&messages);
            self.feed(Feed::ContextChanged { messages })?;
            self.recount();
        }
        Ok(())
    }

    /// Asks again with less, after the provider said that it was too much; nothing, if there is nothing to leave out.
    async fn ask_shorter(
        &mut self,
        turn: u32,
        kept: &mut Option<Box<ChatRequest>>,
        announced: &mut HashSet<String>,
    ) -> Result<Option<Result<ModelResponse, ModelError>>, Error> {
        let tools = || self.toolbox.defs(&self.cx, &self.run);
        let tools = kept.as_ref().map_or_else(tools, |kept| kept.tools.clone());
        if !self.fit(&tools, /*too_long*/ true).await? {
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
        Ok(Some(self.ask_in_span(request, announced).await))
    }

    async fn ask_in_span(
        &mut self,
        request: ChatRequest,
        announced: &mut HashSet<String>,
    ) -> Result<ModelResponse, ModelError> {
        let span = telemetry::chat(&self.cx, self.session.as_ref(), &request);
        let answer = span.in_scope(|| self.cx.model.stream(request));
        let outcome = self.read(answer, announced).instrument(span.clone()).await;
        telemetry::close_chat(&span, &self.cx, &outcome);
        outcome
    }

    /// Reads one answer; `announced` collects the calls whose beginning was told.
    async fn read(
        &mut self,
        mut answer: ModelStream,
        announced: &mut HashSet<String>,
    ) -> Result<ModelResponse, ModelError> {
        let is_watched = !self.cx.queue.is_unread();
        self.fold = Some(Fold::default());
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
            let fold = self.fold.get_or_insert_default();
            if let Err(error) = fold.push(&event) {
                break Err(error);
            }
            if is_watched {
                self.cx.tell(event, fold, announced);
                if self.cx.queue.is_backed_up() {
                    self.cx.queue.taken().await;
                }
            }
        };
        let fold = self.fold.take().unwrap_or_default();
        outcome.and_then(|()| fold.finish())
    }

    /// Hooks may answer in the place of a model that failed.
    async fn rescue(
        &self,
        request: Option<&ChatRequest>,
        error: ModelError,
    ) -> Result<ModelResponse, Error> {
        let Some(request) = request else { return Err(Error::Model(error)) };
        match self.cx.hooks.on_model_error(request, &error).await {
            Ok(Some(rescue)) => Ok(rescue),
            Ok(None) | Err(_) => Err(Error::Model(error)),
        }
    }

    /// What an answer cost; `None` if the price or the usage is not known.
    pub(super) fn price(&self, response: &ModelResponse) -> Option<Money> {
        self.cx.model.cost(response)
    }

    fn accept(
        &mut self,
        turn: u32,
        mut response: ModelResponse,
        announced: &HashSet<String>,
    ) -> Result<(), Error> {
        let (usage, stop) = (response.usage, response.stop);
        self.learn(&usage);
        let cost = self.price(&response);
        self.cx.pot.add(usage, cost);
        let produced = self.run.produced().len();
        let at = self.now();
        self.run.normalize_response(&mut response, at);
        let feed = Feed::ModelAnswered { response: Box::new(response), cost, at };
        let Fed::Answer(message) = self.feed(feed)? else {
            return Err(Error::Bug("an answer was taken as something else".to_owned()));
        };
        for call in message.tool_calls() {
            if !announced.contains(&call.id) {
                self.cx.queue.emit_with(|| EventKind::ToolCallStarted {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                });
            }
            let ready = || EventKind::ToolCallReady { call: Box::new(call.clone()) };
            self.cx.queue.emit_with(ready);
        }
        self.cx.queue.emit(EventKind::TurnFinished { turn, message, stop, usage });
        self.tell_refused(produced);
        Ok(())
    }

    /// Tells the end of calls that did not come to run; so many messages had been produced before.
    pub(super) fn tell_refused(&self, produced: usize) {
        for result in self.run.refused_since(produced) {
            let (result, duration) = (Box::new(result), Duration::ZERO);
            self.cx.queue.emit(EventKind::ToolFinished { result, duration });
        }
    }
}

impl Cx {
    /// Passes a delta on to whoever watches.
    fn tell(&self, event: ModelEvent, fold: &Fold, announced: &mut HashSet<String>) {
        let call_id = |index| fold.call_id(index).unwrap_or_default().to_owned();
        let kind = match event {
            ModelEvent::Text(text) => EventKind::TextDelta { text },
            ModelEvent::Reasoning(text) => EventKind::ReasoningDelta { text },
            // A call without an id gets one when the answer is complete, and is announced then.
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
        self.queue.emit(kind);
    }
}
