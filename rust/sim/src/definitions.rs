//! Functions and classes: programs make them known and forget them, workers ask for each that they run.

use bytes::Bytes;
use raymesh_wire::control::ActorSpec;
use raymesh_wire::{Call, CallTarget, FromController, FunctionId, Message, ProcId, RequestId, ToController};

use crate::node::CONTROLLER;
use crate::rng::Rng;
use crate::world::World;

/// What a worker begins once it has the function or class.
#[derive(Clone, Debug)]
pub enum Loading {
    Call { caller: ProcId, call: Box<Call> },
    Construction { spec: Box<ActorSpec>, restarts: u32 },
}

impl Loading {
    const fn wanted(&self) -> FunctionId {
        match self {
            Self::Call { call, .. } => match call.target {
                CallTarget::Function { function, .. } => function,
                CallTarget::Method { .. } => FunctionId([0; 16]),
            },
            Self::Construction { spec, .. } => spec.class,
        }
    }
}

impl World {
    /// The program has one of a few functions: several processes have the same ones.
    pub fn define(&mut self, id: ProcId, rng: &mut Rng) -> FunctionId {
        let function = FunctionId([rng.below(4) as u8; 16]);
        let body = Bytes::copy_from_slice(&function.0);
        self.with_process(id, |process, _, effects| process.define(function, &body, effects));
        function
    }

    /// The program lets go of it, now or when nothing runs any more.
    pub fn undefine(&mut self, id: ProcId, function: FunctionId, later: bool) {
        if later && let Some(node) = self.procs.get_mut(&id) {
            node.defined.push(function);
        } else {
            self.with_process(id, |process, _, effects| process.undefine(function, effects));
        }
    }

    pub fn undefine_all(&mut self, id: ProcId) {
        let defined = self.procs.get_mut(&id).map(|node| std::mem::take(&mut node.defined));
        for function in defined.unwrap_or_default() {
            self.undefine(id, function, false);
        }
    }

    pub fn load(&mut self, id: ProcId, loading: Loading) {
        let wanted = loading.wanted();
        let Some(node) = self.procs.get_mut(&id) else { return };
        node.loading = Some(loading);
        let message = ToController::GetFunction { request: RequestId(0), id: wanted };
        self.send_message(id, CONTROLLER, Message::ToController(message));
    }

    pub fn loaded(&mut self, id: ProcId, answer: &FromController) {
        let FromController::Function { id: function, body, .. } = answer else { return };
        if function.0 != body[..] {
            self.fail(format!("{id:?} asks for {function:?} and gets {body:?}"));
        }
        let loading = self.procs.get_mut(&id).and_then(|node| node.loading.take());
        match loading {
            Some(Loading::Call { caller, call }) => self.begin(id, caller, &call),
            Some(Loading::Construction { spec, restarts }) => self.construct(id, &spec, restarts),
            None => self.fail(format!("{id:?} gets {function:?} and did not ask")),
        }
    }

    /// Nothing is kept that nobody has.
    pub fn check_definitions(&self) -> Result<(), String> {
        match self.controller.definitions() {
            (0, 0) => Ok(()),
            (kept, waited) => Err(format!("{kept} functions are kept for nobody, {waited} are waited for")),
        }
    }
}
