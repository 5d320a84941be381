//! What repeating an effect would do, and so what happens to one that a crash cut off.
//!
//! Invariant: an effect of which nothing is known is never repeated by itself.

use crate::text::string_enum::string_enum;

string_enum! {
    /// What is known about doing an effect a second time.
    #[derive(Default)]
    EffectClass, "an effect class" {
        /// Nothing outside the run changes: reading, searching.
        Pure = "pure",
        /// A repeat is harmless: the same bytes to the same place.
        Idempotent = "idempotent",
        /// The target takes our effect key and knows a repeat by it.
        Keyed = "keyed",
        /// The tool can find out whether an effect key has happened.
        Provable = "provable",
        /// The effect is in our own database and commits together with its step.
        Transactional = "transactional",
        /// Nothing is known. The class of every tool that does not say otherwise, and of a shell.
        #[default]
        Opaque = "opaque",
    }
}

string_enum! {
    /// What is done about an opaque effect whose outcome is unknown.
    #[derive(Default)]
    UnknownEffectPolicy, "an answer to an unknown outcome" {
        /// The model is told to verify, and the rest of the turn may only look, not act.
        #[default]
        ReportToModel = "surface",
        /// A person is asked whether it happened.
        AskPerson = "park",
        /// The run ends with an error.
        FailRun = "fail",
    }
}

string_enum! {
    /// How a step with an unknown outcome is settled.
    EffectRecovery, "a recovery" {
        /// Do it again, with the same arguments and the same effect key.
        Retry = "run_again",
        /// Ask the tool whether it happened.
        Probe = "probe",
        /// Tell the model that the outcome is unknown and restrict the turn.
        ReportToModel = "surface",
        /// Ask a person whether it happened.
        AskPerson = "park",
        /// End the run.
        FailRun = "fail",
    }
}

impl EffectClass {
    /// What is done about an effect of this class that was started and not committed.
    pub const fn on_unknown(self, policy: UnknownEffectPolicy) -> EffectRecovery {
        match self {
            // A transactional effect is its own commit: what is not committed did not happen.
            Self::Pure | Self::Idempotent | Self::Keyed | Self::Transactional => {
                EffectRecovery::Retry
            }
            Self::Provable => EffectRecovery::Probe,
            Self::Opaque => policy.recovery(),
        }
    }

    /// May a tool of this class run while an unknown outcome is not cleared? It must be able to look and unable to repeat.
    pub const fn allowed_while_restricted(self) -> bool {
        matches!(self, Self::Pure | Self::Provable)
    }
}

impl UnknownEffectPolicy {
    const fn recovery(self) -> EffectRecovery {
        match self {
            Self::ReportToModel => EffectRecovery::ReportToModel,
            Self::AskPerson => EffectRecovery::AskPerson,
            Self::FailRun => EffectRecovery::FailRun,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_recovers_as_the_table_says() {
        use EffectClass as C;
        use EffectRecovery as R;
        use UnknownEffectPolicy as P;
        for policy in P::ALL {
            for class in [C::Pure, C::Idempotent, C::Keyed, C::Transactional] {
                assert_eq!(class.on_unknown(*policy), R::Retry, "{class}");
            }
            assert_eq!(C::Provable.on_unknown(*policy), R::Probe);
        }
        assert_eq!(C::Opaque.on_unknown(P::ReportToModel), R::ReportToModel);
        assert_eq!(C::Opaque.on_unknown(P::AskPerson), R::AskPerson);
        assert_eq!(C::Opaque.on_unknown(P::FailRun), R::FailRun);
    }

    #[test]
    fn g15_an_opaque_effect_is_never_repeated_by_itself() {
        assert_eq!(EffectClass::default(), EffectClass::Opaque);
        assert_eq!(UnknownEffectPolicy::default(), UnknownEffectPolicy::ReportToModel);
        for policy in UnknownEffectPolicy::ALL {
            assert_ne!(EffectClass::Opaque.on_unknown(*policy), EffectRecovery::Retry);
        }
    }

    #[test]
    fn a_restricted_turn_may_look_and_not_act() {
        let allowed: Vec<_> =
            EffectClass::ALL.iter().filter(|class| class.allowed_while_restricted()).collect();
        assert_eq!(allowed, [&EffectClass::Pure, &EffectClass::Provable]);
    }
}
